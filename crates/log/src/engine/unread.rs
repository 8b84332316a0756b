//! Heads of large values that could not be read when the log was opened.
//!
//! The parts of such a value may lie in any segment that there was then, so none of those is freed.
//! When the key of the last one is written anew or removed, its parts are dead, wherever they are.

use std::collections::BTreeSet;

use super::{Engine, space::Role};
use crate::{keys::Keys, plan::SegmentId, position::Position};

/// Heads that could not be read, and what is kept because of them.
#[derive(Debug, Default)]
pub(super) struct Unread {
    heads: BTreeSet<Position>,
    kept: BTreeSet<SegmentId>,
}

impl<K: Keys> Engine<K> {
    /// The head at `position` cannot be read.
    pub(super) fn keep_parts_of(&mut self, position: Position) {
        let has_kept = !self.unread.heads.is_empty();
        self.unread.heads.insert(position);
        if has_kept {
            return;
        }
        self.compaction.survey.forget_floor();
        for (id, segment) in (0..).map(SegmentId).zip(&mut self.segments) {
            let Some(segment) = segment else { continue };
            if segment.role != Role::Free && segment.may_be_freed {
                segment.may_be_freed = false;
                self.unread.kept.insert(id);
            }
        }
    }

    /// The record at `position` is not the newest of its key any more.
    pub(super) fn forget_unread(&mut self, position: Position) {
        if self.unread.heads.remove(&position) && self.unread.heads.is_empty() {
            self.forget_all_unread();
        }
    }

    /// None of them is the newest record of its key any more.
    pub(super) fn forget_all_unread(&mut self) {
        self.unread.heads.clear();
        for id in std::mem::take(&mut self.unread.kept) {
            if let Some(segment) = self.segment_mut(id) {
                segment.may_be_freed = true;
            }
            self.note_if_empty(id);
        }
        self.compaction.look_again();
    }
}
