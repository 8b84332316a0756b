//! Settings of the table: what becomes of records, and when writes are answered.

use std::{fmt, str::FromStr};

/// What becomes of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Durable where there is a directory for it, else volatile.
    Auto,
    /// They are in memory only.
    Volatile,
    /// They are in a log.
    Durable,
}

impl FromStr for TableKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "volatile" => Ok(Self::Volatile),
            "durable" => Ok(Self::Durable),
            "spill" => Err("tables of the kind `spill` are not built yet".to_owned()),
            _ => Err(format!("`{text}` is not one of auto, volatile, durable")),
        }
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Volatile => "volatile",
            Self::Durable => "durable",
        })
    }
}

/// When writes to a durable table are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// When they are on the disk.
    Safe,
    /// At once.
    Async,
}

impl FromStr for WriteMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "safe" => Ok(Self::Safe),
            "async" => Ok(Self::Async),
            _ => Err(format!("`{text}` is neither safe nor async")),
        }
    }
}

impl fmt::Display for WriteMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safe => "safe",
            Self::Async => "async",
        })
    }
}
