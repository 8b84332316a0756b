//! Threads that wait for the log, each called by its name.
//!
//! Whoever reports an outcome tells those whose wait is over, and they go without taking the lock
//! again. With one condition for all, each of sixteen writers would wake up and queue for the lock
//! whenever a write or a flush was reported, and most of them for nothing.
//!
//! In `safe` those who wait perform what they wait for: one of them leads. A leader whose own wait
//! is over tells another one to lead.
//!
//! Thread safety: [`Waiters`] is behind the log's lock; a [`Seat`] is told once, by who has that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use crate::engine::{Mark, Settled};

/// What somebody waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    /// That everything from one mark to the other may be answered.
    Marks(Mark, Mark),
    /// Any report: there may be room then.
    Report,
}

/// What a thread that waits is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// To look again, and perform what is to be done.
    Look,
    /// What it waits for may be answered, or has failed.
    Settled(bool),
}

const SILENCE: u8 = 0;
const LOOK: u8 = 1;
const DONE: u8 = 2;
const FAILED: u8 = 3;

/// Where a thread waits.
#[derive(Debug)]
pub(super) struct Seat {
    told: AtomicU8,
    thread: Thread,
}

impl Seat {
    /// Waits to be told. `None` when nothing was said for so long, or perhaps sooner.
    pub(super) fn wait(&self, longest: Duration) -> Option<Told> {
        if self.told.load(Ordering::Acquire) == SILENCE {
            thread::park_timeout(longest);
        }
        match self.told.load(Ordering::Acquire) {
            LOOK => Some(Told::Look),
            DONE => Some(Told::Settled(true)),
            FAILED => Some(Told::Settled(false)),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Waiter {
    seat: Arc<Seat>,
    awaited: Awaited,
}

/// Who waits, in the order in which they came. No more than there are threads.
#[derive(Debug, Default)]
pub(super) struct Waiters(Vec<Waiter>);

/// Those who have been told something and are to be woken, without the lock.
#[derive(Debug)]
pub(super) struct Called(Vec<Arc<Seat>>);

impl Called {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn wake(self) {
        self.0.iter().for_each(|seat| seat.thread.unpark());
    }
}

impl Waiters {
    /// A seat for the calling thread.
    pub(super) fn sit(&mut self, awaited: Awaited) -> Arc<Seat> {
        let seat = Seat { told: AtomicU8::new(SILENCE), thread: thread::current() };
        let seat = Arc::new(seat);
        self.0.push(Waiter { seat: Arc::clone(&seat), awaited });
        seat
    }

    /// Somebody goes without having been told anything.
    pub(super) fn leave(&mut self, seat: &Arc<Seat>) {
        self.0.retain(|waiter| !Arc::ptr_eq(&waiter.seat, seat));
    }

    /// Tells everybody what there is to tell. `needs_leader` says that nobody is at work on what
    /// the others wait for: the one who has waited longest is to lead, and is woken first.
    pub(super) fn tell(
        &mut self,
        needs_leader: bool,
        settled: impl Fn(Mark, Mark) -> Settled,
    ) -> Called {
        let mut called = Vec::new();
        self.0.retain(|waiter| {
            let told = match waiter.awaited {
                Awaited::Report => LOOK,
                Awaited::Marks(first, last) => match settled(first, last) {
                    Settled::Pending => return true,
                    Settled::Done => DONE,
                    Settled::Failed => FAILED,
                },
            };
            waiter.seat.told.store(told, Ordering::Release);
            called.push(Arc::clone(&waiter.seat));
            false
        });
        if needs_leader && !self.0.is_empty() {
            let leader = self.0.remove(0).seat;
            leader.told.store(LOOK, Ordering::Release);
            called.insert(0, leader);
        }
        Called(called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Mark;

    const SHORT: Duration = Duration::from_millis(1);

    fn sit(waiters: &mut Waiters, at: u64) -> Arc<Seat> {
        waiters.sit(Awaited::Marks(Mark::of(at), Mark::of(at)))
    }

    #[test]
    fn each_is_told_what_concerns_it_and_the_first_of_the_others_leads() {
        let mut waiters = Waiters::default();
        let seats = [1, 2, 3, 4].map(|at| sit(&mut waiters, at));
        let room = waiters.sit(Awaited::Report);
        let settled = |_, last| match () {
            () if last == Mark::of(1) => Settled::Done,
            () if last == Mark::of(2) => Settled::Failed,
            () => Settled::Pending,
        };
        assert_eq!(waiters.tell(true, settled).0.len(), 4);
        let told = seats.each_ref().map(|seat| seat.wait(SHORT));
        let expected =
            [Some(Told::Settled(true)), Some(Told::Settled(false)), Some(Told::Look), None];
        assert_eq!(told, expected);
        assert_eq!(room.wait(SHORT), Some(Told::Look));
        // Nobody is told twice, and who has gone is told nothing.
        assert!(waiters.tell(false, settled).is_empty());
        waiters.leave(&seats[3]);
        assert!(waiters.tell(true, settled).is_empty());
    }

    #[test]
    fn who_is_called_wakes_up() {
        let mut waiters = Waiters::default();
        let waiter = std::sync::Mutex::new(&mut waiters);
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let woken = scope.spawn(|| {
                let seat = sit(&mut waiter.lock().expect("no panic"), 1);
                sender.send(()).expect("it listens");
                let long = Duration::from_secs(60);
                std::iter::repeat_with(|| seat.wait(long)).flatten().next()
            });
            receiver.recv().expect("it sits");
            waiter.lock().expect("no panic").tell(false, |_, _| Settled::Done).wake();
            assert_eq!(woken.join().expect("no panic"), Some(Told::Settled(true)));
        });
    }
}
