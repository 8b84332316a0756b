//! Where the parts of large values lie, over a stop in order.

use super::*;
use crate::{
    engine::{Damage, space::Segment},
    format::{
        segment::{Trailer, decode_footer_block, encode_footer_block, footer_blocks},
        stamp,
    },
    index::{IndexLimits, Keyed},
};

fn open(disk: MemoryDisk) -> Log<Keyed> {
    let limits = IndexLimits { kmax_limit: 0, entries_max: 1000 };
    let disk = MemoryDisk { files: disk.files, ..MemoryDisk::default() };
    open_with(disk, shape(), Mode::Safe, limits).unwrap()
}

fn value(key: u8) -> Vec<u8> {
    vec![key; 2000 + 700 * usize::from(key)]
}

/// Large values, one of which was overwritten and one removed.
fn stopped() -> Log<Keyed> {
    let mut log = open(MemoryDisk::default());
    log.settle();
    for key in [1, 2, 3, 1, 4] {
        log.put_large(&[key], &value(key));
    }
    log.remove(&[3]);
    log.put(b"short", b"value").unwrap();
    log.settle();
    log.engine.close(&mut log.disk, 0).unwrap();
    log
}

const PARTS: File = File { directory: DirectoryId(0), name: FileName::Parts };

fn check(log: &mut Log<Keyed>) {
    for key in [1, 2, 4] {
        assert_eq!(log.value(&[key]), Some(value(key)), "key {key}");
    }
    assert_eq!((log.value(&[3]), log.value(b"short")), (None, Some(b"value".to_vec())));
}

#[test]
fn large_values_are_there_after_a_stop_as_after_a_recovery() {
    let before = stopped();
    let mut disk = MemoryDisk { files: before.disk.files.clone(), ..MemoryDisk::default() };
    let mut clean = open(before.disk);
    assert!(clean.report.is_clean, "every start is a recovery");
    assert_eq!(clean.report.damages, []);
    disk.files.remove(&PARTS);
    let recovered = open(disk);
    assert!(!recovered.report.is_clean);
    assert_eq!(clean.engine.larges, recovered.engine.larges);
    let live = |log: &Log<Keyed>| -> Vec<_> {
        let segments = log.engine.segments.iter().flatten();
        segments.map(|segment| (segment.live_bytes, segment.all_bytes)).collect()
    };
    assert_eq!(live(&clean), live(&recovered));
    check(&mut clean);
    // They die with their keys.
    for key in [1, 2, 4] {
        clean.remove(&[key]);
    }
    assert!(clean.engine.larges.is_empty());
}

#[test]
fn a_damaged_file_of_parts_is_named_and_not_believed() {
    let log = stopped();
    let bytes = log.disk.files[&PARTS].len();
    assert_eq!(bytes, 4096 + 65_536);
    for at in [0, 9, 20, 35, 45, 50, 100, 4096, 4105, 4112, 4200, bytes - 1] {
        let mut files = log.disk.files.clone();
        files.get_mut(&PARTS).unwrap()[at] ^= 1;
        let mut log = open(MemoryDisk { files, ..MemoryDisk::default() });
        assert!(!log.report.is_clean, "byte {at} is believed");
        let named: Vec<_> = log.report.damages.iter().map(|damage| damage.file).collect();
        assert_eq!(named, [PARTS], "byte {at}");
        check(&mut log);
    }
    let mut files = log.disk.files.clone();
    files.get_mut(&PARTS).unwrap().truncate(bytes - 1);
    assert!(!open(MemoryDisk { files, ..MemoryDisk::default() }).report.is_clean);
}

