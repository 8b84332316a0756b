use std::{
    collections::BTreeMap,
    fs,
    sync::atomic::{AtomicU32, Ordering},
};

use super::*;
use crate::{format::manifest::Manifest, keys::MapKeys};

/// A directory that is removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kelvin-log-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options(directories: &[&Directory], mode: Mode) -> Options {
    let index = IndexKind::Hash { seeds: [1; 128] };
    let first = Options::new("", index, 0);
    Options {
        directories: directories.iter().map(|it| it.0.clone()).collect(),
        shape: Shape { segment_bytes: 1 << 20, part_bytes: 1 << 14, ..first.shape },
        settings: Settings {
            mode,
            chunk_bytes: 1 << 16,
            chunks: 8,
            at_risk_bytes_max: 1 << 18,
            at_risk_ms_max: 100,
            space_target_percent: 0,
            ring: None,
        },
        ..first
    }
}

fn open(options: &Options) -> Result<(Log<MapKeys>, Report), Error> {
    Log::open(options, LogId(9), |_: &Manifest| Ok(MapKeys::new(1 << 38)), &mut |_| {})
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Put<'a> {
    Put { key, value, ..Put::default() }
}

#[test]
fn what_is_stored_comes_back_in_both_modes_after_a_stop_and_from_two_directories() {
    for mode in [Mode::Safe, Mode::Async] {
        let (home, second) = (Directory::new(), Directory::new());
        let options = options(&[&home, &second], mode);
        let (log, _) = open(&options).unwrap();
        let mut model = BTreeMap::new();
        for at in 0..600u32 {
            let (key, value) = ((at % 500).to_le_bytes(), vec![at as u8; 5000]);
            log.put(&put(&key, &value)).unwrap();
            model.insert(key, value);
        }
        let large: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
        log.put(&put(b"large", &large)).unwrap();
        assert!(log.remove(&7u32.to_le_bytes()).unwrap());
        assert!(!log.remove(b"never").unwrap());
        model.remove(&7u32.to_le_bytes());
        let segments = |it: &Directory| {
            let names = fs::read_dir(&it.0).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().ends_with(".segment")).count()
        };
        assert!(segments(&home) >= 2 && segments(&second) >= 2);
        for round in 0..2 {
            if round == 1 {
                assert_eq!(log.counts().rewritten, 0);
            }
            for (key, value) in &model {
                assert_eq!(&log.get(key).unwrap().unwrap().value, value);
            }
        }
        log.close().unwrap();
        let (log, report) = open(&options).unwrap();
        assert_eq!((report.damages, report.run), (Vec::new(), 2));
        for (key, value) in &model {
            assert_eq!(&log.get(key).unwrap().unwrap().value, value);
        }
        assert_eq!(log.disk_reads(), model.len() as u64, "one read a get");
        let keys: Vec<&[u8]> = model.keys().map(|key| &key[..]).collect();
        let got = log.multi_get(&keys).unwrap().into_iter().flatten();
        assert!(got.map(|stored| stored.value).eq(model.values().cloned()));
        assert_eq!(log.disk_reads(), 2 * model.len() as u64, "one read a key");
        assert_eq!(log.get(b"large").unwrap().unwrap().value, large);
        assert_eq!(log.get(&7u32.to_le_bytes()).unwrap(), None);
        log.put(&put(b"new", b"here")).unwrap();
        let got = log.multi_get(&[b"never", b"new", b"large", &7u32.to_le_bytes(), keys[0]]);
        let got: Vec<_> = got.unwrap().into_iter().map(|it| it.map(|it| it.value)).collect();
        let first = model.values().next().cloned();
        assert_eq!(got, [None, Some(b"here".to_vec()), Some(large), None, first]);
    }
}

#[test]
fn writers_share_flushes_and_see_their_own_writes() {
    let home = Directory::new();
    let (log, _) = open(&options(&[&home], Mode::Safe)).unwrap();
    let (before, start) = (log.counts(), std::time::Instant::now());
    thread::scope(|scope| {
        for writer in 0..8u32 {
            let log = &log;
            scope.spawn(move || {
                for at in 0..50u32 {
                    let key = [writer.to_le_bytes(), at.to_le_bytes()].concat();
                    log.put(&put(&key, &key)).unwrap();
                    assert_eq!(log.get(&key).unwrap().unwrap().value, key);
                }
            });
        }
    });
    let after = log.counts();
    assert_eq!(after.records - before.records, 400);
    // Half of what somebody sleeps whom nobody calls.
    assert!(start.elapsed().as_secs() < 30, "somebody was not called");
    assert!(after.flushes - before.flushes < 400, "every record had a flush of its own");
    assert_eq!(after.rewritten, 0);
}

