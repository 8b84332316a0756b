//! Damaged, missing and foreign files.

use super::*;

/// What a key is, and where the record lies that says so.
struct Known {
    value: Option<Vec<u8>>,
    file: File,
    offset: u64,
}

type Model = BTreeMap<Vec<u8>, Known>;

/// A log of a few segments whose disk is to be damaged, and what is in it. Every third key was
/// written twice, and one was removed.
fn sample() -> (MemoryDisk, Model) {
    let mut log = Log::new(Mode::Safe);
    let mut model = BTreeMap::new();
    for at in 0..19u8 {
        let (key, value) = ([at % 14, 9], vec![at; 600]);
        log.put(&key, &value).unwrap();
        log.settle();
        model.insert(key.to_vec(), Some(value));
    }
    log.remove(&[6, 9]);
    model.insert(vec![6, 9], None);
    log.settle();
    let known = model.into_iter().map(|(key, value)| {
        let index = &log.engine.index;
        let entry = index.get(index.hash(&key).unwrap()).unwrap();
        let (id, offset) = log.engine.place(entry.position);
        (key, Known { value, file: segment(id.0), offset })
    });
    let known = known.collect();
    (log.disk, known)
}

fn copy(disk: &MemoryDisk) -> MemoryDisk {
    MemoryDisk { files: disk.files.clone(), ..MemoryDisk::default() }
}

/// Whether the report says that the record is lost, or that the segment ends before it.
fn names(report: &Report, known: &Known) -> bool {
    let covers = |file: File, offset: u64, bytes: u64| {
        file == known.file && (bytes == 0 || (offset..offset + bytes).contains(&known.offset))
    };
    let damages = report.damages.iter().filter(|it| it.what != Wrong::HeaderCopy);
    damages.into_iter().any(|it| covers(it.file, it.offset, it.bytes))
        || report.torn.iter().any(|it| covers(it.file, it.offset, it.bytes))
}

