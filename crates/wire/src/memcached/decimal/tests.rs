use super::*;

/// What is written, into room that has neither too little nor anything of use in it.
fn digits(number: u64) -> Vec<u8> {
    let mut room = [0xff; U64_LEN_MAX];
    let len = write(number, &mut room);
    assert!(room[len..].iter().all(|&byte| byte == 0xff), "{number} is written beyond its end");
    room[..len].to_vec()
}

#[test]
fn digits_are_those_of_the_standard_library() {
    let mut numbers = vec![0, u64::MAX, u64::MAX - 1, u64::from(u32::MAX)];
    let powers = (0..20).map(|exponent| 10_u64.pow(exponent));
    numbers.extend(powers.flat_map(|power| [power - 1, power, power + 1, power / 10 * 9]));
    numbers.extend(0..1100);
    for number in numbers {
        assert_eq!(digits(number), number.to_string().as_bytes());
    }
}

#[test]
fn the_bounds_are_tight() {
    assert_eq!(digits(u64::MAX).len(), U64_LEN_MAX);
    assert_eq!(digits(u32::MAX.into()).len(), U32_LEN_MAX);
}
