//! What counts as taken, and what as living, of segments that are written to and of one that is
//! moved: a load that never changes is to owe as much at any time.

use super::{large::spread_of, moving::scatter, *};
use crate::engine::room::Needed;

/// What the log takes and what lives of it, by a look at all segments just now.
fn looked_at(log: &mut Log) -> (u64, u64) {
    log.engine.compaction.look_again();
    let sealed = loop {
        if let Some(sealed) = log.engine.survey() {
            break sealed;
        }
    };
    log.engine.taken(&sealed)
}

/// What lives, as it is known since the last look that is done.
fn known_to_live(log: &Log) -> u64 {
    let sealed = log.engine.compaction.survey.sealed().expect("all were looked at");
    log.engine.taken(&sealed).1
}

/// What is known agrees with a look, nearly.
#[track_caller]
fn check_known(log: &mut Log, bytes: u64) {
    let (known, (_, now)) = (known_to_live(log), looked_at(log));
    assert!(known.abs_diff(now) < bytes, "{known} are known to live, and {now} do");
}

/// How much the log takes beyond its target, if all segments were looked at just now.
fn excess(log: &mut Log) -> i64 {
    let (taken, values) = looked_at(log);
    taken as i64 - (values * 130 / 100) as i64
}

#[test]
fn what_is_moved_counts_once() {
    let mut log = Log::new(Mode::Async);
    // Most of each segment lives: its copies take more than is won.
    for at in 0..400u32 {
        let key = if at < 300 { at } else { scatter(at) % 300 };
        log.put(&key.to_le_bytes(), &[at as u8; 440]).unwrap();
    }
    log.seal();
    log.engine.settings.space_target_percent = 105;
    let before = excess(&mut log);
    let (mut most, mut least, mut dead_bytes, mut steps) = (i64::MIN, i64::MAX, 0, 0);
    log.engine.compaction.look_again();
    while log.engine.counts().segments_moved == 0 {
        // Turn by turn.
        if let Some(plan) = log.engine.poll_upkeep(log.now_ms) {
            let outcome = log.disk.perform(plan.action);
            log.engine.complete(plan.token, outcome);
        }
        let now = excess(&mut log);
        dead_bytes = dead_bytes.max(log.engine.compaction.victim_dead_bytes() as i64);
        if log.engine.counts().segments_moved == 0 {
            (most, least) = (most.max(now), least.min(now));
        }
        steps += 1;
    }
    assert!(log.engine.counts().records_moved > 8 && steps > 10, "{:?}", log.engine.counts());
    // The survivors' segment is begun with its header, and a block of its footer.
    let beside = 4 * 512;
    assert!(most <= before + beside, "{most} bytes are owed in the middle, {before} before");
    let won = before - least;
    assert!(won <= dead_bytes + beside, "{won} bytes are won in the middle, of {dead_bytes}");
    assert!(excess(&mut log) < before);
}

#[test]
fn what_is_moved_lives_once_also_while_no_segment_is_looked_at() {
    let mut most = 0;
    for steps in (10..100).step_by(5) {
        let mut log = Log::new(Mode::Async);
        for at in 0..400u32 {
            let key = if at < 300 { at } else { scatter(at) % 300 };
            log.put(&key.to_le_bytes(), &[at as u8; 440]).unwrap();
        }
        log.seal();
        log.engine.settings.space_target_percent = 105;
        log.engine.compaction.look_again();
        for _ in 0..steps {
            if let Some(plan) = log.engine.poll_upkeep(log.now_ms) {
                let outcome = log.disk.perform(plan.action);
                log.engine.complete(plan.token, outcome);
            }
        }
        let moved = log.engine.counts().records_moved;
        // Who asks what is owed has looked again then.
        if moved == 0 || log.engine.compaction.survey.is_outdated() {
            continue;
        }
        let (known, (_, now)) = (known_to_live(&log), looked_at(&mut log));
        assert!(known.abs_diff(now) < 880, "{known} are known to live, and {now} do: {moved}");
        most = most.max(moved);
    }
    assert!(most > 8, "{most} records are moved");
}

