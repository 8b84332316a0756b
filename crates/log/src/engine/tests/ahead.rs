//! What is read ahead of what is copied, and what becomes of it when something goes wrong.

use super::*;
use crate::{
    engine::{moving::WINDOWS_AHEAD, space::Role},
    plan::Plan,
};

/// Every second key of a segment is dead. Says which segment.
pub(super) fn half_dead(log: &mut Log) -> SegmentId {
    partly_dead(log, 2)
}

/// One key in so many.
pub(super) fn partly_dead(log: &mut Log, dead_one_in: usize) -> SegmentId {
    log.engine.settings.space_target_percent = 0;
    for key in 0..24u8 {
        log.put(&[key], &[key; 440]).unwrap();
    }
    let victim = log.engine.open.as_ref().unwrap().segment;
    log.seal();
    for key in (0..24u8).step_by(dead_one_in) {
        log.put(&[key], &[100 + key; 440]).unwrap();
    }
    log.flush();
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    victim
}

pub(super) fn check(log: &mut Log) {
    for key in 0..24u8 {
        let value = if key % 2 == 0 { 100 + key } else { key };
        assert_eq!(log.value(&[key]), Some(vec![value; 440]), "key {key}");
    }
}

pub(super) fn perform(log: &mut Log, plan: Plan) {
    let outcome = log.disk.perform(plan.action);
    log.engine.complete(plan.token, outcome);
}

/// Goes on until a window is to be read while another one is there. The read is not performed.
fn read_ahead(log: &mut Log) -> Plan {
    for _ in 0..100 {
        let has_window = log.engine.compaction.windows() > 0;
        let Some(plan) = log.engine.poll_upkeep(log.now_ms) else { continue };
        if has_window && matches!(plan.action, Action::Read { .. }) {
            return plan;
        }
        perform(log, plan);
    }
    panic!("nothing is read ahead");
}

/// Goes on until there is a window to be copied.
pub(super) fn read_a_window(log: &mut Log) {
    while log.engine.compaction.windows() == 0 {
        assert!(log.step(), "nothing is read");
    }
}

#[test]
fn the_next_window_is_read_while_one_is_copied() {
    let mut log = Log::compacting(Mode::Async);
    let victim = half_dead(&mut log);
    let read = read_ahead(&mut log);
    assert_eq!(log.engine.counts().records_moved, 0);
    assert!(log.engine.may_move(), "nobody is told that there is something to be copied");
    let other = log.engine.poll_upkeep(log.now_ms);
    assert!(log.engine.counts().records_moved > 0, "nothing is copied while a window is read");
    if let Some(other) = other {
        perform(&mut log, other);
    }
    log.settle();
    assert!(!log.engine.may_move(), "there is nothing to be done before the read is reported");
    perform(&mut log, read);
    while log.step() {
        assert!(log.engine.compaction.windows() <= WINDOWS_AHEAD, "windows pile up");
        assert!(log.engine.compaction.buffers() <= WINDOWS_AHEAD + 2, "a read has a new buffer");
    }
    assert_eq!(log.engine.counts().segments_moved, 1);
    assert_ne!(log.engine.segment(victim).unwrap().role, Role::Sealed);
    check(&mut log);
    let mut log = log.reopen();
    check(&mut log);
}

#[test]
fn what_lists_records_is_read_into_short_buffers() {
    let mut log = Log::compacting(Mode::Async);
    log.engine.settings.space_target_percent = 0;
    for key in 0..180u8 {
        log.put(&[key], &[key; 20]).unwrap();
    }
    log.seal();
    for key in (0..180).step_by(2) {
        log.put(&[key], &[100; 20]).unwrap();
    }
    log.flush();
    log.engine.settings.space_target_percent = 100;
    log.engine.compaction.look_again();
    let short_bytes = shape().segment_bytes as usize / 16;
    while log.step() {
        let long = log.engine.compaction.longer_buffers(short_bytes);
        assert!(long <= WINDOWS_AHEAD, "there are {long} buffers of windows");
    }
    assert!(log.engine.counts().records_moved >= 90);
}

