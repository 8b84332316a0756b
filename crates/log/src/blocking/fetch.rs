//! Gets: a look under the lock, and a read without it.

use std::sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering};

use super::{
    Stored,
    drive::{Guard, Shared},
};
use crate::{
    engine::{Fetched, Get, Mark, Reading, Spread},
    error::Error,
    keys::Keys,
    plan::{Buffer, Outcome},
};

/// Bytes of a small buffer: for records of up to 8 KiB, wherever in a block they begin.
const SMALL_BYTES: usize = 16 << 10;

/// Bytes of a large one: the largest record is 393,216 bytes, and begins within a block.
const LARGE_BYTES: usize = 400 << 10;

/// Buffers that are kept, of either kind: 256 KiB and 6.25 MiB. More than 16 reads at a time
/// make buffers of their own.
const KEPT_MAX: usize = 16;

/// Buffers to read into, kept because a new one is memory that the system has to clear.
#[derive(Debug, Default)]
pub(super) struct ReadBuffers {
    small: Mutex<Vec<Buffer>>,
    large: Mutex<Vec<Buffer>>,
}

impl ReadBuffers {
    /// A buffer of at least so many bytes.
    fn take(&self, bytes: usize) -> Buffer {
        let (kept, own) = if bytes <= SMALL_BYTES {
            (&self.small, SMALL_BYTES)
        } else if bytes <= LARGE_BYTES {
            (&self.large, LARGE_BYTES)
        } else {
            return Buffer::new(bytes);
        };
        lock(kept).pop().unwrap_or_else(|| Buffer::new(own))
    }

    fn give_back(&self, buffer: Buffer) {
        let kept = match buffer.as_slice().len() {
            SMALL_BYTES => &self.small,
            LARGE_BYTES => &self.large,
            _ => return,
        };
        let mut kept = lock(kept);
        if kept.len() < KEPT_MAX {
            kept.push(buffer);
        }
    }
}

fn lock(kept: &Mutex<Vec<Buffer>>) -> MutexGuard<'_, Vec<Buffer>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Keys> Shared<K> {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Stored>, Error> {
        self.find(key)?.map(|stored| self.with_parts(stored)).transpose()
    }

    /// What is stored under a key; of a large value the reads of its parts.
    pub(super) fn find(&self, key: &[u8]) -> Result<Option<Stored>, Error> {
        let mut state = self.lock();
        loop {
            // Expiries are on the wall's axis: they outlast the process.
            let (stored, wait) = match state.engine.get(key, self.clock.wall_ms())? {
                Get::Absent { wait } => (None, wait),
                Get::Memory { stored, wait } => (Some(stored), wait),
                Get::Read(reading) => {
                    drop(state);
                    return self.read_stored(&reading);
                }
                Get::Wait => {
                    state = self.wait_for_report(state);
                    continue;
                }
            };
            if self.wait_to_tell(state, wait) {
                return Ok(stored);
            }
            state = self.lock();
        }
    }

    /// Waits until what was seen may be told. `false`: its flush has failed, and it is to be looked
    /// up again, because it is written elsewhere.
    fn wait_to_tell<'a>(&'a self, state: Guard<'a, K>, wait: Option<Mark>) -> bool {
        wait.is_none_or(|mark| self.settle(state, mark, mark))
    }

    /// What a read of a key fetches, whole.
    pub(super) fn fetch(&self, reading: &Reading) -> Result<Option<Stored>, Error> {
        self.read_stored(reading)?.map(|stored| self.with_parts(stored)).transpose()
    }

    fn read_stored(&self, reading: &Reading) -> Result<Option<Stored>, Error> {
        let stored = self.read(reading, |fetched| match fetched {
            Fetched::Value(record) => Ok(Some(Stored::new(&record))),
            Fetched::Head(record, parts) => {
                let parts = Some(self.lock().engine.parts(reading, &parts)?);
                Ok(Some(Stored { parts, ..Stored::new(&record) }))
            }
            // A reading of a key fetches no part.
            Fetched::Part(_) => Ok(None),
        })?;
        let has_expired = |it: &Stored| it.expiry_ms != 0 && it.expiry_ms <= self.clock.wall_ms();
        Ok(stored.filter(|stored| !has_expired(stored)))
    }

    /// Fetches the parts of a large value.
    fn with_parts(&self, mut stored: Stored) -> Result<Stored, Error> {
        let Some(spread) = stored.parts.take() else { return Ok(stored) };
        stored.value.reserve_exact(usize::try_from(spread.value_bytes()).unwrap_or(0));
        self.read_parts(&spread, |part| {
            stored.value.extend_from_slice(part);
            Ok(())
        })
        .map(|()| stored)
    }

    /// Fetches parts one after the other, and has each be used before the next is fetched.
    pub(super) fn read_parts<E: From<Error>>(
        &self,
        spread: &Spread,
        mut uses: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for number in 0..spread.parts() {
            let reading = self.lock().engine.part(spread, number);
            self.read(&reading, |fetched| {
                Ok(if let Fetched::Part(part) = fetched { uses(part) } else { Ok(()) })
            })??;
        }
        Ok(())
    }

    /// Reads, and has what was read be used before its memory is needed again.
    fn read<T>(
        &self,
        reading: &Reading,
        uses: impl FnOnce(Fetched<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let buffer = self.read_buffers.take(reading.bytes());
        self.reads.fetch_add(1, Ordering::Relaxed);
        match self.files.perform(reading.action(buffer)) {
            // Short at the end of the file only.
            Outcome::Read(read, bytes) => {
                let fetched = reading.finish(&read.as_slice()[..bytes]);
                let fetched = fetched.inspect_err(|error| {
                    if reading.met_other_key(error) {
                        self.lock().engine.count_collision();
                    }
                });
                let used = fetched.and_then(uses);
                self.read_buffers.give_back(read);
                used
            }
            Outcome::Failed(failure, _) => Err(reading.failed(failure)),
            _ => reading.finish(&[]).and_then(uses),
        }
    }
}
