//! Iteration in the order of insertion while records are written.

use std::collections::{BTreeMap, BTreeSet};

use base::random::Random;

use super::*;
use crate::{
    engine::Iteration,
    format::cursor::{Cursor, Place},
};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

impl Log {
    /// Shows what one read has brought, or less: then where it stood is kept as bytes, and nobody
    /// holds the iteration. `None` at the end.
    fn show(
        &mut self,
        mut iteration: Iteration,
        shown: &mut Pairs,
        most: usize,
    ) -> Result<Iteration, Cursor> {
        let Some(window) = iteration.window() else {
            let cursor = iteration.cursor();
            self.engine.end_iteration(iteration);
            return Err(cursor);
        };
        let read = self.disk.perform(window.action(Buffer::new(window.bytes())));
        let Outcome::Read(buffer, bytes) = read else { panic!("a read answers with bytes") };
        let mut found = iteration.take(&buffer.as_slice()[..bytes]);
        self.engine.keep_newest(&mut iteration, &mut found, self.now_ms);
        let places = found.iter().flatten().map(|found| found.segment);
        assert!(places.into_iter().all(|segment| self.engine.is_pinned(segment)), "let go early");
        let count = found.len();
        for item in found.into_iter().take(most) {
            let item = item.expect("nothing is damaged");
            let cursor = item.cursor;
            if let Some((key, stored)) = self.engine.find_shown(&mut iteration, item).unwrap() {
                shown.push((key, self.with_parts(stored).unwrap().value));
            }
            if most < count {
                let kept = Cursor::decode(&cursor.encode()).expect("it was given out");
                self.engine.end_iteration(iteration);
                iteration = self.engine.iterate(Some(&kept)).unwrap();
                assert_eq!(iteration.cursor(), kept);
                return Ok(iteration);
            }
        }
        Ok(iteration)
    }

    fn change(&mut self, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, key: u32, random: &mut Random) {
        let key = key.to_le_bytes().to_vec();
        // Some are as long as others, and are written over while they are in memory.
        let bytes = if random.below(2) == 0 { 300 } else { random.below(900) as usize };
        match random.below(8) {
            0 => {
                self.remove(&key);
                model.remove(&key);
            }
            1 => {
                let value = vec![random.below(250) as u8; 1500 + bytes];
                self.put_large(&key, &value);
                model.insert(key, value);
            }
            _ => {
                let value = vec![random.below(250) as u8; bytes];
                self.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
    }
}

#[test]
fn what_nobody_writes_is_shown_once_and_going_on_from_the_end_shows_the_rest() {
    let (mut unflushed, mut overwritten) = (0, 0);
    for seed in 0..30 {
        let mut random = Random::new(seed, 0);
        let mut log = Log::new(if seed % 2 == 0 { Mode::Async } else { Mode::Safe });
        let mut model = BTreeMap::new();
        for key in 0..150 {
            log.change(&mut model, key % 100, &mut random);
        }
        // What is not flushed then comes to whoever goes on from the end.
        let is_drained = seed % 3 != 0;
        if is_drained {
            log.settle();
            let mut drain = log.engine.drain();
            while log.engine.drained(&mut drain) != Settled::Done {
                assert!(log.step());
            }
        }
        let before = model.clone();
        let mut shown = Pairs::new();
        let mut iteration = log.engine.iterate(None).unwrap();
        let mut rounds = 0;
        let end = loop {
            // Whoever goes on from a cursor sees what was flushed since: some runs do not.
            let pauses = seed % 2 == 1 && random.below(3) == 0;
            let most = if pauses { 1 } else { usize::MAX };
            iteration = match log.show(iteration, &mut shown, most) {
                Ok(iteration) => iteration,
                Err(end) => break end,
            };
            if rounds < 40 {
                // Odd keys change meanwhile, and new ones come.
                for _ in 0..3 {
                    let key = random.below(60) * 2 + 1;
                    log.change(&mut model, key, &mut random);
                }
            }
            rounds += 1;
        };
        assert!(rounds > 5, "seed {seed}: {rounds}");
        let keys: BTreeSet<_> = shown.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), shown.len(), "seed {seed}: a key was shown twice");
        let is_still = |key: &[u8]| key[0].is_multiple_of(2);
        let mut still: Pairs = shown.iter().filter(|(key, _)| is_still(key)).cloned().collect();
        let mut expected = before;
        expected.retain(|key, _| is_still(key));
        let is_all = still.len() == expected.len();
        assert!(!is_drained || is_all, "seed {seed}: what stays was not shown");
        unflushed += u32::from(!is_all);
        overwritten += log.engine.counts().overwritten;
        // From the end on, in another run: the newest of every key has been shown last.
        let mut last: BTreeMap<_, _> = shown.into_iter().collect();
        let mut drain = log.engine.drain();
        while log.engine.drained(&mut drain) != Settled::Done {
            assert!(log.step());
        }
        log.settle();
        let mut log = log.reopen();
        let mut iteration = log.engine.iterate(Some(&end)).unwrap();
        let mut rest = Pairs::new();
        while let Ok(next) = log.show(iteration, &mut rest, usize::MAX) {
            iteration = next;
        }
        still.extend(rest.iter().filter(|(key, _)| is_still(key)).cloned());
        assert!(still.len() == expected.len(), "seed {seed}: what stays was lost or shown again");
        assert!(BTreeMap::from_iter(still) == expected, "seed {seed}: not shown as it is");
        last.extend(rest);
        last.retain(|key, _| model.contains_key(key));
        assert!(last == model, "seed {seed}: the newest was not shown last");
        assert!((0..64).all(|id| !log.engine.is_pinned(SegmentId(id))), "seed {seed}");
    }
    assert!(unflushed > 0, "everything was flushed");
    assert!(overwritten > 0, "nothing was written over in memory");
}

