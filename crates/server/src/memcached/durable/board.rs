//! The replies of a connection that are not there yet, or wait for some that are not.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use cache::{INLINE_VALUE_MAX_BYTES, Pinned};
use reactor::ConnId;
use store::{SlotId, Slots};

use crate::memcached::{large::LargeValue, record::Replies};

/// A reply.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// What comes before a value, or all of it.
    pub(super) head: Vec<u8>,
    pub(super) value: Option<Body>,
    /// What comes behind the value.
    pub(super) tail: &'static [u8],
    /// The connection ends behind it: the client cannot tell where the next reply begins.
    pub(super) is_last: bool,
}

/// A value that is sent from where it is.
#[derive(Debug)]
pub(super) enum Body {
    Pinned(Pinned),
    Shared(Arc<[u8]>),
}

impl Reply {
    pub(super) fn bytes(&self) -> usize {
        let value = match &self.value {
            None => 0,
            Some(Body::Pinned(pinned)) => pinned.meta().value_len as usize,
            Some(Body::Shared(value)) => value.len(),
        };
        self.head.len() + value + self.tail.len()
    }

    pub(super) fn write(self, replies: &mut Replies) {
        replies.put(&self.head);
        match self.value {
            None => {}
            Some(Body::Pinned(pinned)) => replies.attach(LargeValue::new(pinned)),
            Some(Body::Shared(value)) if value.len() <= INLINE_VALUE_MAX_BYTES => {
                replies.put(&value);
            }
            Some(Body::Shared(value)) => replies.attach(LargeValue::shared(value)),
        }
        replies.put(self.tail);
    }
}

impl From<&[u8]> for Reply {
    fn from(line: &[u8]) -> Self {
        Self { head: line.to_vec(), ..Self::default() }
    }
}

impl From<Vec<u8>> for Reply {
    fn from(head: Vec<u8>) -> Self {
        Self { head, ..Self::default() }
    }
}

/// The slots of a connection, which outlive it as long as answers are on their way.
#[derive(Debug)]
pub(super) struct Board {
    slots: RefCell<Slots<Reply>>,
    /// Which connection of the loop it is, once that is known.
    connection: Cell<Option<ConnId>>,
    /// Bytes of replies in its slots.
    bytes: Cell<usize>,
    /// The same of all boards of the thread.
    all_bytes: Rc<Cell<usize>>,
}

impl Board {
    pub(super) fn new(all_bytes: Rc<Cell<usize>>) -> Self {
        let (slots, connection) = (RefCell::default(), Cell::new(None));
        Self { slots, connection, bytes: Cell::new(0), all_bytes }
    }

    pub(super) fn connection(&self) -> Option<ConnId> {
        self.connection.get()
    }

    pub(super) fn settle(&self, connection: ConnId) {
        self.connection.set(Some(connection));
    }

    /// Whether a reply can go out without a slot.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.borrow().is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.slots.borrow().has_room()
    }

    /// Whether the next reply is there.
    pub(super) fn is_due(&self) -> bool {
        self.slots.borrow().is_due()
    }

    /// Takes the next slot, for which there is room.
    pub(super) fn take(&self) -> SlotId {
        self.slots.borrow_mut().take().expect("invariant: it was asked for room")
    }

    pub(super) fn fill(&self, slot: SlotId, reply: Reply) {
        let bytes = reply.bytes();
        self.bytes.set(self.bytes.get() + bytes);
        self.all_bytes.set(self.all_bytes.get() + bytes);
        self.slots.borrow_mut().fill(slot, reply, bytes);
    }

    pub(super) fn send_next(&self) -> Option<Reply> {
        let (_, reply) = self.slots.borrow_mut().send_next()?;
        let bytes = reply.bytes();
        self.bytes.set(self.bytes.get() - bytes);
        self.all_bytes.set(self.all_bytes.get() - bytes);
        Some(reply)
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.all_bytes.set(self.all_bytes.get() - self.bytes.get());
    }
}
