//! Records that had to go, for whoever has another place for them.
//!
//! Off unless the configuration has bytes for it. Then each eviction copies its record into a queue
//! whose memory is there from the start, and workers take it out. What finds no room is lost, and
//! so is what finds the queue taken for longer than a copy takes: who evicts holds locks that hits
//! wait for. Both are counted.
//!
//! Thread safety: shared by all; the queue's lock is a leaf. Whoever copies out of the queue makes
//! room for the copy before it takes the lock. Invariants:
//! 1. A record is in the queue before the lock of its bucket is released, so whoever misses it in
//!    the index, or stores its key anew, finds it here.
//! 2. Of what was stored before a flush nothing is found as soon as the flush has begun, and
//!    nothing is in the queue when it has ended.

use std::collections::VecDeque;

use base::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    lock, spin_loop,
};

use crate::{
    Meta,
    extent::show_linked,
    geometry::{INLINE_VALUE_MAX_BYTES, KEY_LEN_MAX},
    index::Found,
    memory::Memory,
    record::EPOCHS,
};

/// Records that may wait: one for so many bytes, within these bounds. They take some 100 bytes each
/// beside keys and values.
const BYTES_OF_PLACE: usize = 128;
const PLACES_MIN: usize = if cfg!(miri) { 64 } else { 1024 };
const PLACES_MAX: usize = 1 << 16;

/// Slots for each place, by which the notes of a key are found.
const SLOTS_OF_PLACE: usize = 2;

/// No number of a note.
const NONE: u64 = u64::MAX;

/// Times that an eviction asks for the queue: some microseconds, in which whoever has it copies a
/// record of usual length.
const ASKS_MAX: u32 = 256;

/// A record that waits, by its place in the order of evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    id: u64,
    hash: u64,
}

impl Victim {
    /// The hash of its key, as [`crate::Key::hash`] has it.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// What came of evictions, since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VictimCounts {
    /// Records that were put into the queue.
    pub noted: u64,
    /// Records that found no room there, or the queue taken.
    pub lost: u64,
    /// Records that were left out of it again, because their key was written or all was flushed.
    pub overtaken: u64,
    /// Records that were not put into it, as their values are too long for whoever takes them.
    pub long: u64,
    /// Records that wait now.
    pub waiting: u64,
}

#[derive(Debug, Default)]
struct Note {
    hash: u64,
    /// Flushes there had been when it was stored.
    flushes: u64,
    /// Where its key begins: bytes that have gone through the queue before it.
    begin: u64,
    key_len: usize,
    /// Of the key, and of the value behind it.
    bytes: usize,
    /// The note before it in its slot, as [`Queue::newest`] has them.
    older: u64,
    meta: Meta,
    /// It does not wait any more.
    is_gone: bool,
}

#[derive(Debug)]
struct Queue {
    notes: VecDeque<Note>,
    /// Keys and values of all of them, in order.
    bytes: VecDeque<u8>,
    /// The number of the note in front.
    first: u64,
    /// Bytes that have left.
    gone_bytes: u64,
    /// By slot: the number of the newest note, which may have left, or [`NONE`].
    newest: Box<[u64]>,
    noted: u64,
    overtaken: u64,
}

/// Bytes that a queue for so many takes, all told.
pub(crate) fn bytes_of(bytes_max: usize) -> usize {
    if bytes_max == 0 {
        return 0;
    }
    let of_slot = size_of::<u64>() + size_of::<AtomicU32>();
    bytes_max + places_of(bytes_max) * (size_of::<Note>() + SLOTS_OF_PLACE * of_slot)
}

fn places_of(bytes_max: usize) -> usize {
    (bytes_max / BYTES_OF_PLACE).clamp(PLACES_MIN, PLACES_MAX)
}

/// Records that wait, if any may.
#[derive(Debug, Default)]
pub(crate) struct Victims(Option<Box<Waiting>>);

#[derive(Debug)]
pub(crate) struct Waiting {
    /// Bytes of keys and values that may wait.
    bytes_max: usize,
    places: usize,
    /// By slot, how many wait: of most keys nobody has to take the lock to say that none does.
    counters: Box<[AtomicU32]>,
    waiting: AtomicUsize,
    /// Records that were not noted.
    lost: AtomicU64,
    long: AtomicU64,
    /// The longest value that whoever takes them has a place for.
    value_bytes_max: AtomicUsize,
    queue: Mutex<Queue>,
}

impl Victims {
    /// A queue for so many bytes; none for 0.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self((bytes_max > 0).then(|| Box::new(Waiting::new(bytes_max))))
    }

    #[inline]
    pub(crate) fn on(&self) -> Option<&Waiting> {
        self.0.as_deref()
    }

    /// The queue, if something of a key may wait. After a look at the index that has found nothing,
    /// or under the lock of its bucket.
    pub(crate) fn of(&self, hash: u64) -> Option<&Waiting> {
        self.on().filter(|it| it.counters[it.slot(hash)].load(Ordering::Acquire) > 0)
    }
}

