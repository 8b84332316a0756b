//! What is behind the engine's lock: the log, the answers that wait for it, and the keys that do.
//!
//! The lock is held for as long as the engine needs to be asked or told something. Invariant: never
//! across I/O, nor across anything that waits.

use std::collections::VecDeque;

use log::{
    engine::{Engine, Mark, Mode, Seen, Settled, Wipe},
    format::KeyHash,
    keys::Keys,
    plan::{Outcome, Plan, Token},
};

use crate::{Answer, Answered, Error, unflushed::Unflushed};

/// What an answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Nothing,
    /// The flush of what was written.
    Write(Mark),
    /// The flush of what was seen, which is flushed, or not, with this mark.
    Seen(Mark),
    /// The flush of what was seen, whose own mark is this one or one before it.
    SeenBefore(Mark),
}

impl Wait {
    pub(crate) fn seen(mark: Option<Mark>) -> Self {
        mark.map_or(Self::Nothing, Self::Seen)
    }

    /// Whether it is one of who has changed nothing.
    pub(crate) fn is_of_seen(self) -> bool {
        matches!(self, Self::Seen(_) | Self::SeenBefore(_))
    }
}

/// An answer, and whose it is.
#[derive(Debug)]
pub(crate) struct Envelope<V> {
    pub(crate) worker: usize,
    /// Bytes that it holds.
    pub(crate) bytes: usize,
    /// Where it has waited in order.
    pub(crate) lock: Option<usize>,
    pub(crate) answered: Answered<V>,
}

#[derive(Debug)]
struct Held<V> {
    wait: Wait,
    /// The key of what was seen.
    seen: Option<KeyHash>,
    envelope: Envelope<V>,
}

/// What a look at the log has come to.
#[derive(Debug)]
pub(crate) struct Polled<V> {
    /// What it wants to be done.
    pub(crate) plan: Option<Plan>,
    /// There is no action, and more to do: it is to be asked again when others have had the lock.
    pub(crate) goes_on: bool,
    /// Whether records were moved for it, or something else was done that nobody reports.
    pub(crate) has_moved: bool,
    /// Whether keys that are stalled should be tried: something was written again, or time has
    /// passed.
    pub(crate) tries: bool,
    /// Answers that may be given.
    pub(crate) given: Vec<Envelope<V>>,
    /// Keys with a command whose parts are flushed, or lost.
    pub(crate) due: Vec<(usize, u64)>,
}

/// What nobody reports: how many records were written again, what is left to be, how many flushes
/// have failed, how many moves have ended.
type Changes = (u64, (usize, u32), u64);

/// The log, and who waits for it.
#[derive(Debug)]
pub(crate) struct Core<K, V> {
    pub(crate) engine: Engine<K>,
    /// Of a table that spills: records of the log below this sequence are dead, as the table was
    /// flushed.
    pub(crate) dead_below: u64,
    /// Flushes of the table that have begun and not ended. Meanwhile nothing is spilled.
    pub(crate) flushing: u32,
    /// Of a durable table: who waits for a flush.
    wiped: Vec<(Wipe, Envelope<V>)>,
    /// Flushes of which memory knows.
    wipes: u64,
    /// Workers that are about to tell memory. As long nobody is shown what the log has.
    telling: u32,
    held: Vec<Held<V>>,
    /// Keys whose commands wait for room or for a rewrite: their lock, and the number there. In the
    /// order in which they came.
    stalled: VecDeque<(usize, u64)>,
    /// Keys with a command that waits for the flush of parts: their lock, the number there, and
    /// the last part.
    parted: Vec<(usize, u64, Mark)>,
    /// A worker tries them, and has the list.
    is_trying: bool,
    /// They are to be tried once more: something may have come that they wait for, after they were
    /// found to wait for it.
    again: bool,
    /// Behind the greatest mark that was noted.
    taken: u64,
    /// What was durable when answers were looked through last.
    told: Mark,
    /// A flush has failed, and not all that it has left is flushed.
    has_failed: bool,
    /// When the keys that are stalled were tried last, and what had changed by then.
    tried: (u64, Changes),
}

impl<K: Keys, V> Core<K, V> {
    pub(crate) fn new(engine: Engine<K>) -> Self {
        let engine_wipes = engine.wipes();
        Self {
            told: engine.durable_to(),
            engine,
            dead_below: 0,
            flushing: 0,
            wiped: Vec::new(),
            wipes: engine_wipes,
            telling: 0,
            held: Vec::new(),
            stalled: VecDeque::new(),
            parted: Vec::new(),
            is_trying: false,
            again: false,
            taken: 0,
            has_failed: false,
            tried: (0, (0, (0, 0), 0)),
        }
    }

