//! The table as a data thread sees it: who asks, and who waits for which answer.

use std::{cell::Cell, collections::BTreeSet, rc::Rc};

use base::{hash::Numbered, sync::Arc};
use log::{
    index::Keyed,
    plan::{Outcome, Plan, Token},
};
use reactor::ConnId;
use store::{
    Answer, Answered, Asked, Error, Figures, Got, Large, Notice, SlotId, Took, What as Heard,
    Worker,
};
use wire::memcached::Expiry;

use super::{
    answers,
    asking::{Asking, Saved},
    board::{Board, Reply},
    deed::{Deed, Verdict},
    desk::Desk,
    flush::FlushTime,
    transfer::{Home, Intake, Outgoing, Said},
    unsent::{Total, Unsent},
    upload::Upload,
};

/// Bytes of replies that wait for others before them, and of values from the disk that wait for
/// their clients to take them, of all connections of a thread: with more, a connection gets one at
/// a time. Those of requests that are under way come on top, which the store bounds
/// (`PENDING_BYTES_MAX`), and one value a connection.
pub(super) const UNSENT_BYTES_MAX: usize = 64 << 20;

/// A thread's access to a durable table, and who waits for it.
#[derive(Debug)]
pub(crate) struct Table {
    worker: Worker<Keyed, Deed<'static>>,
    pub(super) desk: Desk,
    callers: Numbered<u64, Caller>,
    /// The number of the next one.
    next: u64,
    unsent: Rc<Total>,
    /// [`UNSENT_BYTES_MAX`].
    pub(super) unsent_bytes_max: usize,
    upload_bytes: Rc<Cell<usize>>,
    /// Large values that come and go, by the numbers of their callers.
    transfers: Numbered<u64, Rc<Said>>,
    home: Rc<Home>,
    /// Connections that are to be served at a time: each once at most.
    watched: Vec<(u64, Rc<Unsent>)>,
    /// Something was asked of it itself.
    is_stirred: bool,
    /// When all is to be flushed, which all threads have in common.
    flush_time: Arc<FlushTime>,
    /// Under which numbers one was begun because its time had come.
    flushing: BTreeSet<u64>,
}

/// Somebody who waits for an answer.
#[derive(Debug)]
struct Caller {
    board: Rc<Board>,
    slot: SlotId,
    saved: Saved,
}

/// What a request has come to.
#[derive(Debug)]
pub(super) enum Told {
    /// Its reply.
    Now(Reply),
    /// The reply comes into a slot that was taken for it.
    Later,
    /// Too much waits. Nothing has happened.
    Busy,
}

impl Table {
    /// The access of the calling thread.
    #[must_use]
    pub(crate) fn new(worker: Worker<Keyed, Deed<'static>>, desk: Desk) -> Self {
        Self {
            worker,
            desk,
            callers: Numbered::default(),
            next: 0,
            unsent: Rc::default(),
            unsent_bytes_max: UNSENT_BYTES_MAX,
            upload_bytes: Rc::default(),
            transfers: Numbered::default(),
            home: Rc::default(),
            watched: Vec::new(),
            is_stirred: false,
            flush_time: Arc::default(),
            flushing: BTreeSet::new(),
        }
    }

    /// The same, with a time for a flush that it has in common with those of other threads.
    #[must_use]
    pub(crate) fn flushed_at(mut self, time: &Arc<FlushTime>) -> Self {
        self.flush_time = Arc::clone(time);
        self
    }

    /// What the sessions of the thread share.
    #[must_use]
    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Room for a value of `len` bytes that arrives bit by bit.
    pub(super) fn upload(&self, len: usize) -> Upload {
        Upload::new(len, Rc::clone(&self.upload_bytes))
    }

    /// Slots for a connection.
    pub(super) fn board(&self) -> Rc<Board> {
        Rc::new(Board::new(Rc::clone(&self.unsent)))
    }

