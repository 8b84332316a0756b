//! Damaged, missing and foreign files.

use super::*;

/// A log of a few segments whose disk is to be damaged, and what is in it.
fn sample() -> (MemoryDisk, BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut log = Log::new(Mode::Safe);
    let mut model = BTreeMap::new();
    for key in 0..14u8 {
        let value = vec![key; 600];
        log.put(&[key, 9], &value).unwrap();
        log.settle();
        model.insert(vec![key, 9], value);
    }
    log.remove(&[0, 9]);
    model.remove(&[0, 9][..]);
    log.settle();
    (log.disk, model)
}

fn copy(disk: &MemoryDisk) -> MemoryDisk {
    MemoryDisk { files: disk.files.clone(), ..MemoryDisk::default() }
}

/// No value is wrong, and each that is missing is named by the report or by an error.
fn assert_named(disk: MemoryDisk, model: &BTreeMap<Vec<u8>, Vec<u8>>, what: &str) {
    let mut log = match open_disk(disk, Mode::Safe) {
        Ok(log) => log,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    // A notice of where a tail ends names what was lost at its end.
    let is_noted = !log.report.damages.is_empty() || !log.report.torn.is_empty();
    for (key, value) in model {
        match log.stored(key) {
            Ok(Some(stored)) => assert_eq!(&stored.value, value, "{what}: a wrong value"),
            Ok(None) => assert!(is_noted, "{what}: a value is gone and nobody says so"),
            Err(error) => assert!(error.to_string().contains(".segment"), "{what}: {error}"),
        }
    }
    if !is_noted {
        assert_eq!(log.value(&[0, 9]), None, "{what}: a removed key is back");
    }
}

#[test]
fn every_byte_that_is_damaged_is_named_or_does_not_matter() {
    let (disk, model) = sample();
    for (file, bytes) in &disk.files {
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        // Every byte of what is not values, and one in seven of what is.
        for at in (0..=used).filter(|at| at % 7 == 0 || bytes[*at] != bytes[at.saturating_sub(1)]) {
            let mut damaged = copy(&disk);
            damaged.files.get_mut(file).unwrap()[at] ^= 1 << (at % 8);
            assert_named(damaged, &model, &format!("{} byte {at}", file.name));
        }
    }
}

#[test]
fn every_cut_is_named_or_does_not_matter() {
    let (disk, model) = sample();
    for (file, bytes) in &disk.files {
        for at in (0..bytes.len()).step_by(97) {
            let mut damaged = copy(&disk);
            damaged.files.get_mut(file).unwrap().truncate(at);
            assert_named(damaged, &model, &format!("{} cut at {at}", file.name));
        }
        let mut damaged = copy(&disk);
        damaged.files.remove(file);
        if matches!(file.name, FileName::Segment(_)) {
            let log = Log::of(damaged, Mode::Safe);
            assert_eq!(log.report.damages[0].what, Wrong::Missing);
        }
    }
}

#[test]
fn a_hole_below_what_was_flushed_is_damage_with_its_place() {
    let (mut disk, _) = sample();
    // The second record of the first segment: a block of header twice, two blocks a record.
    let offset = 2 * 512 + 2 * 512;
    assert_eq!(&disk.files[&segment(0)][offset..offset + 2], b"Kr");
    disk.files.get_mut(&segment(0)).unwrap()[offset + 100] ^= 1;
    let mut log = Log::of(disk, Mode::Safe);
    // The segment is full and has a footer: the record is named when it is read.
    let flaw = record::Flaw::Checksum;
    let named = Error::Damaged { file: segment(0), offset: offset as u64, flaw };
    assert_eq!(log.stored(&[1, 9]), Err(named));
    assert_eq!(log.value(&[2, 9]), Some(vec![2; 600]));
    // Without the footer the segment is read in full.
    log.disk.files.get_mut(&segment(0)).unwrap()[(16 << 10) - 512] ^= 1;
    let mut log = log.reopen();
    let damage = &log.report.damages[0];
    assert_eq!((damage.file, damage.offset), (segment(0), offset as u64));
    assert_eq!(damage.what, Wrong::Records);
    assert_eq!(log.value(&[1, 9]), None);
    assert_eq!(log.value(&[2, 9]), Some(vec![2; 600]));
}

#[test]
fn a_damaged_footer_hides_no_damaged_record() {
    let (mut disk, _) = sample();
    let offset = 4 * 512;
    let held = disk.files.get_mut(&segment(0)).unwrap();
    held[offset + 100] ^= 1;
    let trailer = (16 << 10) - 512;
    let footer = u64::from_le_bytes(held[trailer + 16..trailer + 24].try_into().unwrap());
    held[footer as usize + 40] ^= 1;
    let mut log = Log::of(disk, Mode::Safe);
    let damages: Vec<_> = log.report.damages.iter().map(|it| (it.file, it.offset)).collect();
    assert_eq!(damages, [(segment(0), offset as u64)]);
    assert_eq!(log.value(&[2, 9]), Some(vec![2; 600]));
}

#[test]
fn a_block_that_cannot_be_read_is_named_and_costs_only_its_records() {
    let (mut disk, model) = sample();
    disk.files.get_mut(&segment(0)).unwrap()[(16 << 10) - 512] ^= 1;
    disk.fail(|action| match action {
        Action::Read { file, offset, bytes, .. } => {
            file.name == FileName::Segment(SegmentId(0))
                && (*offset..*offset + *bytes as u64).contains(&(6 * 512))
        }
        _ => false,
    });
    let mut log = Log::of(disk, Mode::Safe);
    let damage = log.report.damages.iter().find(|it| it.what == Wrong::Unreadable(io())).unwrap();
    assert_eq!((damage.offset, damage.bytes), (6 * 512, 512));
    let missing = model.keys().filter(|key| log.value(key).is_none()).count();
    assert_eq!(missing, 1);
    // It gets no footer: what cannot be read now may be read another time.
    log.disk.fault = None;
    let mut log = log.reopen();
    for (key, value) in &model {
        assert_eq!(log.value(key).as_ref(), Some(value));
    }
}

#[test]
fn segments_of_other_logs_and_programs_are_refused() {
    let (disk, _) = sample();
    let open = |disk| open_disk(disk, Mode::Safe).err();
    let mut other = copy(&disk);
    let mut log = Log::of(copy(&disk), Mode::Safe);
    log.engine.close(&mut log.disk, 0).unwrap();
    // Another log's manifest beside these segments.
    let mut manifest = crate::format::manifest::Manifest::decode(other.manifest()).unwrap();
    manifest.log = LogId(6);
    *other.manifest() = manifest.encode();
    assert_eq!(open(other), Some(Error::OtherLog { file: segment(0) }));
    // No manifest at all.
    let mut bare = copy(&disk);
    bare.files.retain(|file, _| file.name != FileName::Manifest);
    assert_eq!(open(bare), Some(Error::NoManifest { file: segment(0) }));
    // A segment with records that the manifest does not have.
    let mut unlisted = copy(&disk);
    manifest.log = LogId(5);
    manifest.rows.remove(0);
    *unlisted.manifest() = manifest.encode();
    unlisted.files.get_mut(&segment(0)).unwrap()[2 * 512] ^= 1;
    assert_eq!(open(unlisted), Some(Error::Unlisted { file: segment(0) }));
    // The same segment in two directories.
    let mut twice = copy(&disk);
    let held = twice.files[&segment(0)].clone();
    let second = File { directory: DirectoryId(1), ..segment(0) };
    twice.files.insert(second, held);
    let opening = Opening {
        directories: 2,
        new: New { log: LogId(5), shape: shape() },
        settings: settings(Mode::Safe),
        now_ms: 0,
        progress: &mut |_| {},
    };
    let opened = Engine::open(&mut twice, opening, |_: &Manifest| Ok(MapKeys::new(UNITS_MAX)));
    assert_eq!(opened.err(), Some(Error::Twice { first: segment(0), second }));
}

#[test]
fn segments_that_were_on_their_way_are_removed() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let mut disk = log.disk;
    for (id, bytes) in [(3, 0), (4, 16 << 10), (5, 700)] {
        disk.files.insert(segment(id), vec![0; bytes]);
    }
    let mut log = Log::of(disk, Mode::Safe);
    for id in 3..6 {
        assert!(!log.disk.files.contains_key(&segment(id)));
    }
    log.settle();
    log.put(b"key", b"value").unwrap();
}
