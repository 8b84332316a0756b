//! Settings of a table's keys.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use crate::config::{Value, value::quoted};

/// Most integers that may be keys of a table: what its index has room for.
const KEYS_MAX: u64 = log::index::SLOTS_MAX;

/// Bytes that a position may have.
const POSITION_BYTES: RangeInclusive<u8> = 4..=8;

/// What the keys of a table are behind its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Any bytes.
    Bytes,
    /// Integers of a range, in decimal digits.
    Integer,
}

impl FromStr for KeyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "bytes" => Ok(Self::Bytes),
            "integer" => Ok(Self::Integer),
            _ => Err(format!("`{text}` is neither bytes nor integer")),
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Integer => "integer",
        })
    }
}

impl Value for KeyKind {
    fn read(texts: &[String]) -> Result<Self, String> {
        crate::config::value::single(texts)?.parse()
    }

    fn write(&self) -> String {
        quoted(self)
    }
}

/// Integers from the first to the one before the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub first: u64,
    /// The first one behind.
    pub end: u64,
}

impl KeyRange {
    /// No keys.
    pub(super) const NONE: Self = Self { first: 0, end: 0 };

    /// Whether there is an index of so many keys.
    pub(super) fn is_possible(self) -> bool {
        self.first < self.end && self.end - self.first <= KEYS_MAX
    }
}

impl Value for KeyRange {
    fn read(texts: &[String]) -> Result<Self, String> {
        let wrong = |_| format!("`{}` are not two whole numbers", texts.join(", "));
        let [first, end] = texts else {
            return Err("a range has two numbers: the first key, and the first behind".to_owned());
        };
        Ok(Self { first: first.parse().map_err(wrong)?, end: end.parse().map_err(wrong)? })
    }

    fn write(&self) -> String {
        format!("[{}, {}]", self.first, self.end)
    }
}

/// Bytes of a position in an index of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionBytes(pub u8);

impl Default for PositionBytes {
    /// Positions in 16 TiB, and 5.3 bytes a key.
    fn default() -> Self {
        Self(5)
    }
}

impl Value for PositionBytes {
    fn read(texts: &[String]) -> Result<Self, String> {
        let text = crate::config::value::single(texts)?;
        let bytes = text.parse().ok().filter(|bytes| POSITION_BYTES.contains(bytes));
        bytes.map(Self).ok_or_else(|| format!("`{text}` is not from 4 to 8"))
    }

    fn write(&self) -> String {
        self.0.to_string()
    }
}

/// A table's keys that are integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerKeys {
    /// Which.
    pub range: KeyRange,
    /// Bytes of a position in their index.
    pub position_bytes: PositionBytes,
}
