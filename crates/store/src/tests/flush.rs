//! Flushes of a durable table.

use super::*;

/// A key in memory, one that only the log has, and one that is removed.
fn filled() -> Table {
    let mut table = Table::new();
    table.make_cold(b"cold", b"a");
    for (key, ask) in [(&b"warm"[..], Ask::Set(b"b", 0)), (b"gone", Ask::Set(b"c", 0))] {
        assert_eq!(table.ask(0, 1, key, ask), Asked::Later);
    }
    table.ask(0, 1, b"gone", Ask::Delete);
    table.run();
    drop(table.answers(0));
    table
}

/// Until the log has begun to say below what everything is dead.
fn begin(table: &mut Table, worker: usize, caller: u64) {
    assert_eq!(table.workers[worker].flush(caller), Asked::Later);
    loop {
        let plan = table.workers[worker].poll().expect("a plan");
        let is_manifest = format!("{:?}", plan.action).contains("ManifestNew");
        table.perform(worker, plan);
        if is_manifest {
            return;
        }
    }
}

#[test]
fn a_flush_is_answered_when_it_is_durable_and_nothing_is_there_then() {
    let mut table = filled();
    begin(&mut table, 1, 7);
    assert_eq!(table.answers(1), []);
    assert!(matches!(table.get(0, 2, b"warm").0, Got::Hit(_)), "nothing has happened yet");
    table.run();
    assert_eq!(table.answers(1), [done(7)]);
    for key in [&b"cold"[..], b"warm", b"gone"] {
        assert_eq!(table.value(key), None, "what was flushed is there");
    }
    assert_eq!(table.ask(0, 3, b"warm", Ask::Add(b"new")), Asked::Later);
    table.run();
    let mut again = Table::with(std::mem::take(&mut table.files), Mode::Safe);
    assert_eq!(again.value(b"warm"), Some(b"new".to_vec()));
    assert_eq!((again.value(b"cold"), again.value(b"gone")), (None, None));
}

#[test]
fn the_index_of_what_was_flushed_is_dropped() {
    let mut table = filled();
    assert_eq!(table.workers[0].flush(1), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [done(1)]);
    let kept = table.store.shared.core().engine.take_wiped();
    assert!(kept.is_none(), "the index of what was flushed stays in memory");
}

#[test]
fn what_is_asked_while_the_manifest_is_written_waits_and_is_done_on_nothing() {
    let mut table = filled();
    begin(&mut table, 1, 7);
    assert_eq!(table.ask(0, 1, b"warm", Ask::Append(b"x")), Asked::Later);
    assert_eq!(table.ask(0, 2, b"cold", Ask::Set(b"new", 0)), Asked::Later);
    assert_eq!(table.ask(0, 3, b"gone", Ask::Add(b"new")), Asked::Later);
    assert_eq!(table.store.waiting().1, 3, "all of them have stalled");
    table.run();
    assert_eq!(table.answers(1), [done(7)]);
    assert_eq!(table.answers(0), [(1, None), done(2), done(3)]);
    for key in [&b"cold"[..], b"gone"] {
        assert_eq!(table.value(key), Some(b"new".to_vec()));
    }
    assert_eq!(table.value(b"warm"), None, "an append has brought back what was flushed");
}

#[test]
fn a_read_that_began_before_a_flush_fills_nothing() {
    let mut table = filled();
    assert!(matches!(table.get(0, 1, b"cold").0, Got::Later));
    let plan = table.next_read(0);
    assert_eq!(table.ask(0, 2, b"cold", Ask::Append(b"x")), Asked::Later);
    assert_eq!(table.workers[1].flush(7), Asked::Later);
    while let Some(other) = table.workers[1].poll() {
        table.perform(1, other);
    }
    assert_eq!(table.answers(1), [done(7)]);
    table.perform(0, plan);
    table.run();
    // The get came when it was there; the append is made after the flush.
    assert_eq!(table.answers(0), [(1, Some(b"a".to_vec())), (2, None)]);
    assert_eq!(table.value(b"cold"), None);
}

#[test]
fn a_flush_that_cannot_be_written_is_told_and_everything_is_there() {
    let mut table = filled();
    begin(&mut table, 1, 7);
    let plan = table.workers[1].poll().expect("a plan");
    table.workers[1].complete(plan.token, Outcome::Failed(Failure::NotFound, None));
    table.run();
    let answers = table.answers(1);
    let [(7, Some(text))] = &answers[..] else { panic!("{answers:?}") };
    assert!(String::from_utf8_lossy(text).contains("manifest"), "{answers:?}");
    assert_eq!(table.value(b"warm"), Some(b"b".to_vec()));
    assert_eq!(table.value(b"cold"), Some(b"a".to_vec()));
    assert_eq!(table.workers[1].flush(8), Asked::Later);
    table.run();
    assert_eq!((table.answers(1), table.value(b"cold")), (vec![done(8)], None));
}

#[test]
fn a_flush_that_has_failed_is_told_by_whoever_polls() {
    let mut table = filled();
    begin(&mut table, 1, 7);
    let plan = loop {
        let plan = table.workers[1].poll().expect("a plan");
        if matches!(plan.action, Action::Rename { .. }) {
            break plan;
        }
        table.perform(1, plan);
    };
    // The log hears of it, and nobody looks who has to be told: as if it had found out by itself.
    let failed = Outcome::Failed(Failure::NotFound, None);
    table.store.shared.core().engine.complete(plan.token, failed);
    assert_eq!(table.answers(1), []);
    table.run();
    let answers = table.answers(1);
    let [(7, Some(text))] = &answers[..] else { panic!("it waits for ever: {answers:?}") };
    assert!(String::from_utf8_lossy(text).contains("may be gone"), "{answers:?}");
    assert_eq!(table.store.waiting(), (0, 0));
}

#[test]
fn a_flush_behind_which_nothing_is_stored_serves_the_next_ones() {
    let mut table = Table::new();
    let before = table.cache.flushes();
    assert_eq!(table.workers[0].flush(1), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [done(1)]);
    assert_eq!(table.cache.flushes(), before + 1, "what is being looked up would be filled");
    // Memory tells few flushes apart before it has to be swept.
    for caller in 2..40 {
        assert_eq!(
            table.workers[1].flush(caller),
            Asked::Now(Answer::Flushed),
            "all is written anew"
        );
    }
    assert_eq!(table.cache.flushes(), before + 1);
    assert_eq!(table.ask(0, 40, b"key", Ask::Set(b"a", 0)), Asked::Later);
    table.run();
    assert_eq!(table.workers[0].flush(41), Asked::Later, "what is there would stay");
    table.run();
    assert_eq!((table.answers(0), table.cache.flushes()), (vec![done(40), done(41)], before + 2));
    assert_eq!(table.value(b"key"), None);
}