    /// A record of a key was taken, which memory does not have yet.
    pub(crate) fn note(&mut self, unflushed: &Unflushed, hash: u64, mark: Mark) {
        self.taken = self.taken.max(mark.number() + 1);
        unflushed.note(hash, mark, self.engine.mode() == Mode::Safe);
    }

    /// Hands an answer about a key back that may be given, and keeps one that may not yet.
    pub(crate) fn hold(
        &mut self,
        wait: Wait,
        key: &[u8],
        envelope: Envelope<V>,
    ) -> Option<Envelope<V>> {
        let seen = if wait.is_of_seen() { self.engine.hash(key).ok() } else { None };
        self.hold_on(Held { wait, seen, envelope })
    }

    fn hold_on(&mut self, held: Held<V>) -> Option<Envelope<V>> {
        match self.settled(&held) {
            Settled::Done => Some(held.envelope),
            Settled::Failed => Some(failed(held.envelope)),
            Settled::Pending => {
                self.held.push(held);
                None
            }
        }
    }

    fn settled(&self, held: &Held<V>) -> Settled {
        match held.wait {
            Wait::Nothing => Settled::Done,
            Wait::Write(mark) => self.engine.may_answer(mark),
            // Whatever a failure before it holds back, until that is mended.
            Wait::Seen(mark) if self.engine.durable(mark) == Settled::Done => Settled::Done,
            Wait::Seen(mark) | Wait::SeenBefore(mark) => self.settled_seen(mark, held.seen),
        }
    }

    /// Whether what was seen is durable. Its own mark is not above this one, which may be that of
    /// another record: of the same word, or the last of a chunk. So after a switch to async, when
    /// what safe has taken goes on being waited for, this mark may be one that nobody waits for.
    fn settled_seen(&self, mark: Mark, seen: Option<KeyHash>) -> Settled {
        let awaited = self.engine.answers_wait_below().number().checked_sub(1);
        let Some(mark) = awaited.map(|last| mark.min(Mark::of(last))) else {
            return Settled::Done;
        };
        if mark < self.engine.durable_to() {
            return Settled::Done;
        }
        let has_failed = self.engine.durable(mark) != Settled::Pending;
        if !has_failed || !self.engine.is_read_only() {
            return Settled::Pending;
        }
        // What holds the mark back, a flush that has failed, of its own or of one before it, is
        // never mended. But that may be about another record, or the one that was seen was written
        // again: the log knows what has become of its key, which is that or newer.
        let newest = seen.filter(|_| !base::mutant!("store_seen_by_its_mark"));
        match newest.map(|key| self.engine.seen(key)) {
            Some(Ok(Seen::Until(None))) => Settled::Done,
            Some(Ok(Seen::Until(Some(_)) | Seen::Stranded)) => Settled::Pending,
            Some(Err(_)) | None => Settled::Failed,
        }
    }

    /// Reports to the log. Says which answers may be given now.
    pub(crate) fn complete(
        &mut self,
        unflushed: &Unflushed,
        token: Token,
        outcome: Outcome,
    ) -> Vec<Envelope<V>> {
        let setbacks = self.engine.setbacks();
        self.engine.complete(token, outcome);
        self.has_failed |= self.engine.setbacks() != setbacks;
        self.settle(unflushed)
    }

    /// Somebody waits for a flush of a durable table.
    pub(crate) fn wait_for_wipe(&mut self, wipe: Wipe, envelope: Envelope<V>) {
        self.wiped.push((wipe, envelope));
    }

    /// Flushes that have failed.
    pub(crate) fn take_unwiped(&mut self) -> Vec<Envelope<V>> {
        let mut failed = Vec::new();
        if self.wiped.is_empty() {
            return failed;
        }
        for (wipe, mut envelope) in std::mem::take(&mut self.wiped) {
            match self.engine.wiped(wipe) {
                Ok(_) => self.wiped.push((wipe, envelope)),
                Err(error) => {
                    envelope.answered.answer = Answer::Failed(error.into());
                    failed.push(envelope);
                }
            }
        }
        failed
    }

    /// When the log has been emptied: whom to answer when memory knows. Whoever asks is to tell it,
    /// and then to say so by [`Core::end_telling`].
    pub(crate) fn begin_telling(&mut self) -> Option<Vec<Envelope<V>>> {
        if self.engine.wipes() == self.wipes {
            return None;
        }
        self.wipes = self.engine.wipes();
        self.telling += 1;
        let engine = &self.engine;
        let is_done = |it: &mut (Wipe, _)| engine.wiped(it.0) == Ok(Settled::Done);
        Some(self.wiped.extract_if(.., is_done).map(|(_, envelope)| envelope).collect())
    }

    /// Memory knows.
    pub(crate) fn end_telling(&mut self) {
        self.telling -= 1;
    }

