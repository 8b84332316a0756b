//! Puts as fast as they go, and puts that come when they come.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::disk::{
    engine::{Engine, Session},
    latency::Latencies,
};

/// A put that is due sooner than this is waited for without sleep.
const SPIN_TIME: Duration = Duration::from_micros(100);

/// A store that is so far behind is not waited for.
const LAG_MAX: Duration = Duration::from_secs(30);

/// From the start of the threads until the first put is due: they are there by then.
const LEAD_TIME: Duration = Duration::from_millis(5);

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

/// What puts took that came when they were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(super) struct Offered {
    #[serde(flatten)]
    pub(super) pace: Pace,
    /// How late those were begun for which nothing was done before: the waiting thread woke up so
    /// late, and that is in what they took, too.
    pub(super) woken_p99_us: f64,
    pub(super) woken_worst_ms: f64,
    /// Half of those took no longer once they were begun.
    pub(super) served_p50_us: f64,
    /// The store fell so far behind that no more puts came.
    pub(super) is_cut: bool,
}

/// When a writer's puts are due.
#[derive(Clone, Copy, Debug)]
struct Timetable {
    first: Instant,
    interval: Duration,
    count: u64,
}

/// What one writer found.
#[derive(Default)]
struct Trail {
    latencies: Latencies,
    woken: Latencies,
    served: Latencies,
    is_cut: bool,
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

/// Puts that are due at equal distances, `per_s` of them for a time, as long as there are some: of
/// each writer, on a thread of its own, an equal share in turn. What each took counts from when
/// it was due: also that the one before was not done.
pub(super) fn open<'v>(
    engine: &dyn Engine,
    writers: Vec<impl FnMut() -> Option<(u32, &'v [u8])> + Send>,
    per_s: f64,
    time: Duration,
) -> io::Result<Offered> {
    let each_per_s = per_s / writers.len() as f64;
    let interval = Duration::from_secs_f64(each_per_s.recip());
    let count = (each_per_s * time.as_secs_f64()).max(1.0) as u64;
    let start = Instant::now() + LEAD_TIME;
    let trails: Vec<io::Result<Trail>> = std::thread::scope(|scope| {
        let run = |(nth, next)| {
            let first = start + Duration::from_secs_f64(f64::from(nth) / per_s);
            let timetable = Timetable { first, interval, count };
            scope.spawn(move || offer(&mut *engine.session()?, next, timetable))
        };
        let handles: Vec<_> = (0_u32..).zip(writers).map(run).collect();
        handles.into_iter().map(|it| it.join().expect("a thread panicked")).collect()
    });
    let taken = start.elapsed();
    let mut all = Trail::default();
    for trail in trails {
        let trail = trail?;
        all.latencies.merge(&trail.latencies);
        all.woken.merge(&trail.woken);
        all.served.merge(&trail.served);
        all.is_cut |= trail.is_cut;
    }
    Ok(Offered {
        pace: Pace::of(&all.latencies, taken),
        woken_p99_us: all.woken.share_us(0.99),
        woken_worst_ms: all.woken.worst_ms(),
        served_p50_us: all.served.share_us(0.5),
        is_cut: all.is_cut,
    })
}

/// One writer's puts.
fn offer<'v>(
    session: &mut dyn Session,
    mut next: impl FnMut() -> Option<(u32, &'v [u8])>,
    Timetable { first, interval, count }: Timetable,
) -> io::Result<Trail> {
    let mut trail = Trail::default();
    for nth in 0..count {
        let Some((key, value)) = next() else { break };
        let due = first + interval.mul_f64(nth as f64);
        let woken = wait_until(due).then(|| due.elapsed());
        session.put(key, value)?;
        let late = due.elapsed();
        if let Some(woken) = woken {
            trail.woken.add(woken);
            trail.served.add(late - woken);
        }
        trail.latencies.add(late);
        if late > LAG_MAX {
            trail.is_cut = true;
            break;
        }
    }
    Ok(trail)
}

/// Waits, and says whether there was anything to wait for.
fn wait_until(due: Instant) -> bool {
    let mut has_waited = false;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return has_waited;
        }
        has_waited = true;
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
        sync::atomic::{AtomicU32, Ordering},
        time::{Duration, Instant},
    };

    use super::{closed, open};
    use crate::disk::engine::{Engine, Session};

    /// Every put takes no time, but for one.
    struct Slow {
        puts: AtomicU32,
        slow: u32,
    }

    impl Slow {
        fn new(slow: u32) -> Self {
            Self { puts: AtomicU32::new(0), slow }
        }

        fn puts(&self) -> u32 {
            self.puts.load(Ordering::Relaxed)
        }
    }

    impl Engine for Slow {
        fn session(&self) -> io::Result<Box<dyn Session + '_>> {
            Ok(Box::new(self))
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }

        fn settings(&self) -> String {
            String::new()
        }

        fn close(self: Box<Self>) -> io::Result<()> {
            Ok(())
        }
    }

    impl Session for &Slow {
        fn put(&mut self, _: u32, _: &[u8]) -> io::Result<()> {
            if self.puts.fetch_add(1, Ordering::Relaxed) + 1 == self.slow {
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

    const TIME: Duration = Duration::from_millis(100);

    fn always() -> Option<(u32, &'static [u8])> {
        Some((1, b"v"))
    }

    #[test]
    fn whoever_came_during_a_slow_put_was_late_too() {
        let engine = Slow::new(10);
        let offered = open(&engine, vec![always], 1000.0, TIME).expect("it runs");
        assert_eq!(engine.puts(), 100);
        // Half of the puts were due within the 50 ms, and waited for what was left of them.
        assert!(offered.pace.p99_us > 45_000.0, "{offered:?}");
        assert!(offered.pace.worst_ms >= 50.0, "{offered:?}");
        // They were not woken late: nobody slept.
        assert!(offered.woken_p99_us < offered.pace.p99_us, "{offered:?}");
        assert!(offered.woken_p99_us > 0.0 && !offered.is_cut, "{offered:?}");
        let mut left = 20;
        let some = || {
            left -= 1;
            (left >= 0).then_some((1, &b"v"[..]))
        };
        open(&engine, vec![some], 1e6, TIME).expect("it runs");
        assert_eq!(engine.puts(), 120);
    }

    #[test]
    fn every_writer_has_its_share_of_the_rate_and_waits_for_none_of_the_others() {
        let (engine, time) = (Slow::new(10), Duration::from_millis(60));
        let offered = open(&engine, vec![always; 4], 1000.0, time).expect("it runs");
        assert_eq!(engine.puts(), 60);
        // Of 50 puts that were due in the 50 ms, those of one writer were late: a fifth of all.
        assert!(offered.pace.p50_us < 10_000.0, "{offered:?}");
        assert!(offered.pace.worst_ms >= 50.0, "{offered:?}");
        assert!(offered.pace.per_s < 1100.0, "{offered:?}");
    }

    #[test]
    fn as_fast_as_they_go_they_end_by_number_or_time() {
        let (noted, engine) = (Cell::new(0), Slow::new(0));
        let note = || noted.set(noted.get() + 1);
        let limit = (200, Duration::MAX);
        let taken = closed(&mut &engine, || (1, b"v"), limit, note).expect("it runs");
        assert_eq!((taken.count(), noted.get()), (200, 200));
        let begun = Instant::now();
        let limit = (u64::MAX, Duration::from_millis(10));
        closed(&mut &engine, || (1, b"v"), limit, note).expect("it runs");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
