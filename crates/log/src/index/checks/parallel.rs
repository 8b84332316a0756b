//! Threads that share keys, against what each of them knows must be true.
//!
//! An entry's position counts how often its key was published, and is raised under the key's lock.
//! So a lock that two hold at once loses a count, a key with two slots shows an old one, and a
//! reader that is told less than he knew has seen the past.

use std::sync::atomic::{AtomicU64, Ordering};

use base::{
    random::Random,
    sync::{Arc, thread},
};

use super::{key, number_of, stamped};
use crate::index::{Index, KeyHash, Lookup};

/// What the threads do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) threads: u64,
    /// Operations of each thread.
    pub(super) steps: u32,
    /// Keys that are published again and again and never cleared.
    pub(super) kept: u64,
    /// Keys that are published and cleared.
    pub(super) cleared: u64,
}

/// By key: how often it was published. Plain atomics: a checker need not schedule them.
type Known = Vec<AtomicU64>;

/// Runs the threads to their end, and checks what there is then.
pub(super) fn run(index: Index, scenario: Scenario, seed: u64) {
    let keys = scenario.kept + scenario.cleared;
    let shared: Arc<(Index, Known)> =
        Arc::new((index, (0..keys).map(|_| AtomicU64::new(0)).collect()));
    let threads: Vec<_> = (0..scenario.threads)
        .map(|number| {
            let shared = Arc::clone(&shared);
            let random = Random::new(seed, number);
            thread::spawn(move || work(&shared.0, &shared.1, scenario, random))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread ends"));
    let (index, known) = &*shared;
    let mut present = 0;
    for (number, known) in (0..keys).zip(known) {
        let found = match index.get(name(index, number)) {
            Lookup::At(entry) => number_of(entry),
            _ => 0,
        };
        present += u64::from(found != 0);
        if number < scenario.kept {
            assert_eq!(
                found,
                known.load(Ordering::Relaxed),
                "out of turn: key {number} lost a count"
            );
        }
    }
    assert_eq!(index.len(), present, "out of turn: entries and keys differ");
    if let Index::Hash(hash) = index {
        hash.validate();
    }
}

fn name(index: &Index, number: u64) -> KeyHash {
    match index {
        Index::Flat(_) => KeyHash::from(number),
        Index::Hash(_) => key(number),
    }
}

fn work(index: &Index, known: &Known, scenario: Scenario, mut random: Random) {
    let keys = u32::try_from(known.len()).expect("few keys");
    for _ in 0..scenario.steps {
        let number = u64::from(random.below(keys));
        let is_kept = number < scenario.kept;
        let (key, count) = (name(index, number), &known[number as usize]);
        match random.below(3) {
            0 => {
                let before = count.load(Ordering::Acquire);
                match index.get(key) {
                    Lookup::At(entry) => {
                        let seen = number_of(entry);
                        assert!(
                            seen >= before || !is_kept,
                            "out of turn: key {number} is {seen} after {before}"
                        );
                        assert!(
                            seen <= count.load(Ordering::Acquire) + 1,
                            "out of turn: from the future"
                        );
                    }
                    Lookup::Absent => {
                        assert!(before == 0 || !is_kept, "out of turn: key {number} is missed");
                    }
                    other => panic!("{other:?}"),
                }
            }
            1 if !is_kept => {
                if let Some(mut guard) = index.lock_present(key).expect("loaded") {
                    let entry = guard.entry();
                    assert_eq!(guard.clear(), entry, "out of turn: another entry");
                    assert_eq!(guard.entry(), None, "out of turn: locked by two");
                }
            }
            _ => {
                let mut guard = index.lock(key).expect("room");
                let before = guard.entry().map_or(0, number_of);
                let next = if is_kept { before + 1 } else { 1 };
                let old = guard.publish(stamped(next)).map_or(0, number_of);
                assert_eq!(old, before, "out of turn: key {number} is locked by two");
                assert_eq!(guard.entry().map(number_of), Some(next), "out of turn: locked by two");
                if is_kept {
                    let held = count.swap(next, Ordering::Release);
                    assert_eq!(held, before, "out of turn: key {number} is locked by two");
                }
            }
        }
    }
}
