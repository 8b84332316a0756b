//! Values that say which write they come from.
//!
//! A value is a function of the seed, the key and a version, so that whoever reads it can tell
//! which write it was, or that it was none. It begins with 16 bytes, a hash of key and version and
//! then both themselves; the rest is cut from a fixed pattern at a place that the hash names.
//! Shorter values are the first bytes of that.
//!
//! The pattern's period is a prime: pieces of a value that a server has put at the wrong multiple
//! of a block size, or taken from another version, do not fit. A piece of another value is taken
//! for right with a chance of one in 65,521; a value of n < 8 bytes with one in 256^n.
//!
//! Immutable after it is made; threads share it.

use base::random::{Random, mix};

use crate::sizes::Sizes;

/// Bytes of a value that name its key and version.
const HEAD_BYTES: usize = 16;

/// The largest prime below 64 KiB: small enough to stay in a core's cache.
const PERIOD: usize = 65_521;

/// What is added to the seed to make the pattern.
const PATTERN_STREAM: u64 = 0x7061_7474;

/// What is added to the seed to draw sizes.
const SIZE_STREAM: u64 = 0x7369_7a65;

/// Makes values and checks them.
#[derive(Debug)]
pub(crate) struct Values {
    sizes: Sizes,
    seed: u64,
    size_seed: u64,
    /// Two periods, so that a whole one can be cut at any place.
    pattern: Vec<u8>,
}

/// What every value of a key and version has: where it starts and how it goes on.
#[derive(Clone, Copy, Debug)]
struct Identity {
    head: [u8; HEAD_BYTES],
    offset: usize,
}

/// What a value turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A version that the reader may see.
    Right,
    /// A version that was overwritten before the read began.
    Stale,
    /// No version that was ever written to this key.
    Wrong,
}

impl Values {
    pub(crate) fn new(sizes: Sizes, seed: u64) -> Self {
        let mut random = Random::new(seed, PATTERN_STREAM);
        let mut pattern: Vec<u8> = Vec::with_capacity(2 * PERIOD);
        while pattern.len() < PERIOD {
            pattern.extend_from_slice(&random.bits().to_le_bytes());
        }
        pattern.truncate(PERIOD);
        pattern.extend_from_within(..);
        Self { sizes, seed: mix(seed), size_seed: mix(seed ^ SIZE_STREAM), pattern }
    }

    /// The size of this version, in bytes.
    pub(crate) fn size(&self, key: u32, version: u32) -> usize {
        let bytes = match self.sizes {
            Sizes::Fixed(bytes) => bytes,
            sizes => sizes.pick(mix(self.size_seed ^ name(key, version))),
        };
        bytes as usize
    }

    /// Appends this version's `size` bytes.
    pub(crate) fn append(&self, key: u32, version: u32, size: usize, out: &mut Vec<u8>) {
        self.append_named(name(key, version), size, out);
    }

    /// Appends `size` bytes that only this name has.
    pub(crate) fn append_named(&self, name: u64, size: usize, out: &mut Vec<u8>) {
        let identity = self.identity_of(name);
        if size <= HEAD_BYTES {
            out.extend_from_slice(&identity.head[..size]);
            return;
        }
        out.extend_from_slice(&identity.head);
        let mut left = size - HEAD_BYTES;
        while left > 0 {
            let count = left.min(PERIOD);
            out.extend_from_slice(&self.pattern[identity.offset..identity.offset + count]);
            left -= count;
        }
    }

    fn identity(&self, key: u32, version: u32) -> Identity {
        self.identity_of(name(key, version))
    }

    fn identity_of(&self, name: u64) -> Identity {
        let hash = mix(self.seed ^ name);
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&hash.to_le_bytes());
        head[8..].copy_from_slice(&name.to_le_bytes());
        // The high half: the low one is what short values consist of.
        Identity { head, offset: (hash >> 32) as usize % PERIOD }
    }
}

fn name(key: u32, version: u32) -> u64 {
    u64::from(key) << 32 | u64::from(version)
}

/// A value on its way in, checked piece by piece.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    size: usize,
    seen: usize,
    head: [u8; HEAD_BYTES],
    /// Where the body goes on in the pattern; none when the head is incomplete or wrong.
    offset: Option<usize>,
    is_wrong: bool,
}

impl Check {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, seen: 0, head: [0; HEAD_BYTES], offset: None, is_wrong: false }
    }

    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, values: &Values, key: u32, mut bytes: &[u8]) {
        debug_assert!(self.seen + bytes.len() <= self.size, "no more than announced");
        if self.seen < HEAD_BYTES {
            let count = bytes.len().min(HEAD_BYTES - self.seen);
            let (first, rest) = bytes.split_at(count);
            self.head[self.seen..self.seen + count].copy_from_slice(first);
            self.seen += count;
            bytes = rest;
            if self.seen < HEAD_BYTES {
                return;
            }
            let identity = values.identity(key, self.version());
            self.is_wrong = identity.head != self.head;
            self.offset = Some(identity.offset);
        }
        self.seen += bytes.len();
        let Some(mut offset) = self.offset.filter(|_| !self.is_wrong) else { return };
        while !bytes.is_empty() {
            let (first, rest) = bytes.split_at(bytes.len().min(PERIOD));
            if first != &values.pattern[offset..offset + first.len()] {
                self.is_wrong = true;
                return;
            }
            offset = (offset + first.len()) % PERIOD;
            bytes = rest;
        }
        self.offset = Some(offset);
    }

    /// The version that a complete head names.
    fn version(&self) -> u32 {
        let mut version = [0; 4];
        version.copy_from_slice(&self.head[8..12]);
        u32::from_le_bytes(version)
    }

    /// Whether the complete value is a version of `key` from `floor` to `newest`, both included.
    /// Versions count from 1.
    pub(crate) fn verdict(&self, values: &Values, key: u32, floor: u32, newest: u32) -> Verdict {
        let floor = floor.max(1);
        if self.size < HEAD_BYTES {
            return self.short_verdict(values, key, floor, newest);
        }
        let version = self.version();
        let is_written = (1..=newest).contains(&version);
        if self.is_wrong || !is_written || values.size(key, version) != self.size {
            Verdict::Wrong
        } else if version < floor {
            Verdict::Stale
        } else {
            Verdict::Right
        }
    }

    /// What it is, for a person who wonders why it is wrong.
    pub(crate) fn describe(&self, values: &Values, key: u32) -> String {
        let version = self.version();
        if self.size < HEAD_BYTES {
            format!("{} bytes `{}`", self.size, self.head[..self.size].escape_ascii())
        } else if values.identity(key, version).head != self.head {
            format!("{} bytes that are no version of it", self.size)
        } else if self.is_wrong {
            format!("{} bytes that begin as version {version} and go on otherwise", self.size)
        } else {
            format!("version {version} ({} bytes)", self.size)
        }
    }

    /// A short value does not name its version, so those that may be seen are tried: no more than
    /// the sets of this key that were under way. Whether it is an older one is then no question of
    /// chance any more, so it is just wrong.
    fn short_verdict(&self, values: &Values, key: u32, floor: u32, newest: u32) -> Verdict {
        let is_version = |version: u32| {
            values.size(key, version) == self.size
                && values.identity(key, version).head[..self.size] == self.head[..self.size]
        };
        if (floor..=newest).rev().any(is_version) { Verdict::Right } else { Verdict::Wrong }
    }
}

#[cfg(test)]
mod tests;
