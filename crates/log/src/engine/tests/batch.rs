//! Changes that take effect together.

use super::*;
use crate::{
    engine::Damage,
    format::{cursor::Place, record::Kind},
    index::{IndexLimits, Keyed},
    position::{Entry, Position, SizeClass},
};

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Change<'a> {
    Change::Put(Put { key, value, ..Put::default() })
}

impl Log {
    fn write(&mut self, changes: &[Change<'_>]) -> Result<(usize, Option<(Mark, Mark)>), Error> {
        for _ in 0..100 {
            match self.engine.write_batch(changes, self.now_ms)? {
                Batch::Done { removed, marks } => return Ok((removed, marks)),
                Batch::Wait => assert!(self.step(), "the batch waits for ever"),
            }
        }
        panic!("the batch waits for ever");
    }
}

#[test]
fn a_batch_is_read_at_once_and_later_changes_of_a_key_count() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"there", b"0").unwrap();
    log.settle();
    let flushes = log.engine.counts().flushes;
    let changes = [
        put(b"a", b"1"),
        put(b"b", b"2"),
        Change::Remove(b"a"),
        Change::Remove(b"a"),
        Change::Remove(b"there"),
        Change::Remove(b"never"),
        put(b"b", b"3"),
    ];
    let (removed, marks) = log.write(&changes).unwrap();
    assert_eq!(removed, 2);
    let (first, last) = marks.unwrap();
    assert_eq!(log.engine.may_answer_all(first, last), Settled::Pending);
    log.settle();
    assert_eq!(log.engine.may_answer_all(first, last), Settled::Done);
    assert_eq!(log.engine.counts().flushes - flushes, 1, "a batch is one write");
    for _ in 0..2 {
        let values = [b"a".as_slice(), b"b", b"there"].map(|key| log.value(key));
        assert_eq!(values, [None, Some(b"3".to_vec()), None]);
        log = log.reopen();
        assert_eq!(log.report.damages, []);
    }
}

#[test]
fn a_batch_of_one_is_a_record_and_one_of_none_is_nothing() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"a", b"1").unwrap();
    let before = log.engine.counts();
    assert_eq!(log.write(&[]).unwrap(), (0, None));
    assert_eq!(log.write(&[Change::Remove(b"never")]).unwrap(), (0, None));
    assert_eq!(log.engine.counts(), before);
    log.write(&[put(b"b", b"2")]).unwrap();
    assert_eq!(log.engine.counts().record_bytes - before.record_bytes, 32);
}

#[test]
fn a_batch_that_cannot_be_made_changes_nothing() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let value = [1; 900];
    let (a, b, c) = (put(b"a", &value), put(b"b", &value), put(b"c", &value));
    assert_eq!(log.write(&[a, b, c]), Err(Error::BatchBytes { got: 2864, max: 2048 }));
    assert!(matches!(log.write(&[a, put(b"", b"")]), Err(Error::KeyBytes { .. })));
    let changes = vec![Change::Remove(b"k"); 70_000];
    assert_eq!(log.write(&changes).unwrap(), (0, None), "nothing is to be written");
    // Alone it is no batch, whatever else there is to be done and is nothing.
    let alone = [put(b"alone", &[1; 990]), Change::Remove(b"never")];
    assert_eq!(log.write(&alone).unwrap().0, 0);
    let changes: Vec<_> = (0..70_000).map(|_| put(b"k", b"")).collect();
    let error = Error::BatchRecords { got: 70_000, max: 65_535 };
    assert_eq!(log.write(&changes), Err(error));
    assert_eq!(log.engine.counts().records, 1);
    assert_eq!([log.value(b"a"), log.value(b"k")], [None, None]);
}

