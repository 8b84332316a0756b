//! Segments that are full get their footers.
//!
//! A footer is written only when every record that it lists is flushed, and has a flush of its own:
//! a device may keep a footer and lose records that were on their way with it.

use super::{
    Engine, Job,
    chain::{Chain, Progress},
    footer::{Footer, Step},
    listing::Listing,
    space::Role,
    tail::Tail,
};
use crate::{
    keys::Keys,
    plan::{Outcome, Plan},
};

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

    /// How many records its footer lists.
    pub(super) fn listed(&self) -> usize {
        self.footer.listed.len()
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
        .of_keys(self.index.entries())
        .with_buffer(self.spare.buffer.take());
        if let Some(segment) = self.segment_mut(tail.segment) {
            segment.smallest_value = footer.listed.smallest_value();
            segment.begun = footer.listed.begun();
        }
        self.sealing = Some(Sealing { tail, footer, chain: Chain::default() });
    }

    /// Goes on with the footer that is being written, unless something of it is out. Says whether
    /// that was enough for one turn.
    pub(super) fn encode_footer(&mut self) -> bool {
        let sealing = self.sealing.as_mut().filter(|sealing| !sealing.chain.is_busy());
        let Some(sealing) = sealing else { return false };
        match sealing.footer.step() {
            Some(Step::Turn) => {
                self.compaction.end_turn();
                true
            }
            Some(Step::Action(action)) => {
                sealing.chain.push(action);
                false
            }
            None => false,
        }
    }

    /// Whether a footer is being written, or a segment waits for its own.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn is_sealing(&self) -> bool {
        self.sealing.is_some() || !self.closing.is_empty()
    }

    /// Whether something of it can be encoded, and nobody is about to.
    pub(super) fn may_encode(&self) -> bool {
        let is_waiting = self.sealing.as_ref().is_some_and(|sealing| !sealing.chain.is_busy());
        is_waiting && !self.compaction.is_in_turns()
    }

    /// The next action of that.
    pub(super) fn poll_sealing(&mut self) -> Option<Plan> {
        let action = self.sealing.as_mut()?.chain.next()?;
        let token = self.token(Job::Sealing);
        Some(Plan { token, action })
    }

    pub(super) fn report_sealing(&mut self, outcome: Outcome) {
        let Some(sealing) = self.sealing.as_mut() else { return };
        let role = match sealing.chain.report(outcome) {
            Progress::Finished if sealing.footer.is_done() => Role::Sealed,
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
        self.spare.buffer = sealing.footer.buffer;
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
