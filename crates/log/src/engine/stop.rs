//! Stopping in order: everything flushed, every segment sealed.

use super::{Engine, FAILURES_MAX, Mode, chain::Chain, space::Role};
use crate::{
    error::Error,
    format::manifest::{CleanState, Manifest},
    keys::Keys,
    plan::Disk,
};

impl<K: Keys> Engine<K> {
    /// Flushes everything and seals the open segment. Nothing may be out.
    ///
    /// # Errors
    /// When not everything that was taken is durable, or the index could not be saved; the next
    /// open reads the footers then.
    ///
    /// # Panics
    /// When actions are out.
    pub fn close(&mut self, disk: &mut dyn Disk, now_ms: u64) -> Result<(), Error> {
        assert!(self.jobs.is_empty(), "a log is stopped when nothing is out");
        self.settings.mode = Mode::Safe;
        self.is_stopping = true;
        self.cancel_moves();
        loop {
            while let Some(plan) = self.poll(now_ms) {
                let outcome = disk.perform(plan.action);
                self.complete(plan.token, outcome);
            }
            let has_copies = self.copies.tail.as_ref().is_some_and(|it| !it.listed.is_empty());
            if has_copies && self.close_copies() {
                continue;
            }
            let is_used = self.open.as_ref().is_some_and(|tail| !tail.listed.is_empty());
            if !is_used || !self.close_tail() {
                break;
            }
        }
        if self.has_lost() || self.durable_below() < self.next_ticket {
            return Err(Error::Unflushed);
        }
        // Copies of what is durable, or records without a footer: the next open looks at all.
        let is_left = self.tails().any(|tail| !tail.listed.is_empty());
        if is_left || !self.stranded.is_empty() || self.failures > FAILURES_MAX {
            return Ok(());
        }
        self.save(disk)
    }

    /// Saves the index and where the parts of large values lie, and has the manifest say so. A ring
    /// of which something was dropped that the disk has is opened from its footers: nobody would
    /// know of it any more, and store its key anew without a tombstone. So is one that lacks a
    /// footer, which it gets then.
    fn save(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        if self.is_manifest_unsure || !self.may_save || self.is_dropping() || self.lacks_footer() {
            return Ok(());
        }
        if !self.index.save(&self.manifest, disk)? {
            return Ok(());
        }
        let large_values = self.save_parts(disk)?;
        let mut manifest = Manifest { large_values, ..self.manifest.clone() };
        manifest.clean_sequence = self.next_sequence;
        for row in &mut manifest.rows {
            let Some(segment) = self.segment(row.segment) else { continue };
            row.state = match segment.role {
                // One that was opened and not used.
                Role::Free | Role::Open => CleanState::Free,
                Role::Sealed => CleanState::Sealed,
                Role::Unlisted | Role::Freeing => CleanState::Failed,
            };
            row.generation = segment.generation;
            row.live_bytes = segment.live_bytes;
            row.smallest_value = segment.smallest_value;
            row.begun = segment.begun;
            row.all_bytes = segment.all_bytes;
            row.packed_bytes = segment.packed_bytes;
            row.tombstone_bytes = segment.tombstone_bytes;
            row.greatest_tombstone = segment.greatest_tombstone;
        }
        let mut chain = Chain::default();
        chain.push_manifest(&manifest.encode());
        chain.perform(disk)
    }
}
