//! Replies that a thread has and its clients have not, counted together.
//!
//! A value that was read from the disk is memory that neither the cache nor the pool of buffers
//! counts: as long as it waits in a slot, and then until its client has taken it, it counts here.
//! A connection that must not add to it is roused when it has sent what it has.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
};

use reactor::ConnId;
use store::{FoundValue, limits::LARGE_IDLE_MS};

/// Values of a connection that may lie in the buffers that they were read into, in its slots and
/// in its output: eight clients that take nothing have all that values are sent from
/// ([`store::limits::READS_ANSWERED_MAX`]). With more, values are copied.
const READS_HELD_MAX: usize = 4;

/// How often it is looked whose clients take nothing.
const IDLE_LOOK_MS: u64 = 100;

/// Of all connections of a thread.
#[derive(Debug, Default)]
pub(super) struct Total {
    bytes: Cell<usize>,
    /// The time.
    now_ms: Cell<u64>,
    /// Connections that are to be served, since they have got replies or sent values.
    roused: RefCell<Vec<ConnId>>,
    /// Connections that have had values to send; some have none any more.
    senders: RefCell<Vec<Weak<Unsent>>>,
    /// When they are to be looked at again.
    look_ms: Cell<u64>,
}

impl Total {
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    pub(super) fn set_now(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
    }

    /// Has those be served, now and then, whose clients take nothing.
    pub(super) fn rouse_idle(&self) {
        let (senders, now_ms) = (self.senders.borrow(), self.now_ms.get());
        if now_ms < self.look_ms.get() {
            return;
        }
        self.look_ms.set(now_ms + IDLE_LOOK_MS);
        let idle = senders.iter().filter_map(Weak::upgrade).filter(|it| it.is_idle(now_ms));
        idle.for_each(|it| it.rouse());
    }

    fn enlist(&self, unsent: &Rc<Unsent>) {
        let mut senders = self.senders.borrow_mut();
        // Half of them may be gone.
        if senders.len() == senders.capacity() {
            senders.retain(|it| it.strong_count() > 0);
        }
        senders.push(Rc::downgrade(unsent));
    }

    pub(super) fn rouse(&self, connection: Option<ConnId>) {
        self.roused.borrow_mut().extend(connection);
    }

    pub(super) fn has_roused(&self) -> bool {
        !self.roused.borrow().is_empty()
    }

    /// Its list stays as long as it has become: there are as many in each turn.
    pub(super) fn take_roused(&self, rouse: impl FnMut(ConnId)) {
        self.roused.borrow_mut().drain(..).for_each(rouse);
    }

    fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() - bytes);
    }
}

/// Of a connection.
#[derive(Debug)]
pub(super) struct Unsent {
    total: Rc<Total>,
    /// Which of the loop it is, once that is known.
    connection: Cell<Option<ConnId>>,
    /// Bytes of replies in its slots.
    kept_bytes: Cell<usize>,
    /// Values that are in its output.
    values: Cell<usize>,
    /// Values in its slots and in its output that lie in buffers of reads.
    pub(super) reads: Cell<usize>,
    /// When its client took one of them last, or could begin to.
    taken_ms: Cell<u64>,
    is_enlisted: Cell<bool>,
    /// It is to be roused when there are none.
    waits: Cell<bool>,
    /// It will be roused at a time.
    pub(super) is_watched: Cell<bool>,
}

impl Unsent {
    pub(super) fn new(total: Rc<Total>) -> Self {
        Self {
            total,
            connection: Cell::new(None),
            kept_bytes: Cell::new(0),
            values: Cell::new(0),
            reads: Cell::new(0),
            taken_ms: Cell::new(0),
            is_enlisted: Cell::new(false),
            waits: Cell::new(false),
            is_watched: Cell::new(false),
        }
    }

    pub(super) fn settle(&self, connection: ConnId) {
        self.connection.set(Some(connection));
    }

    /// Has the connection served.
    pub(super) fn rouse(&self) {
        self.total.rouse(self.connection.get());
    }

    /// A reply waits in a slot.
    pub(super) fn keep(&self, bytes: usize) {
        self.kept_bytes.set(self.kept_bytes.get() + bytes);
        self.total.add(bytes);
    }

    /// One has left it.
    pub(super) fn let_go(&self, bytes: usize) {
        self.kept_bytes.set(self.kept_bytes.get() - bytes);
        self.total.give_back(bytes);
    }

    /// Whether one more of its values may lie in the buffer that it was read into.
    pub(super) fn may_hold_read(&self) -> bool {
        self.reads.get() < READS_HELD_MAX || base::mutant!("server_reads_held_unbounded")
    }

    /// Nobody takes them any more.
    pub(super) fn let_all_go(&self) {
        self.total.give_back(self.kept_bytes.take());
    }

    /// Whether a value is on its way to the client.
    pub(super) fn has_values(&self) -> bool {
        self.values.get() > 0
    }

    /// Whether its client has taken none of the values that are on their way to it for long.
    pub(super) fn is_idle(&self, now_ms: u64) -> bool {
        self.values.get() > 0 && now_ms >= self.taken_ms.get() + LARGE_IDLE_MS
    }

    /// Whether a value is on its way to the client. If so, the connection is roused when none is.
    pub(super) fn waits_for_client(&self) -> bool {
        self.waits.set(self.values.get() > 0);
        self.waits.get()
    }
}

/// A value on its way to a client: in the buffer that it was read into, with the rest of its reply
/// around it if there is room; or in memory that it shares with others who asked for the same read.
/// Each counts it.
#[derive(Debug)]
pub(in crate::memcached) struct UnsentValue {
    value: FoundValue,
    unsent: Rc<Unsent>,
}

impl UnsentValue {
    pub(super) fn new(value: FoundValue, unsent: Rc<Unsent>) -> Self {
        if unsent.values.get() == 0 {
            unsent.taken_ms.set(unsent.total.now_ms.get());
        }
        if !unsent.is_enlisted.replace(true) {
            unsent.total.enlist(&unsent);
        }
        unsent.values.set(unsent.values.get() + 1);
        unsent.reads.set(unsent.reads.get() + Self::reads_of(&value));
        if !base::mutant!("server_unsent_uncounted") {
            unsent.total.add(value.memory_bytes());
        }
        Self { value, unsent }
    }

    fn reads_of(value: &FoundValue) -> usize {
        usize::from(matches!(value, FoundValue::Read(_)))
    }

    pub(in crate::memcached) fn bytes(&self) -> &[u8] {
        match &self.value {
            FoundValue::Shared(value) => value,
            FoundValue::Read(value) => value.dressed(),
        }
    }
}

impl Drop for UnsentValue {
    fn drop(&mut self) {
        let unsent = &self.unsent;
        unsent.values.set(unsent.values.get() - 1);
        unsent.reads.set(unsent.reads.get() - Self::reads_of(&self.value));
        unsent.taken_ms.set(unsent.total.now_ms.get());
        if !base::mutant!("server_unsent_uncounted") {
            unsent.total.give_back(self.value.memory_bytes());
        }
        if unsent.values.get() == 0 && unsent.waits.take() {
            unsent.rouse();
        }
    }
}
