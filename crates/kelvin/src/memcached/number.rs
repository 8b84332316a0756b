//! Numbers as the functions of C read them, which is how memcached reads most of its options.

/// The number that `text` begins with, behind blanks; 0 if it begins with none. What does not fit
/// becomes the nearest that does.
pub(super) fn leading(text: &str) -> i32 {
    let (is_negative, digits) = sign(text.trim_start());
    let digits = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
    let number = digits.bytes().fold(0i64, |number, digit| {
        (number * 10 + i64::from(digit - b'0')).min(i64::from(i32::MAX) + 1)
    });
    let number = if is_negative { -number } else { number };
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The same in octal, for permissions.
pub(super) fn leading_octal(text: &str) -> u32 {
    let (is_negative, digits) = sign(text.trim_start());
    let digits = digits.bytes().take_while(|digit| (b'0'..=b'7').contains(digit));
    let number = digits.fold(0u32, |number, digit| {
        number.saturating_mul(8).saturating_add(u32::from(digit - b'0'))
    });
    if is_negative { 0 } else { number }
}

/// The fraction that `text` begins with, such as `1.25`; 0 if it begins with none.
pub(super) fn leading_fraction(text: &str) -> f64 {
    let text = text.trim_start();
    let is_part = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let longest = text.bytes().take_while(|byte| is_part(*byte)).count();
    (1..=longest).rev().find_map(|length| text[..length].parse().ok()).unwrap_or(0.0)
}

/// A whole number of 32 bits without a sign, and nothing but blanks behind it.
pub(super) fn whole(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::{leading, leading_fraction, leading_octal, whole};

    #[test]
    fn reads_what_a_text_begins_with() {
        for (text, number) in [
            ("64", 64),
            (" 64m", 64),
            ("-1", -1),
            ("+7", 7),
            ("", 0),
            ("many", 0),
            ("99999999999999999999", i32::MAX),
            ("-99999999999999999999", i32::MIN),
        ] {
            let expected = if number == i32::MIN { -i32::MAX - 1 } else { number };
            assert_eq!(leading(text), expected, "{text}");
        }
        assert_eq!([leading_octal("0766"), leading_octal("79"), leading_octal("x")], [0o766, 7, 0]);
    }

    #[test]
    fn reads_fractions_and_whole_numbers() {
        assert_eq!([leading_fraction("1.25"), leading_fraction("1e0x")], [1.25, 1.0]);
        assert_eq!([leading_fraction(".5-"), leading_fraction("half")], [0.5, 0.0]);
        assert_eq!(
            [whole("12"), whole("12k"), whole("-1"), whole("")],
            [Some(12), None, None, None]
        );
    }
}
