//! Which policies there are, and what a simulation needs of one.
//!
//! Those of the product are `cache`'s own code. The references are here and nowhere else: they are
//! compared with, and are never served from. They hold units, that is they count keys and not
//! bytes, and know a key by its number in the trace.

#[cfg(test)]
mod arc;
mod belady;
mod lirs;
#[cfg(test)]
mod lru;
mod queues;
mod s3fifo;
mod sketch;
mod two_queues;
mod w_tiny_lfu;

use std::{fmt, str::FromStr};

use queues::Queues;

use cache::{PolicyKind, UnitCache};
use trace::Trace;

/// A cache of units.
pub(crate) trait Policy {
    /// A key is asked for, and stored if it is not there. Returns whether it was.
    fn access(&mut self, key: u32) -> bool;
}

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One that the product can serve with.
    Product(PolicyKind),
    /// One that is here for comparison.
    Reference(Reference),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Product(PolicyKind::default())
    }
}

/// A policy that only a simulation knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// S3-FIFO (Yang et al. 2023).
    S3Fifo,
    /// 2Q, full version (Johnson and Shasha 1994).
    TwoQueues,
    /// W-TinyLFU (Einziger, Friedman and Manes 2017).
    WTinyLfu,
    /// LIRS (Jiang and Zhang 2002).
    Lirs,
    /// The offline optimum.
    Belady,
}

/// The references with their names, in the order in which they are shown.
const REFERENCES: [(&str, Reference); 5] = [
    ("s3fifo", Reference::S3Fifo),
    ("2q", Reference::TwoQueues),
    ("wtinylfu", Reference::WTinyLfu),
    ("lirs", Reference::Lirs),
    ("belady", Reference::Belady),
];

impl Kind {
    /// Every policy: the product's first, the references last.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let references = REFERENCES.iter().map(|(_, reference)| Self::Reference(*reference));
        Self::products().into_iter().chain(references).collect()
    }

    /// What others are compared with: LRU, which is exact where keys are counted.
    pub(crate) const BASE: Self = Self::Product(PolicyKind::Lru);

    /// The product's policies.
    #[must_use]
    pub fn products() -> Vec<Self> {
        PolicyKind::ALL.iter().copied().map(Self::Product).collect()
    }

    /// Reads names that commas part.
    ///
    /// # Errors
    /// What is wrong, for a person.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        // A policy's parameters have commas between them, too: `paper:hits=3,shares=fixed,lru`.
        let mut names: Vec<String> = Vec::new();
        for part in text.split(',') {
            match names.last_mut() {
                Some(name) if part.contains('=') && !part.contains(':') => {
                    name.push(',');
                    name.push_str(part);
                }
                _ => names.push(part.to_owned()),
            }
        }
        names.iter().map(|name| name.parse()).collect()
    }

    /// An empty cache of `capacity` keys, at least one, for the keys of a trace.
    pub(crate) fn units(self, capacity: usize, trace: &Trace) -> Box<dyn Policy> {
        let keys = trace.footprint();
        let reference = match self {
            Self::Product(kind) => return Box::new(Product(UnitCache::new(kind, capacity))),
            Self::Reference(reference) => reference,
        };
        match reference {
            Reference::S3Fifo => Box::new(s3fifo::S3Fifo::new(capacity, keys)),
            Reference::TwoQueues => Box::new(two_queues::TwoQueues::new(capacity, keys)),
            Reference::WTinyLfu => Box::new(w_tiny_lfu::WTinyLfu::new(capacity, keys)),
            Reference::Lirs => Box::new(lirs::Lirs::new(capacity, keys)),
            Reference::Belady => Box::new(belady::Belady::new(capacity, trace)),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(product) = text.parse() {
            return Ok(Self::Product(product));
        }
        let found = REFERENCES.iter().find(|(name, _)| *name == text);
        found.map(|(_, reference)| Self::Reference(*reference)).ok_or_else(|| {
            let names: Vec<String> = Self::all().iter().map(Self::to_string).collect();
            format!("`{text}` is no policy: there are {}", names.join(", "))
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Product(kind) => kind.fmt(f),
            Self::Reference(reference) => {
                let found = REFERENCES.iter().find(|(_, other)| other == reference);
                f.write_str(found.expect("invariant: every reference has a name").0)
            }
        }
    }
}

/// A policy of the product, by its own code.
struct Product(UnitCache);

impl Policy for Product {
    fn access(&mut self, key: u32) -> bool {
        self.0.access(key.into())
    }
}

#[cfg(test)]
mod tests;
