//! How much may wait, and where it is bounded.

/// Locks that keys share by their hash: 64 KiB of lines. With 64 threads that change different keys
/// one in 16 finds its lock taken.
pub const KEY_LOCKS: usize = 1024;

/// Words that say up to which mark the records of some keys are to be waited for: 256 KiB. Where
/// 500 records are not flushed, a flush of 1 ms at 500,000 a second, 1.5 % of the hits find one of
/// another key, and take two locks to know that.
pub const UNFLUSHED_SLOTS: usize = if cfg!(loom) { 2 } else { 1 << 15 };

/// Reads of a worker that are out at once: devices measured gain nothing from more.
pub const READS_MAX: usize = 64;

/// Of these, reads of parts of large values: 2 MiB are under way, which keeps devices measured
/// busy, and a small read behind them waits for a millisecond where they give 2 GB a second.
pub const PART_READS_MAX: usize = 8;

/// Bytes of a buffer of a read that is kept: for records of up to 8 KiB, wherever in a block they
/// begin.
pub const READ_BYTES_KEPT: usize = 16 << 10;

/// Bytes of buffers of longer reads that a worker keeps while nobody uses them: 25 of reads of 64
/// KiB, seven of parts of large values.
pub const LONG_BYTES_KEPT: usize = 2 << 20;

/// Of buffers of short reads, those that values are sent from: with more, values are copied, so
/// that clients who take nothing keep no others from being read into.
pub const READS_ANSWERED_MAX: usize = 32;

/// Buffers of that size that a worker has use for.
pub const READ_BUFFERS_MAX: usize = READS_MAX + READS_ANSWERED_MAX;

/// Commands of a worker that are not answered: 64 connections with all of their slots.
pub const PENDING_MAX: usize = 4096;

/// Bytes of keys and values that commands of a worker hold while they wait for a record or for
/// room, of values that they are going to show, and of answers that were not taken: a block of
/// 4 KiB for each of so many gets. One that waits alone may have more.
pub const PENDING_BYTES_MAX: usize = PENDING_MAX << 12;

/// Records without room in memory that a worker writes in one turn.
pub const SPILLS_MAX: usize = 64;

/// Bytes of memory that a worker keeps for the value at hand, and for one that is put together.
pub const VALUE_KEPT_BYTES: usize = 2 << 20;

/// Looks for one key's record that was elsewhere when it was read, for all together who wait in one
/// queue for it. Each means that compaction has
/// moved it within the time of a read.
pub const LOOKS_MAX: u32 = 16;

/// Repetitions of a read that was short: what interrupts one does not do so eight times on end.
pub const SHORT_READS_MAX: u32 = 8;

/// Replies of a connection that were not sent.
pub const SLOTS_MAX: usize = 64;

/// Slots whose room a connection keeps when none is taken: the others' would be 5 KiB for a life.
pub const SLOTS_KEPT: usize = 8;

/// Bytes of replies of a connection that are there and were not sent; one reply may have more, and
/// those of slots that are taken by then come on top.
pub const REPLY_BYTES_MAX: usize = 1 << 20;

/// Times in a row that a worker tries what has stalled, because there were reports meanwhile. Then
/// it is the turn of what else its thread has to do.
pub const TRIES_MAX: u32 = 2;

/// Turns of moves, 10 to 20 us each, or of footers that a worker takes in a row. Then it is the
/// turn of what else its thread has to do: a window that was read is up to 128 turns, and several
/// may have been.
pub const TURNS_MAX: u32 = 4;

/// Bytes of parts of large values that are in memory, those that arrive and those that leave each,
/// unless [`crate::Store::set_large_bytes`] says otherwise: 64 parts of 256 KiB.
pub const LARGE_BYTES: usize = 16 << 20;

/// Parts of one large value that are read, or with who sends them: two keep disk and network busy.
pub const AHEAD_MAX: usize = 2;

/// Large values of a worker that arrive; as many may leave.
pub const LARGE_MAX: usize = 1024;

/// Of the memory for parts that leave, what tells where they lie may take a half. It is 8 bytes a
/// part, so in 8 MiB are 200 values of a gibibyte.
pub const LARGE_PLACES_DIVISOR: usize = 2;

/// How long nothing may come for a large value that arrives, and no part be given back of one that
/// leaves. For so long a part may take to arrive: 9 KB a second.
pub const LARGE_IDLE_MS: u64 = 30_000;

/// How long nothing may come for a large value while another one waits for memory that it holds;
/// and when so many arrive as may, how long one is safe from making way to another one without
/// bringing a part.
pub const LARGE_IDLE_WANTED_MS: u64 = 2000;

/// How long nothing may be taken of a large value that leaves while another one has no memory and
/// needs some. Longer than who sends has: a full socket takes bytes again when a third of its
/// buffer is free, which over a slow link is a lump of seconds.
pub const LARGE_UNTAKEN_NEEDED_MS: u64 = 4000;

/// For so long after it has found none somebody counts as waiting for memory: who waits asks each
/// millisecond, if the machine has time.
pub const LARGE_WANTED_MS: u64 = 1000;

/// For so long after it has found none somebody goes before those who were slow with their last
/// part, or come behind him.
pub const LARGE_QUICK_MS: u64 = 10;

/// The least speed of those who send or take a large value when the log lacks room, while it is up
/// to them: they keep segments from being freed. 1 MB a second: the largest value takes 18 minutes.
pub const LARGE_LEAST_BYTES_PER_MS: u64 = 1000;
