//! The log as a state machine: it is told what to store and what came of its I/O, and says what to
//! do next and what may be answered.
//!
//! One owner drives an engine; it has no thread, no clock, no lock and no random number. Waits are
//! pulled: whoever waits keeps a [`Mark`] and asks whether it is durable.
//!
//! Invariants:
//! 1. A record stands in the tail before the index shows it; sequence, place and entry are drawn,
//!    filled and published in one step, so live reads and recovery agree on the newest.
//! 2. Whatever is promised is durable first: acknowledgements in `safe`, and what a reply saw.
//! 3. What is not flushed is in memory.
//!
//! Source: `docs/formats/log.md`, and the sources that it names.

mod attempts;
mod backup;
mod batch;
mod chain;
mod chunk;
mod commit;
mod copies;
mod counts;
mod durable;
mod failure;
mod footer;
mod freeing;
mod growth;
mod iterate;
mod keeping;
mod large;
mod listing;
mod moving;
mod overwrite;
mod pacing;
mod pin;
mod pins;
mod preparing;
mod read;
mod recovery;
mod removing;
mod ring;
mod room;
mod sealing;
mod settings;
mod space;
mod spread;
mod stop;
mod survey;
mod tail;
mod throttle;
mod unread;
mod usage;
mod victims;
mod visit;
mod wiping;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use self::{
    attempts::Attempts,
    chain::Chain,
    copies::Copies,
    freeing::Freeing,
    listing::Spare,
    moving::Compaction,
    pins::Pins,
    preparing::Preparing,
    removing::Removing,
    sealing::Sealing,
    space::Segment,
    tail::{Tail, Unflushed},
    throttle::Throttle,
    unread::Unread,
    wiping::Wiping,
};
pub use self::{
    backup::{Copying, Cut},
    batch::{Batch, Change},
    counts::Counts,
    failure::Seen,
    iterate::{Found, Iteration},
    large::Upload,
    moving::Unreported,
    pin::Pin,
    read::{Fetched, Get, Reading, Stored},
    recovery::{Damage, New, Opening, Progress, Report, Torn, Verified, Wrong},
    sealing::Encoding,
    settings::{Mode, Ring, Settings},
    space::SEGMENTS_LEAST,
    spread::Spread,
    usage::Space,
    visit::Window,
    wiping::Wipe,
    write::{Put, Removed, Wrote},
};
use crate::{
    error::Error,
    format::manifest::Manifest,
    keys::Keys,
    plan::{Buffer, DirectoryId, SegmentId, Token},
    position::{Position, SizeClass},
};

/// Chunks that only rewriting after a failed flush may take: one that is filled and one that is
/// on its way to the disk.
const REWRITE_CHUNKS: usize = 2;

/// Failed flushes after which a log goes on.
const FAILURES_MAX: u32 = 1;

/// Segments at a time, those of copies aside, that are full and not yet sealed: the footer of one
/// is written while records of the next are.
const CLOSING_MAX: usize = 2;

/// Up to which record, in the order in which they were taken, something waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

impl Mark {
    /// Its place in the order in which records were taken: where marks have to be kept as words.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The mark of a [`Mark::number`].
    #[must_use]
    pub const fn of(number: u64) -> Self {
        Self(number)
    }
}

/// Whether what something waits for has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Not yet.
    Pending,
    /// It has.
    Done,
    /// It never will: the flush failed.
    Failed,
}

/// Everything that was written before a moment, on its way to the disk.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    below: u64,
    failures: u32,
    /// Records that it is about are still to be rewritten, under tickets that are not drawn yet.
    has_stranded: bool,
}

/// What an action that is out is for.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// Of the chain.
    Chain,
    /// A write of the chunk at an offset.
    Write { segment: SegmentId, chunk: u64 },
    /// A flush of a tail.
    Flush { segment: SegmentId },
    /// Of the footer that is being written.
    Sealing,
    /// A read of what is to be moved.
    Moving,
}

