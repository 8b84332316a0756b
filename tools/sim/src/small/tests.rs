use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use base::random::Random;

use log::engine::Mode;

use super::{
    Left, Moved, Script, Specimen, Verdict, actions_of_script, every_crash,
    full::{self, Met, actions_of, every_full},
    orders::{Variant, every_deed, orders},
};
use crate::disk::{Full, SECTOR_BYTES};

/// How often each crash is tried, each time with other sectors lost.
const SURVIVALS: u64 = 12;

#[test]
fn a_crash_after_every_action_loses_nothing_that_was_promised() {
    for seed in 0..SURVIVALS {
        let (actions, _) = actions_of_script(Script::Short, seed).expect("the script runs");
        assert!(actions > 100, "a script of {actions} actions");
        for after in 0..=actions {
            if let Err(problem) = every_crash(Script::Short, seed, after, 0) {
                panic!("survival {seed}, crash after {after} actions: {problem}");
            }
        }
    }
}

#[test]
fn a_crash_after_every_action_of_a_log_that_is_compacted_loses_nothing_that_was_promised() {
    let all = on_every_processor(0..SURVIVALS, |seed| {
        let (actions, moved) = actions_of_script(Script::Moves, seed).expect("the script runs");
        for after in 0..=actions {
            if let Err(problem) = every_crash(Script::Moves, seed, after, RECOVERY_SKIPPED) {
                panic!("survival {seed}, crash after {after} actions: {problem}");
            }
        }
        moved
    });
    println!("{all:?}");
    assert!(all.segments > SURVIVALS && all.heads > SURVIVALS, "{all:?}");
    assert!(all.tombstones > SURVIVALS && all.tombstones_dropped > 0, "{all:?}");
    assert!(all.expired_dropped > 0, "{all:?}");
}

/// So many of recovery's actions are passed over between two at which it is stopped.
const RECOVERY_SKIPPED: usize = 6;

/// What is counted by many who do the same.
trait Counted: Default + Send {
    fn add(&mut self, other: &Self);
}

impl Counted for Moved {
    fn add(&mut self, other: &Self) {
        self.merge(other);
    }
}

impl Counted for Met {
    fn add(&mut self, other: &Self) {
        self.merge(other);
    }
}

/// Does something for each number, on every processor; puts together what was counted.
fn on_every_processor<C: Counted>(numbers: Range<u64>, does: impl Fn(u64) -> C + Sync) -> C {
    let (next, all) = (AtomicU64::new(numbers.start), Mutex::new(C::default()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                break;
            }
            let counted = does(number);
            all.lock().expect("no count panics").add(&counted);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    all.into_inner().expect("no count panics")
}

/// Directories of a log, and those of them that fill up.
const FILLED: [(u16, &[usize]); 4] = [(1, &[0]), (2, &[0, 1]), (2, &[1]), (2, &[0])];

/// How full they are; the files of segments are larger than so many bytes.
const FULL: [Full; 3] = [Full::Below(4096), Full::Growth, Full::Writes];

/// In every kind of log, on every kind of full disk; from an action on that is one of so many.
fn fill_all(step: u64, seeds: Range<u64>) {
    let mut variants = Vec::new();
    for (directories, filled) in FILLED {
        for full in FULL {
            for (mode, has_large) in [(Mode::Safe, true), (Mode::Async, true), (Mode::Safe, false)]
            {
                variants.push(full::Variant { mode, directories, filled, full, has_large });
            }
        }
    }
    let count = variants.len() as u64;
    let all = on_every_processor(seeds.start * count..seeds.end * count, |number| {
        let (seed, variant) = (number / count, variants[(number % count) as usize]);
        let actions = actions_of(variant, seed).expect("the script runs");
        let mut all = Met::default();
        for after in (number % step..=actions).step_by(step as usize) {
            match every_full(variant, seed, after) {
                Ok(met) => all.merge(&met),
                Err(what) => panic!("{variant:?}, seed {seed}, full after {after}: {what}"),
            }
        }
        all
    });
    println!("{all:?}");
    assert!(all.puts > FEWEST && all.puts_refused > FEWEST, "{all:?}");
    assert!(all.removes > FEWEST && all.puts_after_removes > FEWEST, "{all:?}");
    assert!(all.opened > FEWEST && all.not_opened > FEWEST, "{all:?}");
    assert!(all.segments_moved > FEWEST && all.read_only > FEWEST, "{all:?}");
}

#[test]
fn a_disk_that_is_full_from_any_action_on_stops_puts_and_nothing_else() {
    fill_all(5, 0..2);
}

#[test]
#[ignore = "soak: minutes of full disks"]
fn soak_a_disk_that_is_full_from_any_action_on_stops_puts_and_nothing_else() {
    fill_all(1, 0..20);
}

/// Which places of what is large and says little are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Places {
    /// All.
    All,
    /// All but zeros of a saved index, of which one in this many: it has blocks of 64 KiB, of
    /// which a small log fills next to nothing. No segments beside a saved hash index: they are
    /// those beside a flat one, but for the hashes in their footers.
    OneIn(u32),
}

