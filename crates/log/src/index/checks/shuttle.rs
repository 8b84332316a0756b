//! Random schedules of many threads. A failure prints the schedule that `shuttle::replay` repeats.

use shuttle::{
    Config, Runner,
    rand::{Rng as _, thread_rng},
    scheduler::{PctScheduler, RandomScheduler},
};

use super::{
    flat, hash,
    parallel::{Scenario, run},
};
use crate::index::Index;

/// Schedules of each scenario in CI.
const SCHEDULES: usize = 1_500;
/// Those of the one that takes ten times as long: 60 ms each.
const SCHEDULES_GROWING: usize = 300;
/// Schedules of each scenario in a soak run.
const SCHEDULES_SOAK: usize = 60_000;

/// Changes of priority in a schedule of the second kind.
const PREEMPTIONS: usize = 4;

/// Steps after which a schedule counts as hung: a hundred times the usual.
const STEPS_MAX: usize = 5_000_000;

fn explore(index: fn() -> Index, scenario: Scenario, schedules: usize) {
    let body = move || run(index(), scenario, thread_rng().gen_range(1..u64::MAX >> 1));
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    let random = RandomScheduler::new(schedules.div_ceil(2));
    Runner::new(random, config.clone()).run(body);
    Runner::new(PctScheduler::new(PREEMPTIONS, schedules.div_ceil(2)), config).run(body);
}

/// A line of keys.
const CROWDED: Scenario = Scenario { threads: 3, steps: 20, kept: 3, cleared: 2 };

/// Three times as many keys as the first lines have slots, so that lines are split and slots move
/// all the time.
const GROWING: Scenario = Scenario { threads: 3, steps: 60, kept: 90, cleared: 10 };

fn growing() -> Index {
    Index::Hash(hash(200))
}

#[test]
fn shuttle_index_flat_lines_are_locked_by_one() {
    explore(flat, CROWDED, SCHEDULES);
}

#[test]
fn shuttle_index_hash_lines_are_locked_by_one() {
    explore(growing, CROWDED, SCHEDULES);
}

#[test]
fn shuttle_index_nothing_is_missed_while_the_index_grows() {
    explore(growing, GROWING, SCHEDULES_GROWING);
}

#[test]
#[ignore = "soak: minutes"]
fn shuttle_soak_index() {
    explore(flat, CROWDED, SCHEDULES_SOAK);
    explore(growing, CROWDED, SCHEDULES_SOAK);
    explore(growing, GROWING, SCHEDULES_SOAK);
}
