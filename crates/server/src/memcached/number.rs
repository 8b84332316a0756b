//! Numbers in values, as memcached reads them: with C's `strtoull` and what it lets through.

use wire::memcached::Direction;

/// Bytes of a value that are looked at. The longest plain number has 20 digits; what else stands
/// in this room are blanks and zeros before it.
pub(super) const PREFIX_BYTES: usize = 64;

/// The number that a value of `value_len` bytes starts with; `prefix` holds its first bytes, as
/// many as there are up to [`PREFIX_BYTES`].
///
/// Blanks and a sign may lead; a blank, a NUL or the end must follow. A negative number wraps, and
/// counts only where it wraps to what looks positive again.
pub(super) fn leading_number(prefix: &[u8], value_len: usize) -> Option<u64> {
    let start = prefix.iter().position(|&byte| !is_blank(byte))?;
    let (negative, rest) = match &prefix[start..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = prefix.len() == value_len;
    match rest.get(digits) {
        Some(&byte) if is_blank(byte) || byte == 0 => {}
        None if whole => {}
        _ => return None,
    }
    if digits == 0 {
        return None;
    }
    let magnitude = rest[..digits]
        .iter()
        .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    if !negative {
        return Some(magnitude);
    }
    let wrapped = magnitude.wrapping_neg();
    (wrapped.cast_signed() >= 0).then_some(wrapped)
}

/// The number after a step: up wraps, down stops at zero.
pub(super) fn step(number: u64, direction: Direction, delta: u64) -> u64 {
    match direction {
        Direction::Up => number.wrapping_add(delta),
        Direction::Down => number.saturating_sub(delta),
    }
}

/// What C's `isspace` calls a space.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::{Direction, PREFIX_BYTES, leading_number, step};

    fn read(value: &[u8]) -> Option<u64> {
        leading_number(&value[..value.len().min(PREFIX_BYTES)], value.len())
    }

    #[test]
    fn reads_what_strtoull_reads() {
        assert_eq!(read(b"0"), Some(0));
        assert_eq!(read(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(read(b"000000000000000000012"), Some(12));
        assert_eq!(read(b" \t\x0b\x0c\r\n+12 and more"), Some(12));
        assert_eq!(read(b"12\x00x"), Some(12));
        assert_eq!(read(b"12\r"), Some(12));
        assert_eq!(read(b"-18446744073709551615"), Some(1));
        assert_eq!(read(b"-0"), Some(0));
    }

    #[test]
    fn refuses_what_is_no_number() {
        for value in [
            &b""[..],
            b" ",
            b"abc",
            b"1x",
            b"+",
            b"-",
            b"--1",
            b"-1",
            b"-9223372036854775808",
            b"18446744073709551616",
            b"\x0012",
            b"12\x0e",
            b"12\x08",
        ] {
            assert_eq!(read(value), None, "{value:?}");
        }
    }

    #[test]
    fn a_number_that_does_not_end_in_the_prefix_is_none() {
        let mut value = vec![b'0'; PREFIX_BYTES];
        assert_eq!(read(&value), Some(0));
        value.push(b'5');
        assert_eq!(read(&value), None);
        value[PREFIX_BYTES - 1] = b' ';
        assert_eq!(read(&value), Some(0));
    }

    #[test]
    fn up_wraps_and_down_stops() {
        assert_eq!(step(u64::MAX, Direction::Up, 2), 1);
        assert_eq!(step(5, Direction::Up, 2), 7);
        assert_eq!(step(5, Direction::Down, 2), 3);
        assert_eq!(step(5, Direction::Down, 6), 0);
    }
}
