//! What an index knows a key by.

use base::random::mix;

/// The hash of a key, as [`base::hash::WideHasher`] makes it; of an integer, itself.
pub use crate::format::KeyHash;

impl From<u64> for KeyHash {
    fn from(key: u64) -> Self {
        Self(key.into())
    }
}

impl KeyHash {
    /// The integer that it is, unless it is none.
    pub(super) fn integer(self) -> Option<u64> {
        u64::try_from(self.0).ok()
    }

    /// What the hash would be if it had only so many bits: 2^`bits` different ones, as evenly
    /// spread as whole ones. For tests of what happens when two keys have the same.
    #[must_use]
    pub fn shortened(self, bits: u32) -> Self {
        let few = self.0 as u64 & ((1 << bits.min(63)) - 1);
        Self(u128::from(mix(few.wrapping_add(1))) | u128::from(mix(!few)) << 64)
    }
}
