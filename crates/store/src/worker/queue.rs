//! What is done for those who wait at a key when its record was read, or there may be room.

use std::{collections::VecDeque, sync::Arc};

use cache::{Key, Meta};
use log::{
    engine::{Fetched, Reading},
    keys::Keys,
};

use super::{
    Own,
    attempt::{Attempt, Look, meta_of},
};
use crate::{
    Answer, Answered, Command, Error, Found, Needs,
    held::{Envelope, Wait},
    limits::LOOKS_MAX,
    pending::{Pending, Place, Task, Waiter},
    reads::Ended,
    store::Shared,
};

/// What is known of the record at hand.
#[derive(Clone)]
enum Known {
    /// Nothing.
    Nothing,
    /// It is not there, or has expired.
    Absent,
    /// It is there, its value in the worker's.
    Present(Meta),
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
        let Ended { at, id, reading, result } = ended;
        let read = result.map_err(|failure| reading.failed(failure).into());
        let mut place = self.lock(shared.key_lock(at));
        let record = read.and_then(|(buffer, bytes)| {
            let record = self.take_record(shared, &reading, &buffer.as_slice()[..bytes]);
            self.reads.give_back(buffer);
            record
        });
        let Some(pending) = place.take(id) else { return };
        let known = match record {
            Err(error) => {
                self.figures.reads_failed += 1;
                Known::Failed(error)
            }
            Ok(meta) if has_expired(&meta, self.cache.now_ms()) => Known::Absent,
            Ok(meta) => Known::Present(meta),
        };
        let name = self.cache.key(&pending.key);
        let leads = shared.core().engine.leads_to(&reading);
        if let Known::Present(meta) = &known {
            // What waits in order would be overtaken by a hit.
            let may_fill = leads && place.ordered(&pending.key).is_none();
            if may_fill || base::mutant!("store_fill_unchecked") {
                self.fill(name, meta);
            } else {
                self.figures.fills_refused += 1;
            }
        }
        drop(reading);
        let leads = leads || base::mutant!("store_racing_updates");
        self.work_off(shared, &mut place, at, pending, known, leads);
    }

    /// The fields of a record that was read; its value becomes the worker's.
    fn take_record<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        reading: &Reading,
        bytes: &[u8],
    ) -> Result<Meta, Error> {
        match reading.finish(bytes) {
            Ok(Fetched::Value(record)) => {
                self.value.clear();
                self.value.extend_from_slice(record.value);
                Ok(meta_of(&record))
            }
            Ok(Fetched::Head(..) | Fetched::Part(_)) => Err(Error::InParts),
            Err(error) => {
                if reading.met_other_key(&error) {
                    shared.core().engine.count_collision();
                }
                Err(error.into())
            }
        }
    }

    /// Tries those who wait for room or for a rewrite, in the order in which they came, until one
    /// has to wait again; anew, if there was a report meanwhile. Each time is another worker's
    /// report or command, so there is an end.
    pub(super) fn try_stalled<K: Keys, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) {
        loop {
            let Some(mut stalled) = shared.core().begin_trying() else { return };
            self.try_each(shared, &mut stalled);
            if !shared.core().end_trying(stalled) {
                return;
            }
        }
    }

    /// Tries these until one has to wait again.
    fn try_each<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        stalled: &mut VecDeque<(usize, u64)>,
    ) {
        while let Some((at, id)) = stalled.pop_front() {
            let mut place = self.lock(shared.key_lock(at));
            let pending = place.take(id).expect("invariant: nobody else takes what is stalled");
            self.work_off(shared, &mut place, at, pending, Known::Nothing, true);
            // Not before: what a hit of another thread's command overtakes is done by now, or has
            // stalled again.
            shared.unflushed.tried();
            drop(place);
            if shared.core().stalled() > 0 {
                return;
            }
        }
    }

    /// Does what was asked of a key, in its order, until it is done or something has to come first.
    /// `leads`: what is known is the record as it is, and not only as it was when gets came.
    fn work_off<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        place: &mut Place<C>,
        at: usize,
        mut pending: Pending<C>,
        mut known: Known,
        leads: bool,
    ) {
        let key = std::mem::take(&mut pending.key);
        let name = self.cache.key(&key);
        let is_new = pending.reading.is_some();
        let mut shown = None;
        while let Some(waiter) = pending.pop() {
            if !leads && matches!(waiter.task, Task::Command(_)) {
                known = Known::Nothing;
            }
            let attempt = self.attempt_task(shared, name, &waiter.task, &known, &mut shown);
            match attempt {
                Attempt::Done { answer, wait, has_changed } => {
                    if has_changed {
                        (known, shown) = (Known::Nothing, None);
                    }
                    self.answer(shared, waiter, answer, wait);
                }
                Attempt::Read(_) if !leads && pending.looks >= LOOKS_MAX => {
                    let error = Error::Moved { looks: pending.looks };
                    self.answer(shared, waiter, Answer::Failed(error), Wait::Nothing);
                }
                Attempt::Read(reading) => {
                    pending.push_again(waiter);
                    // A hit would overtake it.
                    self.forget(name);
                    let (id, looks) = (pending.id, pending.looks + u32::from(!leads));
                    let reading = *reading;
                    self.begin_read(at, id, reading.clone());
                    let reading = Some(reading);
                    (pending.key, pending.reading, pending.looks) = (key, reading, looks);
                    place.put_back(pending);
                    return;
                }
                Attempt::Stalled => {
                    pending.push_again(waiter);
                    self.note_stalled(shared, name, pending.id, is_new);
                    (pending.key, pending.reading) = (key, None);
                    place.put_back(pending);
                    return;
                }
            }
        }
    }

    fn attempt_task<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        task: &Task<C>,
        known: &Known,
        shown: &mut Option<Arc<[u8]>>,
    ) -> Attempt<V> {
        let done = |answer, wait| Attempt::Done { answer, wait, has_changed: false };
        match (task, known) {
            (Task::Get, Known::Failed(error)) => done(Answer::Failed(error.clone()), Wait::Nothing),
            (Task::Command(command), Known::Failed(error)) if command.needs() > Needs::Nothing => {
                done(Answer::Failed(error.clone()), Wait::Nothing)
            }
            (Task::Command(command), known) => {
                let known = match known {
                    Known::Absent => Some(None),
                    Known::Present(meta) => Some(Some(*meta)),
                    Known::Nothing | Known::Failed(_) => None,
                };
                self.attempt(shared, name, command, known)
            }
            (Task::Get, Known::Absent) => done(Answer::Miss, Wait::Nothing),
            (Task::Get, Known::Present(meta)) => {
                let value = shown.get_or_insert_with(|| self.value.as_slice().into());
                let found = Found { meta: *meta, value: Arc::clone(value) };
                done(Answer::Value(found), Wait::Nothing)
            }
            (Task::Get, Known::Nothing) => match self.look(shared, name, Needs::Value) {
                Look::Present(meta, wait) => {
                    let value = self.value.as_slice().into();
                    done(Answer::Value(Found { meta, value }), wait)
                }
                Look::Absent(wait) => done(Answer::Miss, wait),
                Look::Read(reading) => Attempt::Read(reading),
                Look::Stalled => Attempt::Stalled,
                Look::Failed(error) => done(Answer::Failed(error), Wait::Nothing),
            },
        }
    }

    /// Gives the answer to who waits, as soon as it may be given.
    fn answer<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        waiter: Waiter<C>,
        answer: Answer<V>,
        wait: Wait,
    ) {
        let Waiter { worker, caller, bytes, .. } = waiter;
        let bytes = shared.inboxes[worker].answered(bytes, answer.value_bytes());
        let envelope = Envelope { worker, bytes, answered: Answered { caller, answer } };
        self.figures.waits += u64::from(matches!(wait, Wait::Seen(_)));
        let given = match wait {
            Wait::Nothing => Some(envelope),
            _ => shared.core().hold(wait, envelope),
        };
        if let Some(envelope) = given {
            self.send(shared, envelope);
        }
    }
}

fn has_expired(meta: &Meta, now_ms: u64) -> bool {
    meta.expiry_ms != 0 && meta.expiry_ms <= now_ms
}