#[test]
fn the_order_is_that_of_insertion_and_expired_and_damaged_records_are_not_shown() {
    let mut log = Log::new(Mode::Safe);
    for key in [5u8, 3, 9, 1, 7, 2] {
        log.put(&[key], &[key; 600]).unwrap();
        log.settle();
    }
    log.put(&[3], b"again").unwrap();
    let fading = Put { key: b"fading", expiry_ms: 1000, ..Put::default() };
    assert!(matches!(log.engine.put(&fading, 0).unwrap(), Wrote::Done { .. }));
    log.settle();
    let keys = |log: &mut Log| {
        let mut shown = Pairs::new();
        let mut iteration = log.engine.iterate(None).unwrap();
        while let Ok(next) = log.show(iteration, &mut shown, usize::MAX) {
            iteration = next;
        }
        shown.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    let expected: Vec<_> = [5u8, 9, 1, 7, 2, 3].iter().map(|key| vec![*key]).collect();
    log.now_ms = 999;
    assert_eq!(keys(&mut log), [&expected[..], &[b"fading".to_vec()]].concat());
    log.now_ms = 1000;
    assert_eq!(keys(&mut log), expected);

    // The record of key 9, which is the third.
    let entry = log.engine.index.get(log.engine.index.hash(&[9]).unwrap()).unwrap();
    let (id, offset) = log.engine.place(entry.position);
    log.disk.files.get_mut(&segment(id.0)).unwrap()[offset as usize + 50] ^= 1;
    let mut iteration = log.engine.iterate(None).unwrap();
    let mut damaged = Vec::new();
    while let Some(window) = iteration.window() {
        let read = log.disk.perform(window.action(Buffer::new(window.bytes())));
        let Outcome::Read(buffer, bytes) = read else { panic!("a read answers with bytes") };
        damaged.extend(
            iteration.take(&buffer.as_slice()[..bytes]).into_iter().filter_map(Result::err),
        );
    }
    log.engine.end_iteration(iteration);
    let expected = Error::Damaged { file: segment(id.0), offset, flaw: record::Flaw::NoRecord };
    assert_eq!(damaged, [expected]);
}

#[test]
fn what_is_written_over_in_memory_is_shown_once() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    for key in [b"a", b"b", b"c"] {
        log.put(key, &[1; 20]).unwrap();
    }
    log.put(b"a", &[2; 20]).unwrap();
    // Nothing of the segment is flushed, and its first record changes once more.
    let iteration = log.engine.iterate(None).unwrap();
    let Err(end) = log.show(iteration, &mut Pairs::new(), usize::MAX) else {
        panic!("nothing is flushed")
    };
    log.put(b"a", &[3; 20]).unwrap();
    log.put(b"b", &[3; 20]).unwrap();
    assert_eq!(log.engine.counts().overwritten, 3);
    log.flush();
    for after in [None, Some(&end)] {
        let mut shown = Pairs::new();
        let mut iteration = log.engine.iterate(after).unwrap();
        while let Ok(next) = log.show(iteration, &mut shown, usize::MAX) {
            iteration = next;
        }
        // As they lie.
        let pair = |key: &[u8; 1], value| (key.to_vec(), vec![value; 20]);
        assert_eq!(shown, [pair(b"a", 3), pair(b"b", 3), pair(b"c", 1)]);
    }
}

/// What a crash has torn, and an open has sealed, is no damage.
#[test]
fn what_a_crash_has_torn_is_not_named_as_damaged() {
    let mut log = Log::new(Mode::Async);
    log.put(&[0], &[7; 900]).unwrap();
    log.settle();
    for key in 1..5u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    log.engine.drain();
    while let Some(plan) = log.engine.poll(0) {
        if matches!(plan.action, Action::Flush { .. }) {
            break;
        }
        let outcome = log.disk.perform(plan.action);
        log.engine.complete(plan.token, outcome);
    }
    let entry = log.engine.index.get(log.engine.index.hash(&[2]).unwrap()).unwrap();
    let (id, offset) = log.engine.place(entry.position);
    log.disk.files.get_mut(&segment(id.0)).unwrap()[offset as usize..][..900].fill(0);
    for _ in 0..2 {
        log = log.reopen();
        assert_eq!(log.report.damages, Vec::new());
        let mut shown = Pairs::new();
        let mut iteration = log.engine.iterate(None).unwrap();
        while let Ok(next) = log.show(iteration, &mut shown, usize::MAX) {
            iteration = next;
        }
        let keys: Vec<_> = shown.iter().map(|(key, _)| key[0]).collect();
        assert_eq!(keys, [0, 1, 3]);
    }
}

