//! How a cell is run on one store, and what is taken down.

use std::{
    io,
    sync::Barrier,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use super::{
    engine::{BATCH, Engine, Session},
    load::Load,
};

/// Values below are so fast to store that the clock is read once for several: as many.
const SMALL_VALUE_BYTES: usize = 256;
const SMALL_OPS_A_STEP: usize = 16;

/// Parts of a run that are timed apart, to show whether it becomes slower.
const PARTS: usize = 10;

/// A process is quiet when it takes a fiftieth of the time so many looks in a row. A store that
/// sorts what it has may take half a minute to be done.
const LOOK_TIME: Duration = Duration::from_millis(100);
const QUIET_SHARE: u32 = 50;
const QUIET_LOOKS: u32 = 4;
pub(super) const SETTLE_MAX: Duration = Duration::from_secs(60);

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Put,
    /// And compared.
    Get,
    /// The same, in batches, whose keys the store is told before.
    GetBatch,
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// From a place of the order on,
    pub(super) from: u32,
    /// at most so many,
    pub(super) count: u32,
    /// and none is begun after this time.
    pub(super) time: Option<Duration>,
    /// What of the order is stored, for gets.
    pub(super) stored: u32,
    /// Whether everything is flushed in the end, and that is timed, too.
    pub(super) flushes: bool,
}

impl Extent {
    /// Every record once.
    pub(super) fn all(load: &Load) -> Self {
        let records = load.records();
        Self { from: 0, count: records, time: None, stored: records, flushes: true }
    }

    /// For a time, when all are stored.
    pub(super) fn window(load: &Load, from: u32, time: Duration) -> Self {
        let records = load.records();
        Self { from, count: records, time: Some(time), stored: records, flushes: false }
    }
}

/// What a run took.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Taken {
    pub(super) ops: u32,
    pub(super) wall_s: f64,
    /// Of it the flush in the end.
    pub(super) flush_s: f64,
    /// Processor time of the process an operation.
    pub(super) cpu_us: f64,
    /// That 999 of 1000 operations took no more than. Of very small values of 16 puts together.
    pub(super) p999_us: f64,
    pub(super) worst_us: f64,
    /// Operations a second in each tenth of them.
    pub(super) tenths_per_s: Vec<f64>,
}

/// What a thread did.
struct Trail {
    start: Instant,
    end: Instant,
    ops: u32,
    /// Nanoseconds between looks at the clock.
    steps_ns: Vec<u64>,
}

/// Runs an operation on `threads` threads.
///
/// # Errors
/// When one fails, or a value is absent or wrong.
pub(super) fn run(
    engine: &dyn Engine,
    load: &Load,
    operation: Operation,
    threads: u32,
    extent: Extent,
) -> io::Result<Taken> {
    let barrier = Barrier::new(threads as usize);
    let cpu = process_time();
    let trails: io::Result<Vec<Trail>> = std::thread::scope(|scope| {
        let run = |thread| {
            let barrier = &barrier;
            let each = Thread { load, operation, thread, threads };
            scope.spawn(move || each.run(engine, barrier, extent))
        };
        let handles: Vec<_> = (0..threads).map(run).collect();
        handles.into_iter().map(|handle| handle.join().expect("a thread panicked")).collect()
    });
    let trails = trails?;
    let start = trails.iter().map(|trail| trail.start).min().expect("there is a thread");
    let mut end = trails.iter().map(|trail| trail.end).max().expect("there is a thread");
    let mut flush_s = 0.0;
    if operation == Operation::Put && extent.flushes {
        engine.flush()?;
        flush_s = end.elapsed().as_secs_f64();
        end = Instant::now();
    }
    let cpu = process_time() - cpu;
    let ops: u32 = trails.iter().map(|trail| trail.ops).sum();
    let tenths_per_s = tenths_per_s(&trails, ops_a_step(load, operation));
    let mut steps: Vec<u64> = trails.into_iter().flat_map(|trail| trail.steps_ns).collect();
    steps.sort_unstable();
    let step_us = |at: usize| steps.get(at).map_or(0.0, |ns| *ns as f64 / 1e3);
    Ok(Taken {
        ops,
        wall_s: (end - start).as_secs_f64(),
        flush_s,
        cpu_us: cpu.as_secs_f64() * 1e6 / f64::from(ops.max(1)),
        p999_us: step_us(rank(steps.len(), 0.999)),
        worst_us: step_us(steps.len().saturating_sub(1)),
        tenths_per_s,
    })
}

