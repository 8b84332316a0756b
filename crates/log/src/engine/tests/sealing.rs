//! Footers that are encoded while others have the engine.

use super::{ahead::perform, *};

/// A log with a segment that is full and flushed.
fn full() -> Log {
    let mut log = Log::new(Mode::Async);
    log.settle();
    for key in 0..24u8 {
        log.put(&[key], &[key; 440]).unwrap();
    }
    log.flush();
    log.engine.close_tail();
    log
}

/// Performs what is to be done, with footers encoded by somebody else.
fn settle_beside(log: &mut Log) {
    for _ in 0..1000 {
        if let Some(mut encoding) = log.engine.take_footer() {
            assert!(log.engine.take_footer().is_none(), "it is lent twice");
            assert!(!log.engine.may_encode() && !log.engine.encode_footer(), "it is not there");
            // Others go on meanwhile.
            log.settle();
            log.put(b"meanwhile", b"value").unwrap();
            encoding.encode();
            let plan = log.engine.give_back(encoding).expect("it is to be written");
            perform(log, plan);
        }
        if !log.step() && !log.engine.is_sealing() {
            return;
        }
    }
    panic!("it is never sealed");
}

#[test]
fn a_footer_is_encoded_while_others_have_the_log() {
    let (mut beside, mut within) = (full(), full());
    settle_beside(&mut beside);
    within.settle();
    let footer = |log: &Log| {
        let file = segment(1);
        log.disk.files[&file][footer_offset(&log.disk, file)..].to_vec()
    };
    assert_eq!(footer(&beside), footer(&within));
    assert_eq!(beside.value(b"meanwhile"), Some(b"value".to_vec()));
    let mut log = beside.reopen();
    for key in 0..24u8 {
        assert_eq!(log.value(&[key]), Some(vec![key; 440]), "key {key}");
    }
}
