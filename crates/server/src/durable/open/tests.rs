//! Logs that somebody has, or that are of another kind.

use std::collections::BTreeMap;

use log::engine::Mode;
use store::Admission;

use super::*;
use crate::durable::scratch::Scratch;

const DURABLE: Run =
    Run { mode: Mode::Safe, ring: None, admission: Admission::All, keys: None, keys_max: 1 << 20 };

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).expect("it is there");
    let entries = entries.map(|entry| entry.expect("it can be listed"));
    let small = entries.filter(|entry| entry.metadata().is_ok_and(|it| it.len() < 1 << 20));
    let content = |entry: fs::DirEntry| fs::read(entry.path()).expect("it can be read");
    small.map(|entry| (entry.file_name().to_string_lossy().into_owned(), content(entry))).collect()
}

#[test]
fn a_log_that_somebody_has_is_waited_for() {
    let scratch = Scratch::new();
    // A small one: what is made there otherwise takes 450 MB.
    let mut options = Options::new(&scratch.0, IndexKind::Hash { seeds: [7; 128] }, 0);
    options.shape.segment_bytes = 1 << 20;
    let limits = IndexLimits { kmax_limit: 0, entries_max: 100 };
    let made = log::open::<Keyed>(&options, LogId(1), limits, &mut |_| ());
    drop(made.expect("a log"));
    let had = Files::lock(std::slice::from_ref(&scratch.0), false).expect("nobody has it");
    let watch = Stopwatch::start();
    let nap = Duration::from_millis(200);
    let holder = thread::spawn(move || {
        thread::sleep(nap);
        drop(had);
    });
    let opened = open(&scratch.0, DURABLE, &Clock::system());
    assert!(watch.elapsed_ns() >= nap.as_nanos() as u64, "it was opened beside its owner");
    drop(opened.expect("its owner has ended"));
    holder.join().expect("it ends");
}

#[test]
fn a_log_of_integers_is_refused_as_it_is() {
    let scratch = Scratch::new();
    let kind = IndexKind::Flat { kmin: 0, kmax: 100 };
    let mut options = Options::new(&scratch.0, kind, 5);
    options.shape.segment_bytes = 1 << 20;
    let limits = IndexLimits { kmax_limit: 100, entries_max: 0 };
    let opened = log::open(&options, LogId(1), limits, &mut |_| ());
    let (mut engine, files_of_log, _) = opened.expect("a log");
    engine.close(&mut &files_of_log, 1).expect("it can be stopped");
    drop((engine, files_of_log));
    let before = files(&scratch.0);
    let opened = open(&scratch.0, DURABLE, &Clock::system());
    let is_refused = matches!(opened, Err(Error::LogOfOtherKeys { .. }));
    assert!(is_refused, "it is served: {opened:?}");
    assert!(files(&scratch.0) == before, "its stop in order is used up");
}

/// A set would be refused by how long its value is.
#[test]
fn a_log_whose_segments_take_no_long_value_is_refused_as_it_is() {
    let scratch = Scratch::new();
    let mut options = Options::new(&scratch.0, IndexKind::Hash { seeds: [7; 128] }, 0);
    options.shape.segment_bytes = 256 << 10;
    options.settings.space_target_percent = 0;
    let limits = IndexLimits { kmax_limit: 0, entries_max: 100 };
    let made = log::open::<Keyed>(&options, LogId(1), limits, &mut |_| ());
    drop(made.expect("a log"));
    let before = files(&scratch.0);
    let opened = open(&scratch.0, DURABLE, &Clock::system());
    assert!(matches!(opened, Err(Error::LogOfSmallSegments { .. })), "{opened:?}");
    assert!(files(&scratch.0) == before, "it was changed");
}

#[test]
fn directories_above_are_made_as_well() {
    let scratch = Scratch::new();
    let path = scratch.0.join("a/b/c");
    make_directory(&path).expect("it can be made");
    assert!(path.is_dir());
    make_directory(&path).expect("it is there");
    fs::write(scratch.0.join("file"), b"").expect("there is room");
    assert!(make_directory(&scratch.0.join("file/b")).is_err());
}
