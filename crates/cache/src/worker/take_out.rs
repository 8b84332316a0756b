//! Taking all records out of a cache that ends, block by block.
//!
//! For who writes them elsewhere: the memory of each block goes back to the system when its records
//! have been shown, so that what is written and what is still here are together little more than
//! what was here at first. Values in parts give their whole blocks back with their record, and
//! pieces when the last one of their block is gone.

use super::{View, Worker, write::find_key};
use crate::{Change, Get, Meta, Pinned, blocks::Owner, geometry::BLOCK_BYTES};

/// How far taking records out has come.
#[derive(Debug, Default)]
pub struct TakeOut {
    next: usize,
    /// Keys of the block at hand: each a byte of length, and its bytes.
    keys: Vec<u8>,
    value: Vec<u8>,
}

/// A record that is taken out.
#[derive(Debug)]
pub struct Taken<'r> {
    /// The key.
    pub key: &'r [u8],
    /// The other fields.
    pub meta: Meta,
    value: TakenValue<'r>,
}

#[derive(Debug)]
enum TakenValue<'r> {
    Inline(&'r [u8]),
    Parts(Pinned),
}

impl Taken<'_> {
    /// Shows `visit` the value in order, in slices of at most 64 KiB.
    ///
    /// # Errors
    /// The first of `visit`'s own.
    pub fn value<E>(&self, mut visit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        match &self.value {
            TakenValue::Inline(bytes) => visit(bytes),
            TakenValue::Parts(pinned) => pinned.slices().try_for_each(visit),
        }
    }
}