impl Places {
    fn of(self, content: &[u8]) -> Vec<usize> {
        let mut random = Random::new(1, PLACES_STREAM);
        let mut is_drawn = |byte: u8| match self {
            Self::All => true,
            Self::OneIn(many) => byte != 0 || random.below(many) == 0,
        };
        (0..content.len()).filter(|at| is_drawn(content[*at])).collect()
    }
}

/// The stream of random numbers that draws places.
const PLACES_STREAM: u64 = 7;

/// Hurts what a script leaves, on every processor, and says how often what came of it. `hurt` is
/// told a file and a place in it.
fn hurt_all(
    left: Left,
    places: Places,
    hurt: impl Fn(&mut Specimen, usize, usize) -> Vec<Result<Verdict, String>> + Sync,
) {
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<Verdict, u64>::new()));
    let todo = places_of(&mut specimen(left), left, places);
    let work = || {
        let mut specimen = specimen(left);
        let mut counts = BTreeMap::<Verdict, u64>::new();
        while let Some((file, at)) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
            for verdict in hurt(&mut specimen, *file, *at) {
                match verdict {
                    Ok(verdict) => *counts.entry(verdict).or_default() += 1,
                    Err(problem) => {
                        // The others need not go on.
                        next.store(todo.len(), Ordering::Relaxed);
                        let (name, _) = &specimen.files()[*file];
                        panic!("{left:?}, byte {at} of {name}: {problem}");
                    }
                }
            }
        }
        let mut verdicts = verdicts.lock().expect("no count panics");
        for (verdict, count) in counts {
            *verdicts.entry(verdict).or_default() += count;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let verdicts = verdicts.into_inner().expect("no count panics");
    println!("{left:?}: {verdicts:?}");
    for verdict in [Verdict::Named, Verdict::Refused] {
        assert!(verdicts.contains_key(&verdict), "{left:?}: {verdicts:?}");
    }
}

fn specimen(left: Left) -> Specimen {
    let mut specimen = Specimen::new(left).expect("the script runs");
    let files = specimen.files();
    let has = |saved: &str| files.iter().any(|(name, _)| name == saved);
    let has_large = !matches!(left, Left::Saved { .. } | Left::Sealed);
    assert_eq!((has("index"), has("parts")), (left != Left::Sealed, has_large));
    specimen.leave_out_empty();
    specimen
}

/// Each file and place in it that is to be damaged.
fn places_of(specimen: &mut Specimen, left: Left, places: Places) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for (file, (name, len)) in specimen.files().into_iter().enumerate() {
        let has_known = matches!(left, Left::Saved { entry_bytes: 0 } | Left::SavedLarge);
        let is_known = has_known && name.ends_with(".segment");
        if is_known && places != Places::All {
            continue;
        }
        let is_saved = name == "index" || name == "parts";
        let places = if is_saved { places } else { Places::All };
        let places = places.of(specimen.content(file));
        println!("{left:?}, {name}: {} of {len} bytes", places.len());
        all.extend(places.into_iter().map(|at| (file, at)));
    }
    all
}

