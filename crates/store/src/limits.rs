//! How much may wait, and where it is bounded.

/// Locks that keys share by their hash: 64 KiB of lines. With 64 threads that change different keys
/// one in 16 finds its lock taken.
pub const KEY_LOCKS: usize = 1024;

/// Words that say up to which mark the records of some keys are to be waited for: 256 KiB. Where
/// 500 records are not flushed, a flush of 1 ms at 500,000 a second, 1.5 % of the hits wait for one
/// that is another key's.
pub const UNFLUSHED_SLOTS: usize = if cfg!(loom) { 2 } else { 1 << 15 };

/// Reads of a worker that are out at once: devices measured gain nothing from more.
pub const READS_MAX: usize = 64;

/// Commands of a worker that are not answered: 64 connections with all of their slots.
pub const PENDING_MAX: usize = 4096;

/// Bytes of keys and values that commands of a worker hold while they wait for a record or for
/// room, of values that they are going to show, and of answers that were not taken: a block of
/// 4 KiB for each of so many gets. One that waits alone may have more.
pub const PENDING_BYTES_MAX: usize = PENDING_MAX << 12;

/// Looks for one key's record that was elsewhere when it was read, for all together who wait in one
/// queue for it. Each means that compaction has
/// moved it within the time of a read.
pub const LOOKS_MAX: u32 = 16;

/// Repetitions of a read that was short: what interrupts one does not do so eight times on end.
pub const SHORT_READS_MAX: u32 = 8;

/// Replies of a connection that were not sent.
pub const SLOTS_MAX: usize = 64;

/// Bytes of replies of a connection that are there and were not sent; one reply may have more, and
/// those of slots that are taken by then come on top.
pub const REPLY_BYTES_MAX: usize = 1 << 20;

/// Times in a row that a worker tries what has stalled, because there were reports meanwhile. Then
/// it is the turn of what else its thread has to do.
pub const TRIES_MAX: u32 = 2;
