//! What is done for those who wait at a key when its record was read, or there may be room.

use std::{collections::VecDeque, sync::Arc};

use base::sync::atomic::Ordering;
use cache::{Key, Meta};
use log::{
    engine::{Fetched, Reading},
    keys::Keys,
};

use super::{
    Own,
    attempt::{Attempt, Look, meta_of},
    readers::place_of,
};
use crate::{
    Answer, Answered, Command, Error, Found, FoundValue, Large, Needs, ReadValue,
    held::{Envelope, Wait},
    limits::{LOOKS_MAX, TRIES_MAX},
    pending::{Pending, Place, Task, Waiter},
    reads::{Ended, Whom},
    store::Shared,
};

/// What is known of the record at hand.
#[derive(Clone)]
enum Known {
    /// Nothing.
    Nothing,
    /// It is not there, or has expired, and what a reply waits for that saw it.
    Absent(Wait),
    /// It is there, its value in the worker's, and the same.
    Present(Meta, Wait),
    /// It cannot be read.
    Failed(Error),
}

impl<V: Send> Own<V> {
    /// A read has ended.
    pub(super) fn fetched<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        ended: Ended,
    ) {
        let Ended { whom, reading, result } = ended;
        let (at, id) = match whom {
            Whom::Key { at, id } => (at, id),
            Whom::Reader { id, part } => {
                return self.fetched_part(shared, id, part, &reading, result);
            }
        };
        let read = result.map_err(|failure| reading.failed(failure).into());
        let read = read.map(|(buffer, bytes)| (ReadValue::new(buffer, self.reads.shelf()), bytes));
        let mut place = self.lock(shared.key_lock(at));
        let Some(pending) = place.take(id) else { return };
        let name = self.cache.key(&pending.key);
        if read.is_ok() {
            // What both indexes have of it comes while the checksum is taken.
            shared.core().engine.ask_for_again(&reading);
            self.ask_to_store(&name);
        }
        let record =
            read.and_then(|(value, bytes)| self.take_record(shared, &reading, value, bytes));
        self.flushes = self.cache.flushes();
        let core = shared.core();
        let (leads, dead_below) = (core.engine.leads_to(&reading), core.dead_below);
        drop(core);
        let (known, value) = self.known_of(shared, record, leads, dead_below);
        if let Known::Present(..) = &known {
            self.figures.hits_disk += pending.waiters() as u64;
        }
        if let (Known::Present(meta, _), Some(value)) = (&known, &value)
            && self.large.is_none()
        {
            // What waits in order would be overtaken by a hit.
            let may_fill = leads && place.ordered(&pending.key).is_none();
            if may_fill || base::mutant!("store_fill_unchecked") {
                match shared.spill {
                    None => self.fill(name, meta, value.bytes()),
                    Some(_) => self.fill_spilled(name, meta, value.bytes()),
                }
            } else {
                self.figures.fills_refused += 1;
            }
        }
        drop(reading);
        let pending = match (&known, value) {
            (Known::Present(meta, _), Some(value)) => {
                match self.answer_one(shared, pending, meta, value) {
                    Some(pending) => pending,
                    None => return,
                }
            }
            _ => pending,
        };
        let leads = leads || base::mutant!("store_racing_updates");
        if self.work_off(shared, &mut place, at, pending, known, leads) {
            shared.core().stall(at, id);
        }
    }

    /// What a read has told, and the value if it is there. `leads`: whether the index still leads
    /// to it; what is older than `dead_below` was flushed.
    fn known_of<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        record: Result<(Meta, u64, ReadValue), Error>,
        leads: bool,
        dead_below: u64,
    ) -> (Known, Option<ReadValue>) {
        match record {
            Err(error) => {
                self.figures.reads_failed += 1;
                // What was spilled may go at any time.
                let known = match shared.spill {
                    None => Known::Failed(error),
                    Some(_) => Known::Absent(Wait::Nothing),
                };
                (known, None)
            }
            Ok((_, sequence, _)) if sequence < dead_below => (Known::Absent(Wait::Nothing), None),
            Ok((meta, ..)) if leads && has_expired(&meta, self.cache.now_ms()) => {
                (Known::Absent(Wait::Nothing), None)
            }
            Ok((meta, _, value)) => {
                let meta = shared.spill.map_or(meta, |spill| spill.admitted(meta));
                (Known::Present(meta, Wait::Nothing), Some(value))
            }
        }
    }

    /// Gives a value that was read to who waits for it, if that is one get of this worker: in the
    /// buffer that it was read into. Else it becomes the worker's, and those who wait come back.
    fn answer_one<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        mut pending: Pending<C>,
        meta: &Meta,
        value: ReadValue,
    ) -> Option<Pending<C>> {
        let is_one = self.large.is_none() && pending.is_one_get_of(self.number);
        let answered = if is_one { value.answer() } else { Err(value) };
        match answered {
            Ok(value) => {
                let waiter = pending.pop().expect("invariant: one waits");
                let answer = if has_expired(meta, waiter.asked_ms) {
                    Answer::Miss
                } else {
                    let value = FoundValue::Read(value);
                    Answer::Value(Found { meta: *meta, value, large: None })
                };
                self.answer(shared, &pending.key, waiter, answer, Wait::Nothing, None);
                None
            }
            Err(value) => {
                self.value.clear();
                self.value.extend_from_slice(value.bytes());
                Some(pending)
            }
        }
    }

    /// The fields of a record that was read, its sequence, and its value, where that lies.
    fn take_record<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        reading: &Reading,
        mut value: ReadValue,
        bytes: usize,
    ) -> Result<(Meta, u64, ReadValue), Error> {
        let bytes = &value.buffer().as_slice()[..bytes];
        match reading.finish(bytes) {
            Ok(Fetched::Value(record)) => {
                self.large = None;
                let (meta, sequence) = (meta_of(&record), record.sequence);
                value.lies_at(place_of(record.value, bytes));
                Ok((meta, sequence, value))
            }
            Ok(Fetched::Head(record, named)) => {
                let spread = shared.core().engine.parts(reading, &named)?;
                self.large = Some(Large(spread));
                let value_len = u32::try_from(named.value_bytes).unwrap_or(u32::MAX);
                let (meta, sequence) = (meta_of(&record), record.sequence);
                Ok((Meta { value_len, ..meta }, sequence, value))
            }
            Ok(Fetched::Part(_)) => unreachable!("a reading of a key fetches no part"),
            Err(error) => {
                if reading.met_other_key(&error) {
                    shared.core().engine.count_collision();
                }
                Err(error.into())
            }
        }
    }

    /// Tries those who wait for room or for a rewrite, in the order in which they came, until one
    /// has to wait again; anew, if there was a report meanwhile. After that whoever polls next
    /// does, as others wait for this thread.
    pub(super) fn try_stalled<K: Keys, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) {
        for _ in 0..TRIES_MAX {
            let Some(mut stalled) = shared.core().begin_trying() else { return };
            self.try_each(shared, &mut stalled);
            if !shared.core().end_trying(stalled) {
                return;
            }
        }
    }

    /// Does what waited for parts that are flushed, or lost.
    pub(super) fn work_off_parted<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        due: Vec<(usize, u64)>,
    ) {
        for (at, id) in due {
            let mut place = self.lock(shared.key_lock(at));
            let pending =
                place.take(id).expect("invariant: nobody else takes what waits for parts");
            if self.work_off(shared, &mut place, at, pending, Known::Nothing, true) {
                shared.core().stall(at, id);
            }
        }
    }

    /// Tries these until one has to wait again, which stays the first of them.
    fn try_each<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        stalled: &mut VecDeque<(usize, u64)>,
    ) {
        while let Some((at, id)) = stalled.pop_front() {
            let mut place = self.lock(shared.key_lock(at));
            let pending = place.take(id).expect("invariant: nobody else takes what is stalled");
            let has_stalled = self.work_off(shared, &mut place, at, pending, Known::Nothing, true);
            shared.stalled.fetch_sub(1, Ordering::Release);
            if has_stalled {
                return stalled.push_front((at, id));
            }
        }
    }

    /// Does what was asked of a key, in its order, until it is done or something has to come first.
    /// `leads`: what is known is the record as it is, and not only as it was when gets came. Says
    /// whether it is room, or a rewrite.
    fn work_off<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        place: &mut Place<C>,
        at: usize,
        mut pending: Pending<C>,
        mut known: Known,
        leads: bool,
    ) -> bool {
        let key = Arc::clone(&pending.key);
        let name = self.cache.key(&key);
        let mut is_known_now = leads;
        let mut shown = None;
        while let Some(waiter) = pending.pop() {
            if !is_known_now && matches!(waiter.task, Task::Command(_)) {
                (known, shown, is_known_now) = (Known::Nothing, None, true);
            }
            let shown_before = shown.clone();
            let needs_nothing =
                matches!(&waiter.task, Task::Command(it) if it.needs() == Needs::Nothing);
            // What it shows was counted when it came.
            let shown_room = std::mem::replace(&mut self.shown_room, usize::MAX);
            let attempt = self.attempt_task(shared, name, &waiter, &mut known, &mut shown);
            self.shown_room = shown_room;
            match attempt {
                Attempt::TooLong => unreachable!("invariant: any value may be shown here"),
                Attempt::Done { answer, wait, has_changed } => {
                    // Another look may have been taken, after a flush.
                    if has_changed || needs_nothing {
                        (known, shown) = (Known::Nothing, None);
                    }
                    self.answer(shared, &key, waiter, answer, wait, shown_before.as_ref());
                }
                Attempt::Read(_) if !leads && pending.looks >= LOOKS_MAX => {
                    let error = Error::Moved { looks: pending.looks };
                    let failed = Answer::Failed(error);
                    self.answer(shared, &key, waiter, failed, Wait::Nothing, None);
                }
                Attempt::Read(reading) => {
                    pending.push_again(waiter);
                    let (id, looks) = (pending.id, pending.looks + u32::from(!leads));
                    self.begin_read(at, id, Arc::clone(&reading));
                    (pending.reading, pending.looks) = (Some(reading), looks);
                    place.put_back(pending);
                    return false;
                }
                Attempt::Parts(last) => {
                    pending.push_again(waiter);
                    shared.core().wait_for_parts(at, pending.id, last);
                    pending.reading = None;
                    place.put_back(pending);
                    return false;
                }
                Attempt::Stalled => {
                    pending.push_again(waiter);
                    self.note_stalled(shared);
                    pending.reading = None;
                    place.put_back(pending);
                    return true;
                }
            }
        }
        false
    }

    /// Does one of them. What a get has looked up is known to those behind it, who show the same
    /// value: memory holds it once.
    fn attempt_task<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        waiter: &Waiter<C>,
        known: &mut Known,
        shown: &mut Option<Arc<[u8]>>,
    ) -> Attempt<V> {
        let done = |answer, wait| Attempt::Done { answer, wait, has_changed: false };
        let task = &waiter.task;
        if matches!((task, &*known), (Task::Get, Known::Nothing)) {
            *shown = None;
            *known = match self.look(shared, name, Needs::Value) {
                Look::Present(meta, wait) => Known::Present(meta, wait),
                Look::Absent(wait) => Known::Absent(wait),
                Look::Read(reading) => return Attempt::Read(reading),
                Look::Stalled => return Attempt::Stalled,
                Look::Failed(error) => return done(Answer::Failed(error), Wait::Nothing),
            };
        }
        match (task, &*known) {
            (Task::Get, Known::Failed(error)) => done(Answer::Failed(error.clone()), Wait::Nothing),
            (Task::Command(command), Known::Failed(error)) if command.needs() > Needs::Nothing => {
                done(Answer::Failed(error.clone()), Wait::Nothing)
            }
            (Task::Command(command), known) => {
                let known = match known {
                    Known::Absent(wait) => Some((None, *wait)),
                    Known::Present(meta, wait) => Some((Some(*meta), *wait)),
                    Known::Nothing | Known::Failed(_) => None,
                };
                self.attempt(shared, name, command, known, waiter.upload.as_deref())
            }
            (Task::Get, Known::Absent(wait)) => done(Answer::Miss, *wait),
            // What has expired after it was overtaken was there until then.
            (Task::Get, Known::Present(meta, wait)) if has_expired(meta, waiter.asked_ms) => {
                done(Answer::Miss, *wait)
            }
            (Task::Get, Known::Present(meta, wait)) => {
                let value = shown.get_or_insert_with(|| self.value.as_slice().into());
                let (value, large) = (FoundValue::Shared(Arc::clone(value)), self.large.clone());
                let found = Found { meta: *meta, value, large };
                done(Answer::Value(found), *wait)
            }
            (Task::Get, Known::Nothing) => unreachable!("it was looked up"),
        }
    }

    /// Gives the answer to who waits, as soon as it may be given. `shown`: a value that others
    /// show already, and which counts as theirs.
    fn answer<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        key: &[u8],
        waiter: Waiter<C>,
        answer: Answer<V>,
        wait: Wait,
        shown: Option<&Arc<[u8]>>,
    ) {
        let Waiter { worker, caller, bytes, lock, .. } = waiter;
        let is_others = match (&answer, shown) {
            (Answer::Value(Found { value: FoundValue::Shared(value), .. }), Some(shown)) => {
                Arc::ptr_eq(value, shown)
            }
            _ => false,
        };
        let value_bytes = if is_others { 0 } else { answer.value_bytes() };
        let bytes = shared.inboxes[worker].answered(bytes, value_bytes);
        let envelope = Envelope { worker, bytes, lock, answered: Answered { caller, answer } };
        let given = match wait {
            Wait::Nothing => Some(envelope),
            _ => shared.core().hold(wait, key, envelope),
        };
        match given {
            Some(envelope) => self.send(shared, envelope),
            None => self.figures.waits += u64::from(wait.is_of_seen()),
        }
    }
}

fn has_expired(meta: &Meta, now_ms: u64) -> bool {
    meta.expiry_ms != 0 && meta.expiry_ms <= now_ms
}
