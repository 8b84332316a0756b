//! Replies of a connection, in the order of its commands.
//!
//! Each command takes a slot. A reply leaves when it is there and all before it have left.
//! Thread safety: a plain value of the connection's thread.

use std::collections::VecDeque;

use crate::limits::{REPLY_BYTES_MAX, SLOTS_KEPT, SLOTS_MAX};

/// A slot that was taken and is to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(u64);

#[derive(Debug)]
struct Slot<R> {
    reply: Option<R>,
    bytes: usize,
}

/// The slots of a connection.
#[derive(Debug)]
pub struct Slots<R> {
    slots: VecDeque<Slot<R>>,
    /// The number of the slot in front.
    first: u64,
    bytes: usize,
}

impl<R> Default for Slots<R> {
    fn default() -> Self {
        Self { slots: VecDeque::new(), first: 0, bytes: 0 }
    }
}

impl<R> Slots<R> {
    /// Takes the next slot. `None` when no more may be taken before some replies have left: then no
    /// more is to be read from the connection.
    pub fn take(&mut self) -> Option<SlotId> {
        self.has_room().then(|| self.take_anyhow())
    }

    /// The same, whatever the bounds say: for what has been done and has to be answered. Who asks
    /// [`Slots::has_room`] before it does something passes them by one.
    pub fn take_anyhow(&mut self) -> SlotId {
        let id = SlotId(self.first + self.slots.len() as u64);
        self.slots.push_back(Slot { reply: None, bytes: 0 });
        id
    }

    /// Whether another slot may be taken.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.slots.len() < SLOTS_MAX && self.bytes < REPLY_BYTES_MAX
    }

    /// Whether the reply in front is there.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.slots.front().is_some_and(|slot| slot.reply.is_some())
    }

    /// The next reply to be sent, if it is there.
    #[must_use]
    pub fn peek(&self) -> Option<&R> {
        self.slots.front()?.reply.as_ref()
    }

    /// Whether a reply can be sent without a slot: none is taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Puts a reply of so many bytes into its slot.
    ///
    /// # Panics
    /// When there is no such slot, or it is filled.
    pub fn fill(&mut self, id: SlotId, reply: R, bytes: usize) {
        let mut at = id.0.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if base::mutant!("store_reply_overtakes") {
            at = self.slots.iter().position(|slot| slot.reply.is_none());
        }
        let slot = at.and_then(|at| self.slots.get_mut(at)).expect("a slot is taken first");
        assert!(slot.reply.is_none(), "a slot is filled once");
        *slot = Slot { reply: Some(reply), bytes };
        self.bytes += bytes;
    }

    /// The next reply to be sent, if it is there.
    pub fn send_next(&mut self) -> Option<(SlotId, R)> {
        let reply = self.slots.front_mut()?.reply.take()?;
        let sent = self.slots.pop_front()?;
        self.bytes -= sent.bytes;
        let id = SlotId(self.first);
        self.first += 1;
        if self.slots.is_empty() {
            self.slots.shrink_to(SLOTS_KEPT);
        }
        Some((id, reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_in_the_order_of_their_commands() {
        let mut slots = Slots::default();
        let ids: Vec<SlotId> = (0..4).filter_map(|_| slots.take()).collect();
        slots.fill(ids[2], 'c', 1);
        slots.fill(ids[1], 'b', 1);
        assert_eq!((slots.is_due(), slots.peek()), (false, None));
        assert_eq!(slots.send_next(), None, "a reply overtakes the one before it");
        slots.fill(ids[0], 'a', 1);
        assert_eq!((slots.is_due(), slots.peek()), (true, Some(&'a')));
        let sent: Vec<char> =
            std::iter::from_fn(|| slots.send_next()).map(|(_, reply)| reply).collect();
        assert_eq!(sent, ['a', 'b', 'c']);
        assert!(!slots.is_empty());
        slots.fill(ids[3], 'd', 1);
        assert_eq!(slots.send_next(), Some((ids[3], 'd')));
        assert!(slots.is_empty());
    }

    #[test]
    fn so_many_are_taken_and_so_many_bytes() {
        let mut slots = Slots::default();
        let ids: Vec<SlotId> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!((ids.len(), slots.has_room()), (SLOTS_MAX, false));
        slots.fill(ids[0], (), REPLY_BYTES_MAX);
        slots.fill(ids[1], (), 1);
        assert!(slots.send_next().is_some());
        assert!(slots.take().is_some(), "one has left");
        slots.fill(ids[2], (), REPLY_BYTES_MAX - 1);
        assert!(slots.send_next().is_some() && slots.send_next().is_some());
        slots.fill(ids[3], (), REPLY_BYTES_MAX);
        assert_eq!(slots.take(), None, "the bytes are too many");
        let last = slots.take_anyhow();
        assert!(slots.send_next().is_some());
        assert!(slots.take().is_some());
        slots.fill(last, (), 1);
    }

    #[test]
    fn a_connection_at_rest_keeps_room_for_few() {
        let mut slots = Slots::default();
        let ids: Vec<SlotId> = std::iter::from_fn(|| slots.take()).collect();
        ids.into_iter().for_each(|id| slots.fill(id, [0_u8; 80], 80));
        while slots.send_next().is_some() {}
        let room = slots.slots.capacity();
        assert!(room < SLOTS_MAX / 2, "room for {room} slots is kept");
    }
}
