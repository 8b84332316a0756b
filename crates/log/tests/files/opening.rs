//! How long it takes until a log serves: after a stop in order with a large index, and after an
//! end without one.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::DirEntryExt as _,
    path::Path,
    time::{Duration, Instant},
};

use log::{
    Log, Options,
    blocking::Files,
    engine::{Mode, Put, Report},
    error::Error,
    format::{
        LogId,
        manifest::{IndexKind, Manifest, Purpose},
    },
    index::{IndexLimits, Keyed},
    keys::{Keys as _, MakeKeys as _},
    position::{Entry, Position, SizeClass},
};

use super::directory::Directory;

fn open(options: &Options, limits: IndexLimits) -> (Log<Keyed>, Report, Duration) {
    let begin = Instant::now();
    let (log, report) = Log::open(options, LogId(11), limits, &mut |_| {}).expect("opens");
    (log, report, begin.elapsed())
}

/// No segment reaches this far.
const FAR_UNITS: u64 = 1 << 33;

/// A log that was stopped in order and has an index of `keys` keys, and nothing else.
fn with_index(path: &Path, index: IndexKind, entry_bytes: u8, keys: u64) -> (Options, IndexLimits) {
    let options = Options::new(path, index, entry_bytes);
    let limits = IndexLimits { kmax_limit: keys, entries_max: keys };
    let manifest = Manifest {
        log: LogId(11),
        shape: options.shape,
        purpose: Purpose::Keeps,
        run: 1,
        clean_sequence: 1 << 41,
        dead_below: 0,
        large_values: 0,
        rows: Vec::new(),
    };
    let mut make = limits;
    let made = make.empty(&manifest).expect("an index");
    for key in 0..keys {
        let hash = made.hash(&key.to_le_bytes()).expect("a key");
        let position = Position::new(key * 4 + FAR_UNITS).expect("not the first unit");
        let class = SizeClass::of_bytes(48).expect("a class");
        made.prepare(hash).expect("room");
        made.publish(hash, Entry { position, class });
    }
    let files = Files::lock(&options.directories, true).expect("a directory");
    assert!(made.save(&manifest, &mut &files).expect("is saved"));
    fs::write(path.join("manifest"), manifest.encode()).expect("is written");
    (options, limits)
}

/// Opens a log of `keys` keys. Says when it served.
fn opens_cleanly(name: &str, index: IndexKind, entry_bytes: u8, keys: u64) -> Duration {
    let directory = Directory::new(name);
    let (options, limits) = with_index(directory.path(), index, entry_bytes, keys);
    let saved = fs::metadata(directory.path().join("index")).expect("an index").len();
    let (log, report, took) = open(&options, limits);
    assert!(report.is_clean);
    let begin = Instant::now();
    for key in (0..keys).step_by(usize::try_from(keys / 10).expect("a number")) {
        // Its segment is not there: found is where it should be.
        let found = log.get(&key.to_le_bytes());
        assert!(matches!(found, Err(Error::Unreachable { .. })), "{found:?}");
    }
    let gets = begin.elapsed();
    println!("{name}: {keys} keys, {saved} bytes: serves after {took:?}, ten gets take {gets:?}");
    took + gets
}

fn seeds() -> [u8; 128] {
    std::array::from_fn(|at| (at * 37) as u8)
}

#[test]
fn a_saved_index_of_either_kind_is_there_when_a_log_opens() {
    opens_cleanly("few-integers", IndexKind::Flat { kmin: 0, kmax: 300_000 }, 5, 300_000);
    opens_cleanly("few-strings", IndexKind::Hash { seeds: seeds() }, 0, 50_000);
}

#[test]
#[ignore = "soak: a minute, 540 MB of memory and of disk; needs --release and a quiet machine"]
fn soak_clean_open_of_100_million_integers() {
    let keys = 100_000_000;
    let took = opens_cleanly("integers", IndexKind::Flat { kmin: 0, kmax: keys }, 5, keys);
    assert!(took < Duration::from_secs(1), "it does not serve within a second");
}

