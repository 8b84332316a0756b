//! Logs in files: all that is in one is shown in either order, copied while it is written to, and
//! looked into without being changed.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
};

use super::directory::Directory;
use log::{
    Cursor, Log, Options, Order,
    engine::{Mode, Put},
    error::Error,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};

const INTEGERS: IndexKind = IndexKind::Flat { kmin: 10, kmax: 5000 };
const LIMITS: IndexLimits = IndexLimits { kmax_limit: 1 << 20, entries_max: 100_000 };

fn options(path: &Path, index: IndexKind) -> Options {
    let entry_bytes = if index == INTEGERS { 5 } else { 0 };
    let mut options = Options::new(path, index, entry_bytes);
    options.shape.segment_bytes = 1 << 20;
    options.shape.part_bytes = 1 << 14;
    options.settings.mode = Mode::Async;
    options.settings.chunk_bytes = 1 << 16;
    // What moves comes in another order.
    options.settings.space_target_percent = 0;
    options
}

fn open(path: &Path, index: IndexKind) -> Log<Keyed> {
    Log::open(&options(path, index), LogId(3), LIMITS, &mut |_| {}).expect("opens").0
}

fn strings() -> IndexKind {
    IndexKind::Hash { seeds: std::array::from_fn(|at| (at * 37) as u8) }
}

fn put(log: &Log<Keyed>, key: u32, value: &[u8]) {
    let key = u64::from(key).to_le_bytes();
    log.put(&Put { key: &key, value, ..Put::default() }).expect("room");
}

fn number(key: &[u8]) -> u32 {
    let key = u64::from_le_bytes(key.try_into().expect("an integer"));
    u32::try_from(key).expect("a small one")
}

/// All that is shown, put together, and from where one may go on.
fn all(log: &Log<Keyed>, order: Order, after: Option<&Cursor>) -> (Vec<(u32, Vec<u8>)>, Cursor) {
    let mut records = log.iterate(order, after).expect("begins");
    let mut shown = Vec::new();
    while let Some(record) = records.next() {
        let record = record.expect("undamaged");
        let mut value = Vec::new();
        let read = records.read_value(&record, |part| {
            assert!(part.len() <= 1 << 14, "a part at a time");
            value.extend_from_slice(part);
            Ok::<(), Error>(())
        });
        read.expect("undamaged");
        assert_eq!(value.len() as u64, record.value_bytes());
        shown.push((number(&record.key), value));
    }
    (shown, records.cursor())
}

#[test]
fn everything_is_shown_once_in_either_order_with_pauses_across_runs() {
    for index in [INTEGERS, strings()] {
        let directory = Directory::new("shown");
        let mut log = open(directory.path(), index);
        let mut model = BTreeMap::new();
        let mut order = Vec::new();
        for at in 0..3000u32 {
            let key = 10 + at * 7 % 1000;
            let bytes = if at % 500 == 0 { 100_000 } else { at % 300 };
            let value = vec![(at % 251) as u8; bytes as usize];
            put(&log, key, &value);
            model.insert(key, value);
            order.retain(|other| *other != key);
            order.push(key);
        }
        for key in (10..1000).step_by(9) {
            assert!(log.remove(&u64::from(key).to_le_bytes()).expect("room"));
            model.remove(&key);
        }
        order.retain(|key| model.contains_key(key));
        let (shown, end) = all(&log, Order::Insertion, None);
        assert_eq!(shown.iter().map(|(key, _)| *key).collect::<Vec<_>>(), order);
        assert_eq!(BTreeMap::from_iter(shown), model);
        assert_eq!(all(&log, Order::Insertion, Some(&end)).0, []);
        let by_key = log.iterate(Order::Key, None).map(drop);
        assert_eq!(by_key.is_ok(), index == INTEGERS);
        if index == INTEGERS {
            let (shown, end) = all(&log, Order::Key, None);
            assert_eq!(shown, Vec::from_iter(model.clone()), "not in the order of keys");
            assert_eq!(all(&log, Order::Key, Some(&end)).0, []);
            assert!(matches!(log.iterate(Order::Insertion, Some(&end)), Err(Error::Cursor { .. })));
        }

        // Some at a time, each time in another run.
        let orders = if index == INTEGERS {
            vec![Order::Key, Order::Insertion]
        } else {
            vec![Order::Insertion]
        };
        for order in orders {
            let (mut shown, mut cursor) = (Vec::new(), None);
            loop {
                let mut records = log.iterate(order, cursor.as_ref()).expect("goes on");
                let before = shown.len();
                let some = records.by_ref().take(300);
                shown.extend(some.map(|record| number(&record.expect("undamaged").key)));
                cursor = Cursor::decode(&records.cursor().encode());
                drop(records);
                if shown.len() == before {
                    break;
                }
                log.close().expect("stops");
                log = open(directory.path(), index);
            }
            assert_eq!(shown.len(), model.len(), "{order:?}");
            shown.sort_unstable();
            assert!(shown.iter().eq(model.keys()), "{order:?}");
        }
    }
}

