//! `stats sizes`: how many records there are of each size.
//!
//! memcached keeps these counts with every store, if it is told to (`-o track_sizes`). Here nothing
//! is kept: who asks has the cache gone through.

use std::collections::BTreeMap;

use cache::Meta;

/// Sizes are counted in steps of so many bytes, as in memcached.
const STEP_BYTES: u64 = 32;

/// Bytes of a record beside key, value, expiry and client flags (`docs/formats/record.md`).
const RECORD_BYTES: u64 = 12;
const EXPIRY_BYTES: u64 = 6;
const CLIENT_FLAGS_BYTES: u64 = 4;

/// Records by size. It has a line for each step that has records: `n` different ones take `16 n^2`
/// bytes of the cache at least, so 64 GiB have at most 65,536, which take some 2 MiB.
#[derive(Debug, Default)]
pub(super) struct Sizes(BTreeMap<u64, u64>);

impl Sizes {
    /// Counts a record.
    pub(super) fn add(&mut self, key: &[u8], meta: &Meta) {
        let bytes = RECORD_BYTES
            + key.len() as u64
            + u64::from(meta.value_len)
            + if meta.expiry_ms == 0 { 0 } else { EXPIRY_BYTES }
            + if meta.client_flags == 0 { 0 } else { CLIENT_FLAGS_BYTES };
        *self.0.entry(bytes.div_ceil(STEP_BYTES)).or_default() += 1;
    }

    /// Takes the smallest size, in bytes, and how many records there are of it.
    pub(super) fn take_first(&mut self) -> Option<(u64, u64)> {
        self.0.pop_first().map(|(step, count)| (step * STEP_BYTES, count))
    }
}
