//! Reads of a worker: those that are out, those that wait their turn, and what they read into.
//!
//! Thread safety: a plain value of the worker's thread.

use std::{collections::VecDeque, sync::Arc};

use base::hash::Numbered;
use log::{
    engine::Reading,
    plan::{Buffer, Failure, Outcome, Plan, Token},
};

use crate::{
    limits::{PART_READS_MAX, READ_BYTES_KEPT, READS_MAX, SHORT_READS_MAX},
    shelf::Shelf,
};

/// Tokens of reads begin here, those of the log's own actions do not get so far. Behind it the
/// worker's number, and 48 bits that are the worker's own.
const FIRST_TOKEN: u64 = 1 << 63;
const OWN_BITS: u32 = 48;

/// Whom a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// Those who wait at a key: its lock, and the entry there.
    Key { at: usize, id: u64 },
    /// Who reads a large value: which part it is.
    Reader { id: u64, part: usize },
}

impl Whom {
    fn is_part(self) -> bool {
        matches!(self, Self::Reader { .. })
    }

    fn is_reader(self, reader: u64) -> bool {
        matches!(self, Self::Reader { id, .. } if id == reader)
    }
}

#[derive(Debug)]
struct Read {
    whom: Whom,
    reading: Arc<Reading>,
    /// How often it was short.
    tries: u32,
    /// Nobody waits for it yet.
    is_ahead: bool,
    /// What a short read has left.
    buffer: Option<Buffer>,
}

/// A read that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) whom: Whom,
    pub(crate) reading: Arc<Reading>,
    pub(crate) result: Result<(Buffer, usize), Failure>,
}

/// All reads of a worker.
#[derive(Debug)]
pub(crate) struct Reads {
    out: Numbered<Token, Read>,
    /// Of these, parts of large values.
    parts_out: usize,
    /// Of keys.
    waiting: VecDeque<Read>,
    /// Of parts of large values, which take longer: each would be a hundred others' time.
    parts: VecDeque<Read>,
    /// Of parts that nobody waits for yet.
    ahead: VecDeque<Read>,
    shelf: Arc<Shelf>,
    next: u64,
}

impl Reads {
    pub(crate) fn new(worker: usize) -> Self {
        let next = FIRST_TOKEN | (worker as u64) << OWN_BITS;
        let (out, shelf) = (Numbered::default(), Arc::new(Shelf::new()));
        let [waiting, parts, ahead] = [(); 3].map(|()| VecDeque::new());
        Self { out, parts_out: 0, waiting, parts, ahead, shelf, next }
    }

    /// Whether an outcome under this token is one of a read.
    pub(crate) fn is_read(token: Token) -> bool {
        token.0 >= FIRST_TOKEN
    }

    pub(crate) fn begin(&mut self, whom: Whom, reading: Arc<Reading>) {
        let read = Read { whom, reading, tries: 0, is_ahead: false, buffer: None };
        self.queue_of(&read).push_back(read);
    }

    /// Of a part that nobody waits for until [`Self::want`].
    pub(crate) fn begin_ahead(&mut self, whom: Whom, reading: Arc<Reading>) {
        let is_ahead = !base::mutant!("store_ahead_in_line");
        let read = Read { whom, reading, tries: 0, is_ahead, buffer: None };
        self.queue_of(&read).push_back(read);
    }

    /// From now on somebody waits for what is read ahead for this reader.
    pub(crate) fn want(&mut self, reader: u64) {
        for read in self.out.values_mut().chain(&mut self.ahead) {
            read.is_ahead &= !read.whom.is_reader(reader);
        }
        let (ahead, wanted): (VecDeque<Read>, VecDeque<Read>) =
            self.ahead.drain(..).partition(|read| read.is_ahead);
        self.ahead = ahead;
        self.parts.extend(wanted);
    }

    /// Leaves out what has not begun for a reader that has ended, and repeats nothing for it.
    /// Returns how many bytes will not be read.
    pub(crate) fn forget(&mut self, reader: u64) -> usize {
        let mut bytes = 0;
        if base::mutant!("store_reads_for_ended") {
            return bytes;
        }
        let out = self.out.values_mut().filter(|read| read.whom.is_reader(reader));
        out.for_each(|read| read.tries = SHORT_READS_MAX);
        for queue in [&mut self.parts, &mut self.ahead] {
            queue.retain_mut(|read| {
                let is_its = read.whom.is_reader(reader);
                if is_its {
                    bytes += read.reading.bytes();
                    read.buffer.take().into_iter().for_each(|it| self.shelf.give_back(it));
                }
                !is_its
            });
        }
        bytes
    }

    /// Whether there are some that wait their turn.
    pub(crate) fn has_waiting(&self) -> bool {
        [&self.waiting, &self.parts, &self.ahead].iter().any(|queue| !queue.is_empty())
    }

    fn queue_of(&mut self, read: &Read) -> &mut VecDeque<Read> {
        if read.is_ahead {
            &mut self.ahead
        } else if read.whom.is_part() && !base::mutant!("store_parts_before_keys") {
            &mut self.parts
        } else {
            &mut self.waiting
        }
    }

    /// Who is next: a key, but one part is always under way; then parts, and those that nobody
    /// waits for last.
    fn pop(&mut self) -> Option<Read> {
        if self.parts_out == 0
            && let Some(part) = self.parts.pop_front()
        {
            return Some(part);
        }
        self.waiting.pop_front().or_else(|| {
            let has_room = self.parts_out < PART_READS_MAX;
            if has_room { self.parts.pop_front().or_else(|| self.ahead.pop_front()) } else { None }
        })
    }

    /// The next read to be performed.
    pub(crate) fn next_plan(&mut self) -> Option<Plan> {
        if self.out.len() >= READS_MAX {
            return None;
        }
        let mut read = self.pop()?;
        self.parts_out += usize::from(read.whom.is_part());
        let bytes = read.reading.bytes();
        // A part is with its reader for long, and what is lent is to come back at once.
        let is_short = bytes <= READ_BYTES_KEPT && !read.whom.is_part();
        let buffer = read.buffer.take().unwrap_or_else(|| match is_short {
            true => self.shelf.take_short(),
            false => self.shelf.take_long(bytes),
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
        self.parts_out -= usize::from(read.whom.is_part());
        let result = match outcome {
            Outcome::Read(buffer, bytes) => {
                let is_short = bytes < read.reading.bytes();
                if is_short && read.tries < SHORT_READS_MAX {
                    (read.tries, read.buffer) = (read.tries + 1, Some(buffer));
                    self.queue_of(&read).push_front(read);
                    return None;
                }
                Ok((buffer, bytes))
            }
            Outcome::Failed(failure, buffer) => {
                buffer.into_iter().for_each(|buffer| self.shelf.give_back(buffer));
                Err(failure)
            }
            _ => unreachable!("a read ends as one"),
        };
        let Read { whom, reading, .. } = read;
        Some(Ended { whom, reading, result })
    }

    /// Where its buffers are that nobody uses.
    pub(crate) fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }
}
