//! Which policy a cache is built with.

use std::{fmt, str::FromStr};

use crate::ConfigError;

/// A replacement policy by name. As text: `htr`, `fifo`, `lru`, `arc`, `paper`, and `paper` with
/// rules behind a colon (see [`PaperRules`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyKind {
    /// Source A's partitions with ghosts and an adaptive share. The default. A hit takes no lock.
    #[default]
    Htr,
    /// First in, first out. A hit takes no lock.
    Fifo,
    /// Least recently used. A hit takes a lock, and a record takes 8 bytes more.
    Lru,
    /// ARC (Megiddo and Modha 2003). Costs what `Lru` costs.
    Arc,
    /// Source A's algorithm to the letter. Costs what `Lru` costs.
    Paper(PaperRules),
}

/// What the published algorithm leaves open. As text, behind `paper:` and parted by commas:
/// `hits=2` or `hits=3`, `shares=borrowed` or `shares=fixed`. The first of each is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PaperRules {
    /// The touch that makes a record hot, being inserted counted as the first: 2 or 3.
    pub(super) hits: u8,
    /// Partitions may not borrow what others leave free.
    pub(super) is_fixed: bool,
}

impl PaperRules {
    const DEFAULT: Self = Self { hits: 2, is_fixed: false };

    fn with(self, rule: &str) -> Option<Self> {
        match rule {
            "hits=2" => Some(Self { hits: 2, ..self }),
            "hits=3" => Some(Self { hits: 3, ..self }),
            "shares=borrowed" => Some(Self { is_fixed: false, ..self }),
            "shares=fixed" => Some(Self { is_fixed: true, ..self }),
            _ => None,
        }
    }
}

impl PolicyKind {
    /// Every kind, with every set of rules.
    pub const ALL: [Self; 8] = [
        Self::Htr,
        Self::Fifo,
        Self::Lru,
        Self::Arc,
        Self::Paper(PaperRules::DEFAULT),
        Self::Paper(PaperRules { hits: 3, is_fixed: false }),
        Self::Paper(PaperRules { hits: 2, is_fixed: true }),
        Self::Paper(PaperRules { hits: 3, is_fixed: true }),
    ];

    /// Whether hits are reported and records are linked.
    pub(crate) const fn hears_hits(self) -> bool {
        matches!(self, Self::Lru | Self::Arc | Self::Paper(_))
    }

    /// Whether a partition may be full while slots are free.
    pub(crate) const fn limits_partitions(self) -> bool {
        matches!(self, Self::Paper(PaperRules { is_fixed: true, .. }))
    }

    /// Whether it asks for the partition that a key left.
    pub(crate) const fn remembers(self) -> bool {
        matches!(self, Self::Htr | Self::Arc)
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Htr => "htr",
            Self::Fifo => "fifo",
            Self::Lru => "lru",
            Self::Arc => "arc",
            Self::Paper(PaperRules { hits: 2, is_fixed: false }) => "paper",
            Self::Paper(PaperRules { hits: 2, is_fixed: true }) => "paper:shares=fixed",
            Self::Paper(PaperRules { is_fixed: false, .. }) => "paper:hits=3",
            Self::Paper(PaperRules { is_fixed: true, .. }) => "paper:hits=3,shares=fixed",
        };
        f.write_str(name)
    }
}

impl FromStr for PolicyKind {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let kind = match text.split_once(':') {
            Some(("paper", rules)) => {
                let rules = rules.split(',').try_fold(PaperRules::DEFAULT, PaperRules::with);
                rules.map(Self::Paper)
            }
            Some(_) => None,
            None => Self::ALL.into_iter().find(|kind| kind.to_string() == text),
        };
        kind.ok_or_else(|| ConfigError::UnknownPolicy { got: text.to_owned() })
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
        let texts = ["paper:hits=2", "paper:shares=borrowed", "paper:shares=borrowed,hits=2"];
        for text in texts {
            assert_eq!(text.parse::<PolicyKind>().expect("a name").to_string(), "paper");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_was_given() {
        for text in ["", "HTR", "htr ", "paper:", "paper:hits=4", "lru:hits=2", "paper,hits=3"] {
            let error = text.parse::<PolicyKind>().expect_err("no name");
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }
}