#[test]
fn what_dies_between_two_steps_of_a_look_counts_once() {
    let mut log = Log::new(Mode::Async);
    for key in 0..3000u32 {
        log.put(&key.to_le_bytes(), &[1; 440]).unwrap();
    }
    log.seal();
    looked_at(&mut log);
    log.engine.compaction.look_again();
    let steps = (2 * log.engine.segments.len()).div_ceil(64);
    assert!(steps > 3, "{steps} steps");
    // All but the last one: of some segments what dies was counted, of others it was not.
    (1..steps).for_each(|_| assert!(log.engine.survey().is_none()));
    for key in (0..3000u32).step_by(150) {
        log.put(&key.to_le_bytes(), &[2; 440]).unwrap();
    }
    log.engine.survey().expect("it was the last step");
    check_known(&mut log, 440);
}

#[test]
fn a_large_value_whose_head_is_written_anew_lives_on() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    log.put_large(b"large", &[1; 40 << 10]);
    log.seal();
    looked_at(&mut log);
    for flags in 0..4 {
        let spread = spread_of(&mut log, b"large");
        let put = Put { key: b"large", flags, ..Put::default() };
        while log.engine.put_head_anew(&put, &spread, log.now_ms).unwrap() == Wrote::Wait {
            assert!(log.step(), "the head waits for ever");
        }
    }
    check_known(&mut log, 2048);
    assert!(matches!(log.remove(b"large"), Removed::Done { .. }));
    check_known(&mut log, 2048);
}

#[test]
fn the_end_of_a_chunk_is_no_debt() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    let tail = |log: &Log| log.engine.open.as_ref().map(|tail| (tail.segment, tail.end()));
    let mut chunks = 0;
    for at in 0..200u32 {
        let (before, was) = (excess(&mut log), tail(&log));
        log.put(&(at % 20).to_le_bytes(), &[at as u8; 100]).unwrap();
        let (owed, is) = (excess(&mut log) - before, tail(&log));
        if was.map(|it| it.0) == is.map(|it| it.0) {
            chunks += u32::from(was != is);
            // One of 128 bytes that takes the place of another, and may begin a block.
            assert!(owed <= 128 + 2 * 512, "{owed} bytes are owed for one record: {at}");
        }
    }
    assert!(chunks > 5, "{chunks} chunks were closed");
}

#[test]
fn the_end_of_a_segment_is_no_debt() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    // As many as fit: footers take as much as records.
    let mut key = 0u32;
    let is_full =
        |log: &Log| log.engine.open.as_ref().is_some_and(|tail| !tail.has_room(Needed::one(100)));
    while !is_full(&log) {
        log.put(&key.to_le_bytes(), &[1; 8]).unwrap();
        key += 1;
    }
    assert!(key > 100, "{key} records");
    log.flush();
    let before = excess(&mut log);
    log.seal();
    let after = excess(&mut log);
    assert!(after <= before + 3 * 512, "{after} bytes are owed when it is sealed, {before} before");
}

#[test]
fn what_has_died_since_all_segments_were_looked_at_lives_no_more() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    for key in 0..300u32 {
        log.put(&key.to_le_bytes(), &[1; 440]).unwrap();
    }
    log.seal();
    let (_, before) = looked_at(&mut log);
    // The second time in the segment that is written to, in which what has died is seen at once.
    for round in [2, 3] {
        for key in 0..12u32 {
            log.put(&key.to_le_bytes(), &[round; 440]).unwrap();
        }
        log.flush();
    }
    let values = known_to_live(&log);
    assert!(values.abs_diff(before) < 440, "{values} live, {before} before they were overwritten");
    let (_, now) = looked_at(&mut log);
    assert!(values.abs_diff(now) < 440, "{values} lived, and {now} by another look");
}

#[test]
fn parts_that_wait_for_their_head_are_no_debt() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    log.put(b"key", b"value").unwrap();
    let before = excess(&mut log);
    let upload = log.upload(b"large", &[1; 9 << 10]);
    log.flush();
    let meanwhile = excess(&mut log);
    assert!(meanwhile <= before, "{meanwhile} bytes are owed while it is put, {before} before");
    log.put_head(&upload, b"large");
    drop(upload);
    let after = excess(&mut log);
    assert!((meanwhile - after).abs() < 1024, "{meanwhile} before the head is put, {after} then");
    // One that nobody puts any more takes what it takes.
    drop(log.upload(b"other", &[1; 2 << 10]));
    log.flush();
    assert!(excess(&mut log) > after + (2 << 10));
}