/// Cuts off each file before each of these places.
fn cut_all(left: Left, places: Places) {
    hurt_all(left, places, |specimen, file, at| vec![specimen.cut(file, at)]);
}

/// Flips each bit of each of these bytes; of bytes that nobody reads, one a sector.
fn flip_all(left: Left, places: Places) {
    hurt_all(left, places, |specimen, file, at| {
        let bits = match (specimen.is_read(file, at), at % SECTOR_BYTES) {
            (true, _) => 8,
            (false, 0) => 1,
            (false, _) => 0,
        };
        (0..bits).map(|bit| specimen.flip(file, at, bit)).collect()
    });
}

#[test]
fn every_cut_of_a_file_is_named() {
    Left::ALL.into_iter().for_each(|left| cut_all(left, Places::OneIn(256)));
}

#[test]
fn every_flipped_bit_is_named() {
    Left::ALL.into_iter().for_each(|left| flip_all(left, Places::OneIn(256)));
}

#[test]
fn every_missing_file_is_named() {
    for left in Left::ALL {
        let mut specimen = Specimen::new(left).expect("the script runs");
        let mut verdicts = BTreeMap::new();
        for (file, (name, _)) in specimen.files().into_iter().enumerate() {
            let verdict =
                specimen.remove(file).unwrap_or_else(|problem| panic!("{name}: {problem}"));
            *verdicts.entry(verdict).or_insert(0) += 1;
        }
        assert_eq!(verdicts.len(), 3, "{left:?}: {verdicts:?}");
    }
}

#[test]
#[ignore = "soak: minutes of opening a log whose index is damaged"]
fn soak_every_place_of_a_saved_index_is_named() {
    for left in Left::ALL {
        cut_all(left, Places::All);
        flip_all(left, Places::All);
    }
}

/// In which logs deeds are done in every order.
const VARIANTS: [Variant; 6] = [
    Variant { entry_bytes: 5, value_bytes: 20, expires: false, stops: false },
    Variant { entry_bytes: 0, value_bytes: 20, expires: true, stops: false },
    Variant { entry_bytes: 0, value_bytes: 1300, expires: false, stops: false },
    Variant { entry_bytes: 5, value_bytes: 1300, expires: true, stops: false },
    Variant { entry_bytes: 0, value_bytes: 1300, expires: false, stops: true },
    Variant { entry_bytes: 5, value_bytes: 20, expires: true, stops: true },
];

/// So many deeds in every order, in every kind of log.
fn all_orders(length: usize) {
    let orders = orders(length);
    let all = on_every_processor(0..orders.len() as u64, |number| {
        let deeds = &orders[number as usize];
        let mut all = Moved::default();
        for variant in VARIANTS {
            match every_deed(variant, deeds) {
                Ok(moved) => all.merge(&moved),
                Err(problem) => panic!("{variant:?}, {deeds:?}: {problem}"),
            }
        }
        all
    });
    println!("{} orders of {length} deeds: {all:?}", orders.len());
    assert!(all.segments > FEWEST && all.heads > FEWEST, "{all:?}");
    assert!(all.tombstones > FEWEST && all.tombstones_dropped > FEWEST, "{all:?}");
    assert!(all.expired_dropped > FEWEST, "{all:?}");
}

/// What has happened less often in all orders together was not tested.
const FEWEST: u64 = 100;

#[test]
fn what_was_removed_never_returns() {
    all_orders(6);
}

#[test]
#[ignore = "soak: minutes of deeds"]
fn soak_what_was_removed_never_returns() {
    all_orders(8);
}
