//! More keys for an index of integers.

use super::*;
use crate::index::{IndexLimits, Keyed};

fn open(disk: MemoryDisk) -> Log<Keyed> {
    let index = IndexKind::Flat { kmin: 0, kmax: 10 };
    let shape = Shape { entry_bytes: 5, index, ..shape() };
    let limits = IndexLimits { kmax_limit: 1000, entries_max: 0 };
    open_with(disk, shape, Mode::Safe, limits).unwrap()
}

/// Whether the log takes the key.
fn takes(log: &mut Log<Keyed>, key: u64) -> bool {
    match log.put(&key.to_le_bytes(), b"value") {
        Ok(_) => true,
        Err(Error::Key(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn keys_grow_when_the_manifest_is_durable_and_stay_so() {
    let mut log = open(MemoryDisk::default());
    log.settle();
    assert!(takes(&mut log, 9) && !takes(&mut log, 10));
    assert_eq!(log.engine.grow(10), Ok(Settled::Done));
    assert_eq!(log.engine.grow(1001), Err(Error::Growth { kmax: 1001, limit: 1000 }));
    log.settle();
    log.disk.done.clear();
    while log.engine.grow(20).unwrap() != Settled::Done {
        assert!(!takes(&mut log, 10), "a key was taken before the manifest had it");
        assert!(log.step(), "the keys do not grow");
    }
    let last = log.disk.done.last().unwrap();
    let expected = "flush the directory of manifest";
    assert_eq!(last, expected, "a key was taken before the manifest had it");
    assert!(takes(&mut log, 19) && !takes(&mut log, 20));
    log.settle();
    let mut log = open(log.disk);
    assert_eq!(log.engine.manifest().shape.index, IndexKind::Flat { kmin: 0, kmax: 20 });
    assert_eq!(log.value(&19u64.to_le_bytes()), Some(b"value".to_vec()));
    // A stop in order saves an index of as many.
    log.engine.close(&mut log.disk, 0).unwrap();
    let mut log = open(log.disk);
    assert!(log.report.is_clean);
    assert_eq!(log.value(&19u64.to_le_bytes()), Some(b"value".to_vec()));
    assert!(!takes(&mut log, 20));
}

#[test]
fn a_crash_at_any_step_of_a_growth_loses_nothing() {
    let mut seen = std::collections::BTreeSet::new();
    for steps in 0..20 {
        let mut log = open(MemoryDisk::default());
        log.settle();
        assert!(takes(&mut log, 9));
        log.settle();
        for _ in 0..steps {
            if log.engine.grow(20).unwrap() == Settled::Done {
                break;
            }
            log.step();
        }
        let is_taken = takes(&mut log, 15);
        assert_eq!(is_taken, log.engine.grow(20) == Ok(Settled::Done));
        // The growth goes no further; the record does.
        while let Some(plan) = log.engine.poll_records(0) {
            let outcome = log.disk.perform(plan.action);
            log.engine.complete(plan.token, outcome);
        }
        // What was asked for and not taken comes or does not; what was taken is there.
        let disk = MemoryDisk { files: log.disk.files, ..MemoryDisk::default() };
        let mut log = open(disk);
        let IndexKind::Flat { kmax, .. } = log.engine.manifest().shape.index else { panic!() };
        assert!(kmax == 20 || kmax == 10 && !is_taken, "{kmax} after {steps} steps");
        seen.insert(kmax);
        assert_eq!(log.report.damages, [], "after {steps} steps");
        assert_eq!(log.value(&9u64.to_le_bytes()), Some(b"value".to_vec()));
        if is_taken {
            assert_eq!(log.value(&15u64.to_le_bytes()), Some(b"value".to_vec()), "{steps} steps");
        }
        while log.engine.grow(20).unwrap() != Settled::Done {
            assert!(log.step());
        }
        assert!(takes(&mut log, 19));
    }
    assert_eq!(seen.len(), 2, "some crashes come before the manifest, and some after it");
}

#[test]
fn a_manifest_of_fewer_keys_that_was_put_back_loses_none_unnamed() {
    let mut log = open(MemoryDisk::default());
    log.settle();
    let manifest = log.disk.manifest().clone();
    while log.engine.grow(20).unwrap() != Settled::Done {
        log.step();
    }
    // A whole segment, which gets a footer.
    for key in [15_u64, 5].into_iter().chain((0..30).map(|at| 16 + at % 4)) {
        log.put(&key.to_le_bytes(), &[if key == 15 { 1 } else { 2 }; 400]).unwrap();
        log.settle();
    }
    *log.disk.manifest() = manifest;
    let rows = |disk: &mut MemoryDisk| Manifest::decode(disk.manifest()).unwrap().rows.len();
    let kept = rows(&mut log.disk) as u32;
    log.disk.files.retain(|file, _| match file.name {
        FileName::Segment(id) => id.0 < kept,
        _ => true,
    });
    let mut log = open(log.disk);
    let flaw = crate::keys::KeyFlaw::OutOfRange { key: 15, kmin: 0, kmax: 10 };
    let what = Wrong::Named(Error::Key(flaw));
    assert!(log.report.damages.iter().any(|damage| damage.what == what), "nobody says so");
    assert_eq!(log.value(&5u64.to_le_bytes()), Some(vec![2; 400]));
    while log.engine.grow(20).unwrap() != Settled::Done {
        log.step();
    }
    let mut log = open(log.disk);
    assert_eq!(log.value(&15u64.to_le_bytes()), Some(vec![1; 400]));
}

#[test]
fn a_growth_that_fails_is_told_and_can_be_tried_again() {
    // Of manifest.new: removed, created, written, flushed; renamed, and the directory flushed.
    for failing in 1..6 {
        let mut log = open(MemoryDisk::default());
        log.settle();
        let mut step = 0;
        log.disk.fail(move |_| {
            step += 1;
            step == failing + 1
        });
        let told = loop {
            match log.engine.grow(20) {
                Ok(Settled::Pending) => assert!(log.step(), "nothing is told of the failure"),
                other => break other,
            }
        };
        assert!(matches!(told, Err(Error::Disk { .. })), "{told:?}");
        let is_unsure = failing >= 4;
        assert_eq!(log.engine.is_read_only(), is_unsure, "step {failing}");
        if is_unsure {
            assert_eq!(log.engine.grow(20), Err(Error::ReadOnly));
            continue;
        }
        assert!(!takes(&mut log, 15));
        assert!(takes(&mut log, 5), "a growth that failed has nothing to do with room");
        while log.engine.grow(20).unwrap() != Settled::Done {
            assert!(log.step());
        }
        assert!(takes(&mut log, 15));
    }
}

#[test]
fn keys_that_are_no_integers_do_not_grow() {
    let mut log = Log::new(Mode::Safe);
    assert_eq!(log.engine.grow(1), Err(Error::Growth { kmax: 1, limit: 0 }));
}
