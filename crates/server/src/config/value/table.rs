//! Settings of the table: what becomes of records, when writes are answered, what is spilled.

use std::{fmt, str::FromStr};

/// What becomes of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Durable where there is a directory for it, else volatile.
    Auto,
    /// They are in memory only.
    Volatile,
    /// They are in memory, and what has no room there in a ring on disk.
    Spill,
    /// They are in a log.
    Durable,
}

impl FromStr for TableKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "volatile" => Ok(Self::Volatile),
            "spill" => Ok(Self::Spill),
            "durable" => Ok(Self::Durable),
            _ => Err(format!("`{text}` is not one of auto, volatile, spill, durable")),
        }
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Volatile => "volatile",
            Self::Spill => "spill",
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

/// Which records a table that spills writes when memory has no room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// All.
    All,
    /// Those that were read since they were stored.
    Seen,
}

impl FromStr for Admission {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "seen" => Ok(Self::Seen),
            _ => Err(format!("`{text}` is neither all nor seen")),
        }
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Seen => "seen",
        })
    }
}
