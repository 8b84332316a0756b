//! What the memory setting covers.

use std::{fmt, str::FromStr};

/// What `memory` is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryUse {
    /// Records, their index, buffers and connections.
    #[default]
    Everything,
    /// Records and their index; the rest comes beside it.
    Records,
}

impl FromStr for MemoryUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "everything" => Ok(Self::Everything),
            "records" => Ok(Self::Records),
            _ => Err(format!("`{text}` is not `everything` or `records`")),
        }
    }
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everything => "everything",
            Self::Records => "records",
        })
    }
}