    /// Whether the log has been emptied, and memory has not.
    pub(crate) fn is_ahead_of_memory(&self) -> bool {
        self.telling > 0 && !base::mutant!("store_flush_told_in_between")
    }

    /// Which answers may be given now.
    pub(crate) fn settle(&mut self, unflushed: &Unflushed) -> Vec<Envelope<V>> {
        let durable_to = self.engine.durable_to();
        let awaited = self.taken.min(self.engine.answers_wait_below().number());
        let waits = awaited > durable_to.number();
        unflushed.tell(durable_to, waits);
        if durable_to == self.told && !self.has_failed {
            return Vec::new();
        }
        self.told = durable_to;
        self.has_failed &= !self.engine.is_mended();
        let mut given = Vec::new();
        for held in std::mem::take(&mut self.held) {
            given.extend(self.hold_on(held));
        }
        given
    }

    /// After a change of the mode every answer is looked at.
    pub(crate) fn set_mode(&mut self, unflushed: &Unflushed, mode: Mode) -> Vec<Envelope<V>> {
        self.engine.set_mode(mode);
        self.told = Mark::of(u64::MAX);
        self.settle(unflushed)
    }

    /// The next action of the log, and what else is to be done. Without `may_move` no records are
    /// moved, and no footer is encoded, for it.
    pub(crate) fn poll(&mut self, unflushed: &Unflushed, now_ms: u64, may_move: bool) -> Polled<V> {
        self.engine.tell_wall_ms(now_ms);
        let before = self.engine.unreported();
        let engine = &mut self.engine;
        let plan = engine.poll_records(now_ms).or_else(|| match may_move {
            true => engine.poll_upkeep(now_ms),
            false => engine.poll_beside(now_ms),
        });
        let has_moved = engine.unreported() != before;
        let goes_on = may_move && plan.is_none() && has_moved;
        let is_due = self.again || self.tried != (now_ms, self.changes());
        let tries = is_due && !self.is_trying && !self.stalled.is_empty();
        // What is written again after a failure, or cannot be, nobody reports.
        let mut given = if self.has_failed { self.settle(unflushed) } else { Vec::new() };
        if !base::mutant!("store_unwiped_unheard") {
            given.append(&mut self.take_unwiped());
        }
        Polled { plan, goes_on, has_moved, tries, given, due: self.take_parted() }
    }

    /// The keys that are stalled are tried now, as time has passed.
    pub(crate) fn note_tried(&mut self, now_ms: u64) {
        self.tried.0 = now_ms;
    }

    /// The commands of a key begin to wait. What they wait for may have been reported since they
    /// were found to, so whoever polls next tries them.
    pub(crate) fn stall(&mut self, lock: usize, id: u64) {
        self.stalled.push_back((lock, id));
        self.again = true;
    }

    /// A command of a key begins to wait for parts.
    pub(crate) fn wait_for_parts(&mut self, lock: usize, id: u64, last: Mark) {
        self.parted.push((lock, id, last));
    }

    /// Keys with a command that need not wait for its parts any more.
    pub(crate) fn take_parted(&mut self) -> Vec<(usize, u64)> {
        let engine = &self.engine;
        let is_due = |it: &mut (usize, u64, Mark)| engine.durable(it.2) != Settled::Pending;
        self.parted.extract_if(.., is_due).map(|(lock, id, _)| (lock, id)).collect()
    }

    /// The keys that are stalled, to be tried. `None` when another worker tries them: they are
    /// tried once more, since what it has tried before may go now.
    pub(crate) fn begin_trying(&mut self) -> Option<VecDeque<(usize, u64)>> {
        self.again = self.is_trying;
        if std::mem::replace(&mut self.is_trying, true) {
            return None;
        }
        self.tried.1 = self.changes();
        Some(std::mem::take(&mut self.stalled))
    }

    /// Takes back what was not tried, or in vain: it came before what has stalled since. Says
    /// whether all are to be tried once more.
    pub(crate) fn end_trying(&mut self, mut left: VecDeque<(usize, u64)>) -> bool {
        self.is_trying = false;
        left.append(&mut self.stalled);
        self.stalled = left;
        (self.again || self.tried.1 != self.changes()) && !self.stalled.is_empty()
    }

    fn changes(&self) -> Changes {
        let engine = &self.engine;
        (engine.counts().rewritten, engine.setbacks(), engine.unreported().ends)
    }

    /// Answers that wait, flushes among them, and commands that wait for parts.
    pub(crate) fn held(&self) -> usize {
        self.held.len() + self.wiped.len() + self.parted.len()
    }
}

fn failed<V>(mut envelope: Envelope<V>) -> Envelope<V> {
    let error = log::error::Error::Unflushed;
    envelope.answered.answer = Answer::Failed(Error::Log(error));
    envelope
}
