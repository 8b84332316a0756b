//! Who waits for moves, and for which.

use super::{
    ahead::{half_dead, perform},
    *,
};
use crate::engine::{chunk::Allowance, room::Needed, tail::Tail};

/// Old values that all live, and behind them so many tombstones that these have to go.
fn much_removed() -> Log {
    let mut log = Log::new(Mode::Async);
    for key in 0..600u32 {
        log.put(&key.to_le_bytes(), &[1; 440]).unwrap();
    }
    for key in 1000..5000u32 {
        log.put(&key.to_le_bytes(), b"").unwrap();
        assert!(matches!(log.remove(&key.to_le_bytes()), Removed::Done { .. }));
    }
    log.flush();
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    log
}

#[test]
fn nobody_waits_while_what_is_moved_wins_nothing() {
    let mut log = much_removed();
    // Once what died between the tombstones is won.
    while log.engine.compaction.is_worth_waiting() {
        assert!(log.step(), "the oldest values are never moved");
    }
    assert!(log.engine.is_move_urgent(), "nothing is owed");
    let before = log.engine.counts().segments_moved;
    // Several chunks of 2 KiB.
    for key in 0..20u32 {
        let put = Put { key: &key.to_le_bytes(), value: &[2; 440], ..Put::default() };
        for _ in 0..1000 {
            if log.engine.put(&put, log.now_ms).unwrap() != Wrote::Wait {
                break;
            }
            let plan = log.engine.poll_records(log.now_ms).or_else(|| log.engine.poll_space());
            let plan = plan.expect("a put waits for what is moved");
            let outcome = log.disk.perform(plan.action);
            log.engine.complete(plan.token, outcome);
        }
    }
    assert_eq!(log.engine.counts().segments_moved, before);
    log.flush();
    for key in 0..600u32 {
        let expected = vec![if key < 20 { 2 } else { 1 }; 440];
        assert_eq!(log.value(&key.to_le_bytes()), Some(expected), "key {key}");
    }
}

/// A log in which the next put is to wait for moves, with a chunk that is being filled.
fn owing() -> Log {
    let mut log = Log::new(Mode::Async);
    for at in 0..3000u32 {
        log.put(&(at % 1500).to_le_bytes(), &[at as u8; 440]).unwrap();
        log.put(&(at % 100 + 2000).to_le_bytes(), &[at as u8; 440]).unwrap();
    }
    log.flush();
    assert!(log.engine.segments.len() > 64, "one step is enough to look at all");
    log.engine.settings.space_target_percent = 110;
    log.engine.compaction.look_again();
    // Each is another key's: an overwrite of what is in memory pays nothing.
    let owes = |log: &mut Log, at: u32| {
        log.step();
        let put = Put { key: &(at + 3000).to_le_bytes(), value: &[7; 440], ..Put::default() };
        let waits = log.engine.put(&put, log.now_ms).unwrap() == Wrote::Wait;
        let is_owing = credit(log) < 0 && log.engine.compaction.victim().is_some();
        // It waits for nothing else.
        let takes =
            |tail: &Tail| tail.has_room(Needed::one(480)) && tail.chunk_takes(480) == Some(true);
        let has_room = log.engine.open.as_ref().is_some_and(takes);
        waits && is_owing && has_room && !log.engine.is_at_risk(480)
    };
    assert!((0..10_000).any(|at| owes(&mut log, at)), "nothing is owed");
    log
}

fn credit(log: &Log) -> i64 {
    log.engine.compaction.account.credit_bytes()
}

#[test]
fn what_is_owed_is_not_forgotten_while_a_victim_is_looked_for() {
    let mut log = owing();
    let owed = credit(&log);
    // A move has ended, and all segments are to be looked at anew.
    log.engine.cancel_moves();
    log.engine.compaction.survey.forget_floor();
    log.engine.compaction.look_again();
    assert_eq!(log.engine.allowance(480), Allowance::Nothing, "the look has let a put through");
    assert!(log.engine.compaction.victim().is_none(), "one step was enough");
    assert_eq!(credit(&log), owed, "a look has paid");
    log.put(b"key", &[8; 440]).unwrap();
    assert_eq!(log.value(b"key"), Some(vec![8; 440]));
}

#[test]
fn what_a_failed_flush_has_cut_short_is_given_back() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    log.put(b"key", b"value").unwrap();
    log.engine.pay(Allowance::Bytes(500));
    assert_eq!(credit(&log), -1000);
    let open = log.engine.open.as_ref().unwrap().segment;
    log.engine.fail_tail(open);
    assert_eq!(credit(&log), 0);
}

#[test]
fn what_is_given_back_pays_for_the_put_that_comes_next() {
    let mut log = owing();
    // Nothing is left of what was won, but what another one has paid for and not put.
    let bytes = 300;
    log.engine.compaction.account.owe(2 * bytes as i64);
    log.engine.open.as_mut().unwrap().allow(Allowance::Bytes(bytes));
    let put = Put { key: b"key", value: &[7; 440], ..Put::default() };
    let wrote = log.engine.put(&put, log.now_ms).unwrap();
    assert!(matches!(wrote, Wrote::Done { .. }), "it has waited for what was paid already");
}

#[test]
fn tombstones_that_may_vanish_are_won() {
    let mut log = Log::compacting(Mode::Async);
    log.engine.settings.space_target_percent = 0;
    // A segment of tombstones, with nothing older anywhere when their values are freed.
    for key in 0..100u32 {
        log.put(&key.to_le_bytes(), b"").unwrap();
    }
    log.seal();
    for key in 0..100u32 {
        assert!(matches!(log.remove(&key.to_le_bytes()), Removed::Done { .. }));
    }
    let tombstones = log.engine.open.as_ref().unwrap().segment;
    log.seal();
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    while log.engine.compaction.victim() != Some(tombstones) {
        assert!(log.step(), "the tombstones are not moved");
    }
    assert_eq!(log.engine.compaction.victim_dead_bytes(), 16 << 10, "all of it is won");
}

#[test]
fn what_is_dead_is_won_as_the_move_comes_past_it() {
    let mut log = Log::compacting(Mode::Async);
    half_dead(&mut log);
    // All that the footer lists is looked up before anything is copied.
    while log.engine.compaction.windows() == 0 || log.engine.compaction.has_entries() {
        if let Some(plan) = log.engine.poll_upkeep(log.now_ms) {
            perform(&mut log, plan);
        }
    }
    assert_eq!(log.engine.counts().records_moved, 0);
    let all = log.engine.compaction.victim_dead_bytes();
    let mut won = log.engine.won_so_far_bytes();
    assert!(won < all / 8, "{won} of {all} bytes are won before anything is copied");
    let mut most = 0;
    while log.engine.counts().records_moved < 12 {
        let before = log.engine.counts().records_moved;
        assert!(log.step(), "the copies do not go on");
        let copies = log.engine.counts().records_moved - before;
        let winning = log.engine.won_so_far_bytes();
        assert!(winning >= won || winning == 0, "{winning} bytes are won after {won}");
        if copies > 0 && winning > 0 {
            most = most.max((winning - won) / copies);
            won = winning;
        }
    }
    assert!(won > all / 2 && most < all / 4, "{most} of {all} bytes are won by one copy");
}
