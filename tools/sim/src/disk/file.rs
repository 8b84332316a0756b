//! One file: what reads see, what a flush has made certain, and what lies between.
//!
//! Invariants:
//! 1. `seen` differs from `certain` only in sectors of `pending` and of `stale`, and in length.
//! 2. What is in `certain` up to its length no crash changes.
//! 3. Each pending write is whole sectors, so that a crash may decide sector by sector.

use std::{collections::BTreeSet, sync::Arc};

use base::random::Random;

use super::SECTOR_BYTES;
use crate::fault::{Counts, Kind};

/// How many writes a file has seen: a flush that began then covers these and no later ones.
pub type Moment = u64;

/// Sectors written one after the other, not flushed.
#[derive(Clone, Debug)]
struct Pending {
    number: Moment,
    first: usize,
    bytes: Vec<u8>,
}

impl Pending {
    fn sectors(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.bytes.len().div_ceil(SECTOR_BYTES)
    }
}

/// A file's content at all its stages.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    /// Shared with copies of the file, and with `certain` when that is the same.
    seen: Arc<Vec<u8>>,
    certain: Arc<Vec<u8>>,
    pending: Vec<Pending>,
    writes: Moment,
    /// Lengths that the file had since its last flush, in their order.
    lengths: Vec<usize>,
    /// Sectors that only a cache still has: a failed flush dropped them and marked them clean.
    stale: BTreeSet<usize>,
    /// Sectors that cannot be read, until they are written.
    bad: BTreeSet<usize>,
}

/// The bytes of a sector within a file of `len` bytes.
fn span(sector: usize, len: usize) -> std::ops::Range<usize> {
    let from = (sector * SECTOR_BYTES).min(len);
    from..(from + SECTOR_BYTES).min(len)
}

impl File {
    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    pub(super) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// Whether a flush would have something to do.
    pub(super) fn is_dirty(&self) -> bool {
        !self.pending.is_empty() || !self.lengths.is_empty()
    }

    pub(super) fn set_len(&mut self, len: usize) {
        if len == self.seen.len() {
            return;
        }
        if len < self.seen.len() {
            for write in &mut self.pending {
                write.bytes.truncate(len.saturating_sub(write.first * SECTOR_BYTES));
            }
            let sectors = len.div_ceil(SECTOR_BYTES);
            self.stale.retain(|sector| *sector < sectors);
            self.bad.retain(|sector| *sector < sectors);
        }
        Arc::make_mut(&mut self.seen).resize(len, 0);
        self.lengths.push(len);
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if end > self.seen.len() {
            self.set_len(end);
        }
        Arc::make_mut(&mut self.seen)[offset..end].copy_from_slice(bytes);
        self.pend(offset / SECTOR_BYTES, end.div_ceil(SECTOR_BYTES));
    }

    /// Takes the sectors `first..end` as they are seen now for written.
    fn pend(&mut self, first: usize, end: usize) {
        let from = (first * SECTOR_BYTES).min(self.seen.len());
        let to = (end * SECTOR_BYTES).min(self.seen.len());
        if from == to {
            return;
        }
        let bytes = self.seen[from..to].to_vec();
        self.pending.push(Pending { number: self.writes, first, bytes });
        self.writes += 1;
        if !self.stale.is_empty() {
            self.stale.retain(|sector| !(first..end).contains(sector));
        }
        if !self.bad.is_empty() {
            self.bad.retain(|sector| !(first..end).contains(sector));
        }
    }

    /// Whether a sector of the range cannot be read.
    pub(super) fn is_bad(&self, offset: usize, len: usize) -> bool {
        let sectors = offset / SECTOR_BYTES..(offset + len).div_ceil(SECTOR_BYTES);
        self.bad.range(sectors).next().is_some()
    }

    pub(super) fn make_bad(&mut self, sector: usize) {
        self.bad.insert(sector);
    }

    /// Changes a bit wherever it is stored.
    pub(super) fn flip(&mut self, offset: usize, bit: u32) {
        let mask = 1_u8 << bit;
        if let Some(byte) = Arc::make_mut(&mut self.certain).get_mut(offset) {
            *byte ^= mask;
        }
        let sector = offset / SECTOR_BYTES;
        if !self.stale.contains(&sector) {
            Arc::make_mut(&mut self.seen)[offset] ^= mask;
        }
        for write in &mut self.pending {
            let at = offset.checked_sub(write.first * SECTOR_BYTES);
            if let Some(byte) = at.and_then(|at| write.bytes.get_mut(at)) {
                *byte ^= mask;
            }
        }
    }

    /// The moment at which a flush begins that begins now.
    pub(super) fn moment(&self) -> Moment {
        self.writes
    }

