//! Logs that clients follow: `watch`.
//!
//! Whoever does something that a log tells writes a line to each watcher of that log; the
//! watcher's session takes the lines and sends them. A watcher that does not read loses lines,
//! which it is told, and costs [`LOG_BYTES_MAX`]. While nobody watches, the only cost is that data
//! threads look at [`Watchers::logs`] once for each group of requests.
//!
//! Thread safety: everything here may be shared. The list's lock is taken before a watcher's.

use std::{collections::VecDeque, fmt, fmt::Write as _};

use arrayvec::ArrayVec;
use base::{
    clock::Clock,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, AtomicU64, Ordering},
        lock,
    },
};
use reactor::ConnId;

/// Most watchers at a time, as in memcached.
pub const WATCHERS_MAX: usize = 20;

/// Bytes of lines that wait for a watcher. Of 20 watchers they are 1.3 MB, which no budget has to
/// know; a line takes some 100 bytes.
pub const LOG_BYTES_MAX: usize = 64 << 10;

/// Room for telling how many lines were skipped.
const SKIPPED_LINE_BYTES: usize = 32;

/// What wakes the session of a connection.
pub trait Rouse: Send + Sync {
    /// Has the session served soon, though nothing has come for it.
    fn rouse(&self, connection: ConnId);
}

/// Those who watch.
#[derive(Debug, Default)]
pub struct Watchers {
    /// Logs that somebody follows.
    logs: AtomicU16,
    watching: Mutex<Vec<Arc<Watcher>>>,
    lines: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
    lost: AtomicU64,
}

/// What was written and lost, since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Watchers now.
    pub watchers: u64,
    /// Lines written.
    pub lines: u64,
    /// Lines that watchers got, each counted for each.
    pub sent: u64,
    /// Lines that watchers were too slow for.
    pub skipped: u64,
    /// Events that were lost before they became lines.
    pub lost: u64,
}

/// One who watches.
pub struct Watcher {
    logs: u16,
    rouse: Arc<dyn Rouse>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<u8>,
    skipped: u64,
    /// Its connection; not known before its session was served for the first time.
    connection: Option<ConnId>,
    /// Its session will be served anyway.
    roused: bool,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("logs", &self.logs).finish_non_exhaustive()
    }
}

impl Watchers {
    /// The logs that somebody follows, as bits.
    #[must_use]
    #[inline]
    pub fn logs(&self) -> u16 {
        self.logs.load(Ordering::Relaxed)
    }

    /// One more watcher. `None` when there are as many as may be.
    /// `changed` is told which logs are followed then, before anybody else may change that.
    pub fn add(
        &self,
        logs: u16,
        rouse: Arc<dyn Rouse>,
        changed: impl FnOnce(u16),
    ) -> Option<Arc<Watcher>> {
        let mut watching = lock(&self.watching);
        if watching.len() == WATCHERS_MAX {
            return None;
        }
        let watcher = Arc::new(Watcher { logs, rouse, state: Mutex::default() });
        watching.push(Arc::clone(&watcher));
        changed(self.note_logs(&watching));
        Some(watcher)
    }

    /// Forgets a watcher. `changed` is told which logs are still followed, before anybody else may
    /// change that.
    pub fn remove(&self, watcher: &Arc<Watcher>, changed: impl FnOnce(u16)) {
        let mut watching = lock(&self.watching);
        watching.retain(|other| !Arc::ptr_eq(other, watcher));
        changed(self.note_logs(&watching));
    }

    fn note_logs(&self, watching: &[Arc<Watcher>]) -> u16 {
        let logs = watching.iter().fold(0, |logs, watcher| logs | watcher.logs);
        self.logs.store(logs, Ordering::Relaxed);
        logs
    }

    /// Writes what `write` says as a line of `log`, with time and number in front.
    pub fn log(&self, log: u16, clock: &Clock, write: impl FnOnce(&mut String)) {
        if self.logs() & log == 0 {
            return;
        }
        let mut what = String::new();
        write(&mut what);
        let wall_ms = clock.wall_ms();
        let mut to_rouse = ArrayVec::<_, WATCHERS_MAX>::new();
        // Under the lock, so that everybody sees the lines in the order of their numbers.
        let watching = lock(&self.watching);
        let number = self.lines.fetch_add(1, Ordering::Relaxed) + 1;
        let (s, ms) = (wall_ms / 1000, wall_ms % 1000);
        let line = format!("ts={s}.{ms:03}000 gid={number} {what}\n");
        for watcher in watching.iter().filter(|watcher| watcher.logs & log != 0) {
            let (fits, rouses) = watcher.push(line.as_bytes());
            let counter = if fits { &self.sent } else { &self.skipped };
            counter.fetch_add(1, Ordering::Relaxed);
            to_rouse.extend(rouses.map(|connection| (Arc::clone(&watcher.rouse), connection)));
        }
        drop(watching);
        // That may be a system call.
        for (rouse, connection) in to_rouse {
            rouse.rouse(connection);
        }
    }

