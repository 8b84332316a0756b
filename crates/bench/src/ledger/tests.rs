use base::random::Random;

use super::{Ledger, Ticket};

const KEY: u32 = 0;

fn window(ledger: &Ledger) -> (u32, u32) {
    (ledger.floor(KEY), ledger.newest(KEY))
}

#[test]
fn one_set_at_a_time_is_exact() {
    let ledger = Ledger::new(1);
    assert_eq!(window(&ledger), (0, 0));
    for version in 1..=5 {
        let ticket = ledger.begin(KEY);
        assert_eq!(ticket, Ticket { version, floor: version });
        assert_eq!(window(&ledger), (version - 1, version));
        ledger.end(KEY, ticket, true);
        assert_eq!(window(&ledger), (version, version));
    }
}

#[test]
fn sets_at_the_same_time_may_be_executed_in_any_order() {
    let ledger = Ledger::new(1);
    let (first, second) = (ledger.begin(KEY), ledger.begin(KEY));
    ledger.end(KEY, second, true);
    // The first may still come last.
    assert_eq!(window(&ledger), (1, 2));
    ledger.end(KEY, first, true);
    assert_eq!(window(&ledger), (1, 2));
    let third = ledger.begin(KEY);
    assert_eq!(window(&ledger), (1, 3));
    ledger.end(KEY, third, true);
    assert_eq!(window(&ledger), (3, 3));
}

#[test]
fn a_refused_set_kills_nothing() {
    let ledger = Ledger::new(1);
    let first = ledger.begin(KEY);
    ledger.end(KEY, first, true);
    let refused = ledger.begin(KEY);
    ledger.end(KEY, refused, false);
    assert_eq!(window(&ledger), (1, 2));
    let next = ledger.begin(KEY);
    ledger.end(KEY, next, true);
    assert_eq!(window(&ledger), (3, 3));
}

#[test]
fn keys_are_apart() {
    let ledger = Ledger::new(2);
    let ticket = ledger.begin(1);
    ledger.end(1, ticket, true);
    assert_eq!(window(&ledger), (0, 0));
    assert_eq!((ledger.floor(1), ledger.newest(1)), (1, 1));
}

/// Sets overlap all the time, so that there is never a moment without one.
#[test]
fn the_floor_follows_though_a_set_is_always_under_way() {
    let ledger = Ledger::new(1);
    let mut under_way = vec![ledger.begin(KEY), ledger.begin(KEY), ledger.begin(KEY)];
    for _ in 0..100 {
        under_way.push(ledger.begin(KEY));
        ledger.end(KEY, under_way.remove(0), true);
    }
    let (floor, newest) = window(&ledger);
    assert_eq!(newest, 103);
    // Three under way, a round of three behind, and the set that ends it.
    assert!((newest - 12..newest - 3).contains(&floor), "{floor} of {newest}");
}

/// One set as the model sees it: when it began and ended, by a count of steps.
#[derive(Clone, Copy)]
struct Seen {
    ticket: Ticket,
    begun: u32,
    ended: Option<u32>,
}

/// Whether `version` may be read by a get that is sent after step `now`: unless a set began after
/// this version's had ended, and has ended itself.
fn may_be_read(sets: &[Seen], version: u32) -> bool {
    let Some(end) = sets[version as usize - 1].ended else { return true };
    !sets.iter().any(|later| later.begun > end && later.ended.is_some())
}

#[test]
fn nothing_that_may_be_read_is_ever_below_the_floor() {
    for seed in 0..200 {
        let mut random = Random::new(seed, 0);
        let ledger = Ledger::new(1);
        let mut sets: Vec<Seen> = Vec::new();
        for step in 0..200 {
            let open: Vec<usize> = (0..sets.len()).filter(|at| sets[*at].ended.is_none()).collect();
            if open.is_empty() || (open.len() < 6 && random.below(2) == 0) {
                sets.push(Seen { ticket: ledger.begin(KEY), begun: step, ended: None });
            } else {
                let at = open[random.below(u32::try_from(open.len()).expect("few")) as usize];
                ledger.end(KEY, sets[at].ticket, true);
                sets[at].ended = Some(step);
            }
            let floor = ledger.floor(KEY);
            for seen in &sets {
                let version = seen.ticket.version;
                assert!(version >= floor || !may_be_read(&sets, version), "seed {seed}, {version}");
            }
            // And where no set overlaps another, the floor is the last one.
            if sets.iter().all(|seen| seen.ended.is_some()) && step > 0 {
                assert!(floor >= 1);
            }
        }
    }
}