#[test]
fn a_batch_is_refused_as_a_whole_and_waits_once() {
    let home = Directory::new();
    let (log, _) = open(&options(&[&home], Mode::Safe)).unwrap();
    log.put(&put(b"c", b"3")).unwrap();
    let (a, b) = (Change::Put(put(b"a", b"1")), Change::Put(put(b"b", b"2")));
    let wrong = Change::Put(put(b"", b""));
    assert!(matches!(log.write_batch(&[a, wrong]), Err(Error::KeyBytes { .. })));
    assert_eq!(log.get(b"a").unwrap(), None);
    let flushes = log.counts().flushes;
    assert_eq!(log.write_batch(&[a, b, Change::Remove(b"c"), Change::Remove(b"d")]), Ok(1));
    assert_eq!(log.counts().flushes - flushes, 1);
    assert_eq!(log.get(b"b").unwrap().unwrap().value, b"2");
    assert_eq!(log.get(b"c").unwrap(), None);
}

/// A child that is forked has copies of all descriptors until it becomes another program.
#[test]
fn a_log_that_was_closed_is_free_although_copies_of_its_lock_are_open() {
    let home = Directory::new();
    let options = options(&[&home], Mode::Safe);
    let (log, _) = open(&options).unwrap();
    let copies: Vec<_> = log.shared.files.locks().map(|lock| lock.try_clone().unwrap()).collect();
    log.close().unwrap();
    assert_eq!(open(&options).err(), None, "the log is locked by a copy");
    drop(copies);

    let make = |_: &Manifest| Ok(MapKeys::new(1 << 38));
    let (log, _) = Log::inspect(&options, make, &mut |_| {}).unwrap();
    let copies: Vec<_> = log.shared.files.locks().map(|lock| lock.try_clone().unwrap()).collect();
    drop(log);
    assert_eq!(open(&options).err(), None, "the log is locked by a copy");
    drop(copies);
}

#[test]
fn a_directory_has_one_log_at_a_time() {
    let home = Directory::new();
    let options = options(&[&home], Mode::Safe);
    let (log, _) = open(&options).unwrap();
    let directory = home.0.clone();
    assert_eq!(open(&options).err(), Some(Error::InUse { directory }));
    drop(log);
    assert!(open(&options).is_ok());
    let missing = Options { directories: vec![home.0.join("missing")], ..options };
    let error = open(&missing).err().unwrap();
    assert!(matches!(&error, Error::Directory { failure: crate::plan::Failure::NotFound, .. }));
}

