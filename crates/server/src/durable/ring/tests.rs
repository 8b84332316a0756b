//! Directories of rings, and of what is none.

use std::collections::BTreeSet;

use base::clock::Clock;
use cache::{Cache, CacheConfig};

use super::*;
use crate::{
    Error,
    descriptors::Shares,
    durable::{Durable, open, scratch::Scratch},
};

const RECOVERS: Ring = Ring { bytes_max: 16 << 20, recovers: true };
const FORGETS: Ring = Ring { bytes_max: 16 << 20, recovers: false };

fn run(ring: Option<Ring>) -> Run {
    Run { mode: Mode::Safe, ring, admission: Admission::All, keys: None, keys_max: 1 << 20 }
}

/// Opens a log, and stops it in order with a record in it. Says how many it had.
fn serve(directory: &Path, ring: Option<Ring>) -> Result<u64, Error> {
    let opened = open(directory, run(ring), &Clock::system())?;
    let had = log::keys::Keys::entries(opened.0.index());
    let config = CacheConfig { victim_bytes: 1 << 20, writers: 1, ..CacheConfig::new(32 << 20) };
    let cache = Cache::new(config, Clock::system()).expect("a small cache");
    let place = (directory.to_owned(), run(ring));
    let shares = Shares { connections: 1, log_files: 16, kept: 16 };
    let table = Durable::new(opened, place, &cache, 1, shares)?;
    let key = format!("key-{had}");
    let put = log::engine::Put {
        key: key.as_bytes(),
        value: b"v",
        expiry_ms: 0,
        flags: 0,
        token: None,
        tags: &[],
        is_stale: false,
        is_recached: false,
    };
    let now_ms = cache.clock().now_ms();
    let mut worker = table.store.worker(0).expect("a place");
    // A new log has no segment yet.
    while let Some(plan) = worker.poll() {
        let outcome = table.files.perform(plan.action);
        worker.complete(plan.token, outcome);
    }
    let stored = table.store.with_log(|engine| engine.put(&put, now_ms));
    assert!(matches!(stored, Ok(log::engine::Wrote::Done { .. })), "{stored:?}");
    drop(worker);
    table.close()?;
    Ok(had)
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("it is there");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("it can be listed").file_name();
    entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
}

fn manifest(directory: &Path) -> Vec<u8> {
    fs::read(directory.join("manifest")).expect("there is a log")
}

#[test]
fn segments_are_a_part_of_a_ring() {
    let of = |bytes_max| segment_bytes(Ring { bytes_max, recovers: false });
    assert_eq!([of(16 << 20), of(64 << 20), of(1 << 30)], [1 << 20, 1 << 20, 16 << 20]);
    assert_eq!([of(3 << 30), of(4 << 30), of(4 << 40)], [32 << 20, 64 << 20, 64 << 20]);
}

#[test]
fn what_is_no_ring_is_left_as_it_is() {
    let scratch = Scratch::new();
    let mut options = log::Options::new(
        &scratch.0,
        log::format::manifest::IndexKind::Hash { seeds: [7; 128] },
        0,
    );
    options.shape.segment_bytes = 1 << 20;
    let limits = log::index::IndexLimits { kmax_limit: 0, entries_max: 100 };
    let made = log::open::<log::index::Keyed>(&options, log::format::LogId(1), limits, &mut |_| ());
    drop(made.expect("a log"));
    fs::write(scratch.0.join("notes.txt"), b"mine").expect("there is room");
    let before = (names(&scratch.0), manifest(&scratch.0));
    for ring in [FORGETS, RECOVERS] {
        let opened = open(&scratch.0, run(Some(ring)), &Clock::system());
        let is_refused = matches!(
            &opened,
            Err(Error::Log { source: LogError::Purpose { found: Purpose::Keeps, .. }, .. })
        );
        assert!(is_refused, "a durable table is taken for a ring");
        assert!((names(&scratch.0), manifest(&scratch.0)) == before, "something was removed");
    }
}

#[test]
fn a_ring_is_no_durable_table() {
    for ring in [FORGETS, RECOVERS] {
        let scratch = Scratch::new();
        serve(&scratch.0, Some(ring)).expect("a new ring");
        let before = manifest(&scratch.0);
        let opened = open(&scratch.0, run(None), &Clock::system());
        let is_refused = matches!(opened, Err(Error::Log { source: LogError::Purpose { .. }, .. }));
        assert!(is_refused, "a ring is taken for a durable table");
        assert!(manifest(&scratch.0) == before, "it was changed");
    }
}

#[test]
fn a_ring_begins_empty_unless_this_run_and_the_last_one_recover() {
    let scratch = Scratch::new();
    fs::write(scratch.0.join("notes.txt"), b"mine").expect("there is room");
    serve(&scratch.0, Some(RECOVERS)).expect("a new ring");
    let had = |ring| serve(&scratch.0, Some(ring)).expect("it is a ring");
    assert_eq!((had(RECOVERS), had(RECOVERS)), (1, 2), "a record is lost");
    assert_eq!(had(FORGETS), 0, "a ring of this run alone has records");
    assert_eq!(had(FORGETS), 0);
    assert_eq!(had(RECOVERS), 0, "what may be out of date is there");
    assert!(names(&scratch.0).contains("notes.txt"), "it was none of the log's");
}

/// What a setting keeps from being opened has lost nothing.
#[test]
fn a_ring_that_does_not_fit_its_setting_is_left_as_it_is() {
    let scratch = Scratch::new();
    serve(&scratch.0, Some(RECOVERS)).expect("a new ring");
    let before = names(&scratch.0);
    let least = SEGMENTS_LEAST as u64 * segment_bytes(RECOVERS);
    let smaller = |bytes_max| Some(Ring { bytes_max, recovers: true });
    match serve(&scratch.0, smaller(least - 1)) {
        Err(Error::SpillSize { least: said, .. }) => assert_eq!(said.0, least),
        other => panic!("{other:?}"),
    }
    assert!(names(&scratch.0) == before, "something was removed");
    assert_eq!(serve(&scratch.0, smaller(least)).expect("it fits"), 1, "its record is lost");
    assert_eq!(serve(&scratch.0, Some(RECOVERS)).expect("it fits"), 2, "a record is lost");
}

#[test]
fn a_ring_that_is_damaged_begins_empty() {
    let scratch = Scratch::new();
    serve(&scratch.0, Some(RECOVERS)).expect("a new ring");
    let segments = names(&scratch.0).into_iter().filter(|name| name.ends_with("segment"));
    for name in segments {
        fs::remove_file(scratch.0.join(name)).expect("it is there");
    }
    assert_eq!(serve(&scratch.0, Some(RECOVERS)).expect("it is made anew"), 0);
    // What is left when a removal did not end.
    for name in names(&scratch.0).into_iter().filter(|name| name != "manifest") {
        fs::remove_file(scratch.0.join(name)).expect("it is there");
    }
    assert_eq!(serve(&scratch.0, Some(FORGETS)).expect("it is made anew"), 0);
}
