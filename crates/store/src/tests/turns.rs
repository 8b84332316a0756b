//! How much a worker does in one go that nobody waits for.

use super::*;
use crate::limits::TURNS_MAX;

const KEYS: u16 = 2000;

/// Stores a value under each of some keys.
fn store(table: &mut Table, keys: impl Iterator<Item = u16>, value: &'static [u8]) {
    for key in keys {
        let asked = table.ask(0, 0, &key.to_le_bytes(), Ask::Set(value, 0));
        assert!(matches!(asked, Asked::Now(Answer::Done { .. }) | Asked::Later), "{asked:?}");
        if key % 64 == 0 {
            table.run();
        }
    }
    table.run();
    taken(&mut table.workers[0]);
}

/// What the log has counted: turns that were taken, and records that were moved.
fn moved(table: &Table) -> (u64, u64) {
    table.store.with_log(|log| (log.unreported().turns, log.counts().records_moved))
}

#[test]
fn a_worker_that_moves_records_comes_back_to_what_else_there_is_to_do() {
    const VALUE: [u8; 1000] = [b'v'; 1000];
    let mut table = Table::with(MemoryDisk::default(), Mode::Async);
    store(&mut table, 0..KEYS, &VALUE);
    // Two of three in each segment die, and nothing is moved yet.
    let dead = (0..KEYS).filter(|key| key % 3 > 0);
    let (mut goes, mut most) = (0, 0);
    for key in dead {
        let asked = table.ask(0, 0, &key.to_le_bytes(), Ask::Set(&VALUE, 0));
        assert!(matches!(asked, Asked::Now(Answer::Done { .. }) | Asked::Later), "{asked:?}");
        taken(&mut table.workers[0]);
        loop {
            // As a data thread does: all that there is to be done until nothing is.
            let before = moved(&table).0;
            while let Some(plan) = table.workers[0].poll() {
                table.perform(0, plan);
            }
            most = most.max(moved(&table).0 - before);
            if !table.workers[0].goes_on() {
                break;
            }
            goes += 1;
        }
    }
    assert!(moved(&table).1 > 0, "nothing is moved");
    assert!(most <= u64::from(TURNS_MAX), "{most} turns in one go");
    assert!(goes > 0, "it is not said that there is more");
    // What is moved has come to an end: the same as one would have it who asks on and on.
    let polled = table.workers[0].poll();
    assert!(polled.is_none() && !table.workers[0].goes_on(), "{polled:?}");
}
