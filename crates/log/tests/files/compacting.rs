//! Logs in files: what is dead in one that is opened gives its space back.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use log::{
    Log, Options,
    engine::{Mode, Put},
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};

use super::directory::Directory;

const KEYS: u32 = 20_000;
const SEGMENT_BYTES: u64 = 1 << 20;
const LIMITS: IndexLimits = IndexLimits { kmax_limit: 1 << 20, entries_max: 100_000 };

fn open(directory: &Directory, space_target_percent: u32) -> Log<Keyed> {
    let index = IndexKind::Flat { kmin: 0, kmax: u64::from(KEYS) };
    let mut options = Options::new(directory.path(), index, 5);
    options.shape.segment_bytes = SEGMENT_BYTES;
    options.shape.part_bytes = 1 << 14;
    options.settings.mode = Mode::Async;
    options.settings.chunk_bytes = 1 << 16;
    options.settings.space_target_percent = space_target_percent;
    Log::open(&options, LogId(3), LIMITS, &mut |_| {}).expect("opens").0
}

/// A stop leaves so many empty segments that none has to be made, whose making would have a victim
/// looked for.
#[test]
fn an_open_looks_for_what_may_move_though_nothing_else_happens() {
    let directory = Directory::new("compacting");
    let log = open(&directory, 0);
    let put = |keys: &mut dyn Iterator<Item = u32>| {
        for key in keys {
            let key = u64::from(key).to_le_bytes();
            log.put(&Put { key: &key, value: &[1; 4000], ..Put::default() }).expect("room");
        }
    };
    put(&mut (0..4000));
    put(&mut (0..2000_u32).filter(|key| !key.is_multiple_of(3)));
    for key in 2000..4000_u32 {
        log.remove(&u64::from(key).to_le_bytes()).expect("room");
    }
    log.flush().expect("flushed");
    log.compact(&mut |_| true).expect("freed");
    log.close().expect("closed");

    let log = open(&directory, 110);
    let compacted = log.compact(&mut |_| true).expect("compacted");
    assert!(compacted.counts.segments_moved > 0, "nothing moved: {compacted:?}");
    let space = compacted.space;
    assert!(space.used_bytes < space.live_bytes * 13 / 10, "{compacted:?}");
    log.close().expect("closed");
}

/// Segments that a log may have beside those that live: the one that is written to, the
/// survivors', the reserve of four (removes, rewriting, and two for moves), and three free ones.
const BESIDE_MAX: u64 = 9;

/// What the file system has given to the segments of a log, and how many they are.
fn taken(path: &Path) -> (u64, usize) {
    let entries = fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry"));
    let segments =
        entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "segment"));
    // One that is removed meanwhile takes nothing.
    let bytes: Vec<u64> =
        segments.filter_map(|entry| Some(entry.metadata().ok()?.blocks() * 512)).collect();
    (bytes.iter().sum(), bytes.len())
}

#[test]
fn what_most_was_removed_of_shrinks_on_the_disk_without_being_asked() {
    let directory = Directory::new("shrinks");
    let log = open(&directory, 130);
    for key in 0..KEYS {
        let key = u64::from(key).to_le_bytes();
        log.put(&Put { key: &key, value: &[1; 4000], ..Put::default() }).expect("room");
    }
    log.flush().expect("flushed");
    let before = taken(directory.path());
    let left = (0..KEYS).filter(|key| key.is_multiple_of(10));
    for key in (0..KEYS).filter(|key| !key.is_multiple_of(10)) {
        assert!(log.remove(&u64::from(key).to_le_bytes()).expect("room"));
    }
    // A header, the key and the value of each, and its entry in a footer.
    let left_bytes = left.clone().count() as u64 * (4032 + 32);
    let allowed = left_bytes * 13 / 10 + BESIDE_MAX * SEGMENT_BYTES;
    assert!(before.0 > 3 * allowed, "{before:?}: nothing would have to shrink");
    let begun = Instant::now();
    let mut now = before;
    while now.0 > allowed && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(20));
        now = taken(directory.path());
    }
    let beside = now.0.saturating_sub(left_bytes * 13 / 10).div_ceil(SEGMENT_BYTES);
    println!("{before:?} became {now:?}: {beside} segments beside 1.3 times {left_bytes} bytes");
    assert!(now.0 <= allowed, "{before:?} became {now:?}, {allowed} allowed: {:?}", log.space());
    for key in left {
        assert!(log.get(&u64::from(key).to_le_bytes()).expect("read").is_some(), "{key} is gone");
    }
    log.close().expect("closed");
}