    /// Announces that the thread holds nothing of the cache, and takes the time anew. To be called
    /// whenever it begins to do something.
    pub(crate) fn begin(&mut self) {
        self.worker.quiesce();
        self.desk.now_ms = self.desk.cache.clock().now_ms();
        self.tell_store();
        if self.flush_time.is_due(self.desk.now_ms) {
            self.flush_as_asked();
        }
    }

    /// Makes all records dead, now or later.
    pub(super) fn flush_all(&mut self, board: &Rc<Board>, asking: &Asking<'_>, at: Expiry) -> Told {
        let asked = match at {
            _ if self.desk.server.settings().flush_refused => {
                Asked::Now(Answer::Failed(Error::NoFlush))
            }
            Expiry::Never | Expiry::Past => self.worker.flush(self.next),
            later => {
                self.flush_time.set(self.desk.deadline_ms(later));
                return self.told(board, asking, Asked::Now(Answer::Flushed));
            }
        };
        if matches!(asked, Asked::Later | Asked::Now(Answer::Flushed)) {
            // One that was asked for before is done with it.
            self.flush_time.set(0);
        }
        self.told(board, asking, asked)
    }

    /// Makes all records dead, because the time has come.
    #[cold]
    fn flush_as_asked(&mut self) {
        let (worker, now_ms) = (&mut self.worker, self.desk.now_ms);
        let (caller, flushing) = (self.next, &mut self.flushing);
        self.flush_time.carry_out(now_ms, || match worker.flush(caller) {
            Asked::Now(answer) => {
                tell_of_flush(&answer);
                true
            }
            Asked::Later => flushing.insert(caller),
            // Then it is still due.
            Asked::Busy => false,
        });
        self.next += 1;
    }

    /// The same between two requests; the time stays.
    pub(super) fn quiesce(&mut self) {
        self.worker.quiesce();
    }

    /// Runs what blocks while no other thread waits for this one.
    pub(crate) fn offline<R>(&mut self, blocking: impl FnOnce() -> R) -> R {
        self.worker.offline(blocking)
    }

    /// The next thing that the store wants to be done.
    pub(crate) fn poll(&mut self) -> Option<Plan> {
        self.worker.poll()
    }

    /// Whether the last poll gave nothing though there is more to do: see [`Worker::goes_on`].
    #[must_use]
    pub(crate) fn goes_on(&self) -> bool {
        self.worker.goes_on()
    }

    /// The next read for those who wait for records.
    pub(crate) fn poll_reads(&mut self) -> Option<Plan> {
        self.worker.poll_reads()
    }

    /// Whether reads are to be handed out, of whoever waits for them.
    #[must_use]
    pub(crate) fn has_reads(&self) -> bool {
        self.worker.has_reads()
    }

    /// Whether anything was asked or reported since the last call.
    pub(crate) fn take_stirred(&mut self) -> bool {
        self.worker.take_stirred() | std::mem::take(&mut self.is_stirred)
    }

    /// Takes what came of it.
    pub(crate) fn complete(&mut self, token: Token, outcome: Outcome) {
        self.worker.complete(token, outcome);
    }

