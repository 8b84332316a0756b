//! Iteration over what a log holds: by key, and in the order of insertion.

use std::collections::VecDeque;

use super::{Log, drive::Shared};
use crate::{
    engine::{Found, Iteration, Settled, Spread, Stored, Window},
    error::Error,
    format::{
        LogId,
        cursor::{Cursor, Place},
    },
    keys::{KeyFlaw, Keys},
    plan::{Buffer, Failure, Outcome},
};

/// Records that are looked at under one lock: some 100 us.
const LOOKED_AT_ONCE: usize = 1024;

/// In which order records are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By key; of a log of integers only. Each key that is there all the time is shown exactly
    /// once, with what it was when the iteration came to it. One read a record.
    Key,
    /// As they lie in the log, which is read from its beginning to its end as it was when the
    /// iteration began. A key that was there then and that nobody writes is shown exactly once;
    /// one that is written meanwhile at most once, and again by whoever goes on from the end with
    /// [`Records::cursor`].
    Insertion,
}

/// A key, and what is stored under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The key.
    pub key: Vec<u8>,
    /// What is stored. The value of a large one is empty: [`Records::read_value`] reads it.
    pub stored: Stored,
}

impl Shown {
    /// Bytes of the value, a large one's too.
    #[must_use]
    pub fn value_bytes(&self) -> u64 {
        self.stored.parts.as_ref().map_or(self.stored.value.len() as u64, Spread::value_bytes)
    }
}

/// Records of a log, one after the other. Takes half a megabyte, and up to ten times as much for
/// what was read and not shown yet: the smallest records are some 10,000, with 300 bytes for each.
#[derive(Debug)]
pub struct Records<'a, K: Keys + Send + 'static> {
    shared: &'a Shared<K>,
    log: LogId,
    walk: Walk,
    buffer: Option<Buffer>,
}

#[derive(Debug)]
enum Walk {
    Keys {
        /// Keys that are there, to be shown next.
        keys: VecDeque<u64>,
        /// Where to look for more; `None` at the end.
        next: Option<u64>,
        /// The first one that was not shown.
        shown: u64,
    },
    Records {
        /// Taken when it is ended.
        iteration: Option<Iteration>,
        found: VecDeque<Result<Found, Error>>,
        shown: Cursor,
    },
}

impl<K: Keys + Send + 'static> Log<K> {
    /// Shows what there is, from the beginning or from where an iteration stood. In the order of
    /// insertion, what was written before the call is flushed first.
    ///
    /// # Errors
    /// When the keys have no order, the cursor is none of this log's and this order's, or something
    /// is not durable.
    pub fn iterate(&self, order: Order, after: Option<&Cursor>) -> Result<Records<'_, K>, Error> {
        let shared = &*self.shared;
        let walk = match order {
            Order::Key => {
                let state = shared.lock();
                let range = state.engine.index().range().ok_or(Error::Key(KeyFlaw::NoOrder))?;
                let shown = match after {
                    None => range.start,
                    Some(cursor) if cursor.log != state.engine.manifest().log => {
                        return Err(Error::Cursor { what: "it is of another log" });
                    }
                    Some(Cursor { place: Place::Key { next }, .. }) => *next,
                    Some(_) => return Err(Error::Cursor { what: "it is of another order" }),
                };
                Walk::Keys { keys: VecDeque::new(), next: Some(shown), shown }
            }
            Order::Insertion => {
                shared.drain(shared.lock())?;
                let mut state = shared.lock();
                loop {
                    match state.engine.settle_moves() {
                        Settled::Done => break,
                        Settled::Failed => return Err(Error::NoRoom),
                        Settled::Pending => state = shared.wait_for_report(state),
                    }
                }
                let iteration = state.engine.iterate(after)?;
                drop(state);
                let shown = iteration.cursor();
                Walk::Records { iteration: Some(iteration), found: VecDeque::new(), shown }
            }
        };
        let log = shared.lock().engine.manifest().log;
        Ok(Records { shared, log, walk, buffer: None })
    }
}

