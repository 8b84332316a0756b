//! The replies of a connection that are not there yet, or wait for some that are not.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use cache::{INLINE_VALUE_MAX_BYTES, Pinned};
use reactor::ConnId;
use store::{Found, FoundValue, Large, SlotId, Slots};

use super::unsent::{Total, Unsent, UnsentValue};
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
    /// The number of the table that it comes from.
    pub(super) table: usize,
}

/// Where a value in parts is.
#[derive(Debug)]
pub(super) struct LargeBody {
    pub(super) table: usize,
    pub(super) large: Large,
}

/// A value that is sent from where it is.
#[derive(Debug)]
pub(super) enum Body {
    Pinned(Pinned),
    Found(FoundValue),
    /// It lies in parts, which are read when their turn has come.
    Large(Large),
}

impl From<Found> for Body {
    fn from(found: Found) -> Self {
        found.large.map_or(Self::Found(found.value), Self::Large)
    }
}

impl Reply {
    /// The value, if it lies in parts.
    pub(super) fn large(&self) -> Option<&Large> {
        match &self.value {
            Some(Body::Large(large)) => Some(large),
            None | Some(Body::Pinned(_) | Body::Found(_)) => None,
        }
    }

    /// Bytes of memory that it takes while it waits.
    pub(super) fn bytes(&self) -> usize {
        let value = match &self.value {
            None => 0,
            Some(Body::Pinned(pinned)) => pinned.meta().value_len as usize,
            Some(Body::Found(value)) => value.memory_bytes(),
            Some(Body::Large(large)) => large.bytes(),
        };
        self.head.capacity() + value
    }

    /// Whether its value is in a buffer that is read into again.
    fn is_read(&self) -> bool {
        matches!(self.value, Some(Body::Found(FoundValue::Read(_))))
    }

    /// Has a value that was read in memory of its own, if the connection has as many buffers of
    /// reads as it may.
    fn copied_if_many(&mut self, unsent: &Unsent) {
        if let Some(Body::Found(value)) = &mut self.value
            && let FoundValue::Read(read) = value
            && !unsent.may_hold_read()
        {
            *value = FoundValue::Shared(read.bytes().into());
        }
    }

    /// Sends it. A value that stays where it is counts as `unsent` until its client has it. Others
    /// follow at once if it is not the `last`.
    pub(super) fn write(mut self, replies: &mut Replies, unsent: &Rc<Unsent>, is_last: bool) {
        if let Some(Body::Found(FoundValue::Read(read))) = &mut self.value
            // Several short ones go in one piece, which costs less than a call.
            && (replies.is_empty() && is_last || read.bytes().len() > INLINE_VALUE_MAX_BYTES)
            && read.dress(&self.head, self.tail)
        {
            (self.head, self.tail) = (Vec::new(), &[]);
        }
        replies.put(&self.head);
        match self.value {
            // What lies in parts is sent apart from this.
            None | Some(Body::Large(_)) => {}
            Some(Body::Pinned(pinned)) => replies.attach(LargeValue::new(pinned)),
            Some(Body::Found(value)) => {
                let is_dressed = matches!(&value, FoundValue::Read(read) if read.is_dressed());
                if value.len() <= INLINE_VALUE_MAX_BYTES && !is_dressed {
                    replies.put(&value);
                } else {
                    let value = UnsentValue::new(value, Rc::clone(unsent));
                    replies.attach(LargeValue::unsent(value));
                }
            }
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
    /// How many replies in them have a value in parts: each keeps places in the log.
    large: Cell<usize>,
    unsent: Rc<Unsent>,
}

impl Board {
    pub(super) fn new(total: Rc<Total>) -> Self {
        let (slots, large) = (RefCell::default(), Cell::new(0));
        Self { slots, large, unsent: Rc::new(Unsent::new(total)) }
    }

    /// Says which connection of the loop it is.
    pub(super) fn settle(&self, connection: ConnId) {
        self.unsent.settle(connection);
    }

    pub(super) fn unsent(&self) -> &Rc<Unsent> {
        &self.unsent
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

    /// Takes the next slot, for what has been asked or answered. There is room, since that was
    /// looked for before.
    pub(super) fn take(&self) -> SlotId {
        self.slots.borrow_mut().take_anyhow()
    }

    /// Puts a reply into its slot. If it is the next one, the connection is to be served.
    pub(super) fn fill(&self, slot: SlotId, mut reply: Reply) {
        // It was made in a place for the longest line.
        reply.head.shrink_to_fit();
        reply.copied_if_many(&self.unsent);
        self.unsent.reads.set(self.unsent.reads.get() + usize::from(reply.is_read()));
        let bytes = reply.bytes();
        self.unsent.keep(bytes);
        self.large.set(self.large.get() + usize::from(reply.large().is_some()));
        self.slots.borrow_mut().fill(slot, reply, bytes);
        if self.is_due() {
            self.unsent.rouse();
        }
    }

    pub(super) fn send_next(&self) -> Option<Reply> {
        let (_, reply) = self.slots.borrow_mut().send_next()?;
        self.unsent.let_go(reply.bytes());
        self.large.set(self.large.get() - usize::from(reply.large().is_some()));
        self.unsent.reads.set(self.unsent.reads.get() - usize::from(reply.is_read()));
        Some(reply)
    }

    /// The value of the next reply, if it lies in parts.
    pub(super) fn next_large(&self) -> Option<LargeBody> {
        let slots = self.slots.borrow();
        let reply = slots.peek()?;
        Some(LargeBody { table: reply.table, large: reply.large()?.clone() })
    }

    /// Whether replies wait that keep places in the log.
    pub(super) fn has_large(&self) -> bool {
        self.large.get() > 0
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.unsent.let_all_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_counts_with_the_memory_that_it_takes() {
        let total = Rc::new(Total::default());
        let board = Board::new(Rc::clone(&total));
        let slots = [board.take(), board.take()];
        let mut head = Vec::with_capacity(512);
        head.extend(b"VALUE k 0 1\r\n1");
        board.fill(slots[1], head.into());
        assert!((14..64).contains(&total.bytes()), "a short reply takes {}", total.bytes());
        let value = Some(Body::Found(FoundValue::Shared(vec![b'v'; 10_000].into())));
        board.fill(slots[0], Reply { value, ..Reply::default() });
        assert!((10_014..10_064).contains(&total.bytes()));
        assert!(board.send_next().is_some_and(|reply| reply.head.is_empty()));
        assert!((14..64).contains(&total.bytes()));
        drop(board);
        assert_eq!(total.bytes(), 0);
    }
}