/// No value is wrong unless the loss of the right one is named, by the report or by an error.
fn assert_named(disk: MemoryDisk, model: &Model, what: &str) {
    let mut log = match open_disk(disk, Mode::Safe) {
        Ok(log) => log,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for (key, known) in model {
        match log.stored(key) {
            Ok(stored) => {
                let is_right = stored.map(|stored| stored.value) == known.value;
                let is_named = names(&log.report, known);
                assert!(is_right || is_named, "{what}: key {key:?} is lost and nobody says so");
            }
            Err(error) => assert!(error.to_string().contains(".segment"), "{what}: {error}"),
        }
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
    // The sixth record of the first segment: a block of header twice, two blocks a record.
    let offset = 2 * 512 + 5 * 2 * 512;
    assert_eq!(disk.files[&segment(0)][offset..offset + 2], mark(0));
    disk.files.get_mut(&segment(0)).unwrap()[offset + 100] ^= 1;
    let mut log = Log::of(disk, Mode::Safe);
    // The segment is full and has a footer: the record is named when it is read.
    let flaw = record::Flaw::Checksum;
    let named = Error::Damaged { file: segment(0), offset: offset as u64, flaw };
    assert_eq!(log.stored(&[5, 9]), Err(named));
    assert_eq!(log.value(&[7, 9]), Some(vec![7; 600]));
    // Without the footer the segment is read in full.
    log.disk.files.get_mut(&segment(0)).unwrap()[(16 << 10) - 512] ^= 1;
    let mut log = log.reopen();
    let damage = &log.report.damages[0];
    assert_eq!((damage.file, damage.offset), (segment(0), offset as u64));
    assert_eq!(damage.what, Wrong::Records);
    assert_eq!(log.value(&[5, 9]), None);
    assert_eq!(log.value(&[7, 9]), Some(vec![7; 600]));
}

#[test]
fn a_hole_of_zeros_begins_behind_what_a_block_has_left() {
    let mut log = Log::new(Mode::Safe);
    // All of a block but sixteen bytes, which no padding record fits into.
    let bytes = 512 - 16 - record::HEADER_BYTES - 1;
    // The last one is shorter, so that its padding record says what was flushed.
    for (key, bytes) in [(0, bytes), (1, bytes), (2, 100)] {
        log.put(&[key], &vec![key + 1; bytes]).unwrap();
        log.settle();
    }
    let mut disk = log.disk;
    let block = |number: usize| number * 512..(number + 1) * 512;
    let segment_bytes = disk.files.get_mut(&segment(0)).unwrap();
    let (record, rest) = segment_bytes[block(2)].split_at(512 - 16);
    assert_eq!((record.last(), rest), (Some(&1), &[0; 16][..]));
    segment_bytes[block(3)].fill(0);
    let log = Log::of(disk, Mode::Safe);
    let damages = log.report.damages.iter().map(|it| (it.offset, it.bytes, &it.what));
    assert_eq!(Vec::from_iter(damages), [(3 * 512, 512, &Wrong::Records)]);
}

#[test]
fn a_damaged_footer_hides_no_damaged_record() {
    let (mut disk, _) = sample();
    let offset = 4 * 512;
    disk.files.get_mut(&segment(0)).unwrap()[offset + 100] ^= 1;
    let footer = footer_offset(&disk, segment(0));
    disk.files.get_mut(&segment(0)).unwrap()[footer + 40] ^= 1;
    let mut log = Log::of(disk, Mode::Safe);
    for _ in 0..2 {
        let damages: Vec<_> = log.report.damages.iter().map(|it| (it.file, it.offset)).collect();
        assert_eq!(damages, [(segment(0), offset as u64)], "a loss was named only once");
        assert_eq!(log.value(&[7, 9]), Some(vec![7; 600]));
        log = log.reopen();
    }
}

#[test]
fn a_footer_that_a_crash_has_torn_in_front_of_its_trailer_is_written_again() {
    let (mut disk, model) = sample();
    let footer = footer_offset(&disk, segment(0));
    let whole = disk.files[&segment(0)][footer..footer + 512].to_vec();
    disk.files.get_mut(&segment(0)).unwrap()[footer + 170..footer + 512].fill(0);
    let mut log = Log::of(disk, Mode::Safe);
    assert_eq!(log.report.damages, []);
    for (key, known) in &model {
        assert_eq!(log.value(key), known.value);
    }
    let is_mended = log.disk.files[&segment(0)][footer..footer + 512] == whole;
    assert!(is_mended, "the segment is read in full by every open, and never moved");
}

#[test]
fn a_block_that_cannot_be_read_is_named_and_costs_only_its_records() {
    let (mut disk, model) = sample();
    disk.files.get_mut(&segment(0)).unwrap()[(16 << 10) - 512] ^= 1;
    disk.fail(|action| match action {
        Action::Read { file, offset, bytes, .. } => {
            file.name == FileName::Segment(SegmentId(0))
                && (*offset..*offset + *bytes as u64).contains(&(16 * 512))
        }
        _ => false,
    });
    let mut log = Log::of(disk, Mode::Safe);
    let damage = log.report.damages.iter().find(|it| it.what == Wrong::Unreadable(io())).unwrap();
    assert_eq!((damage.offset, damage.bytes), (16 * 512, 512));
    let is_missing = |key: &&Vec<u8>| log.value(key) != model[*key].value;
    assert_eq!(model.keys().filter(is_missing).collect::<Vec<_>>(), [&[7, 9]]);
    // It gets no footer: what cannot be read now may be read another time.
    log.disk.fault = None;
    let mut log = log.reopen();
    for (key, known) in &model {
        assert_eq!(log.value(key), known.value);
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
    let opened = open_in(&mut twice, 2, shape(), Mode::Safe, map_keys);
    assert_eq!(opened.err(), Some(Error::Twice { first: segment(0), second }));
}

#[test]
fn a_file_of_somebody_else_is_left_alone_whatever_its_number() {
    let (disk, _) = sample();
    let mut log = Log::of(disk, Mode::Safe);
    log.settle();
    let last = log.engine.manifest().rows.last().unwrap().segment.0;
    let files = [segment(last + 1), segment(last + 7)];
    for (file, at) in files.into_iter().zip([20, 9000]) {
        let mut held = vec![0; 16 << 10];
        held[at] = 3;
        log.disk.files.insert(file, held);
    }
    for _ in 0..2 {
        log = log.reopen();
        assert_eq!(log.report.foreign.len(), 2, "{:?}", log.report.foreign);
        for key in 0..40 {
            log.put(&[key, key], &[key; 900]).unwrap();
            log.settle();
        }
        // In another directory a second file of the number would be made.
        let makes = |file: &File| log.disk.done.contains(&format!("create {}", file.name));
        assert!(!files.iter().any(makes), "a file is in the way");
        let rows = &log.engine.manifest().rows;
        assert!(rows.iter().all(|row| !files.contains(&segment(row.segment.0))));
        assert!(files.iter().all(|file| log.disk.files.contains_key(file)), "a file is gone");
    }
}

#[test]
fn what_the_system_could_not_open_is_no_damage() {
    let (mut disk, _) = sample();
    let failure = Failure::Io { code: 24, text: "too many open files".to_owned() };
    let expected = failure.clone();
    disk.fault = Some(Box::new(move |action| match action {
        Action::Read { file, .. } if *file == segment(0) => Some(failure.clone()),
        _ => None,
    }));
    let expected = Error::Disk { doing: "read", file: segment(0), failure: expected };
    assert_eq!(open_disk(disk, Mode::Safe).err(), Some(expected));
}

#[test]
fn whatever_a_bad_sector_comes_as_it_is_named_and_the_rest_is_served() {
    // EIO, ENODATA, EBADMSG, EILSEQ, EUCLEAN, EREMOTEIO
    for code in [5, 61, 74, 84, 117, 121] {
        for blocks in [1, 2, 32] {
            let (mut disk, model) = sample();
            let failure = Failure::Io { code, text: "bad sector".to_owned() };
            disk.fault = Some(Box::new(move |action| match action {
                Action::Read { file, offset, .. } if *file == segment(0) => {
                    (*offset < blocks * 512).then(|| failure.clone())
                }
                _ => None,
            }));
            let mut log = open_disk(disk, Mode::Safe).expect("a sector keeps the log shut");
            let named = log.report.damages.iter().filter(|it| it.file == segment(0)).count();
            assert!(named > 0, "{code}: nothing is said of {blocks} blocks");
            for (key, known) in &model {
                let is_there = known.file != segment(0) || blocks == 1;
                assert!(!is_there || log.value(key) == known.value, "{code}: {key:?} is lost");
            }
        }
    }
}

#[test]
fn segments_that_nothing_was_written_to_are_not_reported() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let log = log.reopen();
    assert_eq!((log.report.tails, &*log.report.torn, &*log.report.damages), (4, &[][..], &[][..]));
    assert_eq!(log.engine.free.len(), 4);
}

#[test]
fn a_torn_segment_without_a_record_is_not_written_to_again() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", &[1; 600]).unwrap();
    log.settle();
    log.disk.files.get_mut(&segment(0)).unwrap()[2 * 512 + 40] ^= 1;
    let mut log = log.reopen();
    assert!(!log.report.torn.is_empty());
    assert!(log.report.torn.iter().all(|torn| torn.file == segment(0)));
    assert!(!log.engine.free.contains(&SegmentId(0)));
    log.put(b"key", b"2").unwrap();
    log.settle();
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), Some(b"2".to_vec()));
}

