//! Most of the data: keys that memory hardly ever has. One connection overwrites them all the time,
//! so the log has to be compacted; everybody reads them between other commands.
//!
//! A key has one writer, so what a reader may see needs no search: no version before the last that
//! anybody was told of when the reader asked, and none that was not asked for when it was answered.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::harness::{conn::Conn, log_directory::set, repeated, rng::Rng};

/// A hundred times the memory for records, which is 2 MiB.
const KEYS: usize = 26_500;
const VALUE_BYTES: usize = 7_900;

/// Sets that are sent together.
const TOGETHER: usize = 100;
/// The same while others wait for the disk, too.
const OVERWRITTEN: usize = 32;

/// Keys that are written to take the place of all that memory has: twice as much as it has room
/// for. Not those that are overwritten all the time.
const CROWD: usize = 530;
/// Of these so many are read where the others are flushed: the first to leave memory.
const READ: usize = 64;

/// A key's newest version that was asked for, that anybody was told of, and the last that was
/// flushed.
struct Versions {
    asked: AtomicU32,
    told: AtomicU32,
    flushed: AtomicU32,
}

pub(crate) struct Cold {
    keys: Vec<Versions>,
    /// Keys may be lost.
    pub(crate) loses: bool,
    /// All of them are flushed now and then.
    is_flushed: bool,
    /// Of so many keys one is overwritten all the time.
    overwritten_of: usize,
    /// How many were not there.
    pub(crate) missed: AtomicU32,
}

impl Cold {
    /// Keys that a log has to keep. Only every other is overwritten, so that what is dead lies
    /// together where some keys are hot.
    pub(crate) fn new() -> Self {
        let zero = || AtomicU32::new(0);
        let new = || Versions { asked: zero(), told: zero(), flushed: zero() };
        let keys = (0..KEYS).map(|_| new()).collect();
        let missed = AtomicU32::new(0);
        Self { keys, loses: false, is_flushed: false, overwritten_of: 2, missed }
    }

    /// Keys that a ring drops. All are overwritten: those that are not would all be gone once the
    /// ring has come round.
    pub(crate) fn that_may_go() -> Self {
        Self { loses: true, overwritten_of: 1, ..Self::new() }
    }

    /// The same where all are flushed now and then, and every other is left to [`Cold::crowd`].
    pub(crate) fn that_is_flushed() -> Self {
        Self { loses: true, is_flushed: true, ..Self::new() }
    }

    /// One of the keys, and the least version that a get of it may show from now on.
    pub(crate) fn pick(&self, rng: &mut Rng) -> (usize, u32) {
        let key = if self.is_flushed { crowd(rng.below(READ)) } else { rng.below(KEYS) };
        let Versions { told, flushed, .. } = &self.keys[key];
        (key, told.load(Ordering::SeqCst).max(flushed.load(Ordering::SeqCst) + 1))
    }

    /// What a flush that is asked for now takes, of each key.
    pub(crate) fn told(&self) -> Vec<u32> {
        self.keys.iter().map(|it| it.told.load(Ordering::SeqCst)).collect()
    }

    /// It was answered.
    pub(crate) fn flushed(&self, told: &[u32]) {
        for (key, told) in self.keys.iter().zip(told) {
            key.flushed.fetch_max(*told, Ordering::SeqCst);
        }
    }

    /// Takes all of the memory.
    pub(crate) fn crowd(&self, conn: &mut Conn) {
        for first in (0..CROWD).step_by(TOGETHER) {
            self.write(conn, (first..CROWD.min(first + TOGETHER)).map(crowd));
        }
    }

    /// Looks at what a get has shown.
    pub(crate) fn check(&self, (key, least): (usize, u32), value: Option<&[u8]>) {
        let name = name(key);
        let Some(value) = value else {
            assert!(self.loses, "{name} is lost");
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let text = String::from_utf8_lossy(&value[..value.len().min(40)]);
        let version = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        let version: u32 = version.unwrap_or_else(|| panic!("{name} is damaged: {text}"));
        assert!(value == bytes(key, version), "{name} is damaged: {text}");
        let most = self.keys[key].asked.load(Ordering::SeqCst);
        assert!((least..=most).contains(&version), "{name} is stale: {version} before {least}");
        self.keys[key].told.fetch_max(version, Ordering::SeqCst);
    }

    /// Stores all keys, with a pause after some of them.
    pub(crate) fn fill(&self, conn: &mut Conn, pause: impl Fn(&mut Conn)) {
        for first in (0..KEYS).step_by(TOGETHER) {
            self.write(conn, first..KEYS.min(first + TOGETHER));
            pause(conn);
        }
    }

    /// Overwrites until told to stop.
    pub(crate) fn churn(&self, conn: &mut Conn, seed: u64, stop: &AtomicBool) {
        let mut rng = Rng::new(seed);
        while !stop.load(Ordering::Relaxed) {
            self.overwrite(conn, &mut rng);
        }
    }

    /// Overwrites some of the keys that are overwritten all the time.
    pub(crate) fn overwrite(&self, conn: &mut Conn, rng: &mut Rng) {
        let step = self.overwritten_of;
        let keys = (0..OVERWRITTEN).map(|_| step * rng.below(KEYS / step));
        self.write(conn, keys);
    }

    fn write(&self, conn: &mut Conn, keys: impl IntoIterator<Item = usize>) {
        let mut request = Vec::new();
        let mut asked = Vec::new();
        for key in keys {
            let version = self.keys[key].asked.fetch_add(1, Ordering::SeqCst) + 1;
            request.extend(set(&name(key), 0, &bytes(key, version)));
            asked.push((key, version));
        }
        let expected = b"STORED\r\n".repeat(asked.len());
        let (reply, _) = conn.exchange(&[&request], |got| got.len() >= expected.len());
        assert!(reply == expected, "to sets: {}", reply.escape_ascii());
        for (key, version) in asked {
            self.keys[key].told.fetch_max(version, Ordering::SeqCst);
        }
    }
}

fn crowd(number: usize) -> usize {
    2 * number + 1
}

pub(crate) fn name(key: usize) -> String {
    format!("cold-{key}")
}

fn bytes(key: usize, version: u32) -> Vec<u8> {
    let text = format!("{} {version} ", name(key));
    repeated(&text, VALUE_BYTES + key % 400)
}
