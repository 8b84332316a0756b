//! Workers on real threads, and on miri's.

use std::hash::{BuildHasher as _, RandomState};

use super::parallel::{Scenario, run};

/// Memory is short, and everything is asked for.
const SHORT: Scenario = Scenario {
    threads: 2,
    steps: if cfg!(miri) { 50 } else { 20_000 },
    blocks: if cfg!(miri) { 12 } else { 48 },
    prefilled: 0,
    own: if cfg!(miri) { 8 } else { 200 },
    value_max: if cfg!(miri) { 2000 } else { 300_000 },
    lossy: true,
    flushes: true,
};

fn run_anew(scenario: Scenario) {
    let seed = RandomState::new().hash_one(0) >> 1 | 1;
    println!("seed {seed}");
    run(scenario, seed);
}

#[test]
fn miri_workers_short_of_memory_serve_what_was_stored() {
    run_anew(SHORT);
}

#[test]
fn miri_workers_with_enough_memory_lose_nothing() {
    let blocks = if cfg!(miri) { 64 } else { 2048 };
    let own = if cfg!(miri) { 4 } else { 100 };
    run_anew(Scenario { blocks, own, lossy: false, flushes: false, ..SHORT });
}
