//! A store in memory, for tests of what stores are measured with.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{BATCH, Engine, Session};

#[derive(Default)]
pub(in crate::disk) struct InMemory {
    pub(in crate::disk) records: Mutex<HashMap<u32, Vec<u8>>>,
    pub(in crate::disk) flushes: AtomicU32,
}

/// Access that is told which gets come.
struct InMemorySession<'a> {
    engine: &'a InMemory,
    expected: VecDeque<u32>,
}

impl Engine for InMemory {
    fn session(&self) -> io::Result<Box<dyn Session + '_>> {
        Ok(Box::new(InMemorySession { engine: self, expected: VecDeque::new() }))
    }

    fn flush(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

impl Session for InMemorySession<'_> {
    fn put(&mut self, key: u32, value: &[u8]) -> io::Result<()> {
        self.engine.records.lock().expect("sound").insert(key, value.to_owned());
        Ok(())
    }

    fn get(&mut self, key: u32, out: &mut [u8]) -> io::Result<Option<usize>> {
        let expected = self.expected.pop_front();
        assert!(expected.is_none_or(|expected| expected == key), "{key} is not what was said");
        let records = self.engine.records.lock().expect("sound");
        Ok(records.get(&key).map(|value| {
            out.copy_from_slice(value);
            value.len()
        }))
    }

    fn expect(&mut self, keys: &[u32; BATCH]) {
        assert!(self.expected.is_empty(), "a batch ends before the next one begins");
        self.expected.extend(keys);
    }

    fn remove(&mut self, key: u32) -> io::Result<()> {
        self.engine.records.lock().expect("sound").remove(&key);
        Ok(())
    }
}