/// Waits until nothing goes on behind the calls, but no longer than that: the process takes next to
/// no processor time. Says whether it came to that.
pub(super) fn settle(time_max: Duration) -> bool {
    let begun = Instant::now();
    let mut quiet = 0;
    while quiet < QUIET_LOOKS && begun.elapsed() < time_max {
        let cpu = process_time();
        std::thread::sleep(LOOK_TIME);
        let is_quiet = process_time() - cpu < LOOK_TIME / QUIET_SHARE;
        quiet = if is_quiet { quiet + 1 } else { 0 };
    }
    quiet >= QUIET_LOOKS
}

/// The place of the first of `len` sorted values that a share of them is not above.
fn rank(len: usize, share: f64) -> usize {
    ((len as f64 * share).ceil() as usize).max(1) - 1
}

/// Operations a second in each tenth of them, in the order in which all threads together did them,
/// as long as none has ended: fewer threads have another rate, whatever is stored.
fn tenths_per_s(trails: &[Trail], ops_a_step: usize) -> Vec<f64> {
    let Some(start) = trails.iter().map(|trail| trail.start).min() else { return Vec::new() };
    let begun = |trail: &Trail| (trail.start - start).as_nanos() as u64;
    let ended = |trail: &Trail| begun(trail) + trail.steps_ns.iter().sum::<u64>();
    let all_until = trails.iter().map(ended).min().unwrap_or(0);
    let ends = trails.iter().flat_map(|trail| {
        let begun = begun(trail);
        trail.steps_ns.iter().scan(begun, |end, ns| {
            *end += ns;
            Some(*end)
        })
    });
    let mut ends: Vec<u64> = ends.filter(|end| *end <= all_until).collect();
    ends.sort_unstable();
    let (mut begun, mut done) = (0, 0);
    let tenths = (1..=PARTS).map(|nth| {
        let upto = ends.len() * nth / PARTS;
        let (end, steps) = (upto.checked_sub(1).map_or(0, |at| ends[at]), upto - done);
        let per_s = (steps * ops_a_step) as f64 * 1e9 / (end - begun).max(1) as f64;
        (begun, done) = (end, upto);
        per_s
    });
    tenths.collect()
}

/// Operations between looks at the clock.
fn ops_a_step(load: &Load, operation: Operation) -> usize {
    match operation {
        Operation::GetBatch => BATCH,
        _ if load.value_bytes() < SMALL_VALUE_BYTES => SMALL_OPS_A_STEP,
        _ => 1,
    }
}

/// Processor time of the process.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// One thread of a run.
struct Thread<'a> {
    load: &'a Load,
    operation: Operation,
    thread: u32,
    threads: u32,
}

