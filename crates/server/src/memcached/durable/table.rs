//! Tables as a data thread sees them: who asks, and who waits for which answer.
//!
//! Of several tables the thread uses one at a time, and rests in the caches of all others: who has
//! a key's lock in one may wait there for memory that is free when all threads have been quiescent,
//! and must not wait for a thread that waits in another one.

mod flushes;
mod transfers;
mod turn;

use std::{mem, rc::Rc};

use base::{hash::Numbered, sync::Arc};
use store::{
    Answer, Answered, Asked, Error, Figures, Got, Notice, SlotId, limits::LARGE_WANTED_MS,
};

use self::flushes::Flushing;
use super::{
    answers,
    asking::{Asking, Saved, What},
    board::{Board, Reply},
    deed::{Deed, Verdict},
    desk::Desk,
    flush::FlushTime,
    keys::{KEY_ROOM, Place},
    member::Member,
    router::Router,
    transfer::Said,
    unsent::{Total, Unsent},
    upload::{Upload, Uploads},
};
use crate::{durable::Kept, memcached::command::StoreCommand};

/// Bytes of replies that wait for others before them, and of values in memory of their own that
/// wait for their clients to take them, of all connections of a thread, with those of requests that
/// are under way. A value for which there is no room waits a second, and is refused then. Who has
/// some already has no room beyond the half: what is left is for those who have none. Short values
/// (`READ_BYTES_KEPT`) are shown whatever waits: beyond the half, each connection may have one.
pub(super) const UNSENT_BYTES_MAX: usize = 64 << 20;

/// The same in little memory: all threads have an eighth of it, but each this.
const UNSENT_BYTES_MIN: usize = 16 << 20;
const UNSENT_DIVISOR: u64 = 8;

/// Room for answers that is kept: for more than a turn mostly has.
const ANSWERS_KEPT: usize = 64;

/// How many bytes may wait to be taken, of the clients of one of the threads.
fn unsent_bytes_max(desk: &Desk, members: &[Member]) -> usize {
    let threads = desk.server.settings().threads.max(1) as u64;
    let part = desk.server.memory_bytes() / UNSENT_DIVISOR / threads;
    let part = usize::try_from(part).unwrap_or(usize::MAX);
    // The longest value does not have to wait until nothing else does.
    let longest = members.iter().map(Member::value_bytes_max).max().unwrap_or(0);
    part.clamp(UNSENT_BYTES_MIN, UNSENT_BYTES_MAX).max(2 * longest)
}