#[test]
fn a_full_index_refuses_a_batch_of_new_keys_as_a_whole_and_takes_one_of_old_ones() {
    let limits = IndexLimits { kmax_limit: 0, entries_max: 1 };
    let seeds = std::array::from_fn(|at| (at * 37) as u8);
    let shape = Shape { index: IndexKind::Hash { seeds }, ..shape() };
    let opened = open_with(MemoryDisk::default(), shape, Mode::Safe, limits);
    let mut log: Log<Keyed> = opened.unwrap();
    let index = log.engine.index();
    for key in 0u64.. {
        let hash = index.hash(&key.to_le_bytes()).unwrap();
        if index.prepare(hash).is_err() {
            break;
        }
        let class = SizeClass::LARGEST;
        index.publish(hash, Entry { position: Position::new(64).unwrap(), class });
    }
    log.settle();
    let (a, b) = (put(b"new", b"1"), put(b"newer", b"2"));
    let refused = log.engine.write_batch(&[a, b], 0);
    assert_eq!(refused, Err(Error::IndexFull(IndexFull)));
    assert_eq!(log.value(b"new"), None);
    let old = [3u64.to_le_bytes(), 4u64.to_le_bytes()];
    let changes = [Change::Remove(&old[0]), put(&old[1], b"3"), put(&old[1], b"4")];
    assert!(matches!(log.engine.write_batch(&changes, 0), Ok(Batch::Done { removed: 1, .. })));
    assert_eq!(log.value(&old[1]), Some(b"4".to_vec()));
}

/// A log with an old value of two keys, and a batch that gives them new ones and is the last
/// thing in it; and where the batch lies.
fn with_batch(values: [&[u8]; 3]) -> (Log, std::ops::Range<usize>) {
    let mut log = Log::new(Mode::Safe);
    log.put(b"a", b"old").unwrap();
    log.put(b"b", b"old").unwrap();
    log.settle();
    let [a, b, c] = values;
    log.write(&[put(b"a", a), put(b"b", b), put(b"c", c)]).unwrap();
    log.settle();
    let held = &log.disk.files[&segment(0)];
    let is_batch = |at: &usize| held[*at..*at + 2] == mark(0) && held[*at + 2] == 6;
    let from = (0..held.len()).step_by(512).rfind(is_batch).unwrap();
    let end = held.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    (log, from..end)
}

#[test]
fn a_crash_leaves_all_of_a_batch_or_nothing() {
    let (log, range) = with_batch([&[1; 500], &[2; 600], b"3"]);
    assert!(range.len() > 2 * 512, "it has several sectors");
    // Any of the sectors that the batch lies in may be missing, and what was there before is zeros.
    let sectors: Vec<usize> = range.clone().step_by(512).collect();
    for kept in 0..1u32 << sectors.len() {
        let mut disk = MemoryDisk { files: log.disk.files.clone(), ..MemoryDisk::default() };
        let held = disk.files.get_mut(&segment(0)).unwrap();
        for (at, sector) in sectors.iter().enumerate() {
            if kept >> at & 1 == 0 {
                held[*sector..sector + 512].fill(0);
            }
        }
        let mut log = Log::of(disk, Mode::Safe);
        for _ in 0..2 {
            let values = [b"a", b"b", b"c"].map(|key| log.value(key));
            let is_new = values[0] == Some(vec![1; 500])
                && values[1] == Some(vec![2; 600])
                && values[2] == Some(b"3".to_vec());
            let old = Some(b"old".to_vec());
            let is_old = values == [old.clone(), old, None];
            assert!(is_new || is_old, "a batch took effect in part: sectors {kept:b}");
            assert!(is_new || kept + 1 != 1 << sectors.len());
            log = log.reopen();
        }
    }
}

#[test]
fn a_batch_removes_again_what_a_crash_may_bring_back() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"a", b"old").unwrap();
    log.settle();
    log.engine.remove(b"a", 0).unwrap();
    log.put(b"between", &[1; 600]).unwrap();
    let (removed, _) = log.write(&[Change::Remove(b"a"), put(b"b", b"new")]).unwrap();
    assert_eq!(removed, 0);
    log.settle();
    // The crash loses the sector of the first removal, and keeps that of the batch.
    let held = log.disk.files.get_mut(&segment(0)).unwrap();
    let is_removal =
        |at: &usize| held[*at..*at + 2] == mark(0) && held[*at + 2] == Kind::Tombstone as u8;
    let sector = (0..held.len()).step_by(512).rfind(is_removal).unwrap();
    held[sector..sector + 512].fill(0);
    let mut log = Log::of(log.disk, Mode::Safe);
    assert_eq!(log.value(b"b"), Some(b"new".to_vec()));
    assert_eq!(log.value(b"a"), None, "a removed key is back");
}

