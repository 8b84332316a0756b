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

/// The digits of a number, at the end of their room.
#[derive(Debug)]
pub(super) struct Decimal {
    room: [u8; U64_LEN_MAX],
    start: usize,
}

impl Decimal {
    #[inline]
    pub(super) fn of(mut number: u64) -> Self {
        let mut room = [0; U64_LEN_MAX];
        let mut start = U64_LEN_MAX;
        while number >= 10 {
            start -= 2;
            room[start..start + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
        }
        // A single digit is left unless the last pair took it.
        if number > 0 || start == U64_LEN_MAX {
            start -= 1;
            room[start] = b'0' + number as u8;
        }
        Self { room, start }
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.room[self.start..]
    }
}

#[cfg(test)]
mod tests;