impl Thread<'_> {
    fn run(&self, engine: &dyn Engine, barrier: &Barrier, extent: Extent) -> io::Result<Trail> {
        let session = engine.session();
        let mine = (extent.count.saturating_sub(self.thread)).div_ceil(self.threads);
        let ops_a_step = ops_a_step(self.load, self.operation);
        // Memory that is touched before the clock starts, where it is known how much.
        let steps = if extent.flushes { mine as usize / ops_a_step } else { 0 };
        let mut steps_ns = vec![0; steps];
        steps_ns.clear();
        let mut out = vec![0; self.load.value_bytes()];
        barrier.wait();
        let mut session = session?;
        let start = Instant::now();
        let (mut last, mut ops) = (start, 0);
        let mut batch = [0; BATCH];
        for turn in 0..mine {
            let key = match self.operation {
                Operation::GetBatch => {
                    let at = turn as usize % BATCH;
                    if at == 0 {
                        // Those behind the end are asked for by nobody.
                        batch = std::array::from_fn(|at| self.key(extent, turn + at as u32));
                        session.expect(&batch);
                    }
                    batch[at]
                }
                Operation::Put | Operation::Get => self.key(extent, turn),
            };
            self.operate(&mut *session, key, &mut out)?;
            ops += 1;
            if !(turn as usize + 1).is_multiple_of(ops_a_step) {
                continue;
            }
            let now = Instant::now();
            steps_ns.push((now - last).as_nanos() as u64);
            last = now;
            if extent.time.is_some_and(|time| now - start >= time) {
                break;
            }
        }
        Ok(Trail { start, end: Instant::now(), ops, steps_ns })
    }

    /// Of the operation of this thread at a place of its order.
    #[inline]
    fn key(&self, extent: Extent, turn: u32) -> u32 {
        let turn = turn.wrapping_mul(self.threads).wrapping_add(self.thread);
        let at = extent.from.wrapping_add(turn);
        match self.operation {
            Operation::Put => self.load.key(at),
            Operation::Get | Operation::GetBatch => self.load.stored_key(at, extent.stored),
        }
    }

    #[inline]
    fn operate(&self, session: &mut dyn Session, key: u32, out: &mut [u8]) -> io::Result<()> {
        let value = self.load.value(key);
        if self.operation == Operation::Put {
            return session.put(key, value);
        }
        match session.get(key, out)? {
            Some(bytes) if bytes == value.len() && out == value => Ok(()),
            Some(_) => Err(io::Error::other(format!("key {key} has a wrong value"))),
            None => Err(io::Error::other(format!("key {key} is absent"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::Ordering,
        time::{Duration, Instant},
    };

    use super::{Extent, Operation, Trail, rank, run, tenths_per_s};
    use crate::disk::{engine::memory::InMemory, load::Load};

    #[test]
    fn every_record_is_put_once_and_flushed_and_a_wrong_value_ends_a_run() {
        let (engine, load) = (InMemory::default(), Load::new(1003, 300));
        let taken = run(&engine, &load, Operation::Put, 4, Extent::all(&load)).expect("it runs");
        let count = |engine: &InMemory| engine.records.lock().expect("sound").len();
        assert_eq!((taken.ops, count(&engine)), (1003, 1003));
        assert_eq!(engine.flushes.load(Ordering::Relaxed), 1);
        let window = Extent::window(&load, 1000, Duration::from_secs(60));
        let some = Extent { count: 50, ..window };
        let taken = run(&engine, &load, Operation::Get, 3, some).expect("all are right");
        assert_eq!(taken.ops, 50);
        for (count, threads) in [(100, 1), (1003, 3)] {
            let some = Extent { count, ..window };
            let taken = run(&engine, &load, Operation::GetBatch, threads, some).expect("right");
            assert_eq!(taken.ops, count);
        }
        let key = load.key(17);
        engine.records.lock().expect("sound").get_mut(&key).expect("it is there")[7] ^= 1;
        let error = run(&engine, &load, Operation::Get, 3, window).expect_err("one is wrong");
        assert_eq!(error.to_string(), format!("key {key} has a wrong value"));
        engine.records.lock().expect("sound").remove(&key);
        assert!(run(&engine, &load, Operation::Get, 3, window).is_err());
        // What is not stored yet is not asked for.
        let stored = Extent { stored: 17, ..window };
        assert_eq!(run(&engine, &load, Operation::Get, 2, stored).expect("it runs").ops, 1003);
    }

    #[test]
    fn tenths_tell_when_a_run_became_slower() {
        let now = Instant::now();
        let trail = |steps_ns| Trail { start: now, end: now, ops: 1600, steps_ns };
        let slows: Vec<u64> = (0..100).map(|at| if at < 90 { 1000 } else { 2000 }).collect();
        let tenths = tenths_per_s(&[trail(slows)], 16);
        assert_eq!((&tenths[..9], &tenths[9..]), (&[16e6; 9][..], &[8e6][..]));
        // What one does when the other has ended is not what both do.
        let slower = vec![1250; 100];
        assert_eq!(tenths_per_s(&[trail(vec![1000; 100]), trail(slower)], 16), [28.8e6; 10]);
        let start = now + Duration::from_micros(100);
        let late = Trail { start, ..trail(vec![1000; 100]) };
        assert_eq!(tenths_per_s(&[trail(vec![1000; 100]), late], 16), [16e6; 10]);
        let none = trail(Vec::new());
        assert_eq!(tenths_per_s(&[none], 1), [0.0; 10]);
    }

    #[test]
    fn ranks_are_those_of_sorted_values() {
        assert_eq!([rank(1, 0.999), rank(1000, 0.999), rank(1001, 0.999)], [0, 998, 999]);
        assert_eq!(rank(0, 0.999), 0);
    }
}