#[test]
fn of_a_flushed_batch_that_is_damaged_the_rest_is_served() {
    let (mut log, range) = with_batch([&[1; 500], &[2; 600], b"3"]);
    // The next commit says that the batch was flushed.
    log.put(b"d", b"4").unwrap();
    log.settle();
    for damaged in [range.start + 100, range.start + 700] {
        let mut disk = MemoryDisk { files: log.disk.files.clone(), ..MemoryDisk::default() };
        disk.files.get_mut(&segment(0)).unwrap()[damaged] ^= 1;
        let mut log = Log::of(disk, Mode::Safe);
        assert_eq!(log.report.damages.len(), 1);
        assert_eq!(log.report.damages[0].what, Wrong::Records);
        assert_eq!(log.value(b"c"), Some(b"3".to_vec()));
        let lost = if damaged == range.start + 100 { b"a" } else { b"b" };
        assert_eq!(log.value(lost), Some(b"old".to_vec()));
    }
}

/// What of a log that was stopped is damaged, and how many records are not.
fn verified(log: &mut Log) -> (u64, Vec<(u64, u64)>) {
    let mut damages = Vec::new();
    let mut note = |damage: Damage| {
        assert_eq!(damage.what, Wrong::Records);
        damages.push((damage.offset, damage.bytes));
    };
    let verified = log.engine.verify(&mut log.disk, &mut |_| {}, &mut note);
    (verified.records, damages)
}

#[test]
fn of_a_batch_in_a_sealed_segment_only_what_is_damaged_is_named() {
    let (mut log, range) = with_batch([&[1; 500], &[2; 600], b"3"]);
    log.engine.close(&mut log.disk, 0).unwrap();
    assert_eq!(verified(&mut log), (5, Vec::new()));
    let first = range.start + 32;
    log.disk.files.get_mut(&segment(0)).unwrap()[first + 100] ^= 1;
    assert_eq!(verified(&mut log), (4, vec![(first as u64, 640)]));
}

#[test]
fn a_batch_that_a_crash_has_torn_is_no_damage_of_the_segment_that_an_open_has_sealed() {
    let (mut log, range) = with_batch([&[1; 500], &[2; 600], b"3"]);
    let held = log.disk.files.get_mut(&segment(0)).unwrap();
    held[range.start + 512..range.start + 1024].fill(0);
    let mut log = log.reopen();
    log.engine.close(&mut log.disk, 0).unwrap();
    assert_eq!(verified(&mut log), (2, Vec::new()));
}

#[test]
fn a_batch_that_could_not_be_flushed_is_written_again_as_one() {
    let mut log = Log::new(Mode::Async);
    log.put(b"a", b"old").unwrap();
    log.flush();
    log.write(&[put(b"a", b"1"), put(b"b", b"2")]).unwrap();
    // Not the newest any more, and yet a part of what takes effect together.
    log.put(b"a", b"newer").unwrap();
    log.disk.fail_next_flush();
    log.engine.drain();
    while log.engine.counts().rewritten < 3 {
        assert!(log.step(), "the batch is not written again");
    }
    log.flush();
    let values = [b"a", b"b"].map(|key| log.value(key));
    assert_eq!(values, [Some(b"newer".to_vec()), Some(b"2".to_vec())]);
    // The failed segment loses what was not flushed, and the other one what came last.
    let id = log.engine.open.as_ref().unwrap().segment.0;
    assert_ne!(id, 0);
    let batch = log.disk.files[&segment(id)][2 * 512..].to_vec();
    assert_eq!((&batch[..2], batch[2]), (&mark(id)[..], 6));
    let second = u32::from_le_bytes(batch[16..20].try_into().unwrap()) as usize + 32;
    assert_eq!(batch[second..second + 2], mark(id), "the newer value follows");
    let mut disk = MemoryDisk { files: log.disk.files, ..MemoryDisk::default() };
    let held = disk.files.get_mut(&segment(0)).unwrap();
    let failed = (0..held.len() - 2).step_by(512).rfind(|at| held[*at..].starts_with(&mark(0)));
    held[failed.unwrap()..].fill(0);
    let held = disk.files.get_mut(&segment(id)).unwrap();
    held[2 * 512 + second..].fill(0);
    let mut log = Log::of(disk, Mode::Async);
    let values = [b"a", b"b"].map(|key| log.value(key));
    assert_eq!(values, [Some(b"1".to_vec()), Some(b"2".to_vec())]);
}