#[test]
fn who_asks_beside_somebody_who_moves_records_moves_none() {
    let mut log = Log::compacting(Mode::Async);
    half_dead(&mut log);
    // There is a window to be copied, and one to be read.
    read_a_window(&mut log);
    let mut reads = 0;
    while let Some(plan) = log.engine.poll_beside(log.now_ms) {
        reads += u32::from(matches!(plan.action, Action::Read { .. }));
        perform(&mut log, plan);
    }
    assert!(reads > 0, "nothing is read for who moves them");
    assert_eq!(log.engine.counts().records_moved, 0, "two move records");
    log.settle();
    assert_eq!(log.engine.counts().segments_moved, 1);
    check(&mut log);
}

#[test]
fn a_window_that_was_not_read_whole_is_read_again() {
    for is_short in [false, true] {
        let mut log = Log::compacting(Mode::Async);
        let victim = half_dead(&mut log);
        let Plan { token, action } = read_ahead(&mut log);
        let outcome = match (is_short, log.disk.perform(action)) {
            (true, Outcome::Read(buffer, bytes)) => Outcome::Read(buffer, bytes - 512),
            (false, Outcome::Read(buffer, _)) => Outcome::Failed(io(), Some(buffer)),
            (_, outcome) => panic!("{outcome:?} is what comes of a read"),
        };
        log.engine.complete(token, outcome);
        log.settle();
        assert_eq!(log.engine.counts().segments_moved, 1, "a window was left out");
        assert_ne!(log.engine.segment(victim).unwrap().role, Role::Sealed);
        check(&mut log);
    }
}

#[test]
fn what_was_read_for_a_move_that_was_given_up_is_of_no_other() {
    let mut log = Log::compacting(Mode::Async);
    half_dead(&mut log);
    let read = read_ahead(&mut log);
    log.engine.cancel_moves();
    log.engine.compaction.look_again();
    // Whoever puts may ask at any time.
    log.engine.is_move_urgent();
    log.settle();
    assert_eq!(log.engine.compaction.victim(), None, "the read would be taken for another move's");
    perform(&mut log, read);
    log.settle();
    assert_eq!(log.engine.counts().segments_moved, 1);
    check(&mut log);
}

#[test]
fn nothing_of_what_was_read_ahead_moves_for_somebody_who_reads_since() {
    let mut log = Log::compacting(Mode::Async);
    let victim = half_dead(&mut log);
    let read = read_ahead(&mut log);
    let iteration = log.engine.iterate(None).unwrap();
    assert!(log.engine.is_pinned(victim));
    perform(&mut log, read);
    log.settle();
    assert_eq!(log.engine.counts().records_moved, 0, "moved out of what somebody iterates over");
    log.engine.end_iteration(iteration);
    log.settle();
    assert_eq!(log.engine.counts().segments_moved, 1);
    check(&mut log);
}

#[test]
fn a_move_has_the_lists_of_the_one_before() {
    for is_given_up in [false, true] {
        let mut log = Log::compacting(Mode::Async);
        assert_eq!(log.engine.compaction.rooms_kept(), [0; 3]);
        half_dead(&mut log);
        let read = read_ahead(&mut log);
        assert_eq!(log.engine.compaction.rooms_kept(), [0; 3], "it has none of them");
        if is_given_up {
            log.engine.cancel_moves();
        }
        perform(&mut log, read);
        log.settle();
        let rooms = log.engine.compaction.rooms_kept();
        assert!(rooms.iter().all(|room| *room > 0), "{rooms:?}: the next one waits for memory");
    }
}

#[test]
fn a_footer_that_is_damaged_is_read_again_and_at_last_left_alone() {
    for (block, is_mended) in [(0, false), (1, false), (0, true), (1, true)] {
        let mut log = Log::compacting(Mode::Async);
        let victim = half_dead(&mut log);
        let file = segment(victim.0);
        let at = footer_offset(&log.disk, file) + block * 512 + 40;
        log.disk.files.get_mut(&file).unwrap()[at] ^= 1;
        let (mut reads, begun) = (0, log.disk.done.len());
        while log.step() {
            let read_before = reads;
            let done = log.disk.done[begun..].iter();
            reads = done.filter(|it| it.starts_with("read")).count();
            if is_mended && read_before < 9 && reads >= 9 {
                log.disk.files.get_mut(&file).unwrap()[at] ^= 1;
            }
        }
        assert_eq!(log.engine.counts().segments_moved, u64::from(is_mended));
        assert!((10..100).contains(&reads), "{reads} reads");
        let is_left = log.engine.segment(victim).unwrap().role == Role::Sealed;
        assert_eq!(is_left, !is_mended);
        check(&mut log);
    }
}
