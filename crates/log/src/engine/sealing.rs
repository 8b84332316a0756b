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
    plan::{Action, Outcome, Plan},
};

/// A segment whose footer is being written.
#[derive(Debug)]
pub(super) struct Sealing {
    tail: Tail,
    /// `None` while somebody encodes of it, without the engine.
    footer: Option<Footer>,
    /// How many records it lists.
    listed: usize,
    chain: Chain,
}

/// A footer of which the next blocks are to be encoded by whoever has it, while others have the
/// engine: that takes some 50 us.
#[derive(Debug)]
pub struct Encoding {
    footer: Footer,
    /// What is to be done behind that.
    action: Option<Action>,
}

impl Encoding {
    /// Encodes as many blocks as are written at once.
    pub fn encode(&mut self) {
        self.action = self.footer.next();
    }
}

impl Sealing {
    pub(super) fn tail(&self) -> &Tail {
        &self.tail
    }

    /// How many records its footer lists.
    pub(super) fn listed(&self) -> usize {
        self.listed
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
        let listed = footer.listed.len();
        let footer = Some(footer);
        self.sealing = Some(Sealing { tail, footer, listed, chain: Chain::default() });
    }

    /// Goes on with the footer that is being written, unless something of it is out. Says whether
    /// that was enough for one turn.
    pub(super) fn encode_footer(&mut self) -> bool {
        let sealing = self.sealing.as_mut().filter(|sealing| !sealing.chain.is_busy());
        let Some(sealing) = sealing else { return false };
        match sealing.footer.as_mut().and_then(Footer::step) {
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

    /// The footer that is being written, if something of it is to be encoded. It has to come back
    /// by [`Engine::give_back`].
    pub fn take_footer(&mut self) -> Option<Encoding> {
        self.begin_sealing();
        let sealing = self.sealing.as_mut().filter(|sealing| !sealing.chain.is_busy())?;
        let footer = sealing.footer.take()?;
        // Whoever has it takes no turn of a move meanwhile.
        self.compaction.leave_turns();
        Some(Encoding { footer, action: None })
    }

    /// Takes a footer back of which something was encoded. What is to be done with that.
    pub fn give_back(&mut self, Encoding { footer, action }: Encoding) -> Option<Plan> {
        let sealing = self.sealing.as_mut().expect("invariant: a footer stays until it is written");
        sealing.footer = Some(footer);
        action.into_iter().for_each(|action| sealing.chain.push(action));
        let plan = self.poll_sealing();
        self.go_with(plan)
    }

    /// Whether a footer is being written, or a segment waits for its own.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn is_sealing(&self) -> bool {
        self.sealing.is_some() || !self.closing.is_empty()
    }

    /// Whether something of it can be encoded, and nobody is about to.
    pub(super) fn may_encode(&self) -> bool {
        let is_waiting = self.sealing.as_ref().is_some_and(|sealing| {
            let is_here = sealing.footer.is_some() || base::mutant!("log_lent_footer_is_encoded");
            is_here && !sealing.chain.is_busy()
        });
        is_waiting && !self.compaction.is_in_turns()
    }

    /// The next action of the footer that is written.
    pub(super) fn poll_sealing(&mut self) -> Option<Plan> {
        let action = self.sealing.as_mut()?.chain.next()?;
        let token = self.token(Job::Sealing);
        Some(Plan { token, action })
    }

    pub(super) fn report_sealing(&mut self, outcome: Outcome) {
        let Some(sealing) = self.sealing.as_mut() else { return };
        let role = match sealing.chain.report(outcome) {
            Progress::Finished if sealing.footer.as_ref().is_some_and(Footer::is_done) => {
                Role::Sealed
            }
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
        let footer = sealing.footer.expect("invariant: nobody has it while something of it is out");
        self.spare.buffer = footer.buffer;
        self.spare.keep(footer.listed);
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
