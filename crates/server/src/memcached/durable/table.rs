//! The table as a data thread sees it: who asks, and who waits for which answer.

use std::{cell::Cell, collections::HashMap, rc::Rc};

use log::{
    index::Keyed,
    plan::{Outcome, Plan, Token},
};
use reactor::ConnId;
use store::{Answered, Asked, Figures, Got, SlotId, Worker};

use super::{
    answers,
    asking::{Asking, Saved},
    board::{Board, Reply},
    deed::Deed,
    desk::Desk,
    upload::Upload,
};

/// Bytes of replies that wait for others before them, of all connections of a thread: with more, a
/// connection gets one at a time. Those of requests that are under way come on top, which the store
/// bounds (`PENDING_BYTES_MAX`), and one value a connection.
pub(super) const REPLY_BYTES_MAX: usize = 64 << 20;

/// A thread's access to a durable table, and who waits for it.
#[derive(Debug)]
pub(crate) struct Table {
    worker: Worker<Keyed, Deed<'static>>,
    pub(super) desk: Desk,
    callers: HashMap<u64, Caller>,
    /// The number of the next one.
    next: u64,
    /// Connections that have got replies, to be served.
    roused: Vec<ConnId>,
    reply_bytes: Rc<Cell<usize>>,
    upload_bytes: Rc<Cell<usize>>,
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
        let (callers, roused) = (HashMap::new(), Vec::new());
        let (reply_bytes, upload_bytes) = (Rc::default(), Rc::default());
        Self { worker, desk, callers, next: 0, roused, reply_bytes, upload_bytes }
    }

    /// What the sessions of the thread share.
    #[must_use]
    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Room for a value that arrives bit by bit.
    pub(super) fn upload(&self) -> Upload {
        Upload::new(Rc::clone(&self.upload_bytes))
    }

    /// Slots for a connection.
    pub(super) fn board(&self) -> Rc<Board> {
        Rc::new(Board::new(Rc::clone(&self.reply_bytes)))
    }

    /// Announces that the thread holds nothing of the cache, and takes the time anew. To be called
    /// whenever it begins to do something.
    pub(crate) fn begin(&mut self) {
        self.worker.quiesce();
        self.desk.now_ms = self.desk.cache.clock().now_ms();
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

    /// Takes what came of it.
    pub(crate) fn complete(&mut self, token: Token, outcome: Outcome) {
        self.worker.complete(token, outcome);
    }

    /// When it is to be polled at the latest.
    #[must_use]
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        self.worker.wake_at_ms()
    }

    /// Whether anybody waits for an answer.
    #[must_use]
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.callers.is_empty()
    }

    /// Which other threads have got answers.
    pub(crate) fn take_wakes(&mut self) -> impl Iterator<Item = usize> + use<> {
        self.worker.take_wakes()
    }

    /// Whether connections are to be served.
    #[must_use]
    pub(crate) fn has_roused(&self) -> bool {
        !self.roused.is_empty()
    }

    /// Connections that are to be served, since they have got replies.
    pub(crate) fn take_roused(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.roused)
    }

    /// What the thread's part of the store has counted.
    #[must_use]
    pub(crate) fn figures(&self) -> Figures {
        self.worker.figures()
    }

    /// Whether so much waits to be sent that a connection has to take one reply after the other.
    pub(super) fn is_laden(&self) -> bool {
        self.reply_bytes.get() >= REPLY_BYTES_MAX
    }

    /// Puts answers where their connections find them.
    pub(crate) fn deliver(&mut self) {
        for Answered { caller, answer } in self.worker.take_answers() {
            let Some(Caller { board, slot, saved }) = self.callers.remove(&caller) else {
                unreachable!("invariant: each caller is answered once")
            };
            let reply = answers::form(&mut self.desk, &saved.asking().what, answer);
            self.fill(&board, slot, reply);
        }
    }

    fn fill(&mut self, board: &Rc<Board>, slot: SlotId, reply: Reply) {
        board.fill(slot, reply);
        if board.is_due() {
            self.roused.extend(board.connection());
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
        match self.worker.execute(key, self.next, deed, || deed.to_owned()) {
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
