//! What waits for a key: behind the key's lock.
//!
//! Invariant: of the entries of one key at most one is ordered. Whatever is asked of the key goes
//! behind what waits there.

use std::{collections::VecDeque, sync::Arc};

use log::engine::{Reading, Upload};

/// What is to be done when the record is known.
#[derive(Debug)]
pub(crate) enum Task<C> {
    Get,
    Command(C),
}

/// Somebody who waits.
#[derive(Debug)]
pub(crate) struct Waiter<C> {
    pub(crate) worker: usize,
    pub(crate) caller: u64,
    pub(crate) bytes: usize,
    /// The lock of its key, if it waits in order: a hit of its worker would overtake it.
    pub(crate) lock: Option<usize>,
    /// When it came.
    pub(crate) asked_ms: u64,
    pub(crate) task: Task<C>,
    /// The parts of the value that the command may store.
    pub(crate) upload: Option<Box<Upload>>,
}

impl<C> Waiter<C> {
    /// The same, with the parts of the value that the command may store.
    pub(crate) fn with(self, upload: Option<Box<Upload>>) -> Self {
        Self { upload, ..self }
    }

    fn is_command(&self) -> bool {
        matches!(self.task, Task::Command(_))
    }
}

/// Those who wait for one read of a key, or for room.
#[derive(Debug)]
pub(crate) struct Pending<C> {
    pub(crate) id: u64,
    pub(crate) key: Arc<[u8]>,
    /// In the order in which they came. Mostly one comes alone, which needs no memory of its own.
    first: Option<Waiter<C>>,
    others: VecDeque<Waiter<C>>,
    /// How many of them are commands.
    commands: usize,
    /// The read that is under way; without one, the log has no room, or parts are not flushed.
    pub(crate) reading: Option<Arc<Reading>>,
    /// How often the record was looked up, and then elsewhere when it was read.
    pub(crate) looks: u32,
}

impl<C> Pending<C> {
    /// Somebody comes last.
    pub(crate) fn push(&mut self, waiter: Waiter<C>) {
        self.commands += usize::from(waiter.is_command());
        match &self.first {
            None => self.first = Some(waiter),
            Some(_) => self.others.push_back(waiter),
        }
    }

    /// Who was first has to wait again.
    pub(crate) fn push_again(&mut self, waiter: Waiter<C>) {
        self.commands += usize::from(waiter.is_command());
        if let Some(second) = self.first.replace(waiter) {
            self.others.push_front(second);
        }
    }

    /// Takes out who is first.
    pub(crate) fn pop(&mut self) -> Option<Waiter<C>> {
        let waiter = self.first.take()?;
        self.first = self.others.pop_front();
        self.commands -= usize::from(waiter.is_command());
        Some(waiter)
    }

    /// Whether it is one get of this worker that waits, and nobody else.
    pub(crate) fn is_one_get_of(&self, worker: usize) -> bool {
        let is_its = |it: &Waiter<C>| it.worker == worker && !it.is_command();
        self.others.is_empty() && self.first.as_ref().is_some_and(is_its)
    }

    /// How many wait.
    pub(crate) fn waiters(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// Bytes that the value may have, as far as that is known.
    pub(crate) fn value_bytes(&self) -> usize {
        self.reading.as_ref().map_or(0, |reading| reading.bytes())
    }

    /// Whether all that comes has to go behind. Gets alone have seen what the index led to when
    /// they came, so whoever changes the record may pass them; without a read they have seen
    /// nothing.
    fn is_ordered(&self) -> bool {
        self.commands > 0 || self.reading.is_none()
    }
}

/// All that waits for the keys of a lock.
#[derive(Debug)]
pub(crate) struct Place<C> {
    pending: Vec<Pending<C>>,
    next_id: u64,
}

impl<C> Default for Place<C> {
    fn default() -> Self {
        Self { pending: Vec::new(), next_id: 0 }
    }
}

impl<C> Place<C> {
    /// The queue that whatever is asked of the key has to go behind.
    #[inline]
    pub(crate) fn ordered(&mut self, key: &[u8]) -> Option<&mut Pending<C>> {
        if self.pending.is_empty() || base::mutant!("store_racing_updates") {
            return None;
        }
        self.pending.iter_mut().find(|it| *it.key == *key && it.is_ordered())
    }

    /// Those who wait for a read of the key that still leads to what the key is.
    pub(crate) fn same_read(
        &mut self,
        key: &[u8],
        leads: impl Fn(&Reading) -> bool,
    ) -> Option<&mut Pending<C>> {
        let is_same =
            |it: &&mut Pending<C>| *it.key == *key && it.reading.as_deref().is_some_and(&leads);
        self.pending.iter_mut().find(is_same)
    }

    /// Begins an entry for the key.
    pub(crate) fn begin(
        &mut self,
        key: Arc<[u8]>,
        reading: Option<Arc<Reading>>,
        waiter: Waiter<C>,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let commands = usize::from(waiter.is_command());
        let (first, others) = (Some(waiter), VecDeque::new());
        self.pending.push(Pending { id, key, first, others, commands, reading, looks: 1 });
        id
    }

    pub(crate) fn put_back(&mut self, pending: Pending<C>) {
        self.pending.push(pending);
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<Pending<C>> {
        let at = self.pending.iter().position(|it| it.id == id)?;
        Some(self.pending.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_ordered_as_long_as_it_has_commands_or_no_read() {
        let waiter = |task| {
            let (lock, upload) = (None, None);
            Waiter { worker: 0, caller: 0, bytes: 0, lock, asked_ms: 0, task, upload }
        };
        let mut place = Place::<u8>::default();
        let id = place.begin(b"k"[..].into(), None, waiter(Task::Command(1)));
        assert!(place.ordered(b"k").is_some() && place.ordered(b"other").is_none());
        let mut pending = place.take(id).expect("it is there");
        pending.push(waiter(Task::Get));
        pending.push(waiter(Task::Command(2)));
        let mut commands = vec![pending.commands];
        let first = pending.pop().expect("three wait");
        pending.push_again(first);
        while pending.pop().is_some() {
            commands.push(pending.commands);
        }
        assert_eq!(commands, [2, 1, 1, 0]);
        assert!(pending.is_ordered(), "there is no read");
    }
}
