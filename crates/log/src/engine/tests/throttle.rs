//! Puts that slow down before they would have to stop.

use super::{ahead::perform, *};
use crate::engine::{chunk::Allowance, throttle::share_bytes};

const RECORD_BYTES: u64 = 80;

/// A log in which every bound is 16 chunks of 2 KiB or more: so much may be lost, and segments are
/// so long.
fn wide(at_risk_bytes_max: u64, segment_bytes: u64) -> Log {
    let settings = Settings {
        chunks: if segment_bytes < 256 << 10 { 10 } else { 24 },
        at_risk_bytes_max,
        at_risk_ms_max: 1_000_000,
        ..settings(Mode::Async)
    };
    let mut disk = MemoryDisk::default();
    let new = New { log: LogId(5), shape: Shape { segment_bytes, ..shape() } };
    let opening = Opening { directories: 1, new, settings, now_ms: 0, progress: &mut |_| {} };
    let (engine, report) = Engine::open(&mut disk, opening, map_keys).unwrap();
    let mut log = Log { disk, engine, report, now_ms: 0 };
    log.settle();
    log
}

#[test]
fn shares_go_with_the_square_of_what_is_left() {
    let of = |left_mib: u64, bound_mib: u64| share_bytes(left_mib << 20, bound_mib << 20, 1 << 20);
    assert_eq!([of(8, 16), of(4, 16), of(2, 16), of(0, 16)], [512 << 10, 128 << 10, 32 << 10, 0]);
    // In segments of 64 MiB others help with moves before puts slow down, by half a chunk.
    assert!(of(16, 96) > 512 << 10 && of(8, 96) < 512 << 10);
    for bound in [0, 1, 1 << 20, u64::MAX] {
        assert_eq!(share_bytes(0, bound, 1 << 20), 0);
        assert!(share_bytes(bound, bound, 1 << 20) >= bound.min(1 << 20) / 16);
    }
}

/// Keys that are there in the beginning.
const KEYS: u32 = 3000;

/// How many records somebody puts who never rests, in each of 28 milliseconds. `beside` is what
/// others do meanwhile.
fn puts_by_ms(log: &mut Log, beside: impl FnMut(&mut Log)) -> Vec<u64> {
    puts_in_ms(log, 28, beside)
}

/// The same in each of so many milliseconds.
fn puts_in_ms(log: &mut Log, count: usize, mut beside: impl FnMut(&mut Log)) -> Vec<u64> {
    let mut number = 0u32;
    let mut one_ms = || {
        let first = number;
        loop {
            // Some of each segment.
            let key = (number * 1237 % KEYS).to_le_bytes();
            let put = Put { key: &key, value: &[1; 40], ..Put::default() };
            if log.engine.put(&put, log.now_ms).unwrap() == Wrote::Wait {
                break;
            }
            number += 1;
            beside(log);
        }
        let retry_at_ms = log.engine.retry_at_ms();
        assert_eq!(
            retry_at_ms,
            Some(log.now_ms + 1),
            "behind {} puts it is stopped",
            number - first
        );
        log.now_ms += 1;
        u64::from(number - first)
    };
    std::iter::repeat_with(&mut one_ms).take(count).collect()
}

/// That so many bytes are put, ever more slowly, and that no put waits for more than 3 ms.
fn check_slowing(puts: &[u64], bytes: std::ops::Range<u64>) {
    let all_bytes = puts.iter().sum::<u64>() * RECORD_BYTES;
    assert!(bytes.contains(&all_bytes), "{all_bytes} bytes in all, not {bytes:?}: {puts:?}");
    let parts = [0..8, 8..16, 16..24].map(|range| puts[range].iter().sum::<u64>());
    assert!(parts.is_sorted_by(|a, b| a > b), "puts do not slow down: {puts:?}");
    assert!(puts.windows(3).all(|three| three.iter().any(|it| *it > 0)), "one waits: {puts:?}");
}

#[test]
fn puts_slow_down_as_a_flush_takes_long() {
    let mut log = wide(32 << 10, 256 << 10);
    let puts = puts_by_ms(&mut log, |_| {});
    check_slowing(&puts, 26 << 10..28 << 10);
    assert_eq!(log.engine.counts().flushes, 0);
    // Without what was in the way they are as fast as before.
    log.flush();
    for key in 0..100u32 {
        let put = Put { key: &key.to_le_bytes(), value: &[2; 40], ..Put::default() };
        assert_ne!(log.engine.put(&put, log.now_ms).unwrap(), Wrote::Wait);
    }
}

