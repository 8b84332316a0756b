//! Making all that is stored dead at once.
//!
//! The manifest says below which sequence every record is dead. When it is durable an empty index
//! takes the place of the index; what was led to by that is freed like anything that was
//! overwritten.
//!
//! Invariants:
//! 1. Until the manifest is durable nothing has happened: a failure, or a crash, leaves all.
//! 2. From the moment at which the sequence is chosen until the index is empty no record gets one:
//!    neither what is put or removed, nor a copy, nor what is written again after a failed flush.
//!    It would be alive in a recovery, and in no index. The number of a large value that begins to
//!    arrive is none of a record that decides: its head gets one of its own.
//! 3. What is put or removed waits from the moment at which a wipe is asked for, though it cannot
//!    be begun while something else is prepared: it would be answered, and be dead.
//! 4. When nobody knows whether the manifest is durable, the second holds until the next open.

use std::collections::BTreeMap;

use super::{Engine, Settled, chain::Chain, preparing::Preparing};
use crate::{
    error::Error,
    keys::Keys,
    plan::SegmentId,
    position::{Position, SizeClass},
};

/// A wipe that was asked for: how many had been done, and how many had failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wipe {
    done: u64,
    failed: u64,
}

/// By the place of a large value's head: where its parts lie.
type Larges = BTreeMap<Position, Vec<(Position, SizeClass)>>;

/// Wipes, and how far the one is that is under way.
#[derive(Debug)]
pub(super) struct Wiping<K> {
    /// One is asked for, and not begun.
    is_asked: bool,
    /// What takes the place of the index when the manifest is durable.
    empty: Option<K>,
    /// The index that was before, and the large values that it led to.
    dead: Option<(K, Larges)>,
    done: u64,
    failed: u64,
    /// Why the last one has failed that did.
    error: Option<Error>,
}

impl<K> Default for Wiping<K> {
    fn default() -> Self {
        Self { is_asked: false, empty: None, dead: None, done: 0, failed: 0, error: None }
    }
}

impl<K: Keys> Engine<K> {
    /// Has everything be dead that was stored before. One that is under way serves whoever asks
    /// meanwhile: nothing is stored from now on until it is done.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn wipe(&mut self) -> Result<Wipe, Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.wiping.is_asked |= !self.is_wiping();
        Ok(Wipe { done: self.wiping.done, failed: self.wiping.failed })
    }

    /// Whether everything is dead that was stored before a wipe was asked for, also after a crash.
    ///
    /// # Errors
    /// When the manifest could not be written. All is there then, but after
    /// [`Error::WipeUnsure`] the next open may find that it is not.
    pub fn wiped(&self, wipe: Wipe) -> Result<Settled, Error> {
        let wiping = &self.wiping;
        if wiping.done > wipe.done {
            return Ok(Settled::Done);
        }
        if wiping.failed > wipe.failed {
            return Err(wiping.error.clone().unwrap_or(Error::ReadOnly));
        }
        if self.is_read_only() && !self.is_wiping() {
            return Err(Error::ReadOnly);
        }
        Ok(Settled::Pending)
    }

    /// Whether nothing was given a sequence since everything was made dead: a wipe would change
    /// nothing.
    pub fn is_wiped(&self) -> bool {
        let dead_below = self.manifest.dead_below;
        let is_unseen = base::mutant!("log_stored_behind_wipe_unseen") && dead_below != 0;
        (dead_below == self.next_sequence || is_unseen) && !self.is_wiping_soon()
    }

    /// How often everything was made dead.
    pub fn wipes(&self) -> u64 {
        self.wiping.done
    }

    /// What the last wipe has left in memory: nobody needs it, and to drop it takes long, so
    /// whoever has a lock around the engine does that without.
    pub fn take_wiped(&mut self) -> Option<impl Sized + use<K>> {
        self.wiping.dead.take()
    }

    /// Whether the sequence is chosen below which everything will be dead.
    #[inline]
    pub(super) fn is_wiping(&self) -> bool {
        self.wiping.empty.is_some()
    }

    /// The same, or one is asked for and will be begun.
    #[inline]
    pub(super) fn is_wiping_soon(&self) -> bool {
        let is_asked = self.wiping.is_asked && !base::mutant!("log_put_before_wipe");
        self.is_wiping() || is_asked && !self.is_read_only()
    }

    /// Whether nobody knows if the manifest is there that makes everything dead: what got a
    /// sequence now would be there alone when the log is opened anew.
    pub(super) fn is_wipe_unsure(&self) -> bool {
        let is_unsure = matches!(self.wiping.error, Some(Error::WipeUnsure(_)));
        is_unsure && !base::mutant!("log_rewritten_behind_unsure_wipe")
    }

    pub(super) fn wants_wipe(&self) -> bool {
        self.wiping.is_asked && self.preparing.is_none() && !self.is_read_only()
    }

    pub(super) fn begin_wipe(&mut self) {
        self.wiping.is_asked = false;
        self.wiping.empty = Some(self.index.emptied());
        let mut manifest = self.manifest.clone();
        manifest.dead_below = self.next_sequence;
        let mut chain = Chain::default();
        chain.push_manifest(&manifest.encode());
        self.chain = chain;
        self.preparing = Some(Preparing::Wiping(manifest.dead_below));
        if base::mutant!("log_wiped_before_manifest") {
            self.end_wipe(self.next_sequence);
        }
    }

    /// The manifest is durable.
    pub(super) fn end_wipe(&mut self, dead_below: u64) {
        let Some(empty) = self.wiping.empty.take() else { return };
        self.manifest.dead_below = dead_below;
        self.cancel_moves();
        if !base::mutant!("log_index_outlives_wipe") {
            let index = std::mem::replace(&mut self.index, empty);
            let outlive = base::mutant!("log_larges_outlive_wipe");
            let larges = if outlive { Larges::new() } else { std::mem::take(&mut self.larges) };
            self.wiping.dead = Some((index, larges));
        }
        if !base::mutant!("log_unread_outlive_wipe") {
            self.forget_all_unread();
        }
        for segment in self.segments.iter_mut().flatten() {
            self.compaction.note_dead(segment.live_bytes);
            if !base::mutant!("log_wiped_count_as_live") {
                (segment.live_bytes, segment.tombstone_bytes) = (0, 0);
            }
        }
        if !base::mutant!("log_wiped_not_freed") {
            let segments = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
            (0..segments).map(SegmentId).for_each(|id| self.note_if_empty(id));
        }
        self.compaction.look_again();
        self.wiping.done += 1;
    }

    /// The manifest could not be written.
    pub(super) fn fail_wipe(&mut self, error: Error) {
        self.wiping.empty = None;
        self.wiping.failed += 1;
        let is_unsure = self.is_manifest_unsure && !base::mutant!("log_unsure_wipe_denied");
        self.wiping.error =
            Some(if is_unsure { Error::WipeUnsure(Box::new(error)) } else { error });
        self.compaction.look_again();
    }
}