impl<K: Keys + Send + 'static> Records<'_, K> {
    /// Where the iteration stands: behind what was shown last. It may be kept as bytes, also until
    /// the log is opened another time.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        match &self.walk {
            Walk::Keys { shown, .. } => {
                Cursor { log: self.log, place: Place::Key { next: *shown } }
            }
            Walk::Records { shown, .. } => *shown,
        }
    }

    /// Reads the value of what was shown last, a part at a time when it is a large one.
    ///
    /// # Errors
    /// When it cannot be read, and what `uses` says.
    pub fn read_value<E: From<Error>>(
        &self,
        shown: &Shown,
        mut uses: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match &shown.stored.parts {
            None => uses(&shown.stored.value),
            Some(spread) => self.shared.read_parts(spread, uses),
        }
    }

    fn next_key(&mut self) -> Option<Result<Shown, Error>> {
        let Walk::Keys { keys, next, shown } = &mut self.walk else { return None };
        loop {
            let Some(key) = keys.pop_front() else {
                let from = (*next)?;
                let mut more = Vec::new();
                match self.shared.lock().engine.keys_from(from, &mut more) {
                    Ok(then) => *next = then,
                    Err(error) => {
                        *next = None;
                        return Some(Err(error));
                    }
                }
                keys.extend(more);
                if keys.is_empty() {
                    *shown = next.unwrap_or(from.max(*shown));
                }
                continue;
            };
            *shown = key.saturating_add(1);
            let bytes = key.to_le_bytes();
            match self.shared.find(&bytes) {
                Ok(None) => {}
                Ok(Some(stored)) => return Some(Ok(Shown { key: bytes.to_vec(), stored })),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn next_record(&mut self) -> Option<Result<Shown, Error>> {
        loop {
            let Walk::Records { iteration: Some(iteration), found, shown } = &mut self.walk else {
                return None;
            };
            match found.pop_front() {
                Some(Ok(record)) => {
                    *shown = record.cursor;
                    match self.shared.lock().engine.find_shown(iteration, record) {
                        Ok(None) => {}
                        Ok(Some((key, stored))) => return Some(Ok(Shown { key, stored })),
                        Err(error) => return Some(Err(error)),
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    *shown = iteration.cursor();
                    let window = iteration.window()?;
                    self.read(window);
                }
            }
        }
    }

    /// Reads on. What cannot be read is an error in its place, and the rest goes on.
    fn read(&mut self, window: Window) {
        let kept = self.buffer.take().filter(|kept| kept.as_slice().len() >= window.bytes());
        let buffer = kept.unwrap_or_else(|| Buffer::new(window.bytes()));
        let mut failed = Vec::new();
        let (buffer, bytes) = match self.read_window(window, buffer) {
            Ok(read) => read,
            Err(Failure::NotFound) => {
                if let Walk::Records { iteration: Some(iteration), found, .. } = &mut self.walk {
                    iteration.pass_over();
                    found.push_back(Err(window.failed(Failure::NotFound)));
                }
                return;
            }
            Err(_) => (self.read_pieces(window, &mut failed), window.bytes()),
        };
        let now_ms = self.shared.clock.wall_ms();
        let Walk::Records { iteration: Some(iteration), found, .. } = &mut self.walk else {
            return;
        };
        found.extend(failed.into_iter().map(Err));
        let mut items = iteration.take(&buffer.as_slice()[..bytes]);
        self.buffer = Some(buffer);
        loop {
            let rest = items.split_off(items.len().min(LOOKED_AT_ONCE));
            self.shared.lock().engine.keep_newest(iteration, &mut items, now_ms);
            found.extend(items);
            if rest.is_empty() {
                return;
            }
            items = rest;
        }
    }

    /// Reads a window; says how much of it there is.
    fn read_window(&self, window: Window, buffer: Buffer) -> Result<(Buffer, usize), Failure> {
        match self.shared.files.perform(window.action(buffer)) {
            // Short at the end of the file only.
            Outcome::Read(read, bytes) => Ok((read, bytes)),
            Outcome::Failed(failure, _) => Err(failure),
            _ => Err(Failure::Io { code: 0, text: "nothing was read".to_owned() }),
        }
    }

    /// Reads a window block by block; zeros for what cannot be read.
    fn read_pieces(&self, window: Window, failed: &mut Vec<Error>) -> Buffer {
        let mut whole = Buffer::new(window.bytes());
        let mut at = 0;
        let block_bytes = self.shared.lock().engine.manifest().shape.block_bytes;
        for piece in window.pieces(block_bytes) {
            match self.read_window(piece, Buffer::new(piece.bytes())) {
                Ok((read, bytes)) => {
                    whole.as_mut_slice()[at..at + bytes].copy_from_slice(&read.as_slice()[..bytes]);
                }
                Err(failure) => failed.push(piece.failed(failure)),
            }
            at += piece.bytes();
        }
        whole
    }
}

impl<K: Keys + Send + 'static> Iterator for Records<'_, K> {
    type Item = Result<Shown, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &self.walk {
            Walk::Keys { .. } => self.next_key(),
            Walk::Records { .. } => self.next_record(),
        }
    }
}

impl<K: Keys + Send + 'static> Drop for Records<'_, K> {
    fn drop(&mut self) {
        if let Walk::Records { iteration, .. } = &mut self.walk
            && let Some(iteration) = iteration.take()
            && let Ok(mut state) = self.shared.state.lock()
        {
            state.engine.end_iteration(iteration);
            // What was kept may be freed or moved, though nobody writes.
            self.shared.wake_for_work(&mut state, false);
        }
    }
}