/// A thread's access to the tables of a server, and who waits for them.
#[derive(Debug)]
pub(crate) struct Table {
    /// The default one first.
    members: Vec<Member>,
    /// The one that is not at rest.
    current: usize,
    router: Router,
    pub(super) desk: Desk,
    callers: Numbered<u64, Caller>,
    /// What has just come for them: empty, but for its room.
    answers: Vec<Answered<Verdict>>,
    /// The number of the next one.
    next: u64,
    unsent: Rc<Total>,
    /// At most [`UNSENT_BYTES_MAX`], or two of the longest values.
    pub(super) unsent_bytes_max: usize,
    /// Until when somebody counts as waiting for what others do not take.
    wanted_ms: u64,
    uploads: Rc<Uploads>,
    /// Large values that come and go, by the numbers of their callers.
    transfers: Numbered<u64, Rc<Said>>,
    /// Connections that are to be served at a time: each once at most.
    watched: Vec<(u64, Rc<Unsent>)>,
    /// Something was asked of it itself.
    is_stirred: bool,
    /// When all is to be flushed, which all threads have in common.
    flush_time: Arc<FlushTime>,
    /// Under which numbers one was begun because its time had come.
    flushing: Numbered<u64, Flushing>,
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
    /// The access of the calling thread: to the default table, and to those of which it has the
    /// prefixes.
    #[must_use]
    pub(crate) fn new<'p>(
        default: Member,
        others: impl IntoIterator<Item = (&'p [u8], Member)>,
        desk: Desk,
    ) -> Self {
        let (prefixes, mut others): (Vec<_>, Vec<_>) = others.into_iter().unzip();
        others.iter_mut().for_each(Member::rest);
        others.insert(0, default);
        Self {
            unsent_bytes_max: unsent_bytes_max(&desk, &others),
            members: others,
            current: 0,
            router: Router::new(prefixes),
            desk,
            callers: Numbered::default(),
            answers: Vec::new(),
            next: 0,
            unsent: Rc::default(),
            wanted_ms: 0,
            uploads: Rc::default(),
            transfers: Numbered::default(),
            watched: Vec::new(),
            is_stirred: false,
            flush_time: Arc::default(),
            flushing: Numbered::default(),
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
        Upload::new(len, &self.uploads)
    }

    /// Slots for a connection.
    pub(super) fn board(&self) -> Rc<Board> {
        Rc::new(Board::new(Rc::clone(&self.unsent)))
    }

    /// One of the tables, which alone is not at rest from now on.
    fn at(&mut self, table: usize) -> &mut Member {
        if table != self.current {
            self.members[self.current].rest();
            self.current = table;
            self.members[table].resume_at(self.desk.now_ms);
        }
        &mut self.members[table]
    }

    /// The table of a key, and the key as that has it.
    fn place<'k>(&self, key: &'k [u8], room: &'k mut [u8; KEY_ROOM]) -> Place<'k> {
        if self.members.len() == 1 {
            return Place { table: 0, key: Some(key) };
        }
        let (table, prefix_len) = self.router.table_of(key);
        Place { table, key: self.members[table].own_key(key, prefix_len, room) }
    }

    /// The table of a command that brings a value.
    pub(super) fn member_of(&self, command: &StoreCommand<'_>) -> &Member {
        if self.members.len() == 1 {
            return &self.members[0];
        }
        let mut room = [0; wire::memcached::limits::KEY_LEN_MAX];
        let key = command.key();
        let (table, _) = self.router.table_of(key.bytes(&mut room));
        &self.members[table]
    }

    /// Announces that the thread holds nothing of a cache, and takes the time anew. To be called
    /// whenever it begins to do something.
    pub(crate) fn begin(&mut self) {
        self.members[self.current].quiesce();
        self.desk.now_ms = self.desk.cache.clock().now_ms();
        self.unsent.set_now(self.desk.now_ms);
        self.uploads.set_now(self.desk.now_ms);
        for table in 0..self.members.len() {
            self.tell_store(table);
        }
        if self.flush_time.is_due(self.desk.now_ms) {
            self.flush_as_asked();
        }
    }

    /// The same between two requests; the time stays.
    pub(super) fn quiesce(&mut self) {
        self.members[self.current].quiesce();
    }

    /// Bytes of replies that wait, and of values that their clients have not taken.
    #[cfg(test)]
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.bytes()
    }

    /// Has the default table take values of so many bytes.
    #[cfg(test)]
    pub(super) fn take_values_of(&mut self, bytes_max: u64) {
        self.members[0].take_values_of(bytes_max);
    }

    /// Bytes of parts of large values that are in memory: those that arrive, and those that leave.
    #[cfg(test)]
    pub(super) fn parts_bytes(&self) -> (usize, usize) {
        self.members[0].large_bytes()
    }

    /// What the thread's part of a table has counted.
    #[must_use]
    pub(crate) fn figures(&self, table: usize) -> Figures {
        self.members[table].figures()
    }

    /// Memory that its sessions keep.
    #[must_use]
    pub(crate) fn kept(&self) -> Kept {
        let (arriving, untaken) = (self.uploads.bytes(), self.unsent.bytes());
        Kept { arriving_bytes: arriving as u64, untaken_bytes: untaken as u64 }
    }

    /// Whether so much waits to be sent that a connection has to take one reply after the other.
    pub(super) fn is_laden(&self) -> bool {
        self.unsent.bytes() > self.unsent_bytes_max / 2
    }

