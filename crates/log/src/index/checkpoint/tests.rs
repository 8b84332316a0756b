use std::{cell::Cell, collections::BTreeMap};

use base::random::Random;

use super::*;
use crate::{
    format::LogId,
    index::{FlatIndex, FlatRange, HashIndex, Index, KeyHash, Lookup},
    plan::{Action, Buffer, DirectoryId, Disk, FileName, Outcome},
    position::{Entry, Position, SizeClass},
};

const HOME: DirectoryId = DirectoryId(0);
const STAMP: Stamp = Stamp { log_id: LogId(0x1234_5678_9abc_def0_0fed_cba9_8765_4321), run: 7 };
const FLAT: FlatRange = FlatRange { kmin: 1000, kmax: 60_000, kmax_limit: 1 << 30, entry_bytes: 5 };

/// Files in memory, a list of what was done, and a failure at a step of choice.
#[derive(Default)]
struct Memory {
    files: BTreeMap<FileName, Vec<u8>>,
    done: Vec<&'static str>,
    fails_at: Option<usize>,
    /// Reads and writes come back short until this many have.
    short: Cell<usize>,
}

impl Memory {
    fn is_short(&self, bytes: usize) -> bool {
        let is_short = self.short.get() > 0 && bytes > 4096;
        self.short.set(self.short.get().saturating_sub(1));
        is_short
    }
}

impl Disk for Memory {
    fn perform(&mut self, action: Action) -> Outcome {
        if self.fails_at == Some(self.done.len()) {
            self.fails_at = None;
            self.done.push("fail");
            return Outcome::Failed(Failure::Full, None);
        }
        let (name, outcome) = match action {
            Action::Create { file } if self.files.contains_key(&file.name) => {
                ("create", Outcome::Failed(Failure::Exists, None))
            }
            Action::Create { file } => {
                self.files.insert(file.name, Vec::new());
                ("create", Outcome::Done)
            }
            Action::Allocate { file, bytes } => {
                self.files.get_mut(&file.name).expect("a file").resize(bytes as usize, 0);
                ("allocate", Outcome::Done)
            }
            Action::Write { file, offset, buffer, from, bytes } => {
                assert!(offset % 4096 == 0 && bytes % 4096 == 0 && from % 4096 == 0);
                let bytes = if self.is_short(bytes) { 4096 } else { bytes };
                let (contents, at) =
                    (self.files.get_mut(&file.name).expect("a file"), offset as usize);
                contents[at..at + bytes].copy_from_slice(&buffer.as_slice()[from..from + bytes]);
                ("write", Outcome::Wrote(bytes))
            }
            Action::Read { file, offset, mut buffer, bytes } => {
                let Some(contents) = self.files.get(&file.name) else {
                    return Outcome::Failed(Failure::NotFound, Some(buffer));
                };
                let rest = contents.get(offset as usize..).unwrap_or_default();
                let bytes = if self.is_short(bytes) { 4096 } else { bytes };
                let read = rest.len().min(bytes);
                buffer.as_mut_slice()[..read].copy_from_slice(&rest[..read]);
                ("read", Outcome::Read(buffer, read))
            }
            Action::Flush { .. } => ("flush", Outcome::Done),
            Action::Rename { file, to } => {
                let contents = self.files.remove(&file.name).expect("a file");
                self.files.insert(to, contents);
                ("rename", Outcome::Done)
            }
            Action::Truncate { file, bytes: 0 } => {
                self.files.entry(file.name).and_modify(Vec::clear);
                ("truncate", Outcome::Done)
            }
            Action::Remove { file } => {
                self.files.remove(&file.name);
                ("remove", Outcome::Done)
            }
            Action::FlushDirectory { .. } => ("flush directory", Outcome::Done),
            other => panic!("an index does not {other:?}"),
        };
        self.done.push(name);
        outcome
    }
}

fn entry(units: u64) -> Entry {
    let class = SizeClass::from_bits((units % 51) as u8).expect("a class");
    Entry { position: Position::new(units).expect("a position"), class }
}