    /// When it is to be polled at the latest.
    #[must_use]
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        let watched_ms = self.watched.iter().map(|(at_ms, _)| *at_ms);
        let others_ms = self.worker.wake_at_ms().into_iter().chain(self.flush_time.due_ms());
        watched_ms.chain(others_ms).min()
    }

    /// Has a connection be served at a time.
    pub(super) fn watch(&mut self, unsent: &Rc<Unsent>, at_ms: u64) {
        if !unsent.is_watched.replace(true) {
            self.watched.push((at_ms, Rc::clone(unsent)));
            self.is_stirred = true;
        }
    }

    fn rouse_watched(&mut self) {
        let now_ms = self.desk.now_ms;
        for (_, unsent) in self.watched.extract_if(.., |(at_ms, _)| now_ms >= *at_ms) {
            unsent.is_watched.set(false);
            unsent.rouse();
        }
    }

    /// Whether anybody waits for an answer.
    #[must_use]
    pub(crate) fn is_waited_for(&self) -> bool {
        let has_callers = !self.callers.is_empty() || !self.flushing.is_empty();
        has_callers || !self.transfers.is_empty()
    }

    /// Bytes of replies that wait, and of values that their clients have not taken.
    #[cfg(test)]
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.bytes()
    }

    /// Bytes of parts of large values that are in memory: those that arrive, and those that leave.
    #[cfg(test)]
    pub(super) fn parts_bytes(&self) -> (usize, usize) {
        self.worker.large_bytes()
    }

    /// Which other threads have got answers.
    pub(crate) fn take_wakes(&mut self) -> impl Iterator<Item = usize> + use<> {
        self.worker.take_wakes()
    }

    /// Whether connections are to be served.
    #[must_use]
    pub(crate) fn has_roused(&self) -> bool {
        self.unsent.has_roused() || !self.home.is_empty()
    }

    /// Connections that are to be served, since they have got replies or sent what they had.
    pub(crate) fn take_roused(&mut self) -> Vec<ConnId> {
        self.unsent.take_roused()
    }

    /// What the thread's part of the store has counted.
    #[must_use]
    pub(crate) fn figures(&self) -> Figures {
        self.worker.figures()
    }

    /// Whether so much waits to be sent that a connection has to take one reply after the other.
    pub(super) fn is_laden(&self) -> bool {
        self.unsent.bytes() >= self.unsent_bytes_max
    }

    /// Puts answers where their connections find them.
    pub(crate) fn deliver(&mut self) {
        self.rouse_watched();
        for Answered { caller, answer } in self.worker.take_answers() {
            if self.flushing.remove(&caller) {
                tell_of_flush(&answer);
                continue;
            }
            let Some(Caller { board, slot, saved }) = self.callers.remove(&caller) else {
                unreachable!("invariant: each caller is answered once")
            };
            let reply = answers::form(&mut self.desk, &saved.asking().what, answer);
            board.fill(slot, reply);
        }
        for Notice { caller, what } in self.worker.take_notices() {
            self.hear(caller, what);
        }
    }

    /// What the store says of a large value.
    fn hear(&mut self, caller: u64, what: Heard) {
        let Some(said) = self.transfers.get(&caller) else {
            if let Heard::Part(part) = what {
                self.worker.give_back(part);
            }
            return;
        };
        match what {
            Heard::Room => {}
            Heard::Part(part) => said.parts.borrow_mut().push_back(part),
            Heard::Failed(error) => *said.error.borrow_mut() = Some(error),
        }
        said.unsent.rouse();
    }

    /// Tells the store what sessions and outputs have left to be said.
    fn tell_store(&mut self) {
        for part in self.home.parts.take() {
            self.worker.give_back(part);
        }
        for (caller, reader) in self.home.readers.take() {
            if let Some(said) = self.transfers.remove(&caller) {
                said.parts.take().into_iter().for_each(|part| self.worker.give_back(part));
            }
            self.worker.end_reading(reader);
        }
        for caller in self.home.taken.take() {
            // Its connection may end with that.
            if let Some(said) = self.transfers.remove(&caller) {
                said.unsent.rouse();
            }
        }
        for (caller, upload) in self.home.uploads.take() {
            self.transfers.remove(&caller);
            self.worker.abort_upload(upload);
        }
    }

    fn begin_transfer(&mut self, unsent: &Rc<Unsent>) -> (u64, Rc<Said>) {
        let (caller, said) = (self.next, Said::new(unsent));
        self.transfers.insert(caller, Rc::clone(&said));
        self.next += 1;
        (caller, said)
    }

    /// Whether a reader more may begin.
    pub(super) fn may_begin_reading(&self, large: &Large) -> bool {
        self.worker.may_begin_reading(large)
    }

    /// Begins to read a large value for the connection of `unsent`.
    pub(super) fn begin_reading(
        &mut self,
        large: &Large,
        unsent: &Rc<Unsent>,
        tail: &'static [u8],
    ) -> Result<Outgoing, Error> {
        let reader = self.worker.begin_reading(large, self.next)?;
        let (caller, said) = self.begin_transfer(unsent);
        let (home, left) = (Rc::clone(&self.home), Cell::new(large.len()));
        Ok(Outgoing { caller, reader, said, home, left, tail })
    }

    /// Begins to take a large value.
    pub(super) fn begin_upload(
        &mut self,
        key: &[u8],
        value_bytes: u64,
        unsent: &Rc<Unsent>,
    ) -> Result<Intake, Error> {
        let upload = self.worker.begin_upload(key, value_bytes, self.next)?;
        let (caller, said) = self.begin_transfer(unsent);
        let (home, upload) = (Rc::clone(&self.home), Cell::new(Some(upload)));
        Ok(Intake { caller, upload, said, home })
    }

    /// Takes more of one.
    pub(super) fn push(&mut self, intake: &Intake, bytes: &[u8]) -> Result<Took, Error> {
        let upload = intake.upload.get().ok_or(Error::Ended)?;
        self.worker.push(upload, bytes)
    }

    /// Carries out the deed that a large value came for.
    pub(super) fn finish_upload(
        &mut self,
        board: &Rc<Board>,
        asking: &Asking<'_>,
        intake: &Intake,
        deed: &Deed<'_>,
    ) -> Told {
        self.transfers.remove(&intake.caller);
        let asked = match intake.upload.take() {
            Some(upload) => self.worker.finish_upload(upload, deed, || deed.to_owned()),
            None => Asked::Now(Answer::Failed(Error::Ended)),
        };
        match asked {
            Asked::Now(answer) => Told::Now(answers::form(&mut self.desk, &asking.what, answer)),
            Asked::Later => {
                let (board, slot) = (Rc::clone(board), board.take());
                let caller = Caller { board, slot, saved: asking.save() };
                self.callers.insert(intake.caller, caller);
                Told::Later
            }
            Asked::Busy => Told::Busy,
        }
    }

    fn wait(&mut self, board: &Rc<Board>, asking: &Asking<'_>) {
        let (board, slot) = (Rc::clone(board), board.take());
        self.callers.insert(self.next, Caller { board, slot, saved: asking.save() });
        self.next += 1;
    }

    /// Carries a deed out.
    pub(super) fn execute(
        &mut self,
        board: &Rc<Board>,
        asking: &Asking<'_>,
        key: &[u8],
        deed: &Deed<'_>,
    ) -> Told {
        let asked = self.worker.execute(key, self.next, deed, || deed.to_owned());
        self.told(board, asking, asked)
    }

    /// What was asked under the next number has come to this.
    fn told(&mut self, board: &Rc<Board>, asking: &Asking<'_>, asked: Asked<Verdict>) -> Told {
        match asked {
            Asked::Now(answer) => Told::Now(answers::form(&mut self.desk, &asking.what, answer)),
            Asked::Later => {
                self.wait(board, asking);
                Told::Later
            }
            Asked::Busy => Told::Busy,
        }
    }

    /// Looks a value up. If the answer comes later a slot is taken for it.
    pub(super) fn get(
        &mut self,
        board: &Rc<Board>,
        asking: &Asking<'_>,
        key: &[u8],
        out: &mut impl cache::Output,
    ) -> Got {
        let got = self.worker.get(key, self.next, out);
        if let Got::Later = got {
            self.wait(board, asking);
        }
        got
    }

    /// Looks a value up in memory alone; `None` where that does not suffice.
    pub(super) fn get_at_once(&mut self, key: &[u8], out: &mut impl cache::Output) -> Option<Got> {
        self.worker.get_at_once(key, out)
    }
}

/// What a flush has come to that nobody waits for.
fn tell_of_flush(answer: &Answer<Verdict>) {
    if let Answer::Failed(error) = answer {
        tracing::error!(%error, "a flush that was asked for is not done");
    }
}
