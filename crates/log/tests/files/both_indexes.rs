//! Logs with each of the two indexes, over files: what was stored is found again by the index that
//! a stop in order has saved, and by one made from the log when that is damaged or gone.

use std::{fs, path::Path};

use log::{
    Log, Options,
    engine::{Put, Report},
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};

use super::directory::Directory;

const KEYS: u64 = 3000;

fn open(path: &Path, index: IndexKind, entry_bytes: u8) -> (Log<Keyed>, Report) {
    let mut options = Options::new(path, index, entry_bytes);
    options.shape.segment_bytes = 1 << 20;
    options.settings.mode = log::engine::Mode::Async;
    let limits = IndexLimits { kmax_limit: 1 << 20, entries_max: 100_000 };
    Log::open(&options, LogId(11), limits, &mut |_| {}).expect("opens")
}

fn value(key: u64, round: u64) -> Vec<u8> {
    vec![(key % 251) as u8; (100 + key % 500 + round) as usize]
}

fn check(log: &Log<Keyed>, round: u64) {
    for key in 0..KEYS {
        let found = log.get(&key.to_le_bytes()).expect("undamaged");
        let expected = (key % 10 != 3).then(|| value(key, if key < 100 { round } else { 0 }));
        assert_eq!(found.map(|stored| stored.value), expected, "key {key}");
    }
}

fn comes_back(name: &str, index: IndexKind, entry_bytes: u8) {
    let directory = Directory::new(name);
    let index_file = directory.path().join("index");
    let open = || open(directory.path(), index, entry_bytes);
    let (log, _) = open();
    let put = |log: &Log<Keyed>, key: u64, round| {
        let (key, value) = (key.to_le_bytes(), value(key, round));
        log.put(&Put { key: &key, value: &value, ..Put::default() }).expect("room");
    };
    (0..KEYS).for_each(|key| put(&log, key, 0));
    for key in (3..KEYS).step_by(10) {
        assert!(log.remove(&key.to_le_bytes()).expect("room"));
    }
    check(&log, 0);
    let before = log.disk_reads();
    assert!(log.get(&3_u64.to_le_bytes()).expect("undamaged").is_none());
    assert_eq!(log.disk_reads(), before, "a removed key is read nowhere");
    log.close().expect("stops");

    // Saved; then damaged; then gone.
    for round in 1..4 {
        if round == 2 {
            let mut bytes = fs::read(&index_file).expect("an index");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            fs::write(&index_file, bytes).expect("is written");
        } else if round == 3 {
            fs::remove_file(&index_file).expect("is removed");
        }
        let (log, report) = open();
        assert_eq!(report.is_clean, round == 1, "round {round}");
        assert_eq!(report.records == 0, round == 1, "round {round}: {}", report.records);
        let named: Vec<String> = report.damages.iter().map(|it| format!("{it:?}")).collect();
        let is_named = named.len() == 1 && named[0].contains("SavedIndex");
        assert_eq!(is_named, round == 2, "round {round}: {named:?}");
        check(&log, round - 1);
        (0..100).filter(|key| key % 10 != 3).for_each(|key| put(&log, key, round));
        log.close().expect("stops");
    }
    let (log, report) = open();
    assert!(report.is_clean);
    check(&log, 3);
}

#[test]
fn a_log_of_strings_comes_back() {
    let seeds = std::array::from_fn(|at| (at * 37) as u8);
    comes_back("strings", IndexKind::Hash { seeds }, 0);
}

#[test]
fn a_log_of_integers_comes_back() {
    for entry_bytes in [4, 5, 8] {
        let index = IndexKind::Flat { kmin: 0, kmax: KEYS };
        comes_back(&format!("integers-{entry_bytes}"), index, entry_bytes);
    }
}
