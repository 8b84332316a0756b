//! Integer keys: how a client spells one, and how its table's log has it.

/// Bytes of an integer key in a log.
pub(super) const KEY_ROOM: usize = size_of::<u64>();

/// Most digits of one.
const DIGITS_MAX: usize = 20;

/// Where a key is.
#[derive(Debug)]
pub(super) struct Place<'k> {
    /// The number of its table.
    pub(super) table: usize,
    /// The key as the table has it; `None` where it has no such key.
    pub(super) key: Option<&'k [u8]>,
}

/// The integer that these digits spell, if they are spelt as it is printed: a key has one spelling,
/// or what is stored under one would be there under another.
pub(super) fn integer(digits: &[u8]) -> Option<u64> {
    let is_led_by_zero = digits.len() > 1 && digits[0] == b'0';
    if is_led_by_zero && !base::mutant!("server_integers_spelt_anyhow") {
        return None;
    }
    if !(1..=DIGITS_MAX).contains(&digits.len()) {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use super::integer;

    #[test]
    fn an_integer_has_one_spelling() {
        for number in [0, 1, 9, 10, 42, 99, 100, u64::MAX - 1, u64::MAX] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        for text in [
            "",
            "00",
            "01",
            "042",
            "+1",
            "-1",
            "-0",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x1",
            "a",
            "1a",
            "18446744073709551616",
            "99999999999999999999",
            "100000000000000000000",
            "/",
            ":",
            "\u{0661}",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "`{text}` is taken for an integer");
        }
    }
}