    /// Notes events that were lost before they became lines.
    pub fn note_lost(&self, events: u64) {
        self.lost.fetch_add(events, Ordering::Relaxed);
    }

    /// What was written and lost.
    #[must_use]
    pub fn counts(&self) -> WatchCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WatchCounts {
            watchers: lock(&self.watching).len() as u64,
            lines: load(&self.lines),
            sent: load(&self.sent),
            skipped: load(&self.skipped),
            lost: load(&self.lost),
        }
    }
}

impl Watcher {
    /// Adds a line if there is room; returns whether there was, and who is to be woken.
    fn push(&self, line: &[u8]) -> (bool, Option<ConnId>) {
        let mut state = lock(&self.state);
        if state.lines.len() + SKIPPED_LINE_BYTES + line.len() > LOG_BYTES_MAX {
            state.skipped += 1;
            return (false, None);
        }
        if state.skipped > 0 {
            let mut skipped = String::new();
            let _ = writeln!(skipped, "skipped={}", state.skipped);
            state.lines.extend(skipped.as_bytes());
            state.skipped = 0;
        }
        state.lines.extend(line);
        (true, state.wakes())
    }

    /// Says which connection its session serves.
    pub fn settle(&self, connection: ConnId) {
        let mut state = lock(&self.state);
        if state.connection.is_none() {
            state.connection = Some(connection);
            if !state.lines.is_empty()
                && let Some(connection) = state.wakes()
            {
                self.rouse.rouse(connection);
            }
        }
    }

    /// Takes at most `bytes_max` bytes of lines.
    #[must_use]
    pub fn take(&self, bytes_max: usize) -> Vec<u8> {
        let mut state = lock(&self.state);
        state.roused = false;
        let count = state.lines.len().min(bytes_max);
        state.lines.drain(..count).collect()
    }
}

impl State {
    /// Who is to be woken for lines that have come.
    fn wakes(&mut self) -> Option<ConnId> {
        let asleep = self.connection.filter(|_| !self.roused);
        self.roused |= asleep.is_some();
        asleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rouses nobody.
    struct Deaf;

    impl Rouse for Deaf {
        fn rouse(&self, _connection: ConnId) {}
    }

    const LOG: u16 = 4;

    fn text(watcher: &Watcher) -> String {
        String::from_utf8(watcher.take(usize::MAX)).expect("text")
    }

    #[test]
    fn each_watcher_gets_the_logs_it_asked_for() {
        let (watchers, clock) = (Watchers::default(), Clock::manual(1_700_000_000_007));
        watchers.log(LOG, &clock, |_| unreachable!("nobody watches"));
        let one = watchers.add(LOG, Arc::new(Deaf), drop).expect("a place");
        let both = watchers.add(LOG | 1, Arc::new(Deaf), drop).expect("a place");
        assert_eq!(watchers.logs(), LOG | 1);
        watchers.log(LOG, &clock, |line| line.push_str("type=a"));
        watchers.log(1, &clock, |line| line.push_str("type=b"));
        watchers.log(2, &clock, |_| unreachable!("nobody watches this"));
        assert_eq!(text(&one), "ts=1700000000.007000 gid=1 type=a\n");
        let start = "ts=1700000000.007000 gid=";
        assert_eq!(text(&both), format!("{start}1 type=a\n{start}2 type=b\n"));
        watchers.remove(&both, |logs| assert_eq!(logs, LOG));
        let counts = WatchCounts { watchers: 1, lines: 2, sent: 3, skipped: 0, lost: 0 };
        assert_eq!(watchers.counts(), counts);
        watchers.remove(&one, |logs| assert_eq!(logs, 0));
    }

    #[test]
    fn who_does_not_read_loses_lines_and_is_told() {
        let (watchers, clock) = (Watchers::default(), Clock::manual(1_000));
        let watcher = watchers.add(LOG, Arc::new(Deaf), drop).expect("a place");
        let long = "x".repeat(1_000);
        for _ in 0..100 {
            watchers.log(LOG, &clock, |line| line.push_str(&long));
        }
        let skipped = watchers.counts().skipped;
        assert!((30..50).contains(&skipped), "{skipped}");
        assert!(lock(&watcher.state).lines.len() <= LOG_BYTES_MAX);
        let lines = text(&watcher);
        assert_eq!(lines.lines().count() as u64, 100 - skipped);
        assert!(!lines.contains("skipped"));
        watchers.log(LOG, &clock, |line| line.push_str("type=a"));
        assert_eq!(text(&watcher), format!("skipped={skipped}\nts=1.000000 gid=101 type=a\n"));
    }

    #[test]
    fn as_many_watch_as_may() {
        let watchers = Watchers::default();
        let all: Vec<_> =
            (0..WATCHERS_MAX).map(|_| watchers.add(1, Arc::new(Deaf), drop)).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(watchers.add(1, Arc::new(Deaf), drop).is_none());
        watchers.remove(all[3].as_ref().expect("a watcher"), drop);
        assert!(watchers.add(1, Arc::new(Deaf), drop).is_some());
    }
}
