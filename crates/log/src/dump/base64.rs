//! Base64 with padding, of the standard alphabet (RFC 4648, section 4).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What three bytes become; fewer are padded.
fn quad(bytes: &[u8]) -> [u8; 4] {
    let byte = |at: usize| u32::from(bytes.get(at).copied().unwrap_or(0));
    let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    let letter = |shift: u32| ALPHABET[(bits >> shift & 63) as usize];
    let mut quad = [letter(18), letter(12), letter(6), letter(0)];
    quad[(bytes.len() + 1).min(4)..].fill(b'=');
    quad
}

/// Encodes bytes that come piece by piece.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    kept: Vec<u8>,
}

impl Encoder {
    /// What these bytes, behind those before, have become so far.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() / 3 * 4 + 8);
        let missing = if self.kept.is_empty() { 0 } else { 3 - self.kept.len() };
        let (front, rest) = bytes.split_at(missing.min(bytes.len()));
        self.kept.extend_from_slice(front);
        if self.kept.len() == 3 {
            out.extend(quad(&self.kept));
            self.kept.clear();
        }
        let whole = rest.chunks_exact(3);
        self.kept.extend_from_slice(whole.remainder());
        whole.for_each(|three| out.extend(quad(three)));
        out
    }

    /// What is left, padded.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let kept = std::mem::take(&mut self.kept);
        if kept.is_empty() { Vec::new() } else { quad(&kept).to_vec() }
    }
}

/// What was encoded as `text`; `None` when nothing was, in exactly this way.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|letter| **letter == b'=').count();
    let letters = &text[..text.len() - padding];
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in letters.chunks(4) {
        let mut bits = 0_u32;
        for at in 0..4 {
            let six = four.get(at).map_or(Some(0), |letter| value(*letter))?;
            bits = bits << 6 | u32::from(six);
        }
        let count = four.len() * 6 / 8;
        let all = bits.to_be_bytes();
        // What the padding stands for is zeros.
        if all[1 + count..].iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&all[1..1 + count]);
    }
    Some(bytes)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_however_they_are_cut_and_other_text_does_not() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"fooba", "Zm9vYmE="),
            (b"foobar", "Zm9vYmFy"),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            for cut in 0..=bytes.len() {
                let mut encoder = Encoder::default();
                let mut out = encoder.push(&bytes[..cut]);
                out.extend(encoder.push(&bytes[cut..]));
                out.extend(encoder.end());
                assert_eq!(out, text.as_bytes(), "{cut}");
            }
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes));
        }
        for text in
            ["Zg", "Zg=", "Zh==", "Zm9=", "=Zg=", "Z===", "====", "Zm9v\n", "Zm-v", "Zg==Zg=="]
        {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
