//! Moves by those who write.

use super::{
    ahead::{check, half_dead, partly_dead, perform, read_a_window},
    *,
};
use crate::engine::moving::SPAN_MS;

/// A log whose writers move what is read of a segment that is half dead, of which a window is
/// there. `percent`: how much the log may take.
fn stepping(percent: u32) -> (Log, SegmentId) {
    stepping_of(percent, 2)
}

/// The same of a segment of which one record in so many is dead.
fn stepping_of(percent: u32, dead_one_in: usize) -> (Log, SegmentId) {
    let (mut log, victim) = unread(dead_one_in);
    // What the footer lists is looked up.
    while log.engine.compaction.windows() == 0 || log.engine.compaction.has_entries() {
        if let Some(plan) = log.engine.poll_upkeep(log.now_ms) {
            perform(&mut log, plan);
        }
        assert_eq!(moved(&log), 0);
    }
    log.engine.settings.space_target_percent = percent;
    (log, victim)
}

/// And nothing of it was read yet.
fn unread(dead_one_in: usize) -> (Log, SegmentId) {
    let mut log = Log::compacting(Mode::Async);
    for key in 100..200u8 {
        log.put(&[key], &[key; 440]).unwrap();
    }
    log.seal();
    let victim = partly_dead(&mut log, dead_one_in);
    log.engine.settings.space_target_percent = 105;
    log.engine.leave_moves_to_writers();
    (log, victim)
}

/// Puts a value of so many bytes, when it is time. How many records were moved behind it.
fn write(log: &mut Log, key: u8, bytes: usize, is_close: bool) -> u64 {
    let put = Put { key: &[key, 1], value: &vec![key; bytes], ..Put::default() };
    while log.engine.put(&put, log.now_ms).unwrap() == Wrote::Wait {
        match log.engine.retry_at_ms() {
            Some(at_ms) => log.now_ms = at_ms,
            None => assert!(log.step(), "the put waits for ever"),
        }
    }
    let before = moved(log);
    log.engine.step_moves(log.now_ms, is_close);
    moved(log) - before
}

/// Others read what is to be moved, and move none of it.
fn read_on(log: &mut Log) {
    while let Some(plan) = log.engine.poll_beside(log.now_ms) {
        perform(log, plan);
    }
}

fn moved(log: &Log) -> u64 {
    log.engine.counts().records_moved
}

/// Does what others do, until that is nothing.
fn others(log: &mut Log) {
    loop {
        let before = log.engine.unreported();
        match log.engine.poll_upkeep(log.now_ms) {
            Some(plan) => perform(log, plan),
            None if log.engine.unreported() == before => return,
            None => {}
        }
    }
}

/// As much is written as moves are left to writers for. They have moved nothing yet.
fn busy(log: &mut Log) {
    for key in 200..205 {
        assert_eq!(write(log, key, 440, true), 0);
    }
    others(log);
    assert_eq!(moved(log), 0, "others move what is left to writers");
    assert!(!log.engine.may_move(), "others are told that there is something to be moved");
}

#[test]
fn moves_are_left_to_whoever_writes_for_as_long_as_he_does() {
    let (mut log, victim) = stepping(130);
    busy(&mut log);
    let mut by_writers = 0;
    for key in 0..4 {
        by_writers += write(&mut log, key, 440, false);
        let before = moved(&log);
        others(&mut log);
        assert_eq!(moved(&log), before, "others move what is left to writers");
        log.now_ms += SPAN_MS / 2;
    }
    assert!(by_writers > 0, "whoever writes moves nothing");
    let end_ms = log.engine.wake_at_ms().unwrap();
    assert!(end_ms <= log.now_ms + 2 * SPAN_MS, "nobody looks");
    assert!(log.engine.due_ms().is_some_and(|due_ms| due_ms > end_ms), "that is for flushes");
    // Nobody writes any more.
    log.now_ms = end_ms;
    let before = moved(&log);
    others(&mut log);
    assert!(moved(&log) > before, "nobody goes on");
    log.settle();
    assert_eq!(log.engine.counts().segments_moved, 1);
    assert!(log.engine.segment(victim).is_none_or(|segment| segment.live_bytes == 0));
    check(&mut log);
    check(&mut log.reopen());
}