impl Waiting {
    fn new(bytes_max: usize) -> Self {
        let places = places_of(bytes_max);
        let slots = places * SLOTS_OF_PLACE;
        // All of it is written to now, so that no eviction waits for a page.
        let mut bytes = VecDeque::with_capacity(bytes_max);
        bytes.resize(bytes_max, 0);
        bytes.clear();
        let mut notes = VecDeque::with_capacity(places);
        notes.resize_with(places, Note::default);
        notes.clear();
        let counters: Box<[AtomicU32]> = (0..slots).map(|_| AtomicU32::new(0)).collect();
        counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        let queue = Queue {
            notes,
            bytes,
            first: 0,
            gone_bytes: 0,
            newest: vec![NONE; slots].into(),
            noted: 0,
            overtaken: 0,
        };
        Self {
            bytes_max,
            places,
            counters,
            waiting: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            long: AtomicU64::new(0),
            value_bytes_max: AtomicUsize::new(usize::MAX),
            queue: Mutex::new(queue),
        }
    }

    fn slot(&self, hash: u64) -> usize {
        hash as usize % self.counters.len()
    }

    /// Longer values need not wait.
    pub(crate) fn limit_values(&self, bytes_max: usize) {
        self.value_bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// The queue, unless somebody has it for long.
    fn ask(&self) -> Option<MutexGuard<'_, Queue>> {
        for _ in 0..ASKS_MAX {
            if let Ok(queue) = self.queue.try_lock() {
                return Some(queue);
            }
            spin_loop();
        }
        None
    }