#[test]
fn a_cursor_of_another_log_or_order_is_refused() {
    let mut log = Log::new(Mode::Safe);
    let cursor = log.engine.iterate(None).unwrap().cursor();
    let other = Cursor { log: LogId(6), ..cursor };
    assert!(matches!(log.engine.iterate(Some(&other)), Err(Error::Cursor { .. })));
    for offset in [1, 1 << 20, u64::MAX] {
        let place = Place::Record {
            from: 0,
            upto: 1,
            begun: 0,
            segment: SegmentId(0),
            generation: 1,
            offset,
        };
        let nowhere = log.engine.iterate(Some(&Cursor { place, ..cursor }));
        assert!(matches!(nowhere, Err(Error::Cursor { .. })), "{offset}");
    }
    let key = Cursor { place: Place::Key { next: 0 }, ..cursor };
    assert!(matches!(log.engine.iterate(Some(&key)), Err(Error::Cursor { .. })));
    assert!(log.engine.keys_from(0, &mut Vec::new()).is_err(), "bytes have no order");
}

#[test]
fn every_damaged_record_is_named_by_its_place_and_nothing_is_changed() {
    let mut log = Log::new(Mode::Safe);
    for key in 0..60u8 {
        log.put(&[key], &[key; 300]).unwrap();
    }
    log.settle();
    log.engine.close(&mut log.disk, 0).unwrap();
    let inspect = |disk: &mut MemoryDisk| {
        let opening = Opening {
            directories: 1,
            new: New { log: LogId(5), shape: shape() },
            settings: settings(Mode::Safe),
            now_ms: 0,
            progress: &mut |_| {},
        };
        disk.done.clear();
        let make = |_: &Manifest| Ok(MapKeys::new(UNITS_MAX));
        let (engine, report) = Engine::inspect(disk, opening, make).unwrap();
        let mut damages = report.damages;
        let verified = engine.verify(disk, &mut |_| {}, &mut |damage| damages.push(damage));
        let changes =
            disk.done.iter().filter(|done| !done.starts_with("read") && !done.starts_with("list"));
        assert_eq!(changes.count(), 0, "{:?}", disk.done);
        assert_eq!(engine.manifest().run, 1);
        (engine, verified, damages)
    };
    let (mut engine, verified, damages) = inspect(&mut log.disk);
    assert_eq!((verified.records, damages), (60, Vec::new()));
    assert_eq!(engine.put(&Put { key: b"a", ..Put::default() }, 0), Err(Error::ReadOnly));
    let places: Vec<_> = (0..60u8)
        .map(|key| {
            let index = log.engine.index();
            let entry = index.get(index.hash(&[key]).unwrap()).unwrap();
            log.engine.place(entry.position)
        })
        .collect();
    // Two that lie side by side, and one in another segment.
    for at in [7, 8, 50] {
        let (id, offset) = places[at];
        log.disk.files.get_mut(&segment(id.0)).unwrap()[offset as usize + 100] ^= 4;
    }
    let (_, verified, damages) = inspect(&mut log.disk);
    assert_eq!(verified.records, 57);
    let named: Vec<_> = damages.iter().map(|damage| (damage.file, damage.offset)).collect();
    let expected = [7, 8, 50].map(|at: usize| (segment(places[at].0.0), places[at].1));
    assert_eq!(named, expected);
    assert!(damages.iter().all(|damage| damage.what == Wrong::Records));
}

#[test]
fn a_cursor_into_a_segment_whose_file_was_removed_skips_nothing_of_another_one() {
    let mut log = Log::new(Mode::Async);
    for key in 0..8u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    log.seal();
    let mut shown = Pairs::new();
    let mut iteration = log.engine.iterate(None).unwrap();
    while shown.is_empty() {
        iteration = log.show(iteration, &mut shown, 1).expect("there is more");
    }
    let cursor = iteration.cursor();
    log.engine.end_iteration(iteration);
    let Place::Record { from, upto, begun, segment, generation, offset } = cursor.place else {
        panic!("by records")
    };
    let count = |log: &mut Log, begun| {
        let place = Place::Record { from, upto, begun, segment, generation, offset };
        let mut iteration = log.engine.iterate(Some(&Cursor { place, ..cursor })).unwrap();
        let mut shown = Pairs::new();
        while let Ok(next) = log.show(iteration, &mut shown, usize::MAX) {
            iteration = next;
        }
        shown.len()
    };
    let whole = count(&mut log, begun - 1);
    assert_eq!(whole, 8, "what another segment has there is passed over");
    assert!(count(&mut log, begun) < 8);
}
