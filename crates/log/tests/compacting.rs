//! Logs in files: what is dead in one that is opened gives its space back.

mod directory;

use log::{
    Log, Options,
    engine::{Mode, Put},
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};

use directory::Directory;

const KEYS: u32 = 4000;
const LIMITS: IndexLimits = IndexLimits { kmax_limit: 1 << 20, entries_max: 100_000 };

fn open(directory: &Directory, space_target_percent: u32) -> Log<Keyed> {
    let index = IndexKind::Flat { kmin: 0, kmax: u64::from(KEYS) };
    let mut options = Options::new(directory.path(), index, 5);
    options.shape.segment_bytes = 1 << 20;
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
    put(&mut (0..KEYS));
    put(&mut (0..KEYS / 2).filter(|key| !key.is_multiple_of(3)));
    for key in KEYS / 2..KEYS {
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