    /// Notes the record that an entry has led to, under the lock of its bucket.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, memory: &Memory, hash: u64, found: &Found<'_>) {
        let location = found.entry.location();
        let slot = memory.slot(location);
        let header = slot.header();
        let (meta, key_len) = (slot.meta(header, found.entry.fetched()), header.key_len());
        if meta.value_len as usize > self.value_bytes_max.load(Ordering::Relaxed) {
            self.long.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let inline_len = if header.in_parts() { 0 } else { header.value_len() };
        let mut room = [0; KEY_LEN_MAX + INLINE_VALUE_MAX_BYTES];
        let copied = &mut room[..key_len + inline_len];
        slot.copy_exactly(header.key_at(), &mut copied[..key_len]);
        slot.copy_exactly(header.value_at(), &mut copied[key_len..]);
        let bytes = key_len + meta.value_len as usize;
        let Some(mut queue) = self.ask() else { return self.lose() };
        // Whoever flushes begins the generation first, and then empties the queue.
        let flushes = memory.flushes.load(Ordering::Acquire);
        if header.epoch() != flushes % EPOCHS && !base::mutant!("victim_flushed") {
            return;
        }
        if queue.notes.len() >= self.places || queue.bytes.len() + bytes > self.bytes_max {
            return self.lose();
        }
        let begin = queue.gone_bytes + queue.bytes.len() as u64;
        queue.bytes.extend(&*copied);
        if header.in_parts() {
            show_linked(memory, location, |part| queue.bytes.extend(part));
        }
        let (at, number) = (self.slot(hash), queue.first + queue.notes.len() as u64);
        let older = std::mem::replace(&mut queue.newest[at], number);
        let note = Note { hash, flushes, begin, key_len, bytes, older, meta, is_gone: false };
        queue.notes.push_back(note);
        queue.noted += 1;
        self.waiting.fetch_add(1, Ordering::Release);
        self.counters[at].fetch_add(1, Ordering::Release);
    }

    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// The one that waits longest, or of those behind another one.
    pub(crate) fn next(&self, after: Option<Victim>) -> Option<Victim> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let queue = lock(&self.queue);
        let from = after.map_or(0, |it| (it.id + 1).saturating_sub(queue.first));
        let mut left = queue.notes.iter().enumerate().skip(usize::try_from(from).ok()?);
        let (at, note) = left.find(|(_, note)| !note.is_gone)?;
        Some(Victim { id: queue.first + at as u64, hash: note.hash })
    }

    /// Whether any waits.
    pub(crate) fn has_any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether one still waits.
    pub(crate) fn waits(&self, victim: Victim) -> bool {
        lock(&self.queue).find(victim).is_some()
    }

    /// Copies the key of one that still waits, and says its fields.
    pub(crate) fn key(&self, victim: Victim, key: &mut Vec<u8>) -> Option<Meta> {
        key.clear();
        key.reserve(KEY_LEN_MAX);
        let queue = lock(&self.queue);
        let note = queue.find(victim)?;
        queue.copy(note, 0..note.key_len, key);
        Some(note.meta)
    }

    /// Copies the value of one, if it still waits.
    pub(crate) fn value(&self, victim: Victim, meta: &Meta, value: &mut Vec<u8>) -> bool {
        value.clear();
        value.reserve(meta.value_len as usize);
        let queue = lock(&self.queue);
        let Some(note) = queue.find(victim) else { return false };
        queue.copy(note, note.key_len..note.bytes, value);
        true
    }

    /// Copies the value of what waits of a key, unless it was flushed.
    pub(crate) fn value_of(
        &self,
        memory: &Memory,
        (hash, key): (u64, &[u8]),
        value: &mut Vec<u8>,
    ) -> Option<Meta> {
        loop {
            let queue = lock(&self.queue);
            let is_it = |note: &Note| queue.has_key(note, key);
            let (_, note) = queue.newest_of(self.slot(hash), hash, is_it)?;
            // A flush that has begun is seen by who looks in what comes behind it.
            if note.flushes != memory.flushes.load(Ordering::Acquire) {
                return None;
            }
            let (meta, len) = (note.meta, note.bytes - note.key_len);
            value.clear();
            if len <= value.capacity() {
                queue.copy(note, note.key_len..note.bytes, value);
                return Some(meta);
            }
            drop(queue);
            value.reserve(len);
        }
    }

    /// One is dealt with, if it still waits.
    pub(crate) fn leave(&self, victim: Victim) {
        let mut queue = lock(&self.queue);
        if queue.find(victim).is_some() {
            let at = (victim.id - queue.first) as usize;
            self.let_go(&mut queue, at);
        }
    }

    /// Nothing of a key is to wait any more, but what has this token. What has its hash goes as
    /// well.
    pub(crate) fn forget(&self, hash: u64, kept: Option<u64>) {
        let mut queue = lock(&self.queue);
        let is_old = |note: &Note| Some(note.meta.token) != kept;
        while let Some((at, _)) = queue.newest_of(self.slot(hash), hash, is_old) {
            queue.overtaken += 1;
            self.let_go(&mut queue, at);
        }
    }

    /// Nothing at all is.
    pub(crate) fn clear(&self) {
        let mut queue = lock(&self.queue);
        let all = queue.notes.len();
        // From the end: what is in front leaves when it is gone.
        for at in (0..all).rev() {
            if !queue.notes[at].is_gone {
                queue.overtaken += 1;
                self.let_go(&mut queue, at);
            }
        }
    }

    /// A note does not wait any more; its bytes are given back when it is in front.
    fn let_go(&self, queue: &mut Queue, at: usize) {
        let note = &mut queue.notes[at];
        note.is_gone = true;
        self.counters[self.slot(note.hash)].fetch_sub(1, Ordering::Release);
        self.waiting.fetch_sub(1, Ordering::Release);
        while let Some(note) = queue.notes.front().filter(|note| note.is_gone) {
            let bytes = note.bytes;
            queue.bytes.drain(..bytes);
            queue.gone_bytes += bytes as u64;
            queue.notes.pop_front();
            queue.first += 1;
        }
    }

    pub(crate) fn counts(&self) -> VictimCounts {
        let queue = lock(&self.queue);
        VictimCounts {
            noted: queue.noted,
            lost: self.lost.load(Ordering::Relaxed),
            long: self.long.load(Ordering::Relaxed),
            overtaken: queue.overtaken,
            waiting: self.waiting.load(Ordering::Relaxed) as u64,
        }
    }
}

impl Queue {
    fn find(&self, victim: Victim) -> Option<&Note> {
        let at = usize::try_from(victim.id.checked_sub(self.first)?).ok()?;
        self.notes.get(at).filter(|note| !note.is_gone)
    }

    /// The newest of a hash that waits and is one of these, and where it is.
    fn newest_of(
        &self,
        slot: usize,
        hash: u64,
        is_it: impl Fn(&Note) -> bool,
    ) -> Option<(usize, &Note)> {
        let mut number = self.newest[slot];
        loop {
            // What has left, and none, has no place.
            let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
            let note = self.notes.get(at)?;
            if note.hash == hash && !note.is_gone && is_it(note) {
                return Some((at, note));
            }
            number = note.older;
        }
    }

    fn has_key(&self, note: &Note, key: &[u8]) -> bool {
        let begin = (note.begin - self.gone_bytes) as usize;
        note.key_len == key.len() && self.bytes.range(begin..begin + key.len()).eq(key)
    }

    /// Copies some of a note's bytes.
    fn copy(&self, note: &Note, range: std::ops::Range<usize>, to: &mut Vec<u8>) {
        let at = (note.begin - self.gone_bytes) as usize;
        let (begin, end) = (at + range.start, at + range.end);
        let (front, back) = self.bytes.as_slices();
        let middle = front.len();
        to.extend_from_slice(&front[begin.min(middle)..end.min(middle)]);
        to.extend_from_slice(&back[begin.max(middle) - middle..end.max(middle) - middle]);
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests;