/// That no put waits for more than 16 ms.
fn check_long_stall(puts: &[u64]) {
    let waits = puts.split(|it| *it > 0).map(<[u64]>::len).max().unwrap_or(0);
    assert!(waits <= 16, "a put has waited for {waits} ms: {puts:?}");
}

/// A record is to the bound as one of 40 KiB is to 16 MiB.
#[test]
fn nobody_is_stopped_by_a_device_that_stands_still_for_long() {
    let mut log = wide(32 << 10, 256 << 10);
    check_long_stall(&puts_in_ms(&mut log, 250, |_| {}));
}

#[test]
fn puts_slow_down_as_no_other_segment_is_ready() {
    let mut log = wide(1 << 20, 64 << 10);
    log.engine.free.truncate(log.engine.put_reserve() + 1);
    // Records are written and flushed, and nothing else is done.
    let puts = puts_by_ms(&mut log, |log| {
        while let Some(plan) = log.engine.poll_records(log.now_ms) {
            perform(log, plan);
        }
    });
    // Its footer takes some of it.
    check_slowing(&puts, 32 << 10..64 << 10);
    check_long_stall(&puts_in_ms(&mut log, 200, |_| {}));
    log.settle();
    assert!(log.engine.free.len() > log.engine.put_reserve());
    let put = Put { key: b"key", value: &[2; 1000], ..Put::default() };
    assert_ne!(log.engine.put(&put, log.now_ms).unwrap(), Wrote::Wait, "one is ready");
}

#[test]
fn puts_slow_down_as_moves_take_long() {
    let mut log = wide(1 << 20, 64 << 10);
    for key in 0..KEYS {
        log.put(&key.to_le_bytes(), &[0; 40]).unwrap();
    }
    log.flush();
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    // Everything is done but what moves read.
    let mut reads = Vec::new();
    let puts = puts_by_ms(&mut log, |log| {
        while let Some(plan) = log.engine.poll(log.now_ms) {
            match plan.action {
                Action::Read { .. } => reads.push(plan),
                _ => perform(log, plan),
            }
        }
    });
    assert!(!reads.is_empty() && log.engine.counts().moved_bytes == 0);
    assert!(log.engine.debt_bytes().unwrap() <= 96 << 10, "puts come to the bound");
    check_slowing(&puts, 96 << 10..200 << 10);
    check_long_stall(&puts_in_ms(&mut log, 200, |_| {}));
    assert!(log.engine.debt_bytes().unwrap() <= 96 << 10, "puts come to the bound");
}

#[test]
fn a_put_that_is_longer_than_a_share_is_made_up_for() {
    let mut log = wide(32 << 10, 256 << 10);
    puts_in_ms(&mut log, 100, |_| {});
    // Some 3 KiB are left: a record of 400 bytes takes the shares of some milliseconds.
    let put = |key| Put { key, value: &[2; 360], ..Put::default() };
    while log.engine.put(&put(b"first"), log.now_ms).unwrap() == Wrote::Wait {
        log.now_ms += 1;
    }
    let waits = (0..100).take_while(|_| {
        log.now_ms += 1;
        log.engine.put(&put(b"second"), log.now_ms).unwrap() == Wrote::Wait
    });
    let waits = waits.count();
    assert!((5..17).contains(&waits), "it waits for {waits} ms");
}

#[test]
fn what_is_left_of_a_share_is_for_the_next_put() {
    let mut log = wide(32 << 10, 256 << 10);
    puts_by_ms(&mut log, |_| {});
    log.now_ms += 4;
    log.engine.now_ms = log.now_ms;
    let Allowance::Share(bytes) = log.engine.throttled(80, None) else {
        panic!("it is not slowed down")
    };
    for _ in 0..100 {
        log.engine.pay(Allowance::Share(bytes));
        log.engine.take_back_allowance();
    }
    assert_eq!(log.engine.throttled(80, None), Allowance::Share(bytes), "it is lost");
}

