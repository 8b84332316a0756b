//! What is answered from a file, and set to it: the disk's limit for one thread.
//!
//! ```text
//!   get -> Reads: a buffer -> the blocks that a record lies on, read past the page cache
//!            +-> the reply's head and end are written around the value there, and it is sent
//!   set -> Tail: a buffer of 1 MiB -> written past the page cache when it is full
//!            +-> `STORED` at once
//! ```
//!
//! All of it is on the ring of the sockets, and in its thread: the kernel is told to use no other
//! one, and asks the disk itself unless it would have to wait. What it leaves out of what a store
//! has to do:
//! - nothing is looked up: a record lies where the number of its key says, whatever was set;
//! - what was read is not checked, no key is compared, and what is in a full buffer or is being
//!   written is not found there. So a value that is got is as long as it has to be, and no more
//!   is promised of it: before anything was set it is filling, afterwards what lies there;
//! - no checksum is taken of what is set, its room is overwritten without a look at who needs it,
//!   nothing is flushed, and the last buffer is not written until it is full;
//! - nothing is kept in memory: each get is a read.
//!
//! A peer that does not read its replies keeps the buffers that they lie in from all others.

mod layout;
mod reads;
mod tail;

use std::{
    fs::{File, OpenOptions},
    io::{self, Error},
    os::{
        fd::AsFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

use self::{
    layout::{HEADER_BYTES, Layout},
    reads::{READS, Reads},
    tail::{BUFFER_BYTES, BUFFERS, Tail, Write},
};
use super::{
    Answers, FILLING, Refused,
    outbox::{Outbox, Overfull},
    replies::{short, stats},
    requests::{Read, Request, Requests},
    ring::{Memory, Ring, Token},
};

/// What lies before a value where it was set.
const HEADER: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

/// A file with a record for each key.
pub(super) struct Disk {
    file: File,
    layout: Layout,
    /// First what is written, then what is read.
    memory: Memory,
    reads: Reads,
    tail: Tail,
    writes: Vec<Write>,
    stats: Vec<u8>,
    /// Empty between two calls.
    asked: Vec<Request>,
}

impl Disk {
    /// Writes the file at `path` for values of `keys` keys, of `value_bytes` each.
    ///
    /// # Errors
    /// When it cannot be written, or not past the page cache, or there is not as much memory.
    pub(super) fn new(path: &Path, value_bytes: usize, keys: u32) -> io::Result<Self> {
        let layout = Layout::new(value_bytes, keys);
        let mut memory = Memory::new(BUFFERS * BUFFER_BYTES + READS * layout.buffer_bytes())?;
        let direct = OFlags::DIRECT.bits() as i32;
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(true).custom_flags(direct);
        let named = |error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = how.open(path).map_err(named)?;
        memory.bytes_mut(0..BUFFER_BYTES).fill(FILLING);
        // Blocks that were only allocated would be read without the disk.
        for at in (0..layout.file_bytes()).step_by(BUFFER_BYTES) {
            file.write_all_at(memory.bytes(0..BUFFER_BYTES), at).map_err(named)?;
        }
        file.sync_all().map_err(named)?;
        let tail = Tail::new(layout.file_bytes());
        let (reads, writes, asked) = (Reads::default(), Vec::new(), Vec::new());
        Ok(Self { file, layout, memory, reads, tail, writes, stats: stats(), asked })
    }

    /// Where a buffer of a read begins.
    fn buffer_at(&self, buffer: u32) -> usize {
        BUFFERS * BUFFER_BYTES + buffer as usize * self.layout.buffer_bytes()
    }

    fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.tail.room();
            let (now, rest) = bytes.split_at(room.len().min(bytes.len()));
            self.memory.bytes_mut(room.start..room.start + now.len()).copy_from_slice(now);
            self.writes.extend(self.tail.fill(now.len()));
            bytes = rest;
        }
    }

    fn reply(
        &mut self,
        slot: u32,
        request: Request,
        outbox: &mut Outbox<u32>,
    ) -> Result<(), Overfull> {
        match request {
            Request::Get(key) => {
                let get = self.reads.ask(slot, self.layout.span(key));
                let added = outbox.refer(get, self.layout.reply_bytes());
                if added.is_err() {
                    self.reads.forget(get);
                }
                added
            }
            other => outbox.copy(short(other, &self.stats)),
        }
    }
}

impl Answers for Disk {
    /// A get.
    type Long = u32;

    fn value_bytes(&self) -> usize {
        self.layout.value_bytes()
    }

    fn register(&mut self, ring: &mut Ring) -> io::Result<()> {
        ring.register(self.file.as_fd(), &self.memory)
    }

    fn has_room(&self) -> bool {
        self.tail.has_room() && !self.reads.are_waiting()
    }

    fn answer(
        &mut self,
        slot: u32,
        requests: &mut Requests,
        bytes: &[u8],
        outbox: &mut Outbox<u32>,
    ) -> Result<(), Refused> {
        let mut asked = std::mem::take(&mut self.asked);
        let taken = requests.take(bytes, |read| match read {
            Read::Request(request) => asked.push(request),
            Read::Data { at, bytes, .. } => {
                if at == 0 {
                    self.append(&HEADER);
                }
                self.append(bytes);
            }
        });
        let added = asked.drain(..).try_for_each(|request| self.reply(slot, request, outbox));
        self.asked = asked;
        if taken.is_err() || added.is_err() { Err(Refused) } else { Ok(()) }
    }

    fn long(&self, get: u32) -> &[u8] {
        let Some((buffer, span)) = self.reads.read(get) else { return &[] };
        let reply = self.layout.reply(span);
        let start = self.buffer_at(buffer);
        self.memory.bytes(start + reply.start..start + reply.end)
    }

    fn forget(&mut self, get: u32) {
        self.reads.forget(get);
    }

    fn begin(&mut self, ring: &mut Ring) {
        while let Some((get, buffer, span)) = self.reads.begin() {
            let start = self.buffer_at(buffer);
            ring.read(&self.memory, start..start + span.bytes, span.at, Token::Read(get));
        }
        for Write { buffer, at } in self.writes.drain(..) {
            let start = buffer * BUFFER_BYTES;
            let token = Token::Write(buffer as u32);
            ring.write(&self.memory, start..start + BUFFER_BYTES, at, token);
        }
    }

    fn end(&mut self, token: Token, result: Result<u32, Errno>) -> io::Result<Option<u32>> {
        let count = result? as usize;
        let (slot, expected) = match token {
            Token::Write(buffer) => {
                self.tail.end(buffer as usize);
                (None, BUFFER_BYTES)
            }
            Token::Read(get) => {
                let (buffer, span) = self.reads.buffer(get);
                let start = self.buffer_at(buffer);
                self.layout.dress(self.memory.bytes_mut(start..start + span.bytes_max()), span);
                (self.reads.end(get), span.bytes)
            }
            _ => return Ok(None),
        };
        if count != expected {
            let what = format!("{token:?}: {count} bytes of {expected}");
            return Err(Error::other(what));
        }
        Ok(slot)
    }
}