/// Writers overwrite odd keys all the time; even ones stay as they are.
#[test]
fn under_writes_what_stays_is_shown_once_and_a_copy_is_one_moment() {
    let directory = Directory::new("busy");
    let log = open(directory.path(), INTEGERS);
    for key in 10..3000u32 {
        put(&log, key, &key.to_le_bytes());
    }
    let (done, first, second) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    let copy = Directory::new("copy");
    thread::scope(|scope| {
        scope.spawn(|| {
            // What the second writes it has seen of the first; so has every moment.
            for at in 1.. {
                put(&log, 11, &[at_bytes(at), vec![1; 300]].concat());
                first.store(at, Ordering::SeqCst);
                put(&log, 101 + at % 1000 / 2 * 2, &at.to_le_bytes());
                if done.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let seen = first.load(Ordering::SeqCst);
                put(&log, 13, &[at_bytes(seen), vec![2; 200]].concat());
                second.store(seen, Ordering::SeqCst);
            }
        });
        for order in [Order::Insertion, Order::Key] {
            let (shown, _) = all(&log, order, None);
            let mut keys: Vec<u32> = shown.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            assert!(keys.is_sorted_by(|a, b| a < b), "{order:?}: shown twice");
            let even = keys.into_iter().filter(|key| key % 2 == 0);
            assert!(even.eq((10..3000).step_by(2)), "{order:?}: one that stays is missing");
        }
        let known = (first.load(Ordering::SeqCst), second.load(Ordering::SeqCst));
        log.backup(copy.path(), &mut |_| {}, &mut |_| {}).expect("copies");
        done.store(true, Ordering::SeqCst);
        let copied = open(copy.path(), INTEGERS);
        let at = |key: u64| {
            let stored = copied.get(&key.to_le_bytes()).expect("undamaged").expect("there");
            u32::from_le_bytes(stored.value[..4].try_into().expect("four bytes"))
        };
        let (got_first, got_second) = (at(11), at(13));
        assert!(got_first >= known.0 && got_second >= known.1, "acknowledged before the call");
        assert!(got_first >= got_second, "the second was written after the first");
        assert_eq!(all(&copied, Order::Key, None).0.len(), 2990);
        assert!(matches!(
            log.backup(directory.path(), &mut |_| {}, &mut |_| {}),
            Err(Error::InUse { .. })
        ));
        drop(copied);
        assert_eq!(log.backup(copy.path(), &mut |_| {}, &mut |_| {}), Err(Error::NotEmpty));
    });
}

fn at_bytes(at: u32) -> Vec<u8> {
    at.to_le_bytes().to_vec()
}

/// Names and contents.
fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("a file"))
        })
        .collect()
}

#[test]
fn looking_into_a_log_changes_nothing_after_a_stop_and_after_a_crash() {
    for is_clean in [true, false] {
        let directory = Directory::new("looked");
        let log = open(directory.path(), strings());
        for key in 0..500 {
            put(&log, key, &[7; 3000]);
        }
        log.flush().expect("durable");
        let crashed = Directory::new("crashed");
        if is_clean {
            log.close().expect("stops");
        } else {
            // A copy of a log that serves is what a crash leaves.
            log.backup(crashed.path(), &mut |_| {}, &mut |_| {}).expect("copies");
        }
        let path = if is_clean { directory.path() } else { crashed.path() };
        let before = contents(path);
        let inspect = || Log::<Keyed>::inspect(&options(path, strings()), LIMITS, &mut |_| {});
        let (looked, report) = inspect().expect("looks");
        assert_eq!((report.is_clean, report.damages.len()), (is_clean, 0));
        let mut damages = Vec::new();
        looked.verify(&mut |_| {}, &mut |damage| damages.push(damage)).expect("it does not serve");
        assert_eq!(damages, []);
        assert_eq!(all(&looked, Order::Insertion, None).0.len(), 500);
        let key = Put { key: b"a", ..Put::default() };
        assert_eq!(looked.put(&key), Err(Error::ReadOnly));
        assert_eq!(
            looked.get(&9u64.to_le_bytes()).expect("undamaged").expect("there").value.len(),
            3000
        );
        assert!(looked.space().live_bytes > 500 * 3000);
        let copy = Directory::new("of-looked");
        looked.backup(copy.path(), &mut |_| {}, &mut |_| {}).expect("copies");
        assert!(matches!(inspect().map(drop), Err(Error::InUse { .. })));
        drop(looked);
        assert_eq!(contents(path), before, "clean: {is_clean}");
        assert_eq!(all(&open(copy.path(), strings()), Order::Insertion, None).0.len(), 500);
    }
}
