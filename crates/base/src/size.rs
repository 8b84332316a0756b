//! Byte sizes as people write them: `65536`, `64KiB`, `64k`, `1GiB`.

use std::{fmt, str::FromStr};

/// A number of bytes that reads and prints with a binary unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// Why a text is not a byte size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{got}` is not a size: write a whole number and one of B, KiB, MiB, GiB, TiB")]
pub struct ParseSizeError {
    /// The text as it was given.
    pub got: String,
}

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl FromStr for ByteSize {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseSizeError { got: text.to_owned() };
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = trimmed.split_at(digits);
        let number: u64 = number.parse().map_err(|_| error())?;
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(error()),
        };
        number.checked_mul(1 << shift).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift) = UNITS
            .into_iter()
            .find(|(_, shift)| self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift))
            .unwrap_or(("B", 0));
        write!(f, "{}{unit}", self.0 >> shift)
    }
}

#[cfg(test)]
mod tests {
    use super::ByteSize;

    #[test]
    fn reads_what_it_prints_and_what_people_write() {
        for (text, bytes) in
            [("0", 0), ("1536", 1536), ("64KiB", 65_536), ("64k", 65_536), (" 1 GB ", 1 << 30)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for bytes in [0, 1, 1536, 65_536, 3 << 20, 7 << 40] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
        assert_eq!(ByteSize(64 << 20).to_string(), "64MiB");
    }

    #[test]
    fn refuses_what_is_no_size() {
        for text in ["", "MiB", "-1", "1.5GiB", "12XB", "99999999999999999999", "18000000000g"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