/// Some entries in either index, and how to open it.
fn indexes() -> Vec<(Index, Limits, Vec<KeyHash>)> {
    let mut all: Vec<_> = (4..=8)
        .map(|entry_bytes| {
            let range = FlatRange { entry_bytes, ..FLAT };
            let index = Index::Flat(FlatIndex::new(range).expect("an index"));
            // With a gap of whole blocks.
            let keys: Vec<_> = (1000_u64..1020).chain(50_000..50_003).map(KeyHash::from).collect();
            (index, Limits::Flat(range), keys)
        })
        .collect();
    let mut random = Random::new(1, 0);
    let hashes = (0..200).map(|_| hash_of(&mut random));
    let entries_max = 200_000;
    let index = Index::Hash(HashIndex::new(entries_max).expect("an index"));
    all.push((index, Limits::Hash { entries_max }, hashes.collect()));
    for (index, _, keys) in &all {
        for (key, at) in keys.iter().zip(1..) {
            index.lock(*key).expect("room").publish(entry(at));
        }
    }
    all
}

fn saved(index: &Index) -> Memory {
    let mut disk = Memory::default();
    save(index, STAMP, HOME, &mut disk).expect("saves");
    disk
}

fn assert_same(index: &Index, keys: &[KeyHash]) {
    for (key, at) in keys.iter().zip(1..) {
        assert_eq!(index.get(*key), Lookup::At(index.kept(entry(at))));
    }
    assert_eq!(index.len(), keys.len() as u64);
}

fn hash_of(random: &mut Random) -> KeyHash {
    KeyHash(u128::from(random.bits()) << 64 | u128::from(random.bits()))
}

/// As many keys as the least buckets have before one is added: most of them are full.
#[test]
fn full_buckets_come_back_as_such() {
    const KEYS: u64 = 238_000;
    let hash = HashIndex::new(KEYS).expect("an index");
    let mut random = Random::new(8, 0);
    for at in 1..=KEYS {
        hash.lock(hash_of(&mut random)).expect("room").publish(entry(at));
    }
    hash.validate();
    let mut disk = saved(&Index::Hash(hash));
    let limits = Limits::Hash { entries_max: KEYS };
    let (loaded, loader) = open(limits, STAMP, HOME, &mut disk).expect("opens");
    loader.load(&loaded, &mut disk).expect("loads");
    let Index::Hash(loaded) = loaded else { unreachable!("it was saved as one") };
    loaded.validate();
}

#[test]
fn every_index_comes_back_and_can_be_changed_and_saved_again() {
    for (index, limits, keys) in indexes() {
        let mut disk = saved(&index);
        let (loaded, loader) = open(limits, STAMP, HOME, &mut disk).expect("opens");
        loader.verify(&mut disk).expect("undamaged");
        loader.load(&loaded, &mut disk).expect("loads");
        assert_same(&loaded, &keys);
        assert_eq!(loader.next(&loaded, 0), None);
        assert_eq!(saved(&loaded).files, disk.files, "the same bytes");
        let key = keys[3];
        assert_eq!(loaded.lock(key).expect("room").publish(entry(99)), Some(loaded.kept(entry(4))));
        loader.load(&loaded, &mut disk).expect("once more");
        assert_eq!(loaded.get(key), Lookup::At(loaded.kept(entry(99))), "not loaded over");
        drop(index);
    }
}

#[test]
fn an_index_serves_while_its_blocks_are_loaded_one_by_one() {
    for (index, limits, keys) in indexes() {
        let mut disk = saved(&index);
        let (loaded, loader) = open(limits, STAMP, HOME, &mut disk).expect("opens");
        let error = save(&loaded, STAMP, HOME, &mut disk).expect_err("nothing is loaded");
        assert!(matches!(error, CheckpointError::NotLoaded { blocks } if blocks > 0));
        for (key, at) in keys.iter().zip(1..) {
            while let Lookup::Loading(loading) = loaded.get(*key) {
                assert!(matches!(loaded.lock(*key), Err(crate::index::IndexError::Loading(_))));
                let (file, offset) = loader.place(loading.block).expect("in the checkpoint");
                let bytes = &disk.files[&file.name][offset as usize..][..BLOCK_BYTES];
                loader.accept(&loaded, loading.block, bytes).expect("undamaged");
            }
            assert_eq!(loaded.get(*key), Lookup::At(loaded.kept(entry(at))));
        }
        assert_eq!(loaded.get(KeyHash(u128::MAX)), {
            // An integer that is none is absent; a hash may lie in a block that was not loaded.
            let is_flat = matches!(loaded, Index::Flat(_));
            let found = loaded.get(KeyHash(u128::MAX));
            if is_flat { Lookup::Absent } else { found }
        });
        loader.load(&loaded, &mut disk).expect("the rest");
        assert_same(&loaded, &keys);
    }
}