#[test]
fn a_bound_of_few_chunks_slows_nobody_down_who_is_far_from_it() {
    for (may_be_lost, least) in [(6000, 4000), (400, 160)] {
        let mut log = wide(may_be_lost, 256 << 10);
        let mut puts = 0;
        while {
            let put = Put { key: &[puts], value: &[1; 40], ..Put::default() };
            log.engine.put(&put, log.now_ms).unwrap() != Wrote::Wait
        } {
            puts += 1;
        }
        assert!(u64::from(puts) * RECORD_BYTES >= least, "{puts} records, {may_be_lost} bytes");
    }
}

#[test]
fn removes_are_not_slowed_down() {
    let mut log = wide(32 << 10, 256 << 10);
    puts_by_ms(&mut log, |_| {});
    for number in 0..20 {
        let key = u32::to_le_bytes(number * 1237 % KEYS);
        let removed = log.engine.remove(&key, log.now_ms).unwrap();
        assert!(matches!(removed, Removed::Done { .. }), "{removed:?}");
    }
}

#[test]
fn in_safe_nobody_waits_for_time() {
    let mut log = wide(32 << 10, 256 << 10);
    log.engine.set_mode(Mode::Safe);
    let is_put = |key: &u32| {
        let put = Put { key: &key.to_le_bytes(), value: &[1; 40], ..Put::default() };
        log.engine.put(&put, log.now_ms).unwrap() != Wrote::Wait
    };
    let puts = (0..10_000).take_while(is_put).count() as u64;
    // All that there is memory for.
    assert_eq!(puts * RECORD_BYTES / 2000, 22);
    assert_eq!(log.engine.retry_at_ms(), None);
}

#[test]
fn who_waits_for_something_else_is_not_told_to_wait_for_time() {
    let mut log = wide(32 << 10, 256 << 10);
    let mut upload = log.engine.begin_large(b"large", 2000).unwrap();
    for part in [&[3; 1024][..], &[3; 976]] {
        log.engine.put_part(&mut upload, part, log.now_ms).unwrap();
    }
    puts_by_ms(&mut log, |_| {});
    assert!(log.engine.retry_at_ms().is_some());
    let head = Put { key: b"large", ..Put::default() };
    assert_eq!(log.engine.put_head(&upload, &head, log.now_ms).unwrap(), Wrote::Wait);
    assert_eq!(log.engine.retry_at_ms(), None, "it waits for its parts");
}

#[test]
fn time_counts_once_for_those_who_are_late() {
    let mut log = wide(32 << 10, 256 << 10);
    puts_by_ms(&mut log, |_| {});
    let now_ms = log.now_ms;
    let mut key = KEYS;
    let mut is_put_at = |now_ms| {
        key += 1;
        let put = Put { key: &key.to_le_bytes(), value: &[1; 40], ..Put::default() };
        log.engine.put(&put, now_ms).unwrap() != Wrote::Wait
    };
    // One of them looks what time it is before it does something that takes long.
    while is_put_at(now_ms) {}
    let puts = (0..100).filter(|at| is_put_at(now_ms - at % 2)).count();
    assert_eq!(puts, 0, "the same time counts for several puts");
}

#[test]
fn on_a_full_disk_nobody_waits_for_time() {
    let mut log = wide(1 << 20, 64 << 10);
    log.disk.fault = Some(Box::new(|action| match action {
        Action::Create { .. } => Some(Failure::Full),
        _ => None,
    }));
    let first_ms = log.now_ms;
    let refused = (0..10_000u32).find_map(|key| log.put(&key.to_le_bytes(), &[1; 40]).err());
    assert_eq!(refused, Some(Error::NoRoom));
    let took_ms = log.now_ms - first_ms;
    assert!(took_ms < 10, "that there is no room is said after {took_ms} ms");
}

#[test]
fn who_comes_behind_a_long_one_does_not_wait_for_all_of_it() {
    let mut log = wide(32 << 10, 256 << 10);
    puts_by_ms(&mut log, |_| {});
    // Many times as much as is left.
    log.engine.throttle.spend(1 << 20);
    let waits = (0..1000).take_while(|_| {
        log.now_ms += 1;
        log.engine.begin_write(log.now_ms);
        log.engine.throttled(80, None) == Allowance::Nothing
    });
    let waits = waits.count();
    assert!(waits <= 16, "a put has waited for {waits} ms");
}
