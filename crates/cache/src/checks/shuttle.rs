//! Random schedules of whole workers.
//!
//! A failure prints the schedule that `shuttle::replay` repeats.

use shuttle::{
    Config, Runner,
    rand::{Rng as _, thread_rng},
    scheduler::{PctScheduler, RandomScheduler},
};

use super::parallel::{Scenario, run};

/// Schedules of each scenario in CI: 4 to 9 ms each, half a minute for all on two cores.
const SCHEDULES: usize = 2_500;
/// Schedules of each scenario in a soak run: a quarter of an hour.
const SCHEDULES_SOAK: usize = 40_000;

/// Changes of priority in a schedule of the second kind, which finds bugs that need a few
/// preemptions at the right places sooner.
const PREEMPTIONS: usize = 4;

/// Steps after which a schedule counts as hung: a thousand times the usual.
const STEPS_MAX: usize = 20_000_000;

fn explore(scenario: Scenario, schedules: usize) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
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

#[test]
#[ignore = "soak: a quarter of an hour"]
fn shuttle_soak_all_scenarios() {
    for scenario in [ROOMY, GROWING, EVICTING, MOVING] {
        explore(scenario, SCHEDULES_SOAK);
    }
}