/// A log.
#[derive(Debug)]
pub struct Engine<K> {
    index: K,
    settings: Settings,
    manifest: Manifest,
    directories: u16,
    segments: Vec<Option<Segment>>,
    units_of_segment: u64,
    /// Empty segments that the manifest has. The first one is taken, but for values the first that
    /// was written before, if there is one.
    free: Vec<SegmentId>,
    preparing: Option<Preparing>,
    chain: Chain,
    /// Attempts to make a segment.
    attempts: Attempts,
    /// Whether what was done last to the segments was to free one.
    has_freed_last: bool,
    /// No segment is made any more.
    is_stopping: bool,
    /// The first number that no segment has had.
    next_segment: u32,
    freeing: Freeing,
    removing: Removing,
    copies: Copies,
    compaction: Compaction,
    /// What the keys are to grow to.
    growth: Option<u64>,
    /// Why they have not.
    growth_error: Option<Error>,
    /// Making all dead at once.
    wiping: Wiping<K>,
    /// A new manifest may or may not be there; no other is written.
    is_manifest_unsure: bool,
    /// Whether chunks hold more than could be written again to one segment.
    may_outgrow_segment: bool,
    /// Whether the index may be saved: nothing was damaged when the log was opened.
    may_save: bool,
    /// Full segments, oldest first.
    closing: Vec<Tail>,
    open: Option<Tail>,
    sealing: Option<Sealing>,
    /// What failed flushes have left to be rewritten, oldest first.
    stranded: Vec<Unflushed>,
    failed_tickets: Vec<Range<u64>>,
    /// How many of these, the first ones, were mended before the last flush failed.
    mended: usize,
    /// Below this ticket is what was written again.
    rewritten_below: u64,
    /// Where the last good flush of each segment ended of which one has failed.
    good_ends: BTreeMap<SegmentId, u64>,
    failures: u32,
    /// Which one of several a write or a flush of records has failed in: no more are put there. A
    /// second failure ends all writes.
    failed_directory: Option<DirectoryId>,
    buffers: Vec<Buffer>,
    /// Memory for what is listed of the next segment.
    spare: Spare,
    /// Buffers that somebody may still be writing from.
    retired: Vec<Arc<Buffer>>,
    jobs: BTreeMap<Token, Job>,
    next_token: u64,
    next_ticket: u64,
    next_sequence: u64,
    /// Below this ticket everything shall be flushed, whatever the mode.
    drain_below: u64,
    /// Below this ticket everything shall be flushed before more is taken.
    held_below: u64,
    /// The first ticket of the present `Async`.
    async_from: u64,
    now_ms: u64,
    /// Where the parts of large values lie, by the position of the head.
    larges: BTreeMap<Position, Vec<(Position, SizeClass)>>,
    unread: Unread,
    /// Segments of a ring of which something was dropped that the disk still has.
    dropped: BTreeSet<SegmentId>,
    /// Heads of large values that may not be flushed: the ticket of each, and the value's bytes.
    heads: Vec<(u64, u64)>,
    /// Segments that somebody reads.
    pins: Pins,
    counts: Counts,
    throttle: Throttle,
}

impl<K: Keys> Engine<K> {
    /// The index.
    pub fn index(&self) -> &K {
        &self.index
    }

    /// What the log was made with.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// When writes are answered.
    pub fn mode(&self) -> Mode {
        self.settings.mode
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the log takes no writes because flushes have failed.
    pub fn is_read_only(&self) -> bool {
        self.failures > FAILURES_MAX || self.is_manifest_unsure
    }

    /// When [`Engine::poll`] has something to do at the latest, if nothing else happens.
    pub fn wake_at_ms(&self) -> Option<u64> {
        self.due_ms().into_iter().chain(self.steps_end_ms()).min()
    }

    /// When something is to be flushed at the latest, or a header to be written.
    pub fn due_ms(&self) -> Option<u64> {
        let oldest = self.own_tails().filter_map(Tail::waits_since_ms).min();
        let due_ms = oldest.map(|ms| ms.saturating_add(self.settings.at_risk_ms_max / 2));
        due_ms.into_iter().chain(self.header_due_ms()).min()
    }

    fn tails(&self) -> impl Iterator<Item = &Tail> {
        let sealing = self.sealing.as_ref().map(Sealing::tail);
        sealing.into_iter().chain(&self.closing).chain(&self.open).chain(&self.copies.tail)
    }

    /// Those that are not of copies: what somebody waits for is in them.
    fn own_tails(&self) -> impl Iterator<Item = &Tail> {
        self.tails().filter(|tail| !tail.is_for_copies)
    }

    fn tail_mut(&mut self, segment: SegmentId) -> Option<&mut Tail> {
        let tails = self.closing.iter_mut().chain(&mut self.open).chain(&mut self.copies.tail);
        { tails }.find(|tail| tail.segment == segment)
    }

    fn token(&mut self, job: Job) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.jobs.insert(token, job);
        token
    }

    /// The segment that a position lies in, and the offset there.
    fn place(&self, position: Position) -> (SegmentId, u64) {
        let segment = position.units() / self.units_of_segment;
        let unit = position.units() % self.units_of_segment;
        let segment = u32::try_from(segment).unwrap_or(u32::MAX);
        (SegmentId(segment), unit * u64::from(crate::position::UNIT_BYTES))
    }

    fn position(&self, segment: SegmentId, offset: u64) -> Position {
        let units = offset / u64::from(crate::position::UNIT_BYTES);
        Position::new(u64::from(segment.0) * self.units_of_segment + units)
            .expect("invariant: a record lies behind a header")
    }

    fn segment(&self, id: SegmentId) -> Option<&Segment> {
        self.segments.get(id.0 as usize)?.as_ref()
    }

    fn segment_mut(&mut self, id: SegmentId) -> Option<&mut Segment> {
        self.segments.get_mut(id.0 as usize)?.as_mut()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
