//! The files of empty segments: those that are too many are removed, and their numbers used again.
//!
//! Invariant: a number is used again only when the end of the file that had it is durable.

use std::collections::{BTreeMap, BTreeSet};

use super::{Engine, chain::Chain, preparing::Preparing};
use crate::{
    keys::Keys,
    plan::{Action, DirectoryId, File, FileName, SegmentId},
};

/// Empty segments that are kept beyond the reserve and those that are made ahead; the files of more
/// are removed. Without one that is neither, each segment that is freed would have a file removed
/// for which another one is made when the next is taken.
const FREE_MAX: usize = 1;

/// Files that are removed after one manifest without their rows: of a large log that has some MB.
/// Nothing else is done to segments meanwhile. When as many of a directory cannot be removed, no
/// more rows go of which the files are there.
const REMOVED_MAX: usize = if cfg!(test) { 4 } else { 64 };

/// Milliseconds before a segment's file is tried to be removed again; twice as many after each
/// attempt that has removed nothing, which a device may take half a minute to say.
const REMOVE_RETRY_MS: u64 = 1000;
const REMOVE_RETRY_MS_MAX: u64 = 64 * REMOVE_RETRY_MS;

/// The file of a segment that has no row any more.
pub(super) type Rowless = (SegmentId, DirectoryId);

/// Numbers, and files that are still to be removed.
#[derive(Debug, Default)]
pub(super) struct Removing {
    /// Numbers below the last that are free again.
    pub(super) numbers: BTreeSet<SegmentId>,
    /// Numbers that files have which are in the way: somebody else's, and those that an open could
    /// not remove.
    foreign: BTreeSet<SegmentId>,
    /// Files that could not be removed yet, or of which that could not be made durable. The first
    /// one is the next to be tried.
    unremoved: Vec<Rowless>,
    /// No file is removed before this time: the last attempt failed.
    remove_at_ms: u64,
    /// How long it was put off; 0 when it has not failed.
    retry_ms: u64,
    /// Segments that could neither be made nor cleared away since one could.
    uncleared: u32,
}

/// What an open has left of the files that have no row.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Numbers of somebody else's.
    pub(super) foreign: BTreeSet<SegmentId>,
    /// The log's own: they could not be removed.
    pub(super) unremoved: Vec<Rowless>,
}

impl<K: Keys> Engine<K> {
    /// The numbers that may be used: not those of rows, and of files that are in the way.
    pub(super) fn note_numbers(&mut self, rows: &BTreeSet<SegmentId>, left: Left) {
        let Left { mut foreign, unremoved } = left;
        foreign.extend(unremoved.iter().map(|(id, _)| *id));
        let numbers = (0..self.next_segment).map(SegmentId);
        self.removing.numbers =
            numbers.filter(|id| !rows.contains(id) && !foreign.contains(id)).collect();
        self.removing.foreign = foreign;
        self.removing.unremoved = unremoved;
        if !self.removing.unremoved.is_empty() {
            self.put_off_removal(false);
        }
        self.pass_foreign();
    }

    /// Files without a row that could not be removed.
    pub(super) fn unremoved(&self) -> usize {
        self.removing.unremoved.len()
    }

    /// Whether files are to be removed now.
    pub(super) fn wants_removal(&self) -> bool {
        let is_due = self.now_ms >= self.removing.remove_at_ms && self.preparing.is_none();
        let is_wanted = self.too_many_free() > 0 || !self.removing.unremoved.is_empty();
        is_wanted && is_due && !self.is_read_only()
    }

    /// How many files of the directory are still to be removed.
    fn unremoved_of(&self, directory: DirectoryId) -> usize {
        self.removing.unremoved.iter().filter(|(_, of)| *of == directory).count()
    }

    /// Empty segments of which the files are to be removed now, the last ones, in order.
    fn removable(&self) -> Vec<SegmentId> {
        let mut last = self.free.clone();
        last.sort_unstable();
        let mut room = BTreeMap::new();
        let mut removable = Vec::new();
        for id in last.into_iter().rev() {
            if removable.len() == self.too_many_free().min(REMOVED_MAX) {
                break;
            }
            let Some(directory) = self.segment(id).map(|segment| segment.directory) else {
                continue;
            };
            let room = room.entry(directory).or_insert_with(|| {
                let is_bound = !base::mutant!("log_unremoved_unbounded");
                REMOVED_MAX.saturating_sub(if is_bound { self.unremoved_of(directory) } else { 0 })
            });
            if *room > 0 {
                *room -= 1;
                removable.push(id);
            }
        }
        removable.reverse();
        removable
    }

    fn too_many_free(&self) -> usize {
        self.free.len().saturating_sub(self.wanted_free() + FREE_MAX)
    }

    /// Begins to remove the files of empty segments, the last ones: their rows first, so that the
    /// manifest has none that is not there. Says whether there are too many.
    pub(super) fn begin_removal(&mut self) -> bool {
        if !self.wants_removal() {
            return false;
        }
        let last = self.removable();
        if last.is_empty() {
            self.end_removal(&[]);
            return true;
        }
        self.free.retain(|id| last.binary_search(id).is_err());
        let mut manifest = self.manifest.clone();
        manifest.rows.retain(|row| last.binary_search(&row.segment).is_err());
        let mut chain = Chain::default();
        chain.push_manifest(&manifest.encode());
        self.chain = chain;
        self.preparing = Some(Preparing::Dropping(last));
        true
    }

