//! Programs that are killed: a log in files, used by a process that ends without warning.
//!
//! [`victim`] is that process: a few threads write as fast as they can, and say on standard output
//! what was answered. [`rounds`] starts it, kills it at some moment, and looks at every key; with
//! [`Disk::Held`] the files are on a file system that then loses a random part of what was never
//! flushed. What a thread does is a function of seed, round and place, so that both know it.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use base::random::{Random, mix};
use log::{
    blocking::{Log, Options},
    engine::{Change, Mode, Put, Settings},
    error::Error,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};

use crate::{
    disk,
    fuse::Mount,
    promise::{Promises, Version, value},
    run::seeds_of_hash,
    together::Batches,
};

/// Threads of the victim; each has keys of its own.
const THREADS: u64 = 3;

/// Keys of each thread.
const KEYS: u64 = 16;

/// The most that a thread does at once.
const BATCH_MAX: u64 = 4;

/// Milliseconds that a victim lives once it has opened its log: from so many on, up to twice that.
/// Before its first write it makes segments, a dozen flushes.
const LIFE_MS_MIN: u32 = 40;

/// How much the log may take, in percent of what lives in it: it is compacted all the time.
const SPACE_TARGET_PERCENT: u32 = 110;

/// Bytes of the file system that holds what is not flushed.
const HELD_BYTES: usize = 1 << 30;

/// How a victim says how many records it has moved, and after how many places of a thread.
const MOVED: &str = "moved";
const MOVED_TOLD_EACH: u64 = 8;

/// Where the victim's files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// In an ordinary directory: what was written stays, flushed or not.
    Plain,
    /// On a file system that holds writes until they are flushed, and loses some of them.
    Held,
}

/// One key that a thread puts or removes.
struct Deed {
    key: u64,
    version: Version,
}

/// What a thread does at a place of its round: one deed, or a few at once.
fn deeds(seed: u64, round: u64, thread: u64, place: u64) -> Vec<Deed> {
    let number = (round << 40) | (thread << 32) | ((place + 1) * BATCH_MAX);
    let mut random = Random::new(seed ^ mix(number), 1);
    let count = match random.below(4) {
        0 => 2 + u64::from(random.below(BATCH_MAX as u32 - 1)),
        _ => 1,
    };
    (number..number + count).map(|number| Deed::new(seed, thread, number)).collect()
}

impl Deed {
    fn new(seed: u64, thread: u64, number: u64) -> Self {
        let mut random = Random::new(seed ^ mix(number), 0);
        let key = thread * KEYS + u64::from(random.below(KEYS as u32));
        let len = match random.below(10) {
            0 | 1 => None,
            2 => Some(4000 + random.below(12_000)),
            _ => Some(8 + random.below(500)),
        };
        let value_len = len.map(|len| len as usize);
        Self { key, version: Version { number, value_len, expires_ms: 0 } }
    }

    fn name(key: u64) -> [u8; 8] {
        key.to_le_bytes()
    }
}

/// When writes of a round are answered: every third one answers early.
fn mode(round: u64) -> Mode {
    if round % 3 == 2 { Mode::Async } else { Mode::Safe }
}

fn settings(mode: Mode) -> Settings {
    Settings {
        mode,
        chunk_bytes: 32 << 10,
        chunks: 8,
        at_risk_bytes_max: 64 << 10,
        at_risk_ms_max: 20,
        space_target_percent: SPACE_TARGET_PERCENT,
        ring: None,
    }
}

fn open(directory: &Path, mode: Mode) -> Result<Log<Keyed>, String> {
    let mut options = Options::new(directory, IndexKind::Hash { seeds: seeds_of_hash(1) }, 0);
    options.shape.segment_bytes = 128 << 10;
    options.shape.part_bytes = 4096;
    options.settings = settings(mode);
    let limits = IndexLimits { kmax_limit: 0, entries_max: 10 * THREADS * KEYS };
    let opened = Log::open(&options, LogId(1), limits, &mut |_| {});
    let (log, report) = opened.map_err(|error| format!("the log cannot be opened: {error}"))?;
    if !report.damages.is_empty() {
        return Err(format!("damage is named where there is none: {:?}", report.damages));
    }
    if !report.foreign.is_empty() {
        return Err(format!("files of the log are taken for others: {:?}", report.foreign));
    }
    Ok(log)
}

