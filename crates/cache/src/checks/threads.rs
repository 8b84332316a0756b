//! Workers on real threads, and on miri's.

use std::hash::{BuildHasher as _, RandomState};

use base::sync::atomic::Ordering;

use super::parallel::{Scenario, cache, run};
use crate::{
    Get, PolicyKind, Put, Value,
    geometry::{BLOCK_BYTES, INLINE_VALUE_MAX_BYTES},
};

/// Memory is short, and everything is asked for.
const SHORT: Scenario = Scenario {
    threads: 2,
    steps: if cfg!(miri) { 8 } else { 1_500 },
    blocks: if cfg!(miri) { 14 } else { 48 },
    prefilled: 0,
    own: if cfg!(miri) { 8 } else { 200 },
    value_max: if cfg!(miri) { 1200 } else { 300_000 },
    lossy: true,
    flushes: true,
};

fn run_anew(scenario: Scenario) {
    let seed = RandomState::new().hash_one(0) >> 4;
    // One after the other, each with another policy; miri has time for one.
    let policies = if cfg!(miri) { 1 } else { PolicyKind::ALL.len() as u64 };
    for seed in seed..seed + policies {
        println!("seed {seed}");
        let stats = run(scenario, seed);
        let was_short = stats.evictions > 100;
        assert!(cfg!(miri) || was_short || scenario.blocks > SHORT.blocks, "{stats:?}");
    }
}

#[test]
fn miri_workers_short_of_memory_serve_what_was_stored() {
    run_anew(SHORT);
}

#[test]
fn miri_workers_with_enough_memory_lose_nothing() {
    let blocks = if cfg!(miri) { 24 } else { 2048 };
    let own = if cfg!(miri) { 3 } else { 100 };
    run_anew(Scenario { blocks, own, lossy: false, flushes: false, ..SHORT });
}

/// The largest length that a header can say, which is more than a value inline may have.
const LENGTH_MASK: u64 = 0x1fff << 8;

#[test]
fn length_that_leads_out_of_the_block_is_not_believed() {
    let cache = cache(24, 7);
    let mut worker = cache.worker().expect("a place");
    let memory = &cache.table().memory;
    // As many as fill a block and more: one of them is the last in it.
    for number in 0..BLOCK_BYTES / INLINE_VALUE_MAX_BYTES {
        let name = number.to_le_bytes();
        let key = worker.key(&name);
        let put = Put::new(Value::Bytes(&[1; INLINE_VALUE_MAX_BYTES]));
        worker.set(key, &put).expect("memory");
        let locations = memory.index.buckets_of_entries(&memory.arena);
        let is_it = |at: &&(u64, usize)| memory.hash_at(at.1) == Some(key.hash);
        let (_, location) = *locations.iter().find(is_it).expect("stored");
        memory.arena.word(location).fetch_or(LENGTH_MASK, Ordering::Relaxed);
        let found = worker.get(key, &mut Vec::new());
        assert!(matches!(found, Get::Miss), "a torn length was believed: {found:?}");
    }
}