    /// The manifest without the rows is durable: the files are removed, and those that could not be
    /// before. The numbers are in order.
    pub(super) fn end_removal(&mut self, ids: &[SegmentId]) {
        self.manifest.rows.retain(|row| ids.binary_search(&row.segment).is_err());
        let mut files = Vec::new();
        for id in ids {
            let segment = self.segments.get_mut(id.0 as usize).and_then(Option::take);
            files.extend(segment.map(|segment| (*id, segment.directory)));
        }
        // One that says whether the others are worth it, behind those that have not failed.
        let again = if self.removing.retry_ms == 0 { REMOVED_MAX } else { 1 };
        let again = again.min(self.removing.unremoved.len());
        files.extend(self.removing.unremoved.drain(..again));
        for file in &files {
            self.chain.push_passed_over(Action::Remove { file: file_of(*file) });
        }
        let directories: BTreeSet<_> = files.iter().map(|(_, directory)| *directory).collect();
        // Only then may other segments have their numbers.
        for directory in directories {
            self.chain.push_passed_over(Action::FlushDirectory { directory });
        }
        if base::mutant!("log_number_before_flush") {
            self.removing.numbers.extend(ids);
        }
        self.preparing = self.chain.is_busy().then_some(Preparing::Removing(files));
    }

    /// The files are gone, but for those that could not be removed, or of which a crash may bring
    /// back what was: their numbers are not used yet.
    pub(super) fn note_removed(&mut self, files: Vec<Rowless>) {
        let failed = self.chain.take_failed();
        let place = |file| failed.iter().position(|it| *it == file);
        let flush_of = |directory| place(File { directory, name: FileName::Manifest });
        let is_unflushed = |directory| {
            flush_of(directory).is_some() && !base::mutant!("log_number_before_good_flush")
        };
        let is_left =
            |(id, of): &Rowless| place(file_of((*id, *of))).is_some() || is_unflushed(*of);
        let (mut left, gone): (Vec<_>, Vec<_>) = files.into_iter().partition(is_left);
        for (id, _) in &gone {
            self.counts.files_removed += 1;
            self.removing.foreign.remove(id);
            if id.0 < self.next_segment {
                self.removing.numbers.insert(*id);
            }
        }
        // What was tried last is tried last again.
        left.sort_by_key(|file| place(file_of(*file)));
        let has_failed = !left.is_empty();
        self.removing.unremoved.extend(left);
        if has_failed {
            return self.put_off_removal(!gone.is_empty());
        }
        self.removing.retry_ms = 0;
        // There is room where they were. What is left of the next segment may be removed as well.
        if !gone.is_empty() && !base::mutant!("log_removal_makes_no_room") {
            self.removing.uncleared = 0;
            self.attempts.hasten();
        }
    }

    /// The manifest could not be written; the segments are as they were.
    pub(super) fn keep_segments(&mut self, ids: Vec<SegmentId>) {
        self.removing.remove_at_ms = self.now_ms + REMOVE_RETRY_MS;
        ids.into_iter().for_each(|id| self.add_free(id));
    }

    /// A file could not be removed; whether others were.
    pub(super) fn put_off_removal(&mut self, has_removed: bool) {
        let is_first = has_removed || self.removing.retry_ms == 0;
        let next_ms = (2 * self.removing.retry_ms).min(REMOVE_RETRY_MS_MAX);
        self.removing.retry_ms = if is_first { REMOVE_RETRY_MS } else { next_ms };
        self.removing.remove_at_ms = self.now_ms + self.removing.retry_ms;
    }

    /// A segment could not be made, nor what there is of it removed. Its number is not used before
    /// that is gone; where that is too much to remember, not before the next open.
    pub(super) fn note_uncleared(&mut self, file: Rowless) {
        self.use_number(file.0);
        if self.unremoved_of(file.1) < REMOVED_MAX && !base::mutant!("log_uncleared_forgotten") {
            self.removing.unremoved.push(file);
            self.put_off_removal(false);
        }
        self.removing.uncleared += 1;
        if !base::mutant!("log_uncleared_in_haste") {
            self.attempts.put_off(self.removing.uncleared);
        }
    }

    /// How many could not be removed since a segment was made.
    pub(super) fn uncleared(&self) -> u32 {
        self.removing.uncleared
    }

    /// A segment was made.
    pub(super) fn note_made(&mut self) {
        self.removing.uncleared = 0;
    }

    /// The number of the next segment that is made: one that was used before, if there is one.
    pub(super) fn next_number(&self) -> SegmentId {
        self.removing.numbers.first().copied().unwrap_or(SegmentId(self.next_segment))
    }

    /// The number is used, or something is in the way of it.
    pub(super) fn use_number(&mut self, id: SegmentId) {
        self.removing.numbers.remove(&id);
        self.next_segment = self.next_segment.max(id.0 + 1);
        self.pass_foreign();
    }

    /// In another directory a file of the number could be made beside somebody else's, or what an
    /// open could not remove: two of one number are no log.
    fn pass_foreign(&mut self) {
        let foreign = &self.removing.foreign;
        while foreign.contains(&SegmentId(self.next_segment)) && !base::mutant!("log_foreign_met") {
            self.next_segment += 1;
        }
    }

    /// How many segments there may be yet.
    pub(super) fn segments_left(&self) -> usize {
        self.segments_max().saturating_sub(self.next_segment as usize) + self.removing.numbers.len()
    }
}

fn file_of((id, directory): Rowless) -> File {
    File { directory, name: FileName::Segment(id) }
}
