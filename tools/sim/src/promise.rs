//! What a store has promised: per key, the versions that a crash may still bring back.
//!
//! Each put and each remove is a version. A key's history lists its versions in the order in which
//! they took effect, from the oldest that may still be seen after a crash. A promise cuts that
//! list: once a version's flush was answered for, or a reply that rests on it was sent, nothing
//! before it may ever be seen again. Live reads may show what was the newest version at some moment
//! between question and answer; after a crash, any version of the history will do, and history
//! begins anew with it.

use std::collections::BTreeMap;

/// The number of a version; no two versions of a run share one. 0 is "never written".
pub type Number = u64;

/// What a version leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Which put or remove it was.
    pub number: Number,
    /// The length of its value; none, when it removed the key.
    pub value_len: Option<usize>,
    /// When it expires, in the store's own time; 0 is never.
    pub expires_ms: u64,
}

impl Version {
    /// The key was never written.
    pub const NEVER: Self = Self { number: 0, value_len: None, expires_ms: 0 };

    /// Whether a read at this time finds nothing.
    #[must_use]
    pub fn is_absent(&self, now_ms: u64) -> bool {
        self.value_len.is_none() || self.expires_ms != 0 && self.expires_ms <= now_ms
    }

    /// Whether a read at this time that found `seen` may have found this version.
    #[must_use]
    pub fn looks_like(&self, seen: Option<&[u8]>, now_ms: u64) -> bool {
        match seen {
            None => self.is_absent(now_ms),
            Some(bytes) => {
                !self.is_absent(now_ms)
                    && self.value_len == Some(bytes.len())
                    && is_value(self.number, bytes)
            }
        }
    }

    /// Whether a read from the one time to the other that found `seen` may have found this version.
    #[must_use]
    pub fn may_look_like(&self, seen: Option<&[u8]>, (asked_ms, now_ms): (u64, u64)) -> bool {
        self.looks_like(seen, now_ms) || self.looks_like(seen, asked_ms)
    }
}

/// The value of a version: its number, and then what follows from number and place.
#[must_use]
pub fn value(number: Number, len: usize) -> Vec<u8> {
    let words = len.div_ceil(8) as u64;
    let mut bytes: Vec<u8> = (0..words).flat_map(|place| word(number, place)).collect();
    bytes.truncate(len);
    bytes
}

fn word(number: Number, place: u64) -> [u8; 8] {
    let scattered = number.wrapping_add(place).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place;
    if place == 0 { number.to_le_bytes() } else { scattered.to_le_bytes() }
}

fn is_value(number: Number, bytes: &[u8]) -> bool {
    bytes.chunks(8).zip(0..).all(|(chunk, place)| chunk == &word(number, place)[..chunk.len()])
}

/// A version that was acknowledged and is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which one.
    pub version: Version,
    /// When it was acknowledged.
    pub acknowledged_ms: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    version: Version,
    acknowledged_ms: Option<u64>,
    /// After a crash it was not seen: nobody knows whether because of a value that had expired.
    is_either: bool,
}

impl Entry {
    fn new(version: Version) -> Self {
        Self { version, acknowledged_ms: None, is_either: false }
    }
}

/// The histories of all keys.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    histories: BTreeMap<u64, Vec<Entry>>,
    /// What reads may have seen, by key: every version since the last crash, promised over or not.
    seen: BTreeMap<u64, Vec<Version>>,
    /// Of a key that could not be read after the last crash: how many of these, from the first on,
    /// it may have.
    unsure: BTreeMap<u64, usize>,
}

impl Promises {
    /// The keys that were ever written.
    pub fn keys(&self) -> impl Iterator<Item = u64> {
        self.histories.keys().copied()
    }

    /// A version takes effect.
    pub fn publish(&mut self, key: u64, version: Version) {
        let entry = Entry::new(version);
        let history = self.history(key);
        let before = history.last().map_or(Version::NEVER, |entry| entry.version);
        history.push(entry);
        self.seen.entry(key).or_insert_with(|| vec![before]).push(version);
    }

    /// The oldest version that a crash may bring back: what was promised last.
    #[must_use]
    pub fn oldest(&self, key: u64) -> Option<Version> {
        let oldest = self.histories.get(&key).and_then(|history| history.first());
        oldest.map(|entry| entry.version)
    }

    /// The versions that a crash may bring back, oldest first.
    pub fn versions(&self, key: u64) -> impl Iterator<Item = Version> {
        self.histories.get(&key).into_iter().flatten().map(|entry| entry.version)
    }

    /// What a read shows that begins and ends now.
    #[must_use]
    pub fn newest(&self, key: u64) -> Version {
        let newest = self.histories.get(&key).and_then(|history| history.last());
        newest.map_or(Version::NEVER, |entry| entry.version)
    }

    /// The write was answered as done, but not yet as safe from crashes.
    pub fn acknowledge(&mut self, key: u64, number: Number, now_ms: u64) {
        let mut history = self.history(key).iter_mut();
        if let Some(entry) = history.find(|entry| entry.version.number == number) {
            entry.acknowledged_ms = Some(now_ms);
        }
    }

    /// From now on no crash may bring back anything older than this version of the key.
    pub fn promise(&mut self, key: u64, number: Number) {
        let history = self.history(key);
        if let Some(at) = history.iter().position(|entry| entry.version.number == number) {
            history.drain(..at);
        }
    }

    /// Forgets that writes were answered which no promise covers: nobody counts their loss.
    pub fn forget_acknowledgements(&mut self) {
        for entry in self.histories.values_mut().flatten() {
            entry.acknowledged_ms = None;
        }
    }