#[test]
fn the_file_is_written_beside_and_renamed_when_it_is_durable() {
    let (index, _, _) = indexes().remove(1);
    let mut disk = saved(&index);
    let order = "create allocate write write write flush rename flush directory";
    assert_eq!(disk.done.join(" "), order);
    disk.files.insert(FileName::IndexNew, b"left over".to_vec());
    disk.done.clear();
    save(&index, STAMP, HOME, &mut disk).expect("saves");
    assert_eq!(disk.done.join(" "), format!("create remove {order}"));
    assert_eq!(disk.files.len(), 1);
}

#[test]
fn a_failed_step_is_named_and_leaves_the_old_file() {
    let (index, limits, keys) = indexes().remove(5);
    let steps = saved(&index).done.len();
    for step in 0..steps {
        let mut disk = saved(&index);
        let old = disk.files[&FileName::Index].clone();
        disk.fails_at = Some(disk.done.len() + step);
        let error = save(&index, Stamp { run: 8, ..STAMP }, HOME, &mut disk).expect_err("fails");
        let CheckpointError::Disk { file, failure: Failure::Full, .. } = error else {
            panic!("step {step}: {error}");
        };
        assert_eq!(file.name, FileName::IndexNew);
        assert!(!disk.files.contains_key(&FileName::IndexNew), "step {step} left a file");
        if step + 1 < steps {
            assert_eq!(disk.files[&FileName::Index], old, "step {step}");
            let (loaded, loader) = open(limits, STAMP, HOME, &mut disk).expect("the old one");
            loader.load(&loaded, &mut disk).expect("loads");
            assert_same(&loaded, &keys);
        }
    }
}

#[test]
fn short_reads_and_writes_are_continued() {
    let (index, limits, keys) = indexes().remove(5);
    let mut disk = Memory { short: Cell::new(3), ..Memory::default() };
    save(&index, STAMP, HOME, &mut disk).expect("saves");
    assert_eq!(disk.files, saved(&index).files);
    disk.short = Cell::new(2);
    let (loaded, loader) = open(limits, STAMP, HOME, &mut disk).expect("opens");
    disk.short = Cell::new(1);
    loader.load(&loaded, &mut disk).expect("loads");
    assert_same(&loaded, &keys);
}