    /// Whether somebody waits for memory that clients keep who take nothing.
    pub(super) fn is_wanted(&self) -> bool {
        self.desk.now_ms < self.wanted_ms
    }

    /// Bytes that there is room for of what is shown to a connection from now on.
    fn shown_room(&self, board: &Board) -> usize {
        let has_some = !board.is_empty() || board.unsent().has_values();
        match self.unsent.bytes() {
            0 if !has_some => usize::MAX,
            unsent if has_some => (self.unsent_bytes_max / 2).saturating_sub(unsent),
            unsent => self.unsent_bytes_max.saturating_sub(unsent),
        }
    }

    /// Somebody was refused for whom there was so much room.
    fn note_busy(&mut self, shown_room: usize) {
        if shown_room < usize::MAX {
            self.wanted_ms = self.desk.now_ms + LARGE_WANTED_MS;
            self.unsent.rouse_idle();
        }
    }

    /// Puts answers where their connections find them.
    pub(crate) fn deliver(&mut self) {
        self.rouse_watched();
        for table in 0..self.members.len() {
            self.deliver_of(table);
        }
    }

    fn deliver_of(&mut self, table: usize) {
        let mut answers = mem::take(&mut self.answers);
        self.members[table].take_answers(&mut answers);
        for Answered { caller, answer } in answers.drain(..) {
            let Some((caller, answer)) = self.flushed(caller, answer) else { continue };
            let Some(Caller { board, slot, saved }) = self.callers.remove(&caller) else {
                unreachable!("invariant: each caller is answered once")
            };
            let reply = self.form(table, &saved.asking().what, answer);
            board.fill(slot, reply);
        }
        answers.shrink_to(ANSWERS_KEPT);
        self.answers = answers;
        for Notice { caller, what } in self.members[table].take_notices() {
            self.hear(table, caller, what);
        }
    }

    /// What a table's answer is to its client.
    fn form(&mut self, table: usize, what: &What<'_>, answer: Answer<Verdict>) -> Reply {
        Reply { table, ..answers::form(&mut self.desk, what, answer) }
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
        let mut room = [0; KEY_ROOM];
        let Place { table, key } = self.place(key, &mut room);
        let (next, shown_room) = (self.next, self.shown_room(board));
        let asked = match key {
            Some(key) => {
                let member = self.at(table);
                member.limit_shown(shown_room);
                member.execute(key, next, deed)
            }
            None => Asked::Now(Answer::Failed(Error::ForeignKey)),
        };
        if let Asked::Busy = asked {
            self.note_busy(shown_room);
        }
        self.told(table, board, asking, asked)
    }

    /// What a table was asked under the next number has come to this.
    fn told(
        &mut self,
        table: usize,
        board: &Rc<Board>,
        asking: &Asking<'_>,
        asked: Asked<Verdict>,
    ) -> Told {
        match asked {
            Asked::Now(answer) => Told::Now(self.form(table, &asking.what, answer)),
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
        let mut room = [0; KEY_ROOM];
        let Place { table, key: Some(key) } = self.place(key, &mut room) else {
            return Got::Failed(Error::ForeignKey);
        };
        let (next, shown_room) = (self.next, self.shown_room(board));
        let member = self.at(table);
        member.limit_shown(shown_room);
        let got = member.get(key, next, out);
        match got {
            Got::Later => self.wait(board, asking),
            Got::Busy => self.note_busy(shown_room),
            _ => {}
        }
        got
    }

    /// Looks a value up in memory alone; `None` where that does not suffice.
    pub(super) fn get_at_once(&mut self, key: &[u8], out: &mut impl cache::Output) -> Option<Got> {
        let mut room = [0; KEY_ROOM];
        let Place { table, key: Some(key) } = self.place(key, &mut room) else {
            return Some(Got::Failed(Error::ForeignKey));
        };
        self.at(table).get_at_once(key, out)
    }
}