#[test]
fn a_manifest_that_was_put_back_draws_no_sequence_again() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    for value in 0..4u8 {
        log = log.reopen();
        log.put(b"key", &[value]).unwrap();
        log.settle();
    }
    let mut old = log.engine.manifest().clone();
    assert_eq!(old.run, 5);
    old.run = 2;
    *log.disk.manifest() = old.encode();
    let mut log = log.reopen();
    assert_eq!(log.report.run, 6);
    log.put(b"key", b"new").unwrap();
    log.settle();
    assert_eq!(log.reopen().value(b"key"), Some(b"new".to_vec()));
}

#[test]
fn segments_that_were_on_their_way_are_removed() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let mut disk = log.disk;
    for (id, bytes) in [(4, 0), (5, 16 << 10), (6, 700)] {
        disk.files.insert(segment(id), vec![0; bytes]);
    }
    let name = FileName::IndexNew;
    disk.files.insert(File { directory: DirectoryId(0), name }, vec![1; 100]);
    let mut log = Log::of(disk, Mode::Safe);
    for id in 4..7 {
        assert!(!log.disk.files.contains_key(&segment(id)));
    }
    assert!(!log.disk.files.keys().any(|file| file.name == name));
    log.settle();
    log.put(b"key", b"value").unwrap();
}

