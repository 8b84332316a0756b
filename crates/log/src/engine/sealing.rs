//! Footers: what is in a segment that is full.
//!
//! A footer is written only when every record that it lists is flushed, and has a flush of its own:
//! a device may keep a footer and lose records that were on their way with it.

use std::sync::Arc;

use super::{
    Engine, Job,
    chain::{Chain, Progress},
    listing::Listing,
    space::Role,
    tail::Tail,
};
use crate::{
    format::{
        Seed,
        segment::{Trailer, encode_footer_block, entries_of_block, footer_blocks},
    },
    keys::Keys,
    plan::{Action, Buffer, File, Outcome, Plan},
};

/// Bytes of a footer that are written at once: one write of 64 KiB takes as long as two of the
/// smallest, and encoding it 10 to 30 us, for which the owner is busy; more when it is merged from
/// many runs.
const PIECE_BYTES: usize = 64 << 10;

/// Hands out the writes of a footer and its trailer, and the flush, one after the other.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) file: File,
    pub(super) seed: Seed,
    pub(super) block_bytes: u32,
    pub(super) segment_bytes: u64,
    /// Where the records end, on a block.
    pub(super) records_end: u64,
    listed: Listing,
    /// Keys of the index.
    keys: u64,
    /// The next block.
    next: u64,
    stage: Stage,
    has_own_flush: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Entries,
    Trailer,
    Flush,
    Done,
}

impl Footer {
    pub(super) fn new(
        file: File,
        seed: Seed,
        block_bytes: u32,
        segment_bytes: u64,
        records_end: u64,
        mut listed: Listing,
    ) -> Self {
        listed.sort();
        let stage = Stage::Entries;
        Self {
            file,
            seed,
            block_bytes,
            segment_bytes,
            records_end,
            listed,
            keys: 0,
            next: 0,
            stage,
            has_own_flush: false,
        }
    }

    /// For a log of so many keys, as far as they are counted.
    pub(super) fn of_keys(self, keys: u64) -> Self {
        Self { keys, ..self }
    }

    /// The footer is flushed before the trailer is written. A segment that was torn may have holes,
    /// which are no damage: a crash must not leave it with a trailer and without a footer.
    pub(super) fn with_own_flush(self) -> Self {
        Self { has_own_flush: true, ..self }
    }

    /// Whether it fits between the records and the trailer.
    pub(super) fn has_room(&self) -> bool {
        let blocks = footer_blocks(self.listed.len(), self.block_bytes) + 1;
        self.records_end + blocks * u64::from(self.block_bytes) <= self.segment_bytes
    }

    /// The next action; each when the one before is reported.
    pub(super) fn next(&mut self) -> Option<Action> {
        let blocks = footer_blocks(self.listed.len(), self.block_bytes);
        if self.stage == Stage::Entries && self.next < blocks {
            return Some(self.piece(blocks));
        }
        match self.stage {
            Stage::Entries if self.has_own_flush => {
                self.stage = Stage::Trailer;
                Some(Action::Flush { file: self.file })
            }
            Stage::Entries | Stage::Trailer => {
                self.stage = Stage::Flush;
                Some(self.trailer())
            }
            Stage::Flush => {
                self.stage = Stage::Done;
                Some(Action::Flush { file: self.file })
            }
            Stage::Done => None,
        }
    }

    fn piece(&mut self, blocks: u64) -> Action {
        let block_bytes = self.block_bytes as usize;
        let count = (blocks - self.next).min((PIECE_BYTES / block_bytes) as u64);
        let bytes = count as usize * block_bytes;
        let mut buffer = Buffer::new(bytes);
        let offset = self.records_end + self.next * u64::from(self.block_bytes);
        let per_block = entries_of_block(self.block_bytes);
        for (at, block) in (self.next..).zip(buffer.as_mut_slice().chunks_exact_mut(block_bytes)) {
            let entries = self.listed.take(per_block);
            let offset = self.records_end + at * u64::from(self.block_bytes);
            encode_footer_block(&entries, at, self.seed, offset, block);
        }
        self.next += count;
        Action::Write { file: self.file, offset, buffer: Arc::new(buffer), from: 0, bytes }
    }

    fn trailer(&self) -> Action {
        let bytes = self.block_bytes as usize;
        let offset = self.segment_bytes - u64::from(self.block_bytes);
        let trailer = Trailer {
            records_end: self.records_end,
            entries: self.listed.len() as u64,
            smallest_sequence: self.listed.smallest_sequence(),
            greatest_sequence: self.listed.greatest_sequence(),
            keys: self.keys,
        };
        let mut buffer = Buffer::new(bytes);
        trailer.encode(self.seed, offset, buffer.as_mut_slice());
        Action::Write { file: self.file, offset, buffer: Arc::new(buffer), from: 0, bytes }
    }
}

/// A segment whose footer is being written.
#[derive(Debug)]
pub(super) struct Sealing {
    tail: Tail,
    footer: Footer,
    chain: Chain,
}

impl Sealing {
    pub(super) fn tail(&self) -> &Tail {
        &self.tail
    }
}

impl<K: Keys> Engine<K> {
    /// Begins to seal the oldest segment that is full and flushed.
    pub(super) fn begin_sealing(&mut self) {
        if self.sealing.is_some() {
            return;
        }
        let is_ready = |tail: &Tail| tail.is_flushed() || tail.may_be_sealed_early();
        let Some(at) = self.closing.iter().position(is_ready) else { return };
        let mut tail = self.closing.remove(at);
        let shape = &self.manifest.shape;
        let empty = Listing::new(shape.block_bytes);
        let listed = std::mem::replace(&mut tail.listed, empty);
        let footer = Footer::new(
            tail.file,
            tail.seed,
            shape.block_bytes,
            shape.segment_bytes,
            tail.end(),
            listed,
        )
        .of_keys(self.index.entries());
        if let Some(segment) = self.segment_mut(tail.segment) {
            segment.smallest_value = footer.listed.smallest_value();
            segment.begun = footer.listed.begun();
        }
        self.sealing = Some(Sealing { tail, footer, chain: Chain::default() });
    }

    pub(super) fn poll_sealing(&mut self) -> Option<Plan> {
        let sealing = self.sealing.as_mut()?;
        if !sealing.chain.is_busy()
            && let Some(action) = sealing.footer.next()
        {
            sealing.chain.push(action);
        }
        let action = sealing.chain.next()?;
        let token = self.token(Job::Sealing);
        Some(Plan { token, action })
    }

    pub(super) fn report_sealing(&mut self, outcome: Outcome) {
        let Some(sealing) = self.sealing.as_mut() else { return };
        let role = match sealing.chain.report(outcome) {
            Progress::Finished if sealing.footer.stage == Stage::Done => Role::Sealed,
            Progress::More | Progress::Finished => return,
            // The records are flushed; a recovery reads them one by one.
            Progress::Broken(_) => Role::Unlisted,
        };
        let Some(sealing) = self.sealing.take() else { return };
        if !sealing.tail.is_for_copies {
            self.compaction.note_sealed();
        }
        let segment = sealing.tail.segment;
        self.retired.extend(sealing.tail.into_buffers());
        self.spare.keep(sealing.footer.listed);
        if let Some(segment) = self.segment_mut(segment) {
            segment.role = role;
            segment.may_be_freed = role == Role::Sealed;
        }
        if role != Role::Sealed {
            self.compaction.survey.forget_floor();
        }
        self.note_if_empty(segment);
        self.compaction.look_again();
    }
}
