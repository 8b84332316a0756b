//! Base64 for binary keys, as forgiving as memcached's.

use super::limits::KEY_LEN_MAX;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Marks a byte outside the alphabet.
const NONE: u8 = 0xff;

/// Value of each byte; the padding sign counts as zero bits.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut index = 0;
    while index < ALPHABET.len() {
        values[ALPHABET[index] as usize] = index as u8;
        index += 1;
    }
    values[b'=' as usize] = 0;
    values
};

/// Longest encoding of a key in bytes. A decoded key has at most 250 / 4 * 3 = 186 bytes.
pub(super) const ENCODED_LEN_MAX: usize = KEY_LEN_MAX.next_multiple_of(4);

/// Decodes `text` into `room` and returns the length, which is never zero.
///
/// Bytes outside the alphabet are skipped. What remains must be whole groups of four, the first
/// group with padding is the last that counts, and it may have one or two padding signs, which
/// need not stand at its end.
pub(super) fn decode(text: &[u8], room: &mut [u8; KEY_LEN_MAX]) -> Option<usize> {
    let known = text.iter().filter(|&&byte| VALUES[byte as usize] != NONE).count();
    if known == 0 || known % 4 != 0 || known / 4 * 3 > room.len() {
        return None;
    }
    let (mut len, mut group, mut in_group, mut padding) = (0, 0_u32, 0, 0);
    for &byte in text {
        let value = VALUES[byte as usize];
        if value == NONE {
            continue;
        }
        padding += usize::from(byte == b'=');
        group = group << 6 | u32::from(value);
        in_group += 1;
        if in_group == 4 {
            room[len..len + 3].copy_from_slice(&group.to_be_bytes()[1..]);
            len += 3;
            if padding > 0 {
                return (padding <= 2).then(|| len - padding);
            }
            (group, in_group) = (0, 0);
        }
    }
    Some(len)
}

/// Encodes `bytes` with padding and hands over one group of four characters at a time.
pub(super) fn encode(bytes: &[u8], mut put: impl FnMut(&[u8; 4])) {
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(group);
        let mut text = [18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift & 63) as usize]);
        text[chunk.len() + 1..].fill(b'=');
        put(&text);
    }
}

#[cfg(test)]
mod tests;
