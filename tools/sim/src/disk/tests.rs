use super::{DirectoryId, Disk, FileId, Refusal, SECTOR_BYTES};
use crate::fault::{Kind, Rates};

const HERE: DirectoryId = DirectoryId(0);
const PLENTY: usize = 1 << 20;

fn disk(seed: u64) -> Disk {
    Disk::new(seed, 1, PLENTY)
}

/// A flushed file of that many sectors, each full of `byte`.
fn flushed(disk: &mut Disk, name: &str, sectors: usize, byte: u8) -> FileId {
    let file = disk.create(HERE, name).expect("room");
    disk.write(file, 0, &vec![byte; sectors * SECTOR_BYTES]).expect("room");
    disk.flush(file).expect("no fault");
    disk.flush_directory(HERE).expect("no fault");
    file
}

/// A disk with one such file, full of 1.
fn disk_with(seed: u64, sectors: usize) -> (Disk, FileId) {
    let mut disk = disk(seed);
    let file = flushed(&mut disk, "a", sectors, 1);
    (disk, file)
}

/// Has a flush of the file fail, and no other request.
fn fail_flush(disk: &mut Disk, file: FileId) {
    disk.set_rates(Rates::none().with(Kind::FlushError, 1_000_000));
    assert_eq!(disk.flush(file), Err(Refusal::Io));
    disk.set_rates(Rates::none());
}

fn sector(disk: &Disk, file: FileId, number: usize) -> &[u8] {
    &disk.content(file)[number * SECTOR_BYTES..][..SECTOR_BYTES]
}

fn is_all(bytes: &[u8], byte: u8) -> bool {
    bytes.iter().all(|it| *it == byte)
}

#[test]
fn what_was_flushed_survives_every_crash() {
    for seed in 0..200 {
        let (mut disk, file) = disk_with(seed, 8);
        disk.write(file, 2 * SECTOR_BYTES, &[2; 3 * SECTOR_BYTES]).expect("room");
        disk.crash();
        for number in [0, 1, 5, 6, 7] {
            assert!(is_all(sector(&disk, file, number), 1), "seed {seed}, sector {number}");
        }
        assert_eq!(disk.open(HERE, "a"), Ok(file));
    }
}

#[test]
fn unflushed_sectors_are_kept_lost_or_torn_one_by_one() {
    let (mut orders, mut torn) = (std::collections::BTreeSet::new(), 0);
    let mut disk = disk(7);
    for _ in 0..2000 {
        let file = flushed(&mut disk, "a", 3, 1);
        for number in 0..3 {
            disk.write(file, number * SECTOR_BYTES, &[2; SECTOR_BYTES]).expect("room");
        }
        disk.crash();
        let kept: Vec<char> = (0..3)
            .map(|number| match sector(&disk, file, number) {
                it if is_all(it, 1) => '1',
                it if is_all(it, 2) => '2',
                it => {
                    assert!(it.iter().all(|byte| matches!(byte, 1 | 2)), "bytes from nowhere");
                    torn += 1;
                    't'
                }
            })
            .collect();
        orders.insert(kept.into_iter().collect::<String>());
        disk.remove(HERE, "a").expect("there");
        disk.flush_directory(HERE).expect("no fault");
    }
    // Each of kept, lost and torn at each of three places, whatever the others are: all 27.
    assert_eq!(orders.len(), 27, "{orders:?}");
    let counts = disk.counts();
    assert!(torn > 0 && counts.of(Kind::SectorTorn) >= torn, "{counts}");
    assert!(counts.of(Kind::SectorKept) > 1000 && counts.of(Kind::SectorLost) > 1000, "{counts}");
    assert_eq!(disk.used_bytes(HERE), 0);
}

#[test]
fn an_older_write_never_comes_over_a_newer_flushed_one() {
    for seed in 0..100 {
        let (mut disk, file) = disk_with(seed, 1);
        disk.write(file, 0, &[2; SECTOR_BYTES]).expect("room");
        disk.write(file, 0, &[3; SECTOR_BYTES]).expect("room");
        disk.flush(file).expect("no fault");
        disk.crash();
        assert!(is_all(sector(&disk, file, 0), 3), "seed {seed}");
    }
}

