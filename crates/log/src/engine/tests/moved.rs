//! What those who read see of what compaction moves.

use std::ops::Range;

use super::{
    copies::{mostly_dead, overwrite_seven, step_to_copies, value},
    *,
};

/// The first bytes of the keys that an iteration shows which begins now.
fn shown(log: &mut Log) -> Vec<u8> {
    let mut iteration = log.engine.iterate(None).unwrap();
    let mut keys = Vec::new();
    while let Some(window) = iteration.window() {
        let read = log.disk.perform(window.action(Buffer::new(window.bytes())));
        let Outcome::Read(buffer, bytes) = read else { panic!("a read answers with bytes") };
        let mut found = iteration.take(&buffer.as_slice()[..bytes]);
        log.engine.keep_newest(&mut iteration, &mut found, 0);
        keys.extend(found.into_iter().map(|found| found.unwrap().key[0]));
    }
    log.engine.end_iteration(iteration);
    keys.sort_unstable();
    keys
}

#[test]
fn what_a_clock_called_expired_that_was_ahead_is_kept_when_it_is_set_right() {
    let mut log = Log::compacting(Mode::Async);
    log.engine.settings.space_target_percent = 0;
    for key in 0..8u8 {
        let put = Put { key: &[key], value: &[key; 900], expiry_ms: 1000, ..Put::default() };
        while log.engine.put(&put, 0).unwrap() == Wrote::Wait {
            assert!(log.step());
        }
    }
    log.seal();
    for key in 0..5u8 {
        log.put(&[key], &[100 + key; 900]).unwrap();
    }
    log.flush();
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    log.engine.tell_wall_ms(2000);
    log.engine.tell_wall_ms(500);
    log.settle();
    assert_eq!(log.engine.counts().segments_moved, 1, "{:?}", log.engine.counts());
    for key in 0..8 {
        assert_eq!(log.value(&[key]), value(key), "it has not expired");
    }
    let mut log = log.reopen();
    for key in 0..8 {
        assert_eq!(log.value(&[key]), value(key), "it has not expired");
    }
}

#[test]
fn an_iteration_waits_for_copies_whose_flush_has_failed() {
    let mut log = Log::compacting(Mode::Async);
    mostly_dead(&mut log);
    step_to_copies(&mut log);
    assert_eq!(log.engine.settle_moves(), Settled::Pending);
    let copies = log.engine.copies.tail.as_ref().unwrap().file;
    log.disk.fail(move |action| matches!(action, Action::Flush { file } if *file == copies));
    while log.engine.failures == 0 {
        assert!(log.step(), "nothing fails");
    }
    log.disk.fault = None;
    while log.engine.settle_moves() == Settled::Pending {
        if !log.step() {
            log.now_ms += 200;
        }
    }
    let keys = shown(&mut log);
    assert_eq!(keys, (0..8).collect::<Vec<u8>>(), "the iteration lacks what was moved");
}

/// The parts of a large value in a segment that is mostly dead, with small values if asked for, and
/// its head in one that is not moved. Says where.
fn head_apart(log: &mut Log, large: &[u8], small: Range<u8>) -> SegmentId {
    log.engine.settings.space_target_percent = 0;
    let upload = log.upload(b"large", large);
    for key in 0..7u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    for key in small {
        log.put(&[key], &[key; 20]).unwrap();
    }
    log.seal();
    log.put_head(&upload, b"large");
    drop(upload);
    let home = log.engine.open.as_ref().unwrap().segment;
    for key in 20..32u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    log.seal();
    overwrite_seven(log);
    home
}

#[test]
fn no_head_moves_out_of_a_segment_that_was_pinned_while_it_was_read() {
    let mut log = Log::compacting(Mode::Async);
    let large: Vec<u8> = (0..3000u32).map(|at| (at / 3) as u8).collect();
    let home = head_apart(&mut log, &large, 0..0);
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    loop {
        let plan = log.engine.poll(log.now_ms).expect("the head is not read");
        let reads = |file: &File| *file == segment(home.0);
        let is_head = matches!(&plan.action, Action::Read { file, .. } if reads(file));
        let outcome = log.disk.perform(plan.action);
        if is_head {
            log.engine.keep(home);
        }
        log.engine.complete(plan.token, outcome);
        if is_head {
            break;
        }
    }
    log.settle();
    let moved = log.engine.counts().heads_moved;
    assert_eq!(moved, 0, "a head has moved from where somebody reads");
    let won = |log: &Log| log.engine.compaction.account.won_bytes;
    assert_eq!(won(&log), 0, "paid for a segment that is still there");
    // Nobody reads it again for nothing.
    log.disk.done.clear();
    for _ in 0..3 {
        log.engine.compaction.look_again();
        log.settle();
    }
    let reads = log.disk.done.iter().filter(|done| done.starts_with("read "));
    assert_eq!(reads.count(), 0, "what cannot be moved is read again");
    log.engine.let_go(home);
    log.engine.compaction.note_end_of_reading();
    log.settle();
    assert!(won(&log) > 0, "a segment was moved, and nothing won");
    assert_eq!(log.engine.counts().heads_moved, 1, "{:?}", log.engine.counts());
    assert_eq!(log.value(b"large"), Some(large));
}

#[test]
fn what_somebody_iterates_over_is_not_freed() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    for key in 0..8u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    let first = log.engine.open.as_ref().unwrap().segment;
    log.seal();
    let iteration = log.engine.iterate(None).unwrap();
    for key in 0..8u8 {
        log.put(&[key], &[key; 901]).unwrap();
    }
    log.seal();
    assert_eq!(log.engine.segment(first).unwrap().live_bytes, 0);
    let freed = log.engine.counts().segments_freed;
    assert_eq!(freed, 0, "freed while somebody iterates over it");
    // Nor does anybody look at it as long, or wait for it.
    assert!(log.engine.freeing.emptied.is_empty() && !log.engine.is_freeing());
    log.engine.end_iteration(iteration);
    assert!(log.engine.is_freeing());
    log.settle();
    assert_eq!(log.engine.counts().segments_freed, 1);
}

#[test]
fn a_part_that_has_stayed_for_a_reader_moves_when_he_ends_before_the_move() {
    let mut log = Log::compacting(Mode::Async);
    let large: Vec<u8> = (0..3000u32).map(|at| (at / 3) as u8).collect();
    // More than a block of the footer lists.
    let home = head_apart(&mut log, &large, 50..70);
    log.engine.keep(home);
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    // Turn by turn.
    for _ in 0..100 {
        if log.engine.compaction.stays_for_reader() {
            break;
        }
        if let Some(plan) = log.engine.poll_upkeep(log.now_ms) {
            let outcome = log.disk.perform(plan.action);
            log.engine.complete(plan.token, outcome);
        }
    }
    assert!(log.engine.compaction.stays_for_reader(), "nothing stays for who reads the head");
    log.engine.let_go(home);
    log.engine.compaction.note_end_of_reading();
    log.settle();
    let counts = log.engine.counts();
    assert!(counts.heads_moved > 0 && counts.segments_moved == 1, "{counts:?}");
    assert_eq!(log.value(b"large"), Some(large));
}
