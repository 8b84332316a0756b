//! Puts as fast as they go, and puts that come when they come.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::disk::{engine::Session, latency::Latencies};

/// A put that is due sooner than this is waited for without sleep.
const SPIN_TIME: Duration = Duration::from_micros(100);

/// A store that is so far behind is not waited for.
const LAG_MAX: Duration = Duration::from_secs(30);

/// What puts took.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(super) struct Pace {
    pub(super) per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) worst_ms: f64,
}

impl Pace {
    pub(super) fn of(latencies: &Latencies, time: Duration) -> Self {
        Self {
            per_s: latencies.count() as f64 / time.as_secs_f64().max(1e-9),
            p50_us: latencies.share_us(0.5),
            p99_us: latencies.share_us(0.99),
            p999_us: latencies.share_us(0.999),
            worst_ms: latencies.worst_ms(),
        }
    }
}

/// Puts one after the other, at most so many and for so long.
pub(super) fn closed<'v>(
    session: &mut dyn Session,
    mut next: impl FnMut() -> (u32, &'v [u8]),
    (count, time): (u64, Duration),
    note: impl Fn(),
) -> io::Result<Latencies> {
    let mut latencies = Latencies::default();
    let start = Instant::now();
    let mut last = start;
    for _ in 0..count {
        let (key, value) = next();
        session.put(key, value)?;
        let now = Instant::now();
        latencies.add(now - last);
        last = now;
        note();
        if now - start >= time {
            break;
        }
    }
    Ok(latencies)
}

/// Puts that are due at equal distances, `per_s` of them, for a time, as long as there are some.
/// What each took counts from when it was due: also that the one before was not done.
pub(super) fn open<'v>(
    session: &mut dyn Session,
    mut next: impl FnMut() -> Option<(u32, &'v [u8])>,
    per_s: f64,
    time: Duration,
) -> io::Result<Pace> {
    let mut latencies = Latencies::default();
    let count = (per_s * time.as_secs_f64()).max(1.0) as u64;
    let start = Instant::now();
    for nth in 0..count {
        let Some((key, value)) = next() else { break };
        let due = start + Duration::from_secs_f64(nth as f64 / per_s);
        wait_until(due);
        session.put(key, value)?;
        let late = due.elapsed();
        latencies.add(late);
        if late > LAG_MAX {
            break;
        }
    }
    Ok(Pace::of(&latencies, start.elapsed()))
}

fn wait_until(due: Instant) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(SPIN_TIME) {
            Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
            _ => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        io,
        time::{Duration, Instant},
    };

    use super::{closed, open};
    use crate::disk::engine::Session;

    /// Every put takes no time, but for one.
    struct Slow {
        puts: u32,
        slow: u32,
    }

    impl Session for Slow {
        fn put(&mut self, _: u32, _: &[u8]) -> io::Result<()> {
            self.puts += 1;
            if self.puts == self.slow {
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        }

        fn get(&mut self, _: u32, _: &mut [u8]) -> io::Result<Option<usize>> {
            Ok(None)
        }

        fn remove(&mut self, _: u32) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_came_during_a_slow_put_was_late_too() {
        let mut session = Slow { puts: 0, slow: 10 };
        let time = Duration::from_millis(100);
        let pace = open(&mut session, || Some((1, b"v")), 1000.0, time).expect("it runs");
        assert_eq!(session.puts, 100);
        // Half of the puts were due within the 50 ms, and waited for what was left of them.
        assert!(pace.p99_us > 45_000.0, "{pace:?}");
        assert!(pace.worst_ms >= 50.0, "{pace:?}");
        let mut left = 20;
        let some = || {
            left -= 1;
            (left >= 0).then_some((1, &b"v"[..]))
        };
        open(&mut session, some, 1e6, time).expect("it runs");
        assert_eq!(session.puts, 120);
    }

    #[test]
    fn as_fast_as_they_go_they_end_by_number_or_time() {
        let (noted, mut session) = (Cell::new(0), Slow { puts: 0, slow: 0 });
        let note = || noted.set(noted.get() + 1);
        let limit = (200, Duration::MAX);
        let taken = closed(&mut session, || (1, b"v"), limit, note).expect("it runs");
        assert_eq!((taken.count(), noted.get()), (200, 200));
        let begun = Instant::now();
        let limit = (u64::MAX, Duration::from_millis(10));
        closed(&mut session, || (1, b"v"), limit, note).expect("it runs");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