    /// The version that a reply showed which was asked for when `since` was the newest, between the
    /// two times; the oldest one, when several look alike.
    ///
    /// # Errors
    /// When no version from `since` on looks like it: the store showed what it may not.
    pub fn read(
        &self,
        key: u64,
        since: Number,
        seen: Option<&[u8]>,
        times: (u64, u64),
    ) -> Result<Version, Wrong> {
        let newest = [self.newest(key)];
        let versions = self.seen.get(&key).map_or(&newest[..], Vec::as_slice);
        let from = versions.iter().position(|version| version.number == since).unwrap_or(0);
        let from = if from < self.unsure.get(&key).copied().unwrap_or(0) { 0 } else { from };
        let mut found = versions[from..].iter();
        let found = found.find(|version| version.may_look_like(seen, times));
        found.copied().ok_or_else(|| self.wrong(key, seen))
    }

    /// Whether a crash may bring that back.
    #[must_use]
    pub fn allows(&self, key: u64, seen: Option<&[u8]>, times: (u64, u64)) -> bool {
        let fits = |version: &Version| version.may_look_like(seen, times);
        match self.histories.get(&key) {
            Some(history) => history.iter().any(|entry| fits(&entry.version)),
            None => fits(&Version::NEVER),
        }
    }

    /// What a store shows of a key after a crash, in a read from the one time to the other. History
    /// begins anew with it.
    ///
    /// # Errors
    /// When a crash may not bring that back.
    pub fn recover(
        &mut self,
        key: u64,
        seen: Option<&[u8]>,
        times: (u64, u64),
    ) -> Result<Vec<Loss>, Wrong> {
        let history = self.history(key);
        let fits = |entry: &Entry| entry.version.may_look_like(seen, times);
        let found = history.iter().rposition(fits);
        let Some(found) = found else { return Err(self.wrong(key, seen)) };
        let lost = history[found + 1..].iter().filter_map(|entry| {
            let acknowledged_ms = entry.acknowledged_ms?;
            Some(Loss { version: entry.version, acknowledged_ms })
        });
        let lost = lost.collect();
        let is_either = is_either(history, &history[found], fits);
        let mut kept = history[found];
        (kept.acknowledged_ms, kept.is_either) = (None, is_either);
        *history = vec![kept];
        self.forget_seen(key);
        Ok(lost)
    }

    /// As far as it can be read after a crash a key shows what its newest version does: when that
    /// is nothing, another one may do so as well.
    pub fn recover_in_part(&mut self, key: u64, seen: Option<&[u8]>, times: (u64, u64)) {
        let history = self.history(key);
        let fits = |entry: &Entry| entry.version.may_look_like(seen, times);
        let is_either = history.last().is_some_and(|newest| is_either(history, newest, fits));
        history.last_mut().into_iter().for_each(|newest| newest.is_either = is_either);
    }

    /// After a crash a key cannot be read, and the store says why: it is as any version of its
    /// history.
    pub fn is_unreadable(&mut self, key: u64) {
        let versions: Vec<Version> = self.history(key).iter().map(|entry| entry.version).collect();
        self.unsure.insert(key, versions.len());
        self.seen.insert(key, versions);
    }

    /// Whether the newest version of a key is known: it could be read after the last crash.
    #[must_use]
    pub fn is_sure(&self, key: u64) -> bool {
        !self.unsure.contains_key(&key)
    }

    /// Whether the newest version of a key is known. It is not when the key could not be read after
    /// the last crash, in which that version may have been lost, and was not written since: then a
    /// flush of all there is promises nothing of it.
    #[must_use]
    pub fn knows_newest(&self, key: u64) -> bool {
        let Some(unsure) = self.unsure.get(&key) else { return true };
        self.seen.get(&key).is_some_and(|seen| seen.len() > *unsure)
    }

    /// Whether a key is not there, and may have a value that has expired or none.
    #[must_use]
    pub fn is_either(&self, key: u64) -> bool {
        let newest = self.histories.get(&key).and_then(|history| history.last());
        newest.is_some_and(|entry| entry.is_either)
    }

    /// The store has named the loss of this key: it may show nothing of it.
    pub fn forget(&mut self, key: u64) {
        self.histories.remove(&key);
        self.forget_seen(key);
    }

    /// The store has named a loss, and the key is what it once was.
    pub fn restart(&mut self, key: u64, version: Version) {
        self.histories.insert(key, vec![Entry::new(version)]);
        self.forget_seen(key);
    }

    fn forget_seen(&mut self, key: u64) {
        self.seen.remove(&key);
        self.unsure.remove(&key);
    }

    fn history(&mut self, key: u64) -> &mut Vec<Entry> {
        let never = || vec![Entry::new(Version::NEVER)];
        self.histories.entry(key).or_insert_with(never)
    }

    fn wrong(&self, key: u64, seen: Option<&[u8]>) -> Wrong {
        let history = self.histories.get(&key).map_or(&[][..], Vec::as_slice);
        let seen = seen.map(|bytes| {
            let mut number = [0; 8];
            number[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
            (Number::from_le_bytes(number), bytes.len())
        });
        Wrong { key, seen, allowed: history.iter().map(|entry| entry.version).collect() }
    }
}

/// Whether of those that fit some have a value, which has expired, and others have none.
fn is_either(history: &[Entry], found: &Entry, fits: impl Fn(&Entry) -> bool) -> bool {
    let has_value = found.version.value_len.is_some();
    let mut found_all = history.iter().filter(|entry| fits(entry));
    found_all.any(|entry| entry.is_either || entry.version.value_len.is_some() != has_value)
}

/// A key shows what it may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which key.
    pub key: u64,
    /// The number that stands in the value, and its length; none when the key was absent.
    pub seen: Option<(Number, usize)>,
    /// What it might have shown, oldest first.
    pub allowed: Vec<Version>,
}

#[cfg(test)]
mod tests;