/// Writes until it is killed. Says "open", and then each thread and place that was answered.
///
/// # Errors
/// When the log refuses something.
pub fn victim(directory: &Path, seed: u64, round: u64) -> Result<(), String> {
    let log = open(directory, mode(round))?;
    println!("open");
    let work = |thread: u64| -> Result<(), String> {
        for place in 0.. {
            let deeds = deeds(seed, round, thread, place);
            write(&log, &deeds).map_err(|error| error.to_string())?;
            // One line is one write: nothing of it is on its way when the next begins.
            let said = io::stdout().write_all(format!("{thread} {place}\n").as_bytes());
            said.map_err(|error| error.to_string())?;
            if place % MOVED_TOLD_EACH == 0 {
                let told = format!("{MOVED} {}\n", log.counts().records_moved);
                io::stdout().write_all(told.as_bytes()).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })
}

/// Puts or removes a key, or several at once.
fn write(log: &Log<Keyed>, deeds: &[Deed]) -> Result<(), Error> {
    let parts = |deed: &Deed| {
        let len = deed.version.value_len;
        (deed.key.to_le_bytes(), len.map(|len| value(deed.version.number, len)))
    };
    let parts: Vec<([u8; 8], Option<Vec<u8>>)> = deeds.iter().map(parts).collect();
    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Put<'a> {
        Put { key, value, ..Put::default() }
    }
    if let [(key, value)] = &parts[..] {
        return match value {
            Some(value) => log.put(&put(key, value)),
            None => log.remove(key).map(drop),
        };
    }
    let changes = parts.iter().map(|(key, value)| match value {
        Some(value) => Change::Put(put(key, value)),
        None => Change::Remove(key),
    });
    log.write_batch(&Vec::from_iter(changes)).map(drop)
}

/// What victims have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Writes that were answered.
    pub answered: u64,
    /// Records that compaction has moved, at least.
    pub moved: u64,
}

/// Starts victims and kills them, one after the other, over the same files.
///
/// # Errors
/// When one of them fails by itself, or something that was promised is not there.
pub fn rounds(program: &Path, seed: u64, rounds: u64, disk: Disk) -> Result<Told, String> {
    let directory = Scratch::new(seed)?;
    let mount = match disk {
        Disk::Plain => None,
        Disk::Held => {
            let held = disk::Disk::new(seed, 1, HELD_BYTES);
            let mounted = Mount::new(&directory.0, held);
            Some(mounted.map_err(|error| format!("cannot mount: {error}"))?)
        }
    };
    let mut random = Random::new(seed, 5);
    let mut promises = Promises::default();
    let mut batches = Batches::default();
    let (mut told, mut lost_batches) = (Told::default(), 0);
    for round in 0..rounds {
        let life_ms = (LIFE_MS_MIN + random.below(LIFE_MS_MIN)).into();
        let (places, moved) = kill_one(program, &directory.0, (seed, round), life_ms)?;
        told.moved += moved;
        for thread in 0..THREADS {
            let places = places.get(&thread).copied().unwrap_or(0);
            told.answered += places;
            promise((&mut promises, &mut batches), (seed, round), thread, places);
        }
        if let Some(mount) = &mount {
            mount.cut_power();
        }
        lost_batches += check(&directory.0, &mut promises, &mut batches, round)
            .map_err(|what| format!("round {round}: {what}"))?;
    }
    if let Some(mount) = &mount {
        println!("{}  {:20} {lost_batches:>12}", mount.disk().counts(), "batches lost whole");
    }
    Ok(told)
}

