use super::*;

#[test]
fn digits_are_those_of_the_standard_library() {
    let mut numbers = vec![0, u64::MAX, u64::MAX - 1, u64::from(u32::MAX)];
    let powers = (0..20).map(|exponent| 10_u64.pow(exponent));
    numbers.extend(powers.flat_map(|power| [power - 1, power, power + 1, power / 10 * 9]));
    numbers.extend(0..1100);
    for number in numbers {
        assert_eq!(Decimal::of(number).as_slice(), number.to_string().as_bytes());
    }
}

#[test]
fn the_bounds_are_tight() {
    assert_eq!(Decimal::of(u64::MAX).as_slice().len(), U64_LEN_MAX);
    assert_eq!(Decimal::of(u32::MAX.into()).as_slice().len(), U32_LEN_MAX);
}