/// A crash keeps any part of what was not flushed.
#[test]
fn a_segment_whose_header_is_torn_was_on_its_way() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let (manifest, file) = (log.engine.manifest().clone(), segment(4));
    let mut torn = vec![0; 16 << 10];
    manifest.header(SegmentId(4), 1).encode(&mut torn[..512]);
    torn.copy_within(..20, 512);
    torn[40..512].fill(0);
    let disk = |held: &[u8]| {
        let mut files = log.disk.files.clone();
        files.insert(file, held.to_vec());
        MemoryDisk { files, ..MemoryDisk::default() }
    };
    let opened = Log::of(disk(&torn), Mode::Safe);
    assert!(!opened.disk.files.contains_key(&file), "a torn header passes for somebody else's");
    assert!(opened.report.foreign.is_empty());
    // The same bytes elsewhere, and others, are nobody's that is known.
    for (at, byte) in [(2 * 512, torn[0]), (20, 1), (9000, 1)] {
        let mut held = torn.clone();
        held[at] = byte;
        let opened = Log::of(disk(&held), Mode::Safe);
        assert!(opened.disk.files.contains_key(&file), "a file with {byte} at {at} is gone");
        assert_eq!(opened.report.foreign.len(), 1);
    }
}

#[test]
fn what_is_lost_is_named_by_every_open_even_one_that_came_to_no_end() {
    let mut log = Log::new(Mode::Safe);
    for key in 0..3u8 {
        log.put(&[key], &[key; 600]).unwrap();
        log.settle();
    }
    // The second record, below what the third commit calls flushed.
    let offset = 4 * 512;
    let mut disk = log.disk;
    disk.files.get_mut(&segment(0)).unwrap()[offset + 100] ^= 1;
    // Everything but the manifest with which the open would end.
    disk.fail(|action| matches!(action, Action::Rename { .. }));
    let opened = open_in(&mut disk, 1, shape(), Mode::Safe, map_keys);
    assert!(matches!(opened, Err(Error::Disk { .. })));
    disk.fault = None;
    let mut log = Log::of(disk, Mode::Safe);
    for _ in 0..2 {
        let damages: Vec<_> = log.report.damages.iter().map(|it| (it.offset, &it.what)).collect();
        assert_eq!(damages, [(offset as u64, &Wrong::Records)], "a loss was named only once");
        assert_eq!(log.value(&[2]), Some(vec![2; 600]));
        log.settle();
        log = log.reopen();
    }
}

#[test]
fn an_index_that_is_of_no_stop_takes_no_room_from_the_manifest() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", b"value").unwrap();
    log.settle();
    let file = File { directory: DirectoryId(0), name: FileName::Index };
    // Of a stop that has found no room for its manifest.
    log.disk.files.insert(file, vec![0; 512]);
    log.disk.done.clear();
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), Some(b"value".to_vec()));
    let at = |what: &str| log.disk.done.iter().position(|done| done == what);
    assert!(at("remove index").is_some() && at("remove index") < at("create manifest.new"));
}