#[test]
fn moves_are_not_left_to_whoever_writes_little() {
    let (mut log, _) = stepping(130);
    // What can be read is read: there is nothing else to be done than to copy it.
    while let Some(plan) = log.engine.poll_beside(log.now_ms) {
        perform(&mut log, plan);
    }
    // All of it would be more than enough in one span.
    for key in 0..60 {
        write(&mut log, key, 10, true);
        assert!(log.engine.may_move(), "moves are left to a trickle");
        log.now_ms += if key % 2 == 0 { SPAN_MS } else { 2 * SPAN_MS };
    }
    others(&mut log);
    assert!(moved(&log) > 0);
    log.settle();
    check(&mut log);
}

#[test]
fn others_go_on_when_somebody_waits_for_a_report() {
    let (mut log, _) = stepping(130);
    busy(&mut log);
    log.engine.tell_waiting(true);
    assert!(log.engine.may_move(), "what somebody waits for is left to writers");
    others(&mut log);
    assert!(moved(&log) > 0);
    log.engine.tell_waiting(false);
    log.settle();
    check(&mut log);
}

#[test]
fn writers_move_nothing_unless_it_is_left_to_them() {
    let mut log = Log::compacting(Mode::Async);
    half_dead(&mut log);
    read_a_window(&mut log);
    for key in 0..20 {
        assert_eq!(write(&mut log, key, 440, false), 0);
    }
    assert!(log.engine.may_move(), "it is left to nobody");
}

#[test]
fn a_look_at_what_a_footer_lists_counts_as_less_than_a_record() {
    let (mut log, _) = unread(2);
    while !log.engine.compaction.has_entries() {
        assert!(log.step(), "the footer is not read");
    }
    let mut puts = 0;
    while log.engine.compaction.has_entries() {
        write(&mut log, 200 + puts, 440, false);
        puts += 1;
    }
    // Two of 24 at a look.
    assert!(puts <= 4, "it has taken {puts} puts to look all of it up");
}

#[test]
fn two_large_records_are_moved_behind_a_large_put_when_much_is_owed() {
    let mut log = Log::compacting(Mode::Async);
    log.engine.settings.space_target_percent = 0;
    for key in 0..12u8 {
        log.put(&[key], &[key; 950]).unwrap();
    }
    log.seal();
    for key in [0, 2, 4, 6] {
        log.put(&[key], &[100 + key; 950]).unwrap();
    }
    log.flush();
    log.engine.leave_moves_to_writers();
    log.engine.settings.space_target_percent = 100;
    log.engine.compaction.look_again();
    read_a_window(&mut log);
    while log.engine.debt_bytes().unwrap() < shape().segment_bytes * 7 / 8 {
        log.engine.settings.space_target_percent -= 5;
    }
    assert!(log.engine.debt_bytes().unwrap() < log.engine.helped_bytes());
    // A record is shorter than the segment's part for each, by which is counted.
    let most = (200..203).map(|key| {
        read_on(&mut log);
        write(&mut log, key, 950, false)
    });
    assert_eq!(most.max(), Some(2));
}

#[test]
fn others_help_before_puts_wait_for_moves() {
    let (mut log, _) = stepping(130);
    // More than is won by what writers move meanwhile.
    while log.engine.debt_bytes().unwrap() <= log.engine.helped_bytes() + 1024 {
        log.engine.settings.space_target_percent -= 1;
    }
    assert!(log.engine.debt_bytes().unwrap() <= log.engine.behind_bytes());
    // As much as keeps others away while less is owed. One by one they would wait for time.
    let value = [1; 440];
    let put = |key| Change::Put(Put { key, value: &value, ..Put::default() });
    let changes = [put(b"a"), put(b"b")];
    assert!(matches!(log.engine.write_batch(&changes, log.now_ms), Ok(Batch::Done { .. })));
    log.engine.step_moves(log.now_ms, true);
    let before = moved(&log);
    others(&mut log);
    assert!(moved(&log) > before, "late moves are left to writers");
}

#[test]
fn others_go_on_when_puts_have_no_room() {
    let (mut log, _) = stepping(130);
    busy(&mut log);
    log.engine.free.truncate(log.engine.put_reserve());
    log.engine.attempts.fail(1, log.now_ms);
    assert!(log.engine.lacks_room());
    assert!(log.engine.may_move(), "room is left to writers");
}

