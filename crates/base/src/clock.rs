//! Time that a step of the wall clock cannot move.
//!
//! `now` is the wall time at start plus the monotonic time since, in milliseconds since the Unix
//! epoch. Expiries are absolute on this axis, so a step of the wall clock (NTP, an operator)
//! neither expires nor revives a record while the process runs. An absolute time that a client
//! sends is on the wall clock's axis and is converted when it arrives: `now + (t - wall)`.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A source of time. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System { start: Instant, start_ms: u64 },
    Manual(Arc<ManualTime>),
}

#[derive(Debug)]
struct ManualTime {
    now_ms: AtomicU64,
    wall_ms: AtomicU64,
}

impl Clock {
    /// The machine's clock, anchored at this moment.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System { start: Instant::now(), start_ms: wall_clock_ms() })
    }

    /// A clock that moves only when told to, for tests and simulation.
    #[must_use]
    pub fn manual(start_ms: u64) -> Self {
        Self(Source::Manual(Arc::new(ManualTime {
            now_ms: AtomicU64::new(start_ms),
            wall_ms: AtomicU64::new(start_ms),
        })))
    }

    /// Milliseconds since the Unix epoch on the axis that never steps.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        match &self.0 {
            Source::System { start, start_ms } => {
                start_ms + u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
            }
            Source::Manual(time) => time.now_ms.load(Ordering::Relaxed),
        }
    }

    /// Milliseconds since the Unix epoch as the wall clock shows them now.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        match &self.0 {
            Source::System { .. } => wall_clock_ms(),
            Source::Manual(time) => time.wall_ms.load(Ordering::Relaxed),
        }
    }

    /// Converts a time on the wall clock's axis to this clock's; times before its start become 0.
    #[must_use]
    pub fn from_wall_ms(&self, wall_ms: u64) -> u64 {
        (self.now_ms() + wall_ms).saturating_sub(self.wall_ms())
    }

    /// Moves a manual clock, and its wall, forward.
    ///
    /// # Panics
    /// Panics on the system clock.
    pub fn advance_ms(&self, by_ms: u64) {
        let time = self.manual_time();
        time.now_ms.fetch_add(by_ms, Ordering::Relaxed);
        time.wall_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Steps a manual clock's wall without moving time itself.
    ///
    /// # Panics
    /// Panics on the system clock.
    pub fn step_wall_to_ms(&self, wall_ms: u64) {
        self.manual_time().wall_ms.store(wall_ms, Ordering::Relaxed);
    }

    fn manual_time(&self) -> &ManualTime {
        match &self.0 {
            Source::Manual(time) => time,
            Source::System { .. } => panic!("only a manual clock can be moved"),
        }
    }
}

/// Nanoseconds since it was started, for measuring what milliseconds are too coarse for.
///
/// Copies go on from the same start. No step of the wall clock moves it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// One that is started now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since it was started; up to 584 years.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

fn wall_clock_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX / 2))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Clock, Stopwatch};

    #[test]
    fn a_step_of_the_wall_moves_no_expiry() {
        let clock = Clock::manual(1_000_000);
        clock.advance_ms(500);
        assert_eq!(clock.now_ms(), 1_000_500);
        clock.step_wall_to_ms(9_000_000);
        assert_eq!(clock.now_ms(), 1_000_500);
        assert_eq!(clock.from_wall_ms(9_000_250), 1_000_750);
        assert_eq!(clock.from_wall_ms(0), 0);
    }

    #[test]
    fn system_time_moves_forward_near_the_wall() {
        let clock = Clock::system();
        let first = clock.now_ms();
        assert!(clock.now_ms() >= first);
        assert!(clock.wall_ms().abs_diff(first) < 60_000);
    }

    #[test]
    fn a_stopwatch_and_its_copy_count_from_one_start() {
        let watch = Stopwatch::start();
        let copy = watch;
        let first_ns = watch.elapsed_ns();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(copy.elapsed_ns() >= first_ns + 2_000_000);
    }
}