#[test]
fn what_is_written_again_and_is_old_hides_nothing_from_who_iterates() {
    let mut log = Log::new(Mode::Async);
    log.write(&[put(b"a", b"1"), put(b"b", b"2")]).unwrap();
    log.put(b"a", b"newer").unwrap();
    // Another segment is made, and nothing is flushed.
    log.settle();
    log.engine.close_tail();
    // It is in another segment, which is flushed before the batch is.
    log.put(b"c", &[3; 900]).unwrap();
    let later = log.engine.open.as_ref().unwrap().segment;
    let begun = log.engine.open.as_ref().unwrap().listed.begun();
    let first = segment(0);
    let mut left = 1;
    log.disk.fail(move |action| {
        let fails = matches!(action, Action::Flush { file } if *file == first) && left > 0;
        left -= u32::from(fails);
        fails
    });
    log.engine.drain();
    while log.engine.counts().rewritten < 3 {
        assert!(log.step(), "the batch is not written again");
    }
    let tail = log.engine.open.as_ref().unwrap();
    assert_eq!((tail.segment, tail.listed.begun()), (later, begun), "a cursor would pass it over");
    assert!(tail.listed.smallest_value() < begun, "a tombstone might go that is still needed");
    log.flush();
    log = log.reopen();
    let segment = log.engine.segment(later).unwrap();
    assert_eq!(segment.begun, begun, "the next run has it in another place");
    assert!(segment.smallest_value < begun && segment.smallest_value > 0);
}

#[test]
fn an_iteration_begins_behind_what_is_flushed_whatever_is_written_again() {
    let mut log = Log::new(Mode::Async);
    log.put(b"kept", b"0").unwrap();
    log.flush();
    log.write(&[put(b"a", b"1"), put(b"b", b"2")]).unwrap();
    log.put(b"a", b"newer").unwrap();
    log.put(b"z", b"3").unwrap();
    log.disk.fail_next_flush();
    log.engine.drain();
    while log.engine.counts().rewritten < 4 {
        assert!(log.step(), "the batch is not written again");
    }
    let tail = log.engine.open.as_ref().unwrap();
    let old = tail.listed.behind_chunk(0).map(|listed| listed.sequence).min().unwrap();
    let iteration = log.engine.iterate(None).unwrap();
    let Place::Record { upto, .. } = iteration.cursor().place else { panic!("by records") };
    assert!(upto > old, "it ends before what was flushed long ago");
    log.engine.end_iteration(iteration);
}

#[test]
fn large_values_appear_with_their_batch() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let value: Vec<u8> = (0..3000u32).map(|at| at as u8).collect();
    let upload = log.upload(b"large", &value);
    let head = Change::Head(&upload, Put { key: b"large", ..Put::default() });
    log.write(&[put(b"small", b"1"), head]).unwrap();
    log.settle();
    for _ in 0..2 {
        assert_eq!(log.value(b"large"), Some(value.clone()));
        assert_eq!(log.value(b"small"), Some(b"1".to_vec()));
        log = log.reopen();
    }
}