/// Runs a victim for so long after it has opened its log. Says how many writes of each thread were
/// answered, and how many records it has moved.
fn kill_one(
    program: &Path,
    directory: &Path,
    (seed, round): (u64, u64),
    life_ms: u64,
) -> Result<(BTreeMap<u64, u64>, u64), String> {
    let mut command = Command::new(program);
    command.arg("victim").arg(directory).arg(seed.to_string()).arg(round.to_string());
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let output = child.stdout.take().ok_or("a victim without output")?;
    let mut lines = BufReader::new(output).lines();
    let first = lines.next().and_then(Result::ok);
    let heard = std::thread::spawn(move || {
        let (mut places, mut moved) = (BTreeMap::new(), 0_u64);
        for line in lines.map_while(Result::ok) {
            if let Some(count) = line.strip_prefix(MOVED) {
                moved = moved.max(count.trim().parse().unwrap_or(0));
                continue;
            }
            // The last line may be cut off; it was an answer all the same, and is not counted.
            let numbers: Vec<u64> = line.split(' ').filter_map(|it| it.parse().ok()).collect();
            if let [thread, place] = numbers[..]
                && place == places.get(&thread).copied().unwrap_or(0)
            {
                places.insert(thread, place + 1);
            }
        }
        (places, moved)
    });
    if first.as_deref() == Some("open") {
        std::thread::sleep(Duration::from_millis(life_ms));
    }
    let ended = child.try_wait().map_err(|error| error.to_string())?;
    child.kill().map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    let heard = heard.join().map_err(|_| "the listener has panicked")?;
    match ended {
        Some(status) => Err(format!("the victim ended by itself: {status}")),
        None => Ok(heard),
    }
}

/// What the answers of a thread promise; what comes after them may have happened.
fn promise(
    (promises, batches): (&mut Promises, &mut Batches),
    (seed, round): (u64, u64),
    thread: u64,
    places: u64,
) {
    for place in 0..=places {
        let deeds = deeds(seed, round, thread, place);
        for Deed { key, version } in &deeds {
            promises.publish(*key, *version);
        }
        if deeds.len() > 1 {
            batches.add(deeds.iter().map(|deed| (deed.key, deed.version.number)).collect());
        }
        for Deed { key, version } in deeds.iter().filter(|_| place < places) {
            match mode(round) {
                Mode::Safe => promises.promise(*key, version.number),
                Mode::Async => promises.acknowledge(*key, version.number, 0),
            }
        }
    }
}

/// Opens the log and looks at every key. Says how many batches are not there.
fn check(
    directory: &Path,
    promises: &mut Promises,
    batches: &mut Batches,
    round: u64,
) -> Result<u64, String> {
    let log = open(directory, Mode::Safe)?;
    let mut lost_bytes = 0;
    for key in 0..THREADS * KEYS {
        let stored = log.get(&Deed::name(key)).map_err(|error| format!("key {key}: {error}"))?;
        let seen = stored.map(|stored| stored.value);
        batches.note(promises, key, seen.as_deref(), (0, 0));
        let losses = promises.recover(key, seen.as_deref(), (0, 0));
        let losses = losses.map_err(|wrong| format!("{wrong:?}"))?;
        lost_bytes += losses.iter().filter_map(|loss| loss.version.value_len).sum::<usize>() as u64;
    }
    let at_risk = settings(Mode::Async).at_risk_bytes_max;
    if lost_bytes > at_risk {
        return Err(format!("{lost_bytes} bytes are lost, and {at_risk} may be"));
    }
    let lost = batches.check()?;
    // Every other time the log is stopped in order, else as the victim's.
    if round.is_multiple_of(2) {
        log.close().map_err(|error| error.to_string())?;
    }
    Ok(lost)
}

/// A directory that is removed with what is in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(seed: u64) -> Result<Self, String> {
        let name = format!("disk-sim-{}-{seed}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