#[test]
fn a_later_write_may_survive_an_earlier_one_and_is_counted() {
    let mut out_of_order = 0;
    for seed in 0..200 {
        let (mut disk, file) = disk_with(seed, 3);
        for number in [2, 0, 1] {
            disk.write(file, number * SECTOR_BYTES, &[2; SECTOR_BYTES]).expect("room");
        }
        disk.crash();
        if disk.counts().of(Kind::SectorTorn) > 0 {
            continue;
        }
        let is_there = |number| is_all(sector(&disk, file, number), 2);
        let is_lost = |number| is_all(sector(&disk, file, number), 1);
        let pairs = [(2, 0), (2, 1), (0, 1)];
        let is_out = pairs.iter().any(|(first, later)| is_lost(*first) && is_there(*later));
        assert_eq!(disk.counts().of(Kind::OrderLost) == 1, is_out, "seed {seed}");
        out_of_order += u32::from(is_out);
    }
    assert!((10..60).contains(&out_of_order), "{out_of_order}");
}

#[test]
fn directories_are_devices_with_room_and_caches_of_their_own() {
    let (here, there) = (HERE, DirectoryId(1));
    let (mut alike, mut apart) = (0, 0);
    for seed in 0..2000 {
        let mut disk = Disk::new(seed, 2, 8 * SECTOR_BYTES);
        let files = [here, there].map(|directory| {
            let file = disk.create(directory, "a").expect("room");
            disk.allocate(file, 4 * SECTOR_BYTES).expect("room");
            disk.flush(file).expect("no fault");
            disk.flush_directory(directory).expect("no fault");
            disk.write(file, 0, &[2; 4 * SECTOR_BYTES]).expect("room");
            file
        });
        disk.set_capacity(here, 4 * SECTOR_BYTES);
        assert_eq!(disk.allocate(files[0], 8 * SECTOR_BYTES), Err(Refusal::NoSpace));
        assert_eq!(disk.allocate(files[1], 8 * SECTOR_BYTES), Ok(()));
        disk.crash();
        let is_whole = |file| is_all(&disk.content(file)[..4 * SECTOR_BYTES], 2);
        let is_lost = |file| is_all(&disk.content(file)[..4 * SECTOR_BYTES], 0);
        alike += u32::from(is_whole(files[0]) && is_whole(files[1]));
        apart += u32::from(is_whole(files[0]) && is_lost(files[1]));
    }
    assert!(alike > 5 && apart > 5, "{alike} {apart}");
}

#[test]
fn names_are_kept_or_lost_until_their_directory_is_flushed() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let mut disk = disk(seed);
        flushed(&mut disk, "old", 1, 1);
        let file = disk.create(HERE, "new.tmp").expect("room");
        disk.flush(file).expect("no fault");
        disk.rename(HERE, "new.tmp", "new").expect("there");
        disk.remove(HERE, "old").expect("there");
        disk.crash();
        let names: Vec<String> = disk.list(HERE).into_iter().map(|(name, _)| name).collect();
        outcomes.insert(names.join(" "));
    }
    let expected = ["", "new", "new old", "new.tmp", "new.tmp old", "old"];
    assert_eq!(outcomes.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn flushed_names_stay() {
    for seed in 0..100 {
        let mut disk = disk(seed);
        flushed(&mut disk, "target", 1, 1);
        let file = flushed(&mut disk, "new.tmp", 1, 2);
        disk.rename(HERE, "new.tmp", "target").expect("there");
        disk.flush_directory(HERE).expect("no fault");
        disk.crash();
        assert_eq!(disk.list(HERE), [("target".to_owned(), file)], "seed {seed}");
        assert_eq!(disk.used_bytes(HERE), SECTOR_BYTES, "a file without a name takes no room");
    }
}

#[test]
fn a_length_may_be_lost_and_its_bytes_with_it() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let (mut disk, file) = disk_with(seed, 1);
        disk.allocate(file, 4 * SECTOR_BYTES).expect("room");
        disk.write(file, 3 * SECTOR_BYTES, &[2; 2 * SECTOR_BYTES]).expect("room");
        disk.crash();
        lengths.insert(disk.len(file) / SECTOR_BYTES);
        assert!(is_all(sector(&disk, file, 0), 1));
        if disk.len(file) > 2 * SECTOR_BYTES {
            assert!(is_all(sector(&disk, file, 1), 0), "never written");
        }
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [1, 4, 5]);
}

