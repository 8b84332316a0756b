//! Full disks, and crashes there while something moves.

use super::*;

/// Segments for which there is room.
const SEGMENTS: u32 = 12;

/// From now on no more segments can be made than there is room for.
fn fill(log: &mut Log) {
    let files = log.disk.files.keys();
    let segments = files.filter(|file| matches!(file.name, FileName::Segment(_)));
    let mut left = SEGMENTS.saturating_sub(segments.count() as u32);
    log.disk.fault = Some(Box::new(move |action| match action {
        Action::Create { file } if matches!(file.name, FileName::Segment(_)) => {
            let is_full = left == 0;
            left = left.saturating_sub(1);
            is_full.then_some(Failure::Full)
        }
        _ => None,
    }));
    log.engine.settings.space_target_percent = 130;
}

#[test]
fn a_crash_in_mid_move_on_a_full_disk_leaves_a_segment_to_go_on_with() {
    for steps in 0..40 {
        let mut log = Log::new(Mode::Safe);
        fill(&mut log);
        log.settle();
        let mut keys = 0u32;
        while log.put(&keys.to_le_bytes(), &[1; 440]).is_ok() {
            keys += 1;
            log.settle();
        }
        for key in (0..keys).filter(|key| key % 2 == 0) {
            let removed = log.remove(&key.to_le_bytes());
            let Removed::Done { mark, .. } = removed else { panic!("{removed:?}") };
            while log.engine.durable(mark) == Settled::Pending {
                assert!(log.step(), "it is never flushed");
            }
        }
        for _ in 0..steps * 5 {
            log.step();
        }
        let mut log = log.reopen();
        fill(&mut log);
        for key in 0..keys / 4 {
            let put = log.put(&(keys + key).to_le_bytes(), &[2; 440]);
            put.expect("nothing can be moved any more");
            log.settle();
        }
        for key in (0..keys).filter(|key| key % 2 == 1) {
            assert_eq!(log.value(&key.to_le_bytes()), Some(vec![1; 440]));
        }
    }
}
