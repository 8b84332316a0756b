//! The stores that are compared: one interface, and an engine or a family of them a file behind it.

#[cfg(feature = "fjall")]
mod fjall;
mod kelvin;
#[cfg(test)]
pub(super) mod memory;
#[cfg(native)]
mod native;
mod table;

use std::{fmt, io, path::Path};

/// What every engine may use: a memtable (or what it has instead), and a cache of blocks.
#[cfg(any(native, feature = "fjall"))]
const MEMTABLE_BYTES: u64 = 64 << 20;
#[cfg(any(native, feature = "fjall"))]
const CACHE_BYTES: u64 = 512 << 20;

/// Bits a key of Bloom filters.
#[cfg(feature = "fjall")]
const BLOOM_BITS: f32 = 10.0;

/// Gets of a batch.
pub(super) const BATCH: usize = 32;

/// What a store is opened for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    /// Its own, which is there.
    pub(super) directory: &'a Path,
    /// Keys are below.
    pub(super) records: u32,
    /// Of a value.
    pub(super) value_bytes: usize,
    /// Whether every put is to be durable when it returns.
    pub(super) is_safe: bool,
    /// Of a log of segments, where that is not as it comes.
    pub(super) segment_bytes: Option<u64>,
    /// What it may take, in percent of what it has to keep, where that is not as it comes.
    pub(super) space_percent: Option<u32>,
}

impl<'a> Setup<'a> {
    /// As it comes, and no put waits for the disk.
    pub(super) fn new(directory: &'a Path, records: u32, value_bytes: usize) -> Self {
        let (is_safe, segment_bytes, space_percent) = (false, None, None);
        Self { directory, records, value_bytes, is_safe, segment_bytes, space_percent }
    }
}

/// What an engine says that it has asked the disk for.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnCounts {
    /// Reads for gets.
    pub(super) reads: u64,
    /// Flushes of records.
    pub(super) flushes: u64,
}

/// What an engine of segments says that it takes of the disk, and what was moved in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(super) struct OwnSpace {
    pub(super) segment_bytes: u64,
    /// Of records that are the newest of their keys.
    pub(super) live_bytes: u64,
    /// Of segments that are not free.
    pub(super) used_bytes: u64,
    /// Of records that were moved since it was opened.
    pub(super) moved_bytes: u64,
    /// Values that were written over others in memory, so far.
    pub(super) overwritten: u64,
    /// Segments that are written to, and that are free, those that are kept for a need included.
    pub(super) open: u64,
    pub(super) free: u64,
}

/// A store, shared by all threads. One that is not closed may stay open till the program ends.
pub(super) trait Engine: Send + Sync {
    /// Access for the calling thread.
    fn session(&self) -> io::Result<Box<dyn Session + '_>>;

    /// Makes everything durable that was put.
    fn flush(&self) -> io::Result<()>;

    /// What it has counted since it was opened, if it counts.
    fn counts(&self) -> Option<OwnCounts> {
        None
    }

    /// What it takes, if it says so.
    fn space(&self) -> Option<OwnSpace> {
        None
    }

    /// What memory it uses, and how it is set.
    fn settings(&self) -> String;

    /// Closes it in order.
    fn close(self: Box<Self>) -> io::Result<()>;
}

/// A thread's access.
pub(super) trait Session {
    /// Stores a value.
    fn put(&mut self, key: u32, value: &[u8]) -> io::Result<()>;

    /// Copies a value to the start of `out`, which has room, and returns its length.
    fn get(&mut self, key: u32, out: &mut [u8]) -> io::Result<Option<usize>>;

    /// Before gets of these keys, one after the other.
    fn expect(&mut self, _keys: &[u32; BATCH]) {}

    /// Removes what may be there.
    fn remove(&mut self, key: u32) -> io::Result<()>;
}

/// Bytes of puts that returned, in `async`, and that a crash may take; `None` is all of them.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct AtRisk {
    pub(super) by_power_cut: Option<u64>,
    pub(super) by_kill: Option<u64>,
}

impl fmt::Display for AtRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let say = |bytes: Option<u64>| match bytes {
            None => "all that was put since a flush".to_owned(),
            Some(0) => "nothing".to_owned(),
            Some(bytes) => format!("at most {} MiB", bytes >> 20),
        };
        let (power, kill) = (say(self.by_power_cut), say(self.by_kill));
        write!(f, "lost with the power: {power}, with the process: {kill}")
    }
}

/// A kind of store.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) is_subject: bool,
    /// Whether it runs when nobody names engines.
    pub(super) is_default: bool,
    /// Whether memory of its own has what was read: to be warm it has to have read everything.
    pub(super) keeps_reads: bool,
    pub(super) at_risk: AtRisk,
    /// What may lie on the disk at most while records are put that are not there yet, in percent of
    /// them.
    pub(super) room_percent: u64,
    pub(super) open: fn(&Setup<'_>) -> io::Result<Box<dyn Engine>>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Of engines that hand every put to the kernel and flush none by themselves.
#[cfg(any(native, feature = "fjall"))]
const KERNEL_HAS_ALL: AtRisk = AtRisk { by_power_cut: None, by_kill: Some(0) };

/// Of engines that sort what they have: a log, and the tables of a compaction twice.
#[cfg(any(native, feature = "fjall"))]
const SORTED_PERCENT: u64 = 150;

/// The engines that were built in.
pub(super) const KINDS: &[Kind] = &[
    kelvin::FLAT,
    kelvin::HASH,
    kelvin::PAGES,
    table::TABLE,
    #[cfg(feature = "leveldb")]
    native::LEVELDB,
    #[cfg(feature = "rocksdb")]
    native::ROCKSDB,
    #[cfg(feature = "lmdb")]
    native::LMDB,
    #[cfg(feature = "kyoto")]
    native::KYOTO,
    #[cfg(feature = "kyoto")]
    native::KYOTO_TUNED,
    #[cfg(feature = "fjall")]
    fjall::FJALL,
];

#[cfg(test)]
mod tests;
