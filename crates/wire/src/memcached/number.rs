//! Decimal numbers, read as strictly, and as loosely, as memcached reads them.

/// Longest token of a 32-bit number in bytes, sign and leading zeros included.
const TOKEN_32_LEN_MAX: usize = 11;

/// Longest token of a 64-bit number in bytes, leading zeros included.
const TOKEN_64_LEN_MAX: usize = 22;

/// Digits that fit a `u32` whatever they are: 10^9 - 1 is below 2^32.
const SAFE_DIGITS_32: usize = 9;

/// Digits that fit a `u64`, and an `i64`, whatever they are: 10^18 - 1 is below 2^63.
const SAFE_DIGITS_64: usize = 18;

const _: () = assert!(TOKEN_32_LEN_MAX <= SAFE_DIGITS_64);

/// Reads a `u32`: digits only.
pub(super) fn u32_of(token: &[u8]) -> Option<u32> {
    if token.len() > TOKEN_32_LEN_MAX {
        return None;
    }
    u32::try_from(digits(token)?).ok()
}

/// Reads a `u64`: digits only.
pub(super) fn u64_of(token: &[u8]) -> Option<u64> {
    if token.len() <= SAFE_DIGITS_64 {
        digits(token)
    } else if token.len() <= TOKEN_64_LEN_MAX {
        checked_digits(token)
    } else {
        None
    }
}

/// Reads an `i32`: digits, perhaps behind a minus sign. A lone minus sign is zero.
pub(super) fn i32_of(token: &[u8]) -> Option<i32> {
    if token.len() > TOKEN_32_LEN_MAX {
        return None;
    }
    let number = match token {
        [b'-', magnitude @ ..] => -digits(magnitude)?.cast_signed(),
        magnitude => digits(magnitude)?.cast_signed(),
    };
    i32::try_from(number).ok()
}

/// Sums up no more than [`SAFE_DIGITS_64`] digits.
#[inline]
fn digits(digits: &[u8]) -> Option<u64> {
    let mut sum = 0;
    for byte in digits {
        sum = sum * 10 + digit(*byte)?;
    }
    Some(sum)
}

/// Sums up digits as long as the sum fits.
fn checked_digits(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |sum, byte| sum.checked_mul(10)?.checked_add(digit(*byte)?))
}

/// Reads up to nine digits that are followed by a space or the end, and drops the space.
///
/// The quick way for the plain numbers that all clients send; `None` says nothing about whether
/// a slower way would find a number.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = leading(bytes)?;
    match rest {
        [] => Some((number, rest)),
        [b' ', rest @ ..] => Some((number, rest)),
        _ => None,
    }
}

/// Reads the digits that `bytes` start with, one to nine: the number, and what comes behind it.
#[inline(always)]
pub(super) fn leading(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let mut sum = u32::from(digit_of(*first)?);
    for _ in 1..=SAFE_DIGITS_32 {
        let Some((next, behind)) = rest.split_first() else { return Some((sum, rest)) };
        let Some(digit) = digit_of(*next) else { return Some((sum, rest)) };
        sum = sum.wrapping_mul(10).wrapping_add(digit.into());
        rest = behind;
    }
    // A tenth digit.
    None
}

/// Reads client flags at the start of `rest`, the remainder of a line, as `strtoul` does: blanks
/// and a sign may lead, a blank, a zero byte or the end must follow, bits above 32 are lost.
pub(super) fn loose_u32(rest: &[u8]) -> Option<u32> {
    let (negative, magnitude) = loose(rest)?;
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    // A minus sign is let through where the wrapped result looks positive.
    (!negative || value.cast_signed() >= 0).then_some(value as u32)
}

/// Reads an expiration time at the start of `rest` as `strtol` does: see [`loose_u32`].
pub(super) fn loose_i32(rest: &[u8]) -> Option<i32> {
    let (negative, magnitude) = loose(rest)?;
    let value = if negative {
        0_i64.checked_sub_unsigned(magnitude)?
    } else {
        i64::try_from(magnitude).ok()?
    };
    Some(value as i32)
}

/// Sign and magnitude of a number at the start of `rest`.
fn loose(rest: &[u8]) -> Option<(bool, u64)> {
    let rest = &rest[rest.iter().position(|&byte| !is_blank(byte))?..];
    let (negative, rest) = match rest {
        [b'-', tail @ ..] => (true, tail),
        [b'+', tail @ ..] => (false, tail),
        _ => (false, rest),
    };
    let len = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, tail) = rest.split_at(len);
    if digits.is_empty() || tail.first().is_some_and(|&byte| byte != 0 && !is_blank(byte)) {
        return None;
    }
    Some((negative, checked_digits(digits)?))
}

#[inline]
fn digit(byte: u8) -> Option<u64> {
    digit_of(byte).map(u64::from)
}

#[inline]
fn digit_of(byte: u8) -> Option<u8> {
    let value = byte.wrapping_sub(b'0');
    (value < 10).then_some(value)
}

/// What C's `isspace` calls a space.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests;
