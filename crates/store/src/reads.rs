//! Reads of a worker: those that are out, those that wait their turn, and what they read into.
//!
//! Thread safety: a plain value of the worker's thread.

use std::collections::{BTreeMap, VecDeque};

use log::{
    engine::Reading,
    plan::{Buffer, Failure, Outcome, Plan, Token},
};

use crate::limits::{READS_MAX, SHORT_READS_MAX};

/// Tokens of reads begin here, those of the log's own actions do not get so far. Behind it the
/// worker's number, and 48 bits that are the worker's own.
const FIRST_TOKEN: u64 = 1 << 63;
const OWN_BITS: u32 = 48;

/// Bytes of a buffer that is kept: for records of up to 8 KiB, wherever in a block they begin.
const KEPT_BYTES: usize = 16 << 10;

/// A read for those who wait at a key.
#[derive(Debug)]
struct Read {
    /// The key's lock.
    at: usize,
    /// The entry there.
    id: u64,
    reading: Reading,
    /// How often it was short.
    tries: u32,
    /// What a short read has left.
    buffer: Option<Buffer>,
}

/// A read that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) at: usize,
    pub(crate) id: u64,
    pub(crate) reading: Reading,
    pub(crate) result: Result<(Buffer, usize), Failure>,
}

/// All reads of a worker.
#[derive(Debug)]
pub(crate) struct Reads {
    out: BTreeMap<Token, Read>,
    waiting: VecDeque<Read>,
    buffers: Vec<Buffer>,
    next: u64,
}

impl Reads {
    pub(crate) fn new(worker: usize) -> Self {
        let next = FIRST_TOKEN | (worker as u64) << OWN_BITS;
        Self { out: BTreeMap::new(), waiting: VecDeque::new(), buffers: Vec::new(), next }
    }

    /// Whether an outcome under this token is one of a read.
    pub(crate) fn is_read(token: Token) -> bool {
        token.0 >= FIRST_TOKEN
    }

    pub(crate) fn begin(&mut self, at: usize, id: u64, reading: Reading) {
        self.waiting.push_back(Read { at, id, reading, tries: 0, buffer: None });
    }

    /// The next read to be performed.
    pub(crate) fn next_plan(&mut self) -> Option<Plan> {
        if self.out.len() >= READS_MAX {
            return None;
        }
        let mut read = self.waiting.pop_front()?;
        let bytes = read.reading.bytes();
        let buffer = read.buffer.take().unwrap_or_else(|| match bytes <= KEPT_BYTES {
            true => self.buffers.pop().unwrap_or_else(|| Buffer::new(KEPT_BYTES)),
            false => Buffer::new(bytes),
        });
        let token = Token(self.next);
        self.next += 1;
        let plan = Plan { token, action: read.reading.action(buffer) };
        self.out.insert(token, read);
        Some(plan)
    }

    /// Takes what came of a read. `None` when it is to be repeated because it was short.
    ///
    /// # Panics
    /// When no read is out under `token`.
    pub(crate) fn complete(&mut self, token: Token, outcome: Outcome) -> Option<Ended> {
        let mut read = self.out.remove(&token).expect("invariant: each token is reported once");
        let result = match outcome {
            Outcome::Read(buffer, bytes) => {
                let is_short = bytes < read.reading.bytes();
                if is_short && read.tries < SHORT_READS_MAX {
                    (read.tries, read.buffer) = (read.tries + 1, Some(buffer));
                    self.waiting.push_front(read);
                    return None;
                }
                Ok((buffer, bytes))
            }
            Outcome::Failed(failure, buffer) => {
                buffer.into_iter().for_each(|buffer| self.give_back(buffer));
                Err(failure)
            }
            _ => unreachable!("a read ends as one"),
        };
        let Read { at, id, reading, .. } = read;
        Some(Ended { at, id, reading, result })
    }

    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        if buffer.as_slice().len() == KEPT_BYTES && self.buffers.len() < READS_MAX {
            self.buffers.push(buffer);
        }
    }
}
