//! One thread of a scenario: what it does, and what it knows must be true.

use std::sync::atomic::Ordering;

use base::sync::Arc;

use super::{Known, Name, Random, SHARED, Scenario};
use crate::{
    Cache, Change, Digits, Edit, Get, INLINE_VALUE_MAX_BYTES, Meta, Pinned, Put, StoreError, Value,
    View, Worker, geometry::WORD_BYTES, index::Merge,
};

/// One thread.
pub(super) struct Player {
    pub(super) worker: Worker,
    known: Arc<Known>,
    scenario: Scenario,
    number: u64,
    random: Random,
    /// By own key: the stamp and length it was last set to.
    own: Vec<Option<(u64, usize)>>,
    /// The last number given to a value.
    stamp: u64,
    /// By shared key: the largest token seen.
    seen: [u64; SHARED as usize],
    pins: Vec<(Pinned, u64)>,
}

/// The stamp of a value: which key it was written for, and its number there.
fn stamp(key: u64, number: u64) -> u64 {
    key << 32 | number
}

fn fill(stamp: u64, len: usize) -> Vec<u8> {
    let mut value = stamp.to_le_bytes().repeat(len.div_ceil(WORD_BYTES));
    value.truncate(len);
    value
}

/// Whether all of a value carries one stamp, and which.
fn stamp_of(value: &[u8]) -> u64 {
    let mut bytes = [0; WORD_BYTES];
    bytes.copy_from_slice(&value[..WORD_BYTES]);
    let stamp = u64::from_le_bytes(bytes);
    assert!(value == fill(stamp, value.len()), "torn read: {value:x?}");
    stamp
}