impl Worker {
    /// Shows `visit` the live records of the next block that has some, removes them, and gives the
    /// block's memory back to the system. Returns whether there may be more. Nobody else may use
    /// the cache from the first step on: what others store meanwhile may be lost.
    ///
    /// # Errors
    /// The first of `visit`'s own; the records of the block that were not shown yet are kept.
    pub fn take_out<E>(
        &mut self,
        place: &mut TakeOut,
        mut visit: impl FnMut(&Taken<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.quiesce();
        let end = self.table().memory.blocks.touched_end();
        while place.next < end {
            let block = place.next;
            place.next += 1;
            let table = self.table();
            let Owner::SubTable { number, first_run } = table.memory.blocks.owner(block) else {
                continue;
            };
            let mut keys = std::mem::take(&mut place.keys);
            keys.clear();
            let sub_table = &table.sub_tables()[number];
            sub_table.list_block(&table.memory, first_run, block, self.now_ms, &mut keys);
            let shown = self.show(&keys, &mut place.value, &mut visit);
            place.keys = keys;
            shown?;
            let table = self.table();
            let sub_table = &table.sub_tables()[number];
            sub_table.sweep_block(&table.memory, first_run, block, self.now_ms);
            sub_table.retire_if_empty(&table.memory, first_run, block);
            self.quiesce();
            self.table().return_unused();
            return Ok(true);
        }
        Ok(false)
    }

    fn show<E>(
        &mut self,
        mut keys: &[u8],
        value: &mut Vec<u8>,
        visit: &mut impl FnMut(&Taken<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((&len, rest)) = keys.split_first() {
            let (bytes, rest) = rest.split_at(len.into());
            keys = rest;
            let mut has_blocks = false;
            if let Some((meta, pinned)) = self.read_anyhow(bytes, value) {
                has_blocks = meta.value_len as usize >= BLOCK_BYTES;
                let value = match pinned {
                    None => TakenValue::Inline(value),
                    Some(pinned) => TakenValue::Parts(pinned),
                };
                visit(&Taken { key: bytes, meta, value })?;
            }
            let removed = self.update(self.key(bytes), |_| Change::Remove.into());
            debug_assert!(removed.is_ok(), "a removal needs no memory");
            // The heads of one block may stand for a large part of the memory.
            if has_blocks {
                self.quiesce();
                self.table().return_unused();
            }
        }
        Ok(())
    }

    /// Reads a record, whatever its size and whatever else is pinned.
    fn read_anyhow(&self, bytes: &[u8], value: &mut Vec<u8>) -> Option<(Meta, Option<Pinned>)> {
        let table = self.table();
        let memory = &table.memory;
        let key = self.key(bytes);
        let pair = memory.index.lock(&memory.arena, key.candidates, key.hash);
        let view = View::new(table, find_key(memory, &pair, &key)?, self.now_ms);
        if view.header().in_parts() {
            return view.pin().map(|pinned| (*pinned.meta(), Some(pinned)));
        }
        match view.read(value) {
            Get::Hit(meta) => Some((meta, None)),
            _ => None,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use std::{collections::BTreeMap, convert::Infallible};

    use base::clock::Clock;

    use super::*;
    use crate::{Cache, CacheConfig, Put, Token, Value};

    /// Values of all kinds: inline, of pieces, of blocks and pieces.
    const SIZES: [usize; 6] = [0, 100, 4096, 4097, 70_000, 300_000];

    /// Values and tokens by key.
    type Contents = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

    fn filled(records: u32, clock: &Clock) -> (Worker, Contents) {
        let config = CacheConfig { writers: 1, ..CacheConfig::new(64 << 20) };
        let cache = Cache::new(config, clock.clone()).expect("a cache");
        let mut worker = cache.worker().expect("a place");
        let mut all = BTreeMap::new();
        for number in 0..records {
            let key = number.to_be_bytes();
            let value = vec![number as u8; SIZES[number as usize % SIZES.len()]];
            let token = Token::Given(u64::from(number) + 7);
            let put = Put { client_flags: number, token, ..Put::new(Value::Bytes(&value)) };
            worker.set(worker.key(&key), &put).expect("memory");
            all.insert(key.to_vec(), (value, u64::from(number) + 7));
        }
        (worker, all)
    }

    fn take_all(worker: &mut Worker) -> Vec<(Vec<u8>, Vec<u8>, Meta)> {
        let (mut place, mut all) = (TakeOut::default(), Vec::new());
        loop {
            let more = worker.take_out(&mut place, |taken| {
                let mut value = Vec::new();
                taken.value(|bytes| {
                    value.extend_from_slice(bytes);
                    Ok::<_, Infallible>(())
                })?;
                all.push((taken.key.to_vec(), value, taken.meta));
                Ok::<_, Infallible>(())
            });
            if !more.unwrap_or_else(|never| match never {}) {
                return all;
            }
        }
    }

    #[test]
    fn every_live_record_is_taken_once_and_its_memory_goes_back() {
        let clock = Clock::manual(1_000_000);
        let (mut worker, mut wanted) = filled(600, &clock);
        let dead = Put { expiry_ms: 1_000_001, ..Put::new(Value::Bytes(b"dead")) };
        worker.set(worker.key(b"dead"), &dead).expect("memory");
        clock.advance_ms(2);
        let before = worker.cache().stats();
        for (key, value, meta) in take_all(&mut worker) {
            let (expected, token) = wanted.remove(&key).expect("it was stored, and not taken yet");
            assert_eq!((value.len(), meta.token), (expected.len(), token));
            assert!(value == expected, "the value of {key:?} is another one");
            assert_eq!(meta.client_flags, u32::from_be_bytes(key.try_into().expect("four bytes")));
        }
        assert_eq!(wanted.len(), 0, "all were taken");
        let after = worker.cache().stats();
        assert_eq!(after.records, 0);
        assert!(before.arena_used_bytes > 30 << 20, "{before:?}");
        assert!(after.arena_bytes < before.arena_used_bytes / 8, "{after:?}");
        worker.table().validate();
    }

    #[test]
    fn flushed_records_are_not_taken() {
        let (mut worker, _) = filled(50, &Clock::manual(1_000_000));
        worker.flush();
        assert_eq!(take_all(&mut worker).len(), 0);
    }

    #[test]
    fn an_error_ends_it() {
        let (mut worker, _) = filled(50, &Clock::manual(1_000_000));
        let mut shown = 0;
        let mut place = TakeOut::default();
        let end = loop {
            let taken = worker.take_out(&mut place, |_| {
                shown += 1;
                if shown == 3 { Err(()) } else { Ok(()) }
            });
            if taken != Ok(true) {
                break taken;
            }
        };
        assert_eq!((end, shown), (Err(()), 3));
        assert_eq!(worker.cache().stats().records, 48);
    }
}
