//! Random schedules of whole workers.
//!
//! `KELVIN_SHUTTLE_SCHEDULES` says how many of each scenario; a failure prints the schedule that
//! `shuttle::replay` repeats.

use shuttle::{
    Config, Runner,
    rand::{Rng as _, thread_rng},
    scheduler::{PctScheduler, RandomScheduler},
};

use super::parallel::{Scenario, run};

/// Schedules of each scenario in CI: some 15 seconds each.
const SCHEDULES: usize = 400;

/// Changes of priority in a schedule of the second kind, which finds bugs that need a few
/// preemptions at the right places sooner.
const PREEMPTIONS: usize = 4;

fn explore(scenario: Scenario) {
    let variable = std::env::var("KELVIN_SHUTTLE_SCHEDULES").ok();
    let schedules = variable.map_or(SCHEDULES, |text| text.parse().expect("a number"));
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = shuttle::MaxSteps::FailAfter(20_000_000);
    let body = move || run(scenario, thread_rng().gen_range(1..u64::MAX >> 1));
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

#[test]
fn shuttle_nothing_is_missed_lost_or_mixed() {
    explore(ROOMY);
}

#[test]
fn shuttle_nothing_is_missed_while_the_index_grows() {
    explore(Scenario { threads: 3, steps: 30, prefilled: 88, own: 10, value_max: 48, ..ROOMY });
}

#[test]
fn shuttle_eviction_shares_no_slot() {
    explore(Scenario {
        threads: 3,
        steps: 60,
        blocks: 6,
        own: 20,
        value_max: 48,
        lossy: true,
        ..ROOMY
    });
}

#[test]
fn shuttle_blocks_move_between_classes_under_readers() {
    explore(Scenario {
        threads: 3,
        steps: 60,
        blocks: 16,
        own: 12,
        value_max: 2500,
        lossy: true,
        flushes: true,
        ..ROOMY
    });
}