#[test]
fn what_was_cut_off_stays_away() {
    let (mut disk, file) = disk_with(1, 4);
    disk.write(file, 2 * SECTOR_BYTES, &[2; 2 * SECTOR_BYTES]).expect("room");
    disk.set_len(file, SECTOR_BYTES).expect("shorter");
    disk.allocate(file, 4 * SECTOR_BYTES).expect("room");
    disk.flush(file).expect("no fault");
    disk.crash();
    assert!(is_all(sector(&disk, file, 0), 1));
    assert!(is_all(&disk.content(file)[SECTOR_BYTES..], 0), "old bytes came back");
}

#[test]
fn a_failed_flush_drops_pages_and_the_next_says_nothing_of_them() {
    let (mut seen_lost, mut crash_lost, mut kept) = (0, 0, 0);
    for seed in 0..300 {
        let (mut disk, file) = disk_with(seed, 1);
        disk.write(file, 0, &[2; SECTOR_BYTES]).expect("room");
        fail_flush(&mut disk, file);
        assert_eq!(disk.flush(file), Ok(()), "nothing is dirty any more");
        let seen = sector(&disk, file, 0)[0];
        disk.crash();
        match (seen, sector(&disk, file, 0)[0]) {
            (1, 1) => seen_lost += 1,
            (2, 1) => crash_lost += 1,
            (2, 2) => kept += 1,
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(seen_lost > 50 && crash_lost > 50 && kept > 50, "{seen_lost} {crash_lost} {kept}");
}

#[test]
fn a_write_over_a_dropped_page_is_a_new_write() {
    for seed in 0..100 {
        let (mut disk, file) = disk_with(seed, 1);
        disk.write(file, 0, &[2; SECTOR_BYTES]).expect("room");
        fail_flush(&mut disk, file);
        disk.write(file, 0, &[3; SECTOR_BYTES]).expect("room");
        disk.flush(file).expect("no fault");
        disk.crash();
        assert!(is_all(sector(&disk, file, 0), 3), "seed {seed}");
    }
}

#[test]
fn a_full_disk_keeps_what_an_allocation_got() {
    let mut kept = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut disk = Disk::new(seed, 1, 8 * SECTOR_BYTES);
        let file = flushed(&mut disk, "a", 4, 1);
        assert_eq!(disk.allocate(file, 16 * SECTOR_BYTES), Err(Refusal::NoSpace));
        kept.insert(disk.len(file) / SECTOR_BYTES);
        disk.set_len(file, 4 * SECTOR_BYTES).expect("shorter");
        assert_eq!(disk.write(file, 8 * SECTOR_BYTES, &[1]), Err(Refusal::NoSpace));
        assert_eq!(disk.write(file, 4 * SECTOR_BYTES, &[1; 4 * SECTOR_BYTES]), Ok(2048));
        assert_eq!(disk.write(file, 0, &[3]), Ok(1), "what is there can be written over");
    }
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
}

#[test]
fn reads_and_writes_fail_end_early_and_go_astray_when_told_to() {
    let (mut disk, file) = disk_with(3, 64);
    let other = flushed(&mut disk, "b", 64, 2);
    let always = |kind| Rates::none().with(kind, 1_000_000);
    let mut bytes = [0; 8 * SECTOR_BYTES];

    disk.set_rates(always(Kind::ReadError));
    assert_eq!(disk.read(file, 0, &mut bytes), Err(Refusal::Io));
    disk.set_rates(always(Kind::ShortRead));
    let count = disk.read(file, 0, &mut bytes).expect("no error");
    assert!(count > 0 && count < bytes.len() && is_all(&bytes[..count], 1), "{count}");
    assert!(is_all(&bytes[count..], 0));
    disk.set_rates(always(Kind::ShortWrite));
    let count = disk.write(file, 0, &[3; 8 * SECTOR_BYTES]).expect("no error");
    assert!(count > 0 && count < bytes.len() && count.is_multiple_of(SECTOR_BYTES), "{count}");
    assert!(is_all(&disk.content(file)[..count], 3) && disk.content(file)[count] == 1);
    disk.set_rates(always(Kind::WriteError));
    assert_eq!(disk.write(file, 0, &[4; 8 * SECTOR_BYTES]), Err(Refusal::Io));
    disk.set_rates(always(Kind::Vanished));
    let before = disk.content(file).to_vec();
    assert_eq!(disk.write(file, 0, &[5; SECTOR_BYTES]), Ok(SECTOR_BYTES));
    assert_eq!(disk.content(file), before);
    disk.set_rates(always(Kind::Misdirected));
    let mut strays = 0;
    for _ in 0..100 {
        let misdirected = disk.counts().of(Kind::Misdirected);
        assert_eq!(disk.write(file, 0, &[6; SECTOR_BYTES]), Ok(SECTOR_BYTES));
        if disk.counts().of(Kind::Misdirected) > misdirected {
            assert_ne!(disk.content(file)[0], 6, "that is where it was meant to go");
            let bytes = disk.content(file).iter().chain(disk.content(other));
            assert!(bytes.filter(|it| **it == 6).count() >= SECTOR_BYTES, "it is nowhere");
            strays += 1;
        }
        disk.set_rates(Rates::none());
        disk.write(file, 0, &[1; SECTOR_BYTES]).expect("room");
        disk.set_rates(always(Kind::Misdirected));
    }
    assert!(strays > 50, "{strays}");
}

#[test]
fn a_bad_sector_is_unreadable_until_it_is_written() {
    let (mut disk, file) = disk_with(3, 4);
    disk.spoil(file, 2 * SECTOR_BYTES + 5);
    let mut bytes = [0; SECTOR_BYTES];
    for _ in 0..3 {
        assert_eq!(disk.read(file, 2 * SECTOR_BYTES, &mut bytes), Err(Refusal::Io));
    }
    assert_eq!(disk.read(file, SECTOR_BYTES, &mut bytes), Ok(SECTOR_BYTES));
    disk.crash();
    assert_eq!(disk.read(file, 2 * SECTOR_BYTES, &mut bytes), Err(Refusal::Io));
    disk.write(file, 2 * SECTOR_BYTES, &[7; SECTOR_BYTES]).expect("room");
    assert_eq!(disk.read(file, 2 * SECTOR_BYTES, &mut bytes), Ok(SECTOR_BYTES));
    assert!(is_all(&bytes, 7));
}

#[test]
fn a_flipped_bit_is_flipped_now_and_after_a_crash() {
    let (mut disk, file) = disk_with(3, 1);
    disk.flip(file, 100, 3);
    assert_eq!(disk.content(file)[100], 1 ^ 8);
    disk.crash();
    assert_eq!(disk.content(file)[100], 1 ^ 8);
    assert_eq!(disk.content(file).iter().filter(|it| **it != 1).count(), 1);
}

#[test]
fn a_seed_repeats_itself() {
    let run = |seed| {
        let mut disk = disk(seed);
        disk.set_rates(Rates::none().with(Kind::ShortWrite, 300_000).with(Kind::NoSpace, 9000));
        let file = flushed(&mut disk, "a", 1, 1);
        for number in 0..100 {
            let _ = disk.write(file, number * 700, &[2; 1500]);
            if number % 30 == 29 {
                disk.crash();
            }
        }
        let seen = disk.content(file).to_vec();
        (seen, disk.counts().clone())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn a_flush_covers_what_was_written_before_it_began() {
    let (mut first, mut second) = (0, 0);
    for seed in 0..100 {
        let (mut disk, file) = disk_with(seed, 2);
        disk.write(file, 0, &[2; SECTOR_BYTES]).expect("room");
        let began = disk.moment(file);
        disk.write(file, SECTOR_BYTES, &[2; SECTOR_BYTES]).expect("room");
        disk.flush_since(file, began).expect("no fault");
        disk.crash();
        first += u32::from(is_all(sector(&disk, file, 0), 2));
        second += u32::from(is_all(sector(&disk, file, 1), 2));
    }
    assert_eq!(first, 100);
    assert!((20..80).contains(&second), "{second}");
}

#[test]
fn who_reads_past_the_cache_sees_what_is_stored() {
    let mut old = 0;
    for seed in 0..100 {
        let (mut disk, file) = disk_with(seed, 1);
        disk.write(file, 0, &[2; SECTOR_BYTES]).expect("room");
        fail_flush(&mut disk, file);
        disk.evict();
        let seen = sector(&disk, file, 0)[0];
        disk.crash();
        assert_eq!(sector(&disk, file, 0)[0], seen, "seed {seed}");
        old += u32::from(seen == 1);
    }
    assert!(old > 50, "{old}");
}