#[test]
fn the_more_the_log_takes_the_more_is_moved_behind_a_put() {
    let by = |percent| {
        let (mut log, _) = stepping(percent);
        let debt_bytes = log.engine.debt_bytes().unwrap();
        let by_puts = (0..6).map(|key| {
            read_on(&mut log);
            write(&mut log, key, 440, false)
        });
        (debt_bytes, by_puts.sum::<u64>())
    };
    let (little, slowly) = by(130);
    let (much, fast) = by(97);
    let half = shape().segment_bytes / 2;
    assert!(little < half / 4 && much > half && much < 3 * half, "{little} and {much} are owed");
    assert!(slowly > 0, "nothing is moved");
    assert!(fast > slowly, "{slowly} and {fast} records are moved behind a put");
}

#[test]
fn a_put_that_comes_close_behind_another_moves_nothing_until_much_is_owed() {
    let (mut log, _) = stepping(130);
    let (mut put_off, mut all) = (0, 0);
    while all == 0 {
        all = write(&mut log, put_off, 440, true);
        put_off += 1;
        assert!(put_off < 40, "it is put off for ever");
    }
    assert!(put_off > 8, "only {put_off} are put off");
    // What was put off is moved by and by: three times as much as is due for the others.
    for key in 100..104 {
        others(&mut log);
        all += write(&mut log, key, 440, false);
    }
    assert!(all >= 3, "{all} records are moved behind five puts");
    log.settle();
    check(&mut log);
}

#[test]
fn what_was_put_off_is_moved_beside_what_is_due() {
    let (mut log, _) = stepping(95);
    // Less is due for each than a record has.
    for key in 0..4 {
        assert_eq!(write(&mut log, key, 200, true), 0, "not much is owed yet");
    }
    let late = write(&mut log, 4, 200, false);
    assert!(late > 1, "{late} records are moved when much is owed");
}

#[test]
fn whoever_puts_more_moves_more() {
    let (mut log, _) = stepping(95);
    let few = write(&mut log, 1, 100, false);
    let (mut log, _) = stepping(95);
    let more = write(&mut log, 1, 1000, false);
    assert!(more > few + 1, "{more} records are moved behind 1000 bytes, {few} behind 100");
}

#[test]
fn nobody_moves_for_what_a_failed_flush_has_left() {
    let by = |fails: bool| {
        let (mut log, _) = stepping(105);
        for key in 0..4 {
            log.put(&[key, 2], &[key; 440]).unwrap();
        }
        // Nothing is owed for these.
        log.engine.leave_moves_to_writers();
        if fails {
            log.disk.fail_next_flush();
        }
        log.engine.drain();
        while let Some(plan) = log.engine.poll_records(log.now_ms) {
            perform(&mut log, plan);
        }
        assert_eq!(log.engine.counts().rewritten, if fails { 4 } else { 0 });
        write(&mut log, 1, 440, false)
    };
    let (behind, expected) = (by(true), by(false));
    assert!(expected > 0, "nothing is moved");
    assert_eq!(behind, expected, "so many are moved behind a put");
}

#[test]
fn nothing_is_moved_behind_a_put_that_somebody_reads() {
    let (mut log, victim) = stepping(100);
    log.engine.keep(victim);
    for key in 0..4 {
        assert_eq!(write(&mut log, key, 440, false), 0, "what somebody reads is moved");
    }
    log.engine.let_go(victim);
    log.now_ms += 2 * SPAN_MS;
    log.settle();
    check(&mut log);
}

#[test]
fn a_step_that_finds_no_room_for_copies_is_the_last() {
    let (mut log, _) = stepping_of(95, 4);
    // What is copied is not written: there are three chunks for it, of four records each.
    let mut writes = Vec::new();
    for key in 0..60 {
        let put = Put { key: &[key, 1], value: &[key; 100], ..Put::default() };
        while log.engine.put(&put, log.now_ms).unwrap() == Wrote::Wait {
            let Some(retry_at_ms) = log.engine.retry_at_ms() else { break };
            log.now_ms = retry_at_ms;
        }
        log.engine.step_moves(log.now_ms, false);
        while let Some(plan) = log.engine.poll_beside(log.now_ms) {
            match plan.action {
                Action::Read { .. } => perform(&mut log, plan),
                _ => writes.push(plan),
            }
        }
    }
    assert_eq!(moved(&log), 12, "there is room for twelve");
    assert!(!log.engine.may_move(), "something must be reported first");
    writes.into_iter().for_each(|plan| perform(&mut log, plan));
    log.now_ms += 2 * SPAN_MS;
    log.settle();
    assert_eq!(log.engine.counts().segments_moved, 1);
    assert_eq!(moved(&log), 18);
}
