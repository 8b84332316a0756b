//! Which policy a cache is built with.

use std::{fmt, str::FromStr};

use crate::ConfigError;

/// A replacement policy by name. As text: `htr`, `fifo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyKind {
    /// Source A's partitions with ghosts and an adaptive share. The default.
    #[default]
    Htr,
    /// First in, first out.
    Fifo,
}

impl PolicyKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Htr, Self::Fifo];
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Htr => "htr",
            Self::Fifo => "fifo",
        })
    }
}

impl FromStr for PolicyKind {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let unknown = || ConfigError::UnknownPolicy { got: text.to_owned() };
        Self::ALL.into_iter().find(|kind| kind.to_string() == text).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_what_it_writes() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.to_string().parse::<PolicyKind>().expect("a name"), kind);
        }
        assert!("HTR".parse::<PolicyKind>().is_err());
        assert!("".parse::<PolicyKind>().is_err());
    }
}