impl Player {
    pub(super) fn new(
        cache: &Cache,
        known: &Arc<Known>,
        scenario: Scenario,
        number: u64,
        seed: u64,
    ) -> Self {
        Self {
            worker: cache.worker().expect("a place"),
            known: Arc::clone(known),
            scenario,
            number,
            random: Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1),
            own: vec![None; scenario.own as usize],
            stamp: 0,
            seen: [0; SHARED as usize],
            pins: Vec::new(),
        }
    }

    /// Names of keys: thread and number. Prefilled and shared keys belong to no thread.
    fn own_key(&self, owner: u64, number: u64) -> u64 {
        1 + owner * self.scenario.own + number
    }

    fn prefilled_key(number: u64) -> u64 {
        1000 + number
    }

    fn shared_key(number: u64) -> u64 {
        2002 + number
    }

    pub(super) fn prefill(&mut self) {
        for number in 0..self.scenario.prefilled {
            let key = Self::prefilled_key(number);
            let put = fill(stamp(key, 0), 8);
            self.set(key, &put).expect("memory");
        }
    }

    pub(super) fn play(&mut self) {
        for _ in 0..self.scenario.steps {
            self.step();
            self.worker.quiesce();
        }
        self.pins.clear();
    }

    fn step(&mut self) {
        match self.random.below(32) {
            0..8 => self.set_own(),
            8..10 => self.remove_own(),
            10..12 => self.append_own(),
            12 => self.touch_own(),
            13..18 => self.read_own(),
            18..20 => self.read_any(),
            20..22 => self.set_shared(),
            22..25 => self.read_shared(),
            25..27 => self.increment(),
            27..29 => self.add_and_remove(),
            29 => self.read_prefilled(),
            30 => self.drop_pin(),
            _ => self.maintain(),
        }
    }

    fn set(&mut self, key: u64, value: &[u8]) -> Result<u64, StoreError> {
        let name = Name::of(key);
        self.worker.set(self.worker.key(name.bytes()), &Put::new(Value::Bytes(value)))
    }

    /// Stamp, length and fields of what a key holds.
    fn get(&mut self, key: u64) -> Option<(u64, usize, Meta)> {
        let name = Name::of(key);
        let mut value = Vec::new();
        let (stamp, len, meta) = match self.worker.get(self.worker.key(name.bytes()), &mut value) {
            Get::Miss => return None,
            // Somebody holds a quarter of memory: nothing is known of the key.
            Get::Busy => return None,
            Get::Hit(meta) => (stamp_of(&value), value.len(), meta),
            Get::Large(pinned) => {
                let value: Vec<u8> = pinned.slices().flatten().copied().collect();
                let (stamp, meta) = (stamp_of(&value), *pinned.meta());
                if self.pins.len() < 2 && self.random.below(2) == 0 {
                    self.pins.push((pinned, stamp));
                }
                (stamp, value.len(), meta)
            }
        };
        assert_eq!(meta.value_len as usize, len, "length of the value of {key}");
        assert_eq!(stamp >> 32, key, "another key's value");
        Some((stamp, len, meta))
    }

    fn set_own(&mut self) {
        let number = self.random.below(self.scenario.own);
        let key = self.own_key(self.number, number);
        self.stamp += 1;
        let stamp = stamp(key, self.stamp);
        let inline = self.random.below(4) > 0;
        let max = if inline { INLINE_VALUE_MAX_BYTES as u64 } else { self.scenario.value_max };
        let len = (WORD_BYTES as u64 + self.random.below(max - 7)) as usize;
        if self.set(key, &fill(stamp, len)).is_ok() {
            self.own[number as usize] = Some((stamp, len));
        } else {
            assert!(self.scenario.lossy, "no memory");
        }
    }

    fn remove_own(&mut self) {
        let number = self.random.below(self.scenario.own);
        let name = Name::of(self.own_key(self.number, number));
        let known = self.own[number as usize].take().is_some();
        let mut found = false;
        let removed = self.worker.update(self.worker.key(name.bytes()), |view| {
            found = view.is_some();
            Change::Remove.into()
        });
        removed.expect("a removal needs no memory");
        assert!(found == known || (known && self.scenario.lossy), "found {found}, known {known}");
    }

    fn append_own(&mut self) {
        let number = self.random.below(self.scenario.own);
        let name = Name::of(self.own_key(self.number, number));
        let Some((stamp, len)) = self.own[number as usize] else { return };
        let more = (1 + self.random.below(40) as usize).min(self.scenario.value_max as usize - len);
        let more = fill(stamp, len + more).split_off(len);
        let mut found = false;
        let appended = self.worker.update(self.worker.key(name.bytes()), |view| {
            found = view.is_some();
            match view {
                Some(_) => Change::Put(Put::new(Value::Append(&more))).into(),
                None => Change::Keep.into(),
            }
        });
        assert!(found || self.scenario.lossy, "present key missed");
        match appended {
            Ok(Some(_)) => self.own[number as usize] = Some((stamp, len + more.len())),
            Ok(None) => self.own[number as usize] = None,
            Err(error) => assert!(self.scenario.lossy, "{error}"),
        }
    }

    fn touch_own(&mut self) {
        let number = self.random.below(self.scenario.own);
        let name = Name::of(self.own_key(self.number, number));
        let expiry_ms = Some(self.random.below(2) * 2_000_000);
        let edit = Edit { expiry_ms, ..Edit::default() };
        let touched = self.worker.update(self.worker.key(name.bytes()), |view| match view {
            Some(_) => Change::Edit(edit).into(),
            None => Change::Keep.into(),
        });
        assert!(touched.is_ok() || self.scenario.lossy, "{touched:?}");
    }

    fn read_own(&mut self) {
        let number = self.random.below(self.scenario.own);
        let found = self.get(self.own_key(self.number, number));
        let expected = self.own[number as usize];
        match found {
            Some((stamp, len, _)) => assert_eq!(Some((stamp, len)), expected, "an own key"),
            None if expected.is_none() || self.scenario.lossy => {}
            // Large values are refused while much is pinned.
            None if expected.is_some_and(|(_, len)| len > INLINE_VALUE_MAX_BYTES) => {}
            None => panic!("present key missed: {expected:x?}"),
        }
    }

    fn read_any(&mut self) {
        let owner = self.random.below(self.scenario.threads);
        let number = self.random.below(self.scenario.own);
        self.get(self.own_key(owner, number));
    }

    fn set_shared(&mut self) {
        let number = self.random.below(SHARED);
        let key = Self::shared_key(number);
        self.stamp += 1;
        let stamp = stamp(key, self.number << 16 | self.stamp);
        let len = 8 + self.random.below(40) as usize;
        match self.set(key, &fill(stamp, len)) {
            Ok(token) => {
                self.saw(number, token);
                self.known.acknowledged[number as usize].fetch_max(token, Ordering::AcqRel);
            }
            Err(error) => assert!(self.scenario.lossy, "{error}"),
        }
    }

    fn read_shared(&mut self) {
        let number = self.random.below(SHARED);
        let acknowledged = self.known.acknowledged[number as usize].load(Ordering::Acquire);
        match self.get(Self::shared_key(number)) {
            Some((_, _, meta)) => {
                assert!(meta.token >= acknowledged, "a read of what had been overwritten");
                self.saw(number, meta.token);
            }
            None => assert!(acknowledged == 0 || self.scenario.lossy, "present key missed"),
        }
    }

    fn saw(&mut self, number: u64, token: u64) {
        let seen = &mut self.seen[number as usize];
        assert!(token >= *seen, "token {token} after {seen}");
        *seen = token;
    }

    fn increment(&mut self) {
        let done = self.worker.update(self.worker.key(b"counter"), |view| {
            let number = view.map_or(0, number_in);
            Change::Put(Put::new(Value::Digits(Digits::new(number + 1, 0)))).into()
        });
        if done.is_ok() {
            self.known.increments.fetch_add(1, Ordering::AcqRel);
        } else {
            assert!(self.scenario.lossy, "{done:?}");
        }
    }

    /// Adds a key unless it is there. Who succeeds is alone until it removes the key.
    fn add_and_remove(&mut self) {
        if self.scenario.lossy {
            return;
        }
        let mut won = false;
        let key = self.worker.key(b"lock");
        let added = self.worker.update(key, |view| {
            won = view.is_none();
            match view {
                Some(_) => Change::Keep.into(),
                None => Change::Put(Put::new(Value::Bytes(b"x"))).into(),
            }
        });
        added.expect("memory");
        if won {
            assert!(!self.known.locked.swap(true, Ordering::AcqRel), "two adds succeeded");
            self.worker.quiesce();
            self.read_own();
            assert!(self.known.locked.swap(false, Ordering::AcqRel), "two removals");
            self.worker.update(self.worker.key(b"lock"), |_| Change::Remove.into()).expect("none");
        }
    }

    fn read_prefilled(&mut self) {
        if self.scenario.prefilled > 0 {
            let key = Self::prefilled_key(self.random.below(self.scenario.prefilled));
            let found = self.get(key);
            assert!(found.is_some() || self.scenario.lossy, "present key missed");
        }
    }

    fn drop_pin(&mut self) {
        if let Some((pinned, stamp)) = self.pins.pop() {
            let value: Vec<u8> = pinned.slices().flatten().copied().collect();
            assert_eq!(stamp_of(&value), stamp, "a pinned value has changed");
        }
    }

    fn maintain(&mut self) {
        match self.random.below(7) {
            0 if self.scenario.flushes => {
                self.worker.flush();
                // Nothing that was stored before is there now.
                self.own.fill(None);
            }
            0 | 1 => self.worker.offline(|| ()),
            2 | 3 => self.undo_growth(),
            4 if self.scenario.lossy => self.change_memory(),
            _ => {
                self.worker.sweep(3);
            }
        }
    }

    /// Takes the last bucket away, whether there is need for it or not.
    fn undo_growth(&mut self) {
        let memory = &self.worker.cache().table().memory;
        if let Merge::DoneWith(block) = memory.index.merge(&memory.arena) {
            memory.blocks.retire(&memory.qsbr, block);
        }
    }

    fn change_memory(&mut self) {
        let cache = self.worker.cache();
        let max = cache.table().config.memory_max_bytes;
        let memory_bytes = max / 2 + self.random.below(max / 2 + 1);
        // Too little for an arena, or for the longest value.
        let _ = cache.set_memory(memory_bytes);
        self.worker.fit();
    }

    /// After all threads have ended.
    pub(super) fn finish(&mut self) {
        self.worker.quiesce();
        for number in 0..self.scenario.prefilled {
            let found = self.get(Self::prefilled_key(number));
            assert!(found.is_some() || self.scenario.lossy, "present key missed");
        }
        if !self.scenario.lossy {
            let mut counted = 0;
            let key = self.worker.key(b"counter");
            let read = self.worker.update(key, |view| {
                counted = view.map_or(0, number_in);
                Change::Keep.into()
            });
            read.expect("nothing is stored");
            let increments = self.known.increments.load(Ordering::Acquire);
            assert_eq!(counted, increments, "an increment is lost");
        }
        self.pins.clear();
        self.worker.quiesce();
    }
}

fn number_in(view: &View<'_>) -> u64 {
    let mut text = [0; Digits::LEN_MAX];
    let len = view.copy_prefix(&mut text);
    std::str::from_utf8(&text[..len]).expect("digits").parse().expect("a number")
}
