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

use std::time::Duration;

use base::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
    thread::{self, Thread},
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
            park(longest);
        }
        match self.told.load(Ordering::Acquire) {
            LOOK => Some(Told::Look),
            DONE => Some(Told::Settled(true)),
            FAILED => Some(Told::Settled(false)),
            _ => None,
        }
    }
}

/// A checker waits for ever: it is to find a call that never comes.
fn park(longest: Duration) {
    #[cfg(not(any(loom, shuttle)))]
    thread::park_timeout(longest);
    #[cfg(any(loom, shuttle))]
    {
        let _ = longest;
        thread::park();
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

    /// Whether anybody waits for a report: for room, mostly.
    pub(super) fn wait_for_reports(&self) -> bool {
        self.0.iter().any(|waiter| matches!(waiter.awaited, Awaited::Report))
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
        let has_next = !base::mutant!("log_no_next_leader") && !self.0.is_empty();
        if needs_leader && has_next {
            let leader = self.0.remove(0).seat;
            leader.told.store(LOOK, Ordering::Release);
            called.insert(0, leader);
        }
        Called(called)
    }
}

#[cfg(all(test, shuttle))]
mod checks {
    use base::sync::Mutex;

    use super::*;

    /// Schedules that are tried.
    const SCHEDULES: usize = 3000;

    /// What of a log concerns those who wait: tickets, and one write or flush at a time.
    #[derive(Default)]
    struct Log {
        waiters: Waiters,
        next: u64,
        written: u64,
        flushed: u64,
        is_busy: bool,
    }

    impl Log {
        fn settled(&self, last: Mark) -> Settled {
            if last < Mark::of(self.flushed) { Settled::Done } else { Settled::Pending }
        }

        /// The steps of `Shared::call`.
        fn call(log: &Mutex<Self>, needs_leader: bool) {
            let mut state = base::sync::lock(log);
            let mut waiters = std::mem::take(&mut state.waiters);
            let called = waiters.tell(needs_leader, |_, last| state.settled(last));
            state.waiters = waiters;
            drop(state);
            called.wake();
        }

        /// The steps of `Shared::advance`. Whether the wait is over.
        fn advance(log: &Mutex<Self>, mark: Mark) -> bool {
            let mut state = base::sync::lock(log);
            if state.settled(mark) == Settled::Done {
                return true;
            }
            if !state.is_busy {
                state.is_busy = true;
                let (is_flush, upto) = match state.written > state.flushed {
                    true => (true, state.written),
                    false => (false, state.next),
                };
                drop(state);
                thread::yield_now();
                let mut state = base::sync::lock(log);
                state.is_busy = false;
                let done = if is_flush { &mut state.flushed } else { &mut state.written };
                *done = upto;
                let goes = state.settled(mark) == Settled::Done;
                drop(state);
                Self::call(log, goes);
                return false;
            }
            let seat = state.waiters.sit(Awaited::Marks(mark, mark));
            drop(state);
            match seat.wait(Duration::MAX) {
                Some(Told::Settled(_)) => true,
                Some(Told::Look) => false,
                None => {
                    base::sync::lock(log).waiters.leave(&seat);
                    false
                }
            }
        }
    }

    #[test]
    fn shuttle_waiting_ends_for_every_writer() {
        let body = || {
            let log = Arc::new(Mutex::new(Log::default()));
            let writer = |log: Arc<Mutex<Log>>| {
                for _ in 0..3 {
                    let mut state = base::sync::lock(&log);
                    let mark = Mark::of(state.next);
                    state.next += 1;
                    drop(state);
                    while !Log::advance(&log, mark) {}
                }
            };
            let threads: Vec<_> = (0..4)
                .map(|_| Arc::clone(&log))
                .map(|log| thread::spawn(move || writer(log)))
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        };
        shuttle::check_random(body, SCHEDULES);
        shuttle::check_pct(body, SCHEDULES, 3);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
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
                let (long, start) = (Duration::from_secs(60), std::time::Instant::now());
                let told = std::iter::repeat_with(|| seat.wait(long)).flatten().next();
                assert!(start.elapsed() < long / 2, "nobody has woken it");
                told
            });
            receiver.recv().expect("it sits");
            waiter.lock().expect("no panic").tell(false, |_, _| Settled::Done).wake();
            assert_eq!(woken.join().expect("no panic"), Some(Told::Settled(true)));
        });
    }
}
