//! One directory of several fails, and stays so: the others serve on.

use std::collections::BTreeSet;

use super::*;

/// The one that fails; another one is the log's home.
const BAD: DirectoryId = DirectoryId(1);

const KEYS: u8 = 60;

/// How a directory fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Nothing can be changed in it.
    All,
    /// What was written cannot be flushed, if it is more than headers.
    Records,
}

/// A log of so many directories whose second one fails after some actions there.
fn failing(directories: u16, percent: u32, how: How, after: u32) -> Log {
    let mut disk = MemoryDisk::default();
    let (engine, report) = open_in(&mut disk, directories, shape(), Mode::Safe, map_keys).unwrap();
    let mut log = Log { disk, engine, report, now_ms: 0 };
    log.engine.settings.space_target_percent = percent;
    let (mut left, mut has_records) = (after, BTreeSet::new());
    log.disk.fail(move |action| {
        let file = match action {
            Action::Write { file, offset, .. } if file.directory == BAD => {
                if *offset >= 1024 {
                    has_records.insert(*file);
                }
                file
            }
            Action::Flush { file } | Action::Create { file } if file.directory == BAD => file,
            Action::Remove { file } | Action::Allocate { file, .. } if file.directory == BAD => {
                file
            }
            _ => return false,
        };
        left = left.saturating_sub(1);
        let is_flush = matches!(action, Action::Flush { .. });
        left == 0 && (how == How::All || is_flush && has_records.contains(file))
    });
    log
}

/// Writes every key and removes some, so that what is in all segments is soon out of date.
fn write_all(log: &mut Log, round: u8) -> Result<(), Error> {
    for key in 0..KEYS {
        if key % 7 == round % 7 {
            while log.engine.remove(&[key], log.now_ms)? == Removed::Wait {
                if !log.step() {
                    log.now_ms += 200;
                }
            }
        } else if !key.is_multiple_of(5) || round == 0 {
            log.put(&[key], &[key + round; 600])?;
        }
        log.settle();
        log.now_ms += 10;
    }
    Ok(())
}

/// What a key is after so many rounds.
fn expected(key: u8, rounds: u8) -> Option<Vec<u8>> {
    let is_written = |round: &u8| key % 7 == round % 7 || !key.is_multiple_of(5) || *round == 0;
    let last = (0..rounds).rev().find(is_written)?;
    (key % 7 != last % 7).then(|| vec![key + last; 600])
}

#[test]
fn with_an_empty_directory_in_its_place_what_is_missing_is_named_and_the_rest_is_served() {
    let mut log = failing(2, 130, How::All, 90);
    for round in 0..4 {
        assert_eq!(write_all(&mut log, round), Ok(()));
    }
    log.disk.fault = None;
    log.disk.files.retain(|file, _| file.directory != BAD);
    let opened = open_in(&mut log.disk, 2, shape(), Mode::Safe, map_keys);
    let (engine, report) = opened.expect("an empty directory keeps the log shut");
    let missing = report.damages.iter().filter(|it| it.what == Wrong::Missing).count();
    assert!(missing > 0, "nothing is missed");
    let mut log = Log { disk: log.disk, engine, report, now_ms: 0 };
    let mut newest = 0;
    for key in 0..KEYS {
        let value = log.value(&[key]);
        let is_known = (0..=4).any(|rounds| value == expected(key, rounds));
        assert!(is_known, "key {key} has what it never had");
        newest += u8::from(value == expected(key, 4));
    }
    assert!(newest > KEYS / 2, "{newest} keys are left");
    assert_eq!(write_all(&mut log, 4), Ok(()), "it takes no writes");
}

#[test]
fn the_others_serve_on_whenever_one_fails_and_nothing_is_lost() {
    const ROUNDS: u8 = 9;
    for (directories, percent, how, after) in (0..400).flat_map(|after| {
        let of =
            move |how| [(2, 0), (2, 130), (3, 130)].map(|(n, percent)| (n, percent, how, after));
        of(How::All).into_iter().chain(of(How::Records))
    }) {
        let which = format!("{directories} directories, {percent}, {how:?} after {after}");
        let mut log = failing(directories, percent, how, after);
        for round in 0..ROUNDS {
            let written = write_all(&mut log, round);
            assert_eq!(written, Ok(()), "{which}: one directory ends writes in round {round}");
        }
        assert!(log.engine.failures <= 1, "{which}: it is written to again");
        for key in 0..KEYS {
            assert_eq!(log.value(&[key]), expected(key, ROUNDS), "{which}: key {key}");
        }
        assert_eq!(log.engine.close(&mut log.disk, log.now_ms), Ok(()), "{which}");
        log.disk.fault = None;
        let (engine, report) =
            open_in(&mut log.disk, directories, shape(), Mode::Safe, map_keys).unwrap();
        let mut log = Log { disk: log.disk, engine, report, now_ms: 0 };
        for key in 0..KEYS {
            assert_eq!(log.value(&[key]), expected(key, ROUNDS), "{which}: key {key}, opened anew");
        }
    }
}