fn flaw(limits: Limits, stamp: Stamp, disk: &mut Memory) -> (u64, Flaw) {
    let result =
        open(limits, stamp, HOME, disk).and_then(|(index, loader)| loader.load(&index, disk));
    match result.expect_err("must be refused") {
        CheckpointError::Damaged { file, offset, flaw } => {
            assert_eq!(file.name, FileName::Index);
            (offset, flaw)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_flipped_bit_is_named_and_none_is_believed() {
    for (index, limits, _) in indexes().into_iter().skip(4) {
        let mut disk = saved(&index);
        let bytes = disk.files[&FileName::Index].len();
        let table = bytes - HEADER_BYTES;
        // All of header and table, and of the blocks some, in every bit of a line.
        let sampled = (HEADER_BYTES..table).step_by((table / 200) | 1);
        let step = if table > 1 << 20 { 37 } else { 1 };
        let first = (0..HEADER_BYTES).step_by(step);
        for at in first.chain(sampled).chain((table..bytes).step_by(step)) {
            let bit = 1 << (at % 8);
            disk.files.get_mut(&FileName::Index).expect("a file")[at] ^= bit;
            let (offset, flaw) = flaw(limits, STAMP, &mut disk);
            let expected = match at {
                0..8 => (0, Flaw::Foreign),
                8..12 => (0, Flaw::Version { got: 1 ^ u32::from(bit) << (8 * (at - 8)) }),
                _ if at < HEADER_BYTES => (0, Flaw::HeaderChecksum),
                _ if at < table => {
                    let row = (at - HEADER_BYTES) / BLOCK_BYTES;
                    let Flaw::BlockChecksum { .. } = flaw else { panic!("{flaw}") };
                    (Table::offset(row), flaw)
                }
                _ => (table as u64, Flaw::TableChecksum),
            };
            assert_eq!((offset, flaw), expected, "byte {at}");
            disk.files.get_mut(&FileName::Index).expect("a file")[at] ^= bit;
        }
        open(limits, STAMP, HOME, &mut disk).expect("mended");
    }
}

#[test]
fn a_file_that_is_too_short_or_too_long_is_refused() {
    let (index, limits, _) = indexes().remove(1);
    let mut disk = saved(&index);
    let whole = disk.files[&FileName::Index].clone();
    for bytes in (0..whole.len()).step_by(509).chain([whole.len() - 1]) {
        disk.files.insert(FileName::Index, whole[..bytes].to_vec());
        // The table is looked for behind the blocks before these are.
        let missed =
            if bytes < HEADER_BYTES { bytes } else { bytes.max(whole.len() - HEADER_BYTES) };
        assert_eq!(flaw(limits, STAMP, &mut disk), (missed as u64, Flaw::Length));
    }
    disk.files.insert(FileName::Index, [&whole[..], &[0]].concat());
    assert_eq!(flaw(limits, STAMP, &mut disk), (whole.len() as u64, Flaw::Length));
    disk.files.clear();
    let error = open(limits, STAMP, HOME, &mut disk).expect_err("no file");
    assert_eq!(error.to_string(), "index of directory 0 at byte 0: it is not there");
}

#[test]
fn another_logs_another_runs_and_another_kinds_file_is_refused() {
    let (index, limits, _) = indexes().remove(1);
    let mut disk = saved(&index);
    let other_log = Stamp { log_id: LogId(1), ..STAMP };
    assert_eq!(flaw(limits, other_log, &mut disk), (0, Flaw::OtherLog));
    let other_run = Stamp { run: 8, ..STAMP };
    let expected = Flaw::OtherRun { got: 7, expected: 8 };
    assert_eq!(flaw(limits, other_run, &mut disk), (0, expected));
    for other in [
        Limits::Hash { entries_max: 1000 },
        Limits::Flat(FlatRange { kmin: 999, ..FLAT }),
        Limits::Flat(FlatRange { entry_bytes: 6, ..FLAT }),
        Limits::Flat(FlatRange { kmax_limit: 59_999, kmax: 5000, ..FLAT }),
    ] {
        assert_eq!(flaw(other, STAMP, &mut disk), (0, Flaw::OtherIndex), "{other:?}");
    }
}

#[test]
fn a_block_that_is_another_blocks_is_refused() {
    let (index, limits, _) = indexes().remove(1);
    let mut disk = saved(&index);
    let file = disk.files.get_mut(&FileName::Index).expect("a file");
    let (one, other) = (HEADER_BYTES, HEADER_BYTES + BLOCK_BYTES);
    let first = file[one..other].to_vec();
    file[other..other + BLOCK_BYTES].copy_from_slice(&first);
    let (offset, flaw) = flaw(limits, STAMP, &mut disk);
    assert_eq!((offset, flaw), (other as u64, Flaw::BlockChecksum { block: 3 }));
    let text = CheckpointError::Damaged {
        file: crate::plan::File { directory: HOME, name: FileName::Index },
        offset,
        flaw,
    };
    let expected = "index of directory 0 at byte 69632: the checksum of block 3 is wrong";
    assert_eq!(text.to_string(), expected);
    let _ = Buffer::new(16);
}
