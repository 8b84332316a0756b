//! Writing decimal numbers.

/// Most digits of a `u64`.
pub(super) const U64_LEN_MAX: usize = 20;

/// Most digits of a `u32`.
pub(super) const U32_LEN_MAX: usize = 10;

/// The numbers 00 to 99, so that one division yields two digits.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Digits of `number`.
#[inline]
pub(super) fn len(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Writes the digits of `number` to the start of `room` and returns how many they are.
///
/// # Panics
///
/// If the room does not suffice.
#[inline]
pub(super) fn write(number: u64, room: &mut [u8]) -> usize {
    // What flags and lengths mostly are.
    match number {
        0..10 => {
            room[0] = b'0' + number as u8;
            1
        }
        10..100 => {
            room[..2].copy_from_slice(&PAIRS[number as usize]);
            2
        }
        _ => write_long(number, room),
    }
}

/// Writes a number of any length.
fn write_long(mut number: u64, room: &mut [u8]) -> usize {
    let len = len(number);
    let digits = &mut room[..len];
    let mut start = len;
    while start >= 2 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if start == 1 {
        digits[0] = b'0' + number as u8;
    }
    len
}

#[cfg(test)]
mod tests;