#[test]
#[ignore = "soak: seconds, 180 MB of memory and of disk; needs --release and a quiet machine"]
fn soak_clean_open_of_10_million_strings() {
    let took = opens_cleanly("strings", IndexKind::Hash { seeds: seeds() }, 0, 10_000_000);
    assert!(took < Duration::from_secs(1), "it does not serve within a second");
}

/// Waits until the threads behind have made what segments they make ahead, and sealed the others:
/// until no file has come, gone or been replaced for a while.
fn wait_until_quiet(directory: &Path) {
    let files = || -> BTreeSet<_> {
        let entries = fs::read_dir(directory).expect("a directory").flatten();
        entries.map(|entry| (entry.file_name(), entry.ino())).collect()
    };
    let mut before = files();
    loop {
        std::thread::sleep(Duration::from_millis(700));
        let now = files();
        if now == before {
            return;
        }
        before = now;
    }
}

/// Opens a log of `keys` values of a kilobyte, so many of which were overwritten, that was not
/// stopped. Says when it served, and what it read.
fn opens_after_a_crash(name: &str, keys: u64, overwritten: u64) -> (Duration, u64, u64) {
    let directory = Directory::new(name);
    let mut options = Options::new(directory.path(), IndexKind::Hash { seeds: seeds() }, 0);
    options.settings.mode = Mode::Async;
    let limits = IndexLimits { kmax_limit: 0, entries_max: keys };
    let (log, ..) = open(&options, limits);
    let mut value = vec![7; 1000];
    // At equal distances: as much dies in each segment.
    let again = (0..overwritten).map(|number| number * (keys / overwritten.max(1)));
    for key in (0..keys).chain(again) {
        value[..8].copy_from_slice(&key.to_le_bytes());
        log.put(&Put { key: &key.to_le_bytes(), value: &value, ..Put::default() }).expect("room");
    }
    log.flush().expect("is flushed");
    wait_until_quiet(directory.path());
    // As if the process had ended: another directory, which nobody has locked, with the same files.
    let copy = Directory::new(&format!("{name}-after"));
    for entry in fs::read_dir(directory.path()).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::hard_link(entry.path(), copy.path().join(entry.file_name())).expect("is linked");
    }
    std::mem::forget(log);
    options.directories = vec![copy.path().to_owned()];
    let (log, report, took) = open(&options, limits);
    let (tails, read) = (report.tails, report.bytes_read);
    println!("{name}: {keys} keys: serves after {took:?}, {tails} tails, {read} bytes read");
    assert!(!report.is_clean && report.damages.is_empty());
    for key in (0..keys).step_by(usize::try_from(keys / 10).expect("a number")) {
        let found = log.get(&key.to_le_bytes()).expect("is read").expect("is there");
        assert_eq!(found.value[..8], key.to_le_bytes());
    }
    (took, read, tails as u64)
}

#[test]
fn after_a_crash_footers_are_read_and_what_was_being_written() {
    let keys = 200_000;
    let (_, read, tails) = opens_after_a_crash("few-kilobytes", keys, 0);
    // Three full segments by their footers; the one that was being written, and those made ahead.
    let most = tails * (64 << 20) * 6 / 5 + (16 << 20);
    assert!(read < most && tails < 8, "{read} bytes of {tails} tails were read");
}

#[test]
#[ignore = "soak: a minute, 11 GB of disk; needs --release and a quiet machine"]
fn soak_crash_open_of_10_million_values_of_a_kilobyte() {
    let (took, read, _) = opens_after_a_crash("kilobytes", 10_000_000, 0);
    assert!(read <= 1 << 30, "more than 1 GiB was read");
    assert!(took < Duration::from_secs(5), "it does not serve within five seconds");
}

#[test]
#[ignore = "soak: a minute, 15 GB of disk; needs --release and a quiet machine"]
fn soak_crash_open_of_10_million_values_of_which_half_were_overwritten() {
    let (took, read, _) = opens_after_a_crash("overwritten", 10_000_000, 5_000_000);
    assert!(read <= 1 << 30, "more than 1 GiB was read");
    assert!(took < Duration::from_secs(5), "it does not serve within five seconds");
}
