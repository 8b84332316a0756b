//! Random schedules of whole workers.
//!
//! A failure prints the schedule that `shuttle::replay` repeats.

use base::sync::thread;
use shuttle::{
    Config, Runner,
    rand::{Rng as _, thread_rng},
    scheduler::{PctScheduler, RandomScheduler},
};

use super::parallel::{Name, Scenario, cache, run};
use crate::{Get, Put, Value, Worker};

/// Schedules of each scenario in CI: 4 to 9 ms each, half a minute for all on two cores.
pub(super) const SCHEDULES: usize = 2_500;
/// Schedules of each scenario in a soak run: a quarter of an hour.
const SCHEDULES_SOAK: usize = 40_000;

/// Changes of priority in a schedule of the second kind, which finds bugs that need a few
/// preemptions at the right places sooner.
const PREEMPTIONS: usize = 4;

/// Steps after which a schedule counts as hung: a thousand times the usual.
const STEPS_MAX: usize = 20_000_000;

fn explore(scenario: Scenario, schedules: usize) {
    explore_body(schedules, move || {
        run(scenario, thread_rng().gen_range(1..u64::MAX >> 1));
    });
}

pub(super) fn explore_body(schedules: usize, body: impl Fn() + Copy + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    let random = RandomScheduler::new(schedules.div_ceil(2));
    Runner::new(random, config.clone()).run(body);
    Runner::new(PctScheduler::new(PREEMPTIONS, schedules.div_ceil(2)), config).run(body);
}

/// Memory suffices: nothing may be missed, and no increment lost.
const ROOMY: Scenario = Scenario {
    threads: 3,
    steps: 40,
    blocks: 96,
    prefilled: 0,
    own: 4,
    value_max: 3000,
    lossy: false,
    flushes: false,
};

/// Enough records for the index to grow all the time.
const GROWING: Scenario = Scenario { steps: 30, prefilled: 88, own: 10, value_max: 48, ..ROOMY };

/// A few blocks of small records, all evicting.
const EVICTING: Scenario =
    Scenario { steps: 60, blocks: 6, own: 20, value_max: 48, lossy: true, ..ROOMY };

/// Small and large records push each other out.
const MOVING: Scenario = Scenario {
    steps: 60,
    blocks: 16,
    own: 12,
    value_max: 2500,
    lossy: true,
    flushes: true,
    ..ROOMY
};

#[test]
fn shuttle_nothing_is_missed_lost_or_mixed() {
    explore(ROOMY, SCHEDULES);
}

#[test]
fn shuttle_nothing_is_missed_while_the_index_grows() {
    explore(GROWING, SCHEDULES);
}

#[test]
fn shuttle_eviction_shares_no_slot() {
    explore(EVICTING, SCHEDULES);
}

#[test]
fn shuttle_blocks_move_between_classes_under_readers() {
    explore(MOVING, SCHEDULES);
}

/// Keys that are there before the threads begin: most buckets have one place left or none, so which
/// one a new key goes to changes all the time.
const PREFILLED: u32 = 84;
/// Keys that both threads add.
const ADDED: u32 = 8;

#[test]
fn shuttle_two_threads_add_a_key_once() {
    explore_body(SCHEDULES, || {
        let cache = cache(96, thread_rng().gen_range(1..u64::MAX >> 1));
        let mut worker = cache.worker().expect("a place");
        for number in 0..PREFILLED {
            set(&mut worker, number);
        }
        drop(worker);
        let threads = [(); 2].map(|()| {
            let cache = cache.clone();
            thread::spawn(move || {
                let mut worker = cache.worker().expect("a place");
                for number in PREFILLED..PREFILLED + ADDED {
                    set(&mut worker, number);
                }
            })
        });
        for thread in threads {
            thread.join().expect("a thread ends");
        }
        let memory = &cache.table().memory;
        let entries = memory.index.buckets_of_entries(&memory.arena);
        let mut hashes: Vec<_> = entries.iter().map(|at| memory.hash_at(at.1)).collect();
        hashes.sort_unstable();
        assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]), "a key was added twice");
    });
}

/// Times that each of two threads stores one key.
const OVERWRITES: u32 = 3;

/// A number is drawn before the key is locked, and yet who stores last has the greater one.
#[test]
fn shuttle_tokens_of_a_key_grow() {
    explore_body(SCHEDULES, || {
        let cache = cache(96, thread_rng().gen_range(1..u64::MAX >> 1));
        let threads = [(); 2].map(|()| {
            let cache = cache.clone();
            thread::spawn(move || {
                let mut worker = cache.worker().expect("a place");
                let mut greatest = 0;
                for _ in 0..OVERWRITES {
                    let token = set(&mut worker, 0).max(greatest);
                    greatest = seen(&mut worker, token);
                }
                greatest
            })
        });
        let greatest = threads.map(|thread| thread.join().expect("a thread ends"));
        let mut worker = cache.worker().expect("a place");
        greatest.into_iter().for_each(|token| {
            seen(&mut worker, token);
        });
    });
}

/// The token that the key has, which was seen with another one before.
fn seen(worker: &mut Worker, before: u64) -> u64 {
    let name = Name::of(0);
    let read = worker.get(worker.key(name.bytes()), &mut Vec::new());
    let Get::Hit(meta) = read else { panic!("present key missed") };
    assert!(meta.token >= before, "tokens went back: {before}, then {}", meta.token);
    meta.token
}

fn set(worker: &mut Worker, number: u32) -> u64 {
    let put = Put::new(Value::Bytes(b"value"));
    worker.set(worker.key(Name::of(number.into()).bytes()), &put).expect("memory")
}

#[test]
#[ignore = "soak: a quarter of an hour"]
fn shuttle_soak_all_scenarios() {
    for scenario in [ROOMY, GROWING, EVICTING, MOVING] {
        explore(scenario, SCHEDULES_SOAK);
    }
}