#[test]
fn foreign_files_are_left_alone_and_named() {
    let home = Directory::new();
    fs::write(home.0.join("notes.txt"), b"mine").unwrap();
    let options = options(&[&home], Mode::Safe);
    let (log, report) = open(&options).unwrap();
    assert_eq!(report.foreign, ["notes.txt of directory 0"]);
    log.put(&put(b"a", b"1")).unwrap();
    log.close().unwrap();
    assert_eq!(fs::read(home.0.join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn safe_is_confirmed_after_the_drain_and_expiries_are_kept() {
    let home = Directory::new();
    let clock = Clock::manual(1_000_000);
    let options = Options { clock: clock.clone(), ..options(&[&home], Mode::Async) };
    let (log, _) = open(&options).unwrap();
    let fading = Put { expiry_ms: 1_000_500, ..put(b"fading", b"1") };
    log.put(&fading).unwrap();
    log.set_mode(Mode::Safe).unwrap();
    assert!(log.counts().flushes >= 1);
    assert!(log.get(b"fading").unwrap().is_some());
    clock.advance_ms(500);
    assert_eq!(log.get(b"fading").unwrap(), None);
}

#[test]
fn async_keeps_its_age_without_another_call() {
    let home = Directory::new();
    let (log, _) = open(&options(&[&home], Mode::Async)).unwrap();
    // The threads behind have made its segments and sleep.
    thread::sleep(std::time::Duration::from_millis(300));
    for change in [Change::Put(put(b"a", b"1")), Change::Remove(b"a")] {
        let before = log.counts().flushes;
        log.write_batch(&[change]).unwrap();
        // At risk for 100 ms at most; a loaded machine gets as much again.
        let mut waited_ms = 0;
        while log.counts().flushes == before && waited_ms < 700 {
            thread::sleep(std::time::Duration::from_millis(10));
            waited_ms += 10;
        }
        assert!(waited_ms < 700, "what was acknowledged is not flushed in time");
    }
}

#[test]
fn the_first_put_finds_a_segment() {
    let home = Directory::new();
    let (log, _) = open(&options(&[&home], Mode::Async)).unwrap();
    let segments = || {
        let names = fs::read_dir(&home.0).unwrap().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".segment")).count()
    };
    assert!(!log.shared.lock().engine.awaits_segment());
    // Two of a reserve, and one for it.
    assert!(segments() >= 3, "{} segments", segments());
    log.put(&put(b"key", b"value")).unwrap();
    log.close().unwrap();
}

#[test]
fn what_moves_is_judged_by_the_clock_on_the_wall() {
    let home = Directory::new();
    let clock = Clock::manual(1_000_000);
    // It was ahead when the log was opened, and has been set right.
    clock.step_wall_to_ms(900_000);
    let mut options = options(&[&home], Mode::Async);
    options.settings.space_target_percent = 130;
    let options = Options { clock, ..options };
    let (log, _) = open(&options).unwrap();
    log.put(&Put { expiry_ms: 950_000, ..put(b"fading", b"1") }).unwrap();
    for at in 0..600u32 {
        log.put(&put(&(at % 16).to_le_bytes(), &[at as u8; 30_000])).unwrap();
    }
    let mut waited_ms = 0;
    while log.counts().records_moved == 0 && log.counts().expired_dropped == 0 {
        assert!(waited_ms < 30_000, "nothing is moved: {:?}", log.counts());
        thread::sleep(std::time::Duration::from_millis(10));
        waited_ms += 10;
    }
    assert_eq!(log.counts().expired_dropped, 0, "it has not expired");
    assert!(log.get(b"fading").unwrap().is_some(), "it has not expired");
}

#[test]
fn no_put_waits_for_moves_that_cannot_be() {
    let home = Directory::new();
    let (log, _) = open(&options(&[&home], Mode::Async)).unwrap();
    log.put(&put(b"key", b"value")).unwrap();
    log.flush().unwrap();
    // All threads sleep, for as long as nobody wakes them.
    thread::sleep(std::time::Duration::from_millis(500));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let start = std::time::Instant::now();
    thread::scope(|scope| {
        // As a put does that owes something while something is moved.
        scope.spawn(|| {
            let mut state = log.shared.lock();
            while !is_over.load(Ordering::Relaxed) {
                state = log.shared.wait_for_report(state);
            }
        });
        thread::sleep(std::time::Duration::from_millis(300));
        let mut state = log.shared.lock();
        is_over.store(true, Ordering::Relaxed);
        // What is moved is given up, because somebody reads there: nothing is reported.
        state.engine.note_end_of_move();
        log.shared.wake(&mut state);
    });
    assert!(start.elapsed().as_secs() < 15, "a put has waited until a thread looked again");
    log.close().unwrap();
}

/// Overwrites all keys. Then all threads sleep, for as long as nobody wakes them. Says how many
/// segments were freed.
fn overwrite(log: &Log<MapKeys>) -> u64 {
    for key in 0..600u32 {
        log.put(&put(&key.to_le_bytes(), &[1; 4000])).unwrap();
    }
    log.flush().unwrap();
    thread::sleep(std::time::Duration::from_millis(500));
    log.counts().segments_freed
}

fn expect_more_freed(log: &Log<MapKeys>, before: u64) {
    for _ in 0..2000 {
        if log.counts().segments_freed > before {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("what was kept is not freed");
}

#[test]
fn what_an_iteration_has_kept_is_freed_when_it_ends_though_nobody_writes() {
    let home = Directory::new();
    let (log, _) = open(&options(&[&home], Mode::Async)).unwrap();
    overwrite(&log);
    let iteration = log.iterate(Order::Insertion, None).unwrap();
    let before = overwrite(&log);
    drop(iteration);
    expect_more_freed(&log, before);
}

#[test]
fn what_a_copy_has_kept_is_freed_when_it_ends_though_nobody_writes() {
    let (home, to) = (Directory::new(), Directory::new());
    let (log, _) = open(&options(&[&home], Mode::Async)).unwrap();
    overwrite(&log);
    let mut before = None;
    log.backup(&to.0, &mut |_| before = before.or_else(|| Some(overwrite(&log))), &mut |_| {})
        .unwrap();
    expect_more_freed(&log, before.expect("something was copied"));
}

/// A log with a space target, and with 4,000 values.
fn filled(home: &Directory) -> Log<MapKeys> {
    let mut options = options(&[home], Mode::Async);
    options.settings.space_target_percent = 130;
    let (log, _) = open(&options).unwrap();
    for key in 0..4000u32 {
        log.put(&put(&key.to_le_bytes(), &[1; 700])).unwrap();
    }
    log.flush().unwrap();
    log
}

#[test]
fn while_one_thread_moves_records_no_other_does() {
    let home = Directory::new();
    let log = filled(&home);
    let is_sealed = || {
        thread::sleep(std::time::Duration::from_millis(10));
        !log.shared.lock().engine.is_sealing()
    };
    assert!((0..2000).any(|_| is_sealed()), "a segment is not sealed");
    // As if somebody was about to take the next turn of a move.
    log.shared.lock().in_turns += 1;
    // Who removes never waits for a move.
    for key in (0..4000u32).filter(|key| key % 4 > 0) {
        log.remove(&key.to_le_bytes()).unwrap();
    }
    log.flush().unwrap();
    thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(log.counts().records_moved, 0, "two move records");
    let mut state = log.shared.lock();
    state.in_turns -= 1;
    log.shared.wake(&mut state);
    drop(state);
    let is_moved = || {
        thread::sleep(std::time::Duration::from_millis(10));
        log.counts().segments_moved > 0
    };
    assert!((0..2000).any(|_| is_moved()), "nobody goes on");
    log.close().unwrap();
}

#[test]
fn whoever_writes_moves_records_while_others_read_them() {
    let home = Directory::new();
    let log = filled(&home);
    // As if somebody was about to take the next turn of a move: nobody else takes any.
    log.shared.lock().in_turns += 1;
    for key in (0..4000u32).filter(|key| key % 5 > 2) {
        log.remove(&key.to_le_bytes()).unwrap();
    }
    // So few that none waits for a move.
    let moves = |at: u32| {
        thread::sleep(std::time::Duration::from_millis(2));
        log.put(&put(&(at % 500 * 5).to_le_bytes(), &[2; 700])).unwrap();
        log.counts().records_moved > 0
    };
    assert!((0..1000).any(moves), "whoever writes moves nothing");
    log.shared.lock().in_turns -= 1;
    log.close().unwrap();
}

#[test]
fn who_waits_for_the_lock_is_let_in() {
    const ROUNDS: usize = 300;
    let home = Directory::new();
    let (log, _) = open(&options(&[&home], Mode::Async)).unwrap();
    let (shared, has_had) = (&log.shared, AtomicU32::new(0));
    let mut let_in = 0;
    thread::scope(|scope| {
        for _ in 0..ROUNDS {
            let state = shared.lock_to_report();
            let waits = scope.spawn(|| {
                let state = shared.lock();
                has_had.fetch_add(1, Ordering::SeqCst);
                drop(state);
            });
            while shared.waiting.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            let before = has_had.load(Ordering::SeqCst);
            let state = shared.let_in(state);
            let_in += has_had.load(Ordering::SeqCst) - before;
            drop(state);
            waits.join().unwrap();
        }
    });
    assert!(let_in > 0, "nobody was let in");
    log.close().unwrap();
}

#[test]
fn who_is_slowed_down_waits_for_time_and_not_for_the_device() {
    let directory = Directory::new();
    let mut options = options(&[&directory], Mode::Async);
    options.shape.segment_bytes = 4 << 20;
    options.settings = Settings { chunks: 24, at_risk_bytes_max: 1 << 20, ..options.settings };
    options.settings.at_risk_ms_max = 1_000_000;
    let make = |_: &Manifest| Ok(MapKeys::new(1 << 38));
    let (mut engine, files, _) = super::open(&options, LogId(9), make, &mut |_| {}).unwrap();
    while let Some(plan) = engine.poll(options.clock.now_ms()) {
        let outcome = files.perform(plan.action);
        engine.complete(plan.token, outcome);
    }
    // Nobody else is there to write and flush.
    let log = Log::of(engine, files, &options);
    for at in 0..950u32 {
        // 1 MiB may be lost.
        log.put(&put(&at.to_le_bytes(), &[1; 960])).unwrap();
    }
    assert_eq!(log.counts().flushes, 0, "a put waits for a flush");
}