    /// What was written before `since` is certain from now on, but for what earlier failures have
    /// dropped.
    pub(super) fn flush(&mut self, since: Moment) {
        self.apply_lengths();
        for write in self.take_pending(since) {
            let from = (write.first * SECTOR_BYTES).min(self.certain.len());
            let to = (from + write.bytes.len()).min(self.certain.len());
            let certain = Arc::make_mut(&mut self.certain);
            certain[from..to].copy_from_slice(&write.bytes[..to - from]);
        }
    }

    fn take_pending(&mut self, since: Moment) -> Vec<Pending> {
        let later = self.pending.partition_point(|write| write.number < since);
        let later = self.pending.split_off(later);
        std::mem::replace(&mut self.pending, later)
    }

    /// In their order: what lay beyond the shortest of them is gone.
    fn apply_lengths(&mut self) {
        for len in self.lengths.drain(..) {
            Arc::make_mut(&mut self.certain).resize(len, 0);
        }
    }

    /// Writes some of it and forgets the rest, and will report no more of that: what Linux does.
    pub(super) fn fail_flush(&mut self, since: Moment, random: &mut Random, counts: &mut Counts) {
        self.apply_lengths();
        let covered: BTreeSet<usize> =
            self.take_pending(since).iter().flat_map(Pending::sectors).collect();
        let later: BTreeSet<usize> = self.pending.iter().flat_map(Pending::sectors).collect();
        for sector in covered.difference(&later).copied() {
            let span = span(sector, self.seen.len());
            match random.below(3) {
                0 => copy(&mut self.certain, &self.seen, span),
                1 => {
                    copy(&mut self.seen, &self.certain, span);
                    counts.add(Kind::PageDropped);
                }
                _ => {
                    self.stale.insert(sector);
                    counts.add(Kind::PageStale);
                }
            }
        }
    }

    /// Forgets what only a cache still has.
    pub(super) fn evict(&mut self) {
        for sector in std::mem::take(&mut self.stale) {
            let span = span(sector, self.certain.len());
            copy(&mut self.seen, &self.certain, span);
        }
    }

    /// Keeps, loses or tears what was not flushed. `survives` is how many of 256 sectors are kept.
    pub(super) fn crash(&mut self, survives: u32, random: &mut Random, counts: &mut Counts) {
        for len in std::mem::take(&mut self.lengths) {
            let kept = random.below(256) < survives;
            counts.add(if kept { Kind::LengthKept } else { Kind::LengthLost });
            if kept {
                Arc::make_mut(&mut self.certain).resize(len, 0);
            }
        }
        let (mut has_lost, mut is_out_of_order) = (false, false);
        for write in std::mem::take(&mut self.pending) {
            let lost_before = has_lost;
            let certain = Arc::make_mut(&mut self.certain);
            for (sector, new) in (write.first..).zip(write.bytes.chunks(SECTOR_BYTES)) {
                let span = span(sector, certain.len());
                let old = &mut certain[span];
                let len = old.len().min(new.len());
                let draw = random.below(256 * TORN_ONE_IN);
                if len == 0 {
                    counts.add(Kind::SectorLost);
                    has_lost = true;
                } else if draw < 256 {
                    tear(&mut old[..len], &new[..len], random);
                    counts.add(Kind::SectorTorn);
                } else if draw % 256 < survives {
                    old[..len].copy_from_slice(&new[..len]);
                    counts.add(Kind::SectorKept);
                    is_out_of_order |= lost_before;
                } else {
                    counts.add(Kind::SectorLost);
                    has_lost = true;
                }
            }
        }
        if is_out_of_order {
            counts.add(Kind::OrderLost);
        }
        self.stale.clear();
        self.seen = Arc::clone(&self.certain);
    }
}

fn copy(to: &mut Arc<Vec<u8>>, from: &[u8], span: std::ops::Range<usize>) {
    Arc::make_mut(to)[span.clone()].copy_from_slice(&from[span]);
}

/// One in this many unflushed sectors is torn at a crash.
const TORN_ONE_IN: u32 = 8;

/// Mixes new bytes into a sector: its beginning, its end, or pieces of 64 bytes.
fn tear(old: &mut [u8], new: &[u8], random: &mut Random) {
    let len = u32::try_from(old.len()).unwrap_or(u32::MAX);
    let at = random.below(len.max(1)) as usize;
    match random.below(3) {
        0 => old[..at].copy_from_slice(&new[..at]),
        1 => old[at..].copy_from_slice(&new[at..]),
        _ => {
            for (old, new) in old.chunks_mut(64).zip(new.chunks(64)) {
                if random.below(2) == 0 {
                    old.copy_from_slice(new);
                }
            }
        }
    }
}