#[test]
fn the_file_of_another_stop_is_none_and_goes_when_there_are_no_large_values() {
    let first = stopped();
    let old = first.disk.files[&PARTS].clone();
    let mut log = open(first.disk);
    log.put_large(&[9], &value(9));
    log.settle();
    log.engine.close(&mut log.disk, 0).unwrap();
    let mut files = log.disk.files.clone();
    files.insert(PARTS, old);
    let mut other = open(MemoryDisk { files, ..MemoryDisk::default() });
    assert!(!other.report.is_clean, "parts of an earlier stop are believed");
    assert_eq!(other.value(&[9]), Some(value(9)));
    // Nothing that a later stop does not count stays.
    let mut log = open(log.disk);
    assert!(log.report.is_clean);
    for key in [1, 2, 4, 9] {
        log.remove(&[key]);
    }
    log.settle();
    log.engine.close(&mut log.disk, 0).unwrap();
    let log = open(log.disk);
    assert!(log.report.is_clean && !log.disk.files.contains_key(&PARTS));
}

#[test]
fn a_stop_that_cannot_save_them_says_so_and_leaves_a_log() {
    for doing in 0..4 {
        let mut log = open(MemoryDisk::default());
        log.settle();
        log.put_large(&[1], &value(1));
        log.settle();
        let new = File { name: FileName::PartsNew, ..PARTS };
        log.disk.fail(move |action| match action {
            Action::Create { file } => doing == 0 && *file == new,
            Action::Write { file, .. } => doing == 1 && *file == new,
            Action::Flush { file } => doing == 2 && *file == new,
            Action::Rename { file, .. } => doing == 3 && *file == new,
            _ => false,
        });
        assert!(log.engine.close(&mut log.disk, 0).is_err());
        let mut log = open(log.disk);
        assert!(!log.report.is_clean && log.report.damages.is_empty());
        assert_eq!(log.value(&[1]), Some(value(1)));
        assert!(!log.disk.files.contains_key(&new));
    }
}

/// Has footers list each record with the size class above its own, and the manifest count in such
/// classes: as programs wrote them for large records, before classes had a margin.
fn with_old_classes(mut disk: MemoryDisk) -> MemoryDisk {
    const BLOCK: usize = 512;
    let manifest = Manifest::decode(disk.manifest()).unwrap();
    assert_ne!(manifest.clean_sequence, 0);
    let mut raised = 0;
    for row in &manifest.rows {
        let seed = Seed::new(manifest.log, row.segment.0, row.generation);
        let held = disk.files.get_mut(&segment(row.segment.0)).unwrap();
        let at = held.len() - BLOCK;
        let Some(trailer) = Trailer::decode(&held[at..], seed, at as u64) else { continue };
        let count = footer_blocks(trailer.entries as usize, BLOCK as u32);
        for (number, offset) in (0..count).zip((trailer.records_end as usize..at).step_by(BLOCK)) {
            let block = &mut held[offset..offset + BLOCK];
            let mut listed = decode_footer_block(block, number, seed, offset as u64).unwrap();
            listed.iter_mut().for_each(|listed| listed.class += 1);
            encode_footer_block(&listed, number, seed, offset as u64, block);
            raised += listed.len();
        }
    }
    assert!(raised > 10, "{raised} entries");
    let manifest = disk.manifest();
    manifest[112] = 0;
    stamp(0, manifest, 12);
    disk
}

#[test]
fn a_log_that_a_program_of_other_size_classes_stopped_is_recovered_and_whole() {
    let mut log = open(with_old_classes(stopped().disk));
    assert!(!log.report.is_clean, "counts in other classes were believed");
    assert_eq!(log.report.damages, []);
    check(&mut log);
    log.engine.close(&mut log.disk, 0).unwrap();
    let mut damages = Vec::new();
    log.engine.verify(&mut log.disk, &mut |_| {}, &mut |damage: Damage| damages.push(damage));
    assert_eq!(damages, []);
    let mut log = open(log.disk);
    assert!(log.report.is_clean);
    check(&mut log);
    for key in [1, 2, 4] {
        log.remove(&[key]);
    }
    log.remove(b"short");
    log.settle();
    let live = |segment: &Segment| segment.live_bytes - segment.tombstone_bytes;
    assert_eq!(log.engine.segments.iter().flatten().map(live).sum::<u64>(), 0);
}
