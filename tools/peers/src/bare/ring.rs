//! io_uring's queues, and memory that the kernel receives into.
//!
//! Owns both. Thread safety: none; one thread sets a ring up, uses it and drops it.
//!
//! Invariants:
//! 1. A chunk is the kernel's from [`Ring::offer`] until the completion that names it.
//! 2. What [`Ring::send`] is given stays where it is until the send's completion. Sends do not wait
//!    for room, so that comes within the next [`Ring::enter`].
//! 3. A range of [`Memory`] is the kernel's from [`Ring::read`] or [`Ring::write`] until the
//!    completion with its token, and nobody touches it meanwhile. It is mapped on its own: what is
//!    under way when a ring goes ends in pages that nobody else is given.
//!
//! Source: io_uring_enter(2), io_uring_register_buf_ring(3), io_uring_register_buffers(3).
#![expect(unsafe_code, reason = "the kernel's queues, and memory shared with it")]

use std::{
    array, io,
    ops::Range,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr, slice,
    sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use io_uring::{
    IoUring, cqueue, opcode, squeue,
    types::{Fd, Fixed, SubmitArgs, Timespec},
};
use memmap2::{MmapMut, MmapRaw};
use rustix::{event::PollFlags, io::Errno, net::SendFlags};

/// Operations handed over at a time: a send for each connection of a cell, with room.
const SUBMISSIONS: u32 = 1024;

/// Completions that the kernel has room for.
const COMPLETIONS: u32 = 8192;

/// Chunks: more than connections of a cell, each of which fills one or two at a time.
const CHUNKS: u16 = 256;

/// The one group of chunks.
const GROUP: u16 = 0;

/// The one file, and the one piece of memory, that the kernel knows by number.
const FILE: Fixed = Fixed(0);
const MEMORY: u16 = 0;

/// An entry of the ring that tells the kernel which chunks it may fill.
#[repr(C)]
struct Entry {
    address: AtomicU64,
    bytes: AtomicU32,
    number: AtomicU16,
    /// In the first entry, how many were ever offered.
    tail: AtomicU16,
}

/// The kernel wants it on a page of its own.
#[repr(C, align(4096))]
struct Entries([Entry; CHUNKS as usize]);

/// What an operation is for: its kind, and the slot of its connection or what else it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Accept,
    Receive(u32),
    Send(u32),
    Room(u32),
    /// Of the file.
    Read(u32),
    Write(u32),
}

impl Token {
    fn bits(self) -> u64 {
        let (kind, slot) = match self {
            Self::Accept => (0, 0),
            Self::Receive(slot) => (1, slot),
            Self::Send(slot) => (2, slot),
            Self::Room(slot) => (3, slot),
            Self::Read(number) => (4, number),
            Self::Write(number) => (5, number),
        };
        kind << 32 | u64::from(slot)
    }

    fn from_bits(bits: u64) -> Self {
        let slot = bits as u32;
        match bits >> 32 {
            0 => Self::Accept,
            1 => Self::Receive(slot),
            2 => Self::Send(slot),
            3 => Self::Room(slot),
            4 => Self::Read(slot),
            _ => Self::Write(slot),
        }
    }
}

/// What a completion says.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) token: Token,
    pub(super) result: Result<u32, Errno>,
    /// The operation goes on.
    pub(super) more: bool,
    /// The chunk that was filled; to be offered again.
    pub(super) chunk: Option<u16>,
}

/// Operations in, completions out. Fields are dropped in this order: the kernel first.
pub(super) struct Ring {
    queues: IoUring,
    entries: Box<Entries>,
    memory: Box<[u8]>,
    chunk_bytes: usize,
    tail: u16,
}

impl Ring {
    /// Chunks are of `chunk_bytes`.
    ///
    /// # Errors
    /// What the system says; it is Linux 6.6 that knows everything that is asked for.
    pub(super) fn new(chunk_bytes: usize) -> io::Result<Self> {
        let queues = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_no_sqarray()
            .build(SUBMISSIONS)?;
        let entry = |_| Entry {
            address: AtomicU64::new(0),
            bytes: AtomicU32::new(0),
            number: AtomicU16::new(0),
            tail: AtomicU16::new(0),
        };
        let entries = Box::new(Entries(array::from_fn(entry)));
        let memory = vec![0; usize::from(CHUNKS) * chunk_bytes].into_boxed_slice();
        let address = ptr::from_ref::<Entries>(&entries).expose_provenance() as u64;
        let mut ring = Self { queues, entries, memory, chunk_bytes, tail: 0 };
        // SAFETY: there are as many entries as is said, and they are dropped after the queues.
        unsafe {
            ring.queues.submitter().register_buf_ring_with_flags(address, CHUNKS, GROUP, 0)?;
        }
        (0..CHUNKS).for_each(|chunk| ring.offer(chunk));
        Ok(ring)
    }

    /// Accepts connections until it fails.
    pub(super) fn accept(&mut self, listener: BorrowedFd<'_>) {
        self.push(opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).build(), Token::Accept);
    }

    /// Receives into chunks until it fails or finds none.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, slot: u32) {
        let receive = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.push(receive, Token::Receive(slot));
    }

    /// Sends as many of `bytes` as the socket takes at once.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[u8], slot: u32) {
        let count = u32::try_from(bytes.len()).expect("invariant: what waits is 16 MiB at most");
        let flags = (SendFlags::NOSIGNAL | SendFlags::DONTWAIT).bits() as i32;
        let send = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), count).flags(flags);
        self.push(send.build(), Token::Send(slot));
    }

    /// Waits once until the socket has room.
    pub(super) fn room(&mut self, socket: BorrowedFd<'_>, slot: u32) {
        let poll = opcode::PollAdd::new(Fd(socket.as_raw_fd()), PollFlags::OUT.bits().into());
        self.push(poll.build(), Token::Room(slot));
    }

    /// Has the kernel know a file, and the memory that it is read to and written from, by numbers:
    /// it looks neither up again, and the memory's pages are held for good.
    ///
    /// # Errors
    /// What the system says; the memory counts against what a process may lock.
    pub(super) fn register(&mut self, file: BorrowedFd<'_>, memory: &Memory) -> io::Result<()> {
        let submitter = self.queues.submitter();
        submitter.register_files(&[file.as_raw_fd()])?;
        let vector = libc::iovec {
            iov_base: memory.mapped.as_mut_ptr().cast(),
            iov_len: memory.mapped.len(),
        };
        // SAFETY: the memory is mapped, and the kernel holds its pages itself. What it does with
        // them is asked for by `read` and `write` (invariant 3).
        unsafe { submitter.register_buffers(&[vector]) }
    }

    /// Reads the file from `at` on, to `range` of the memory that was registered.
    pub(super) fn read(&mut self, memory: &Memory, range: Range<usize>, at: u64, token: Token) {
        let (start, bytes) = memory.raw(range);
        let read = opcode::ReadFixed::new(FILE, start, bytes, MEMORY).offset(at);
        self.push(read.build(), token);
    }

    /// Writes `range` of the memory that was registered to the file, from `at` on.
    pub(super) fn write(&mut self, memory: &Memory, range: Range<usize>, at: u64, token: Token) {
        let (start, bytes) = memory.raw(range);
        let write = opcode::WriteFixed::new(FILE, start, bytes, MEMORY).offset(at);
        self.push(write.build(), token);
    }

    /// Hands all operations over, waits until there are `wanted` completions or `timeout` has
    /// passed, and appends them.
    ///
    /// # Errors
    /// What the system says of the waiting.
    pub(super) fn enter(
        &mut self,
        wanted: usize,
        timeout: Duration,
        into: &mut Vec<Completion>,
    ) -> io::Result<()> {
        self.entries.0[0].tail.store(self.tail, Ordering::Release);
        let timeout = Timespec::from(timeout);
        let arguments = SubmitArgs::new().timespec(&timeout);
        if let Err(error) = self.queues.submitter().submit_with_args(wanted, &arguments) {
            let known = Errno::from_io_error(&error);
            if !matches!(known, Some(Errno::TIME | Errno::INTR | Errno::BUSY)) {
                return Err(error);
            }
        }
        into.extend(
            self.queues.completion().map(|entry| Completion {
                token: Token::from_bits(entry.user_data()),
                result: u32::try_from(entry.result())
                    .map_err(|_| Errno::from_raw_os_error(-entry.result())),
                more: cqueue::more(entry.flags()),
                chunk: cqueue::buffer_select(entry.flags()),
            }),
        );
        Ok(())
    }

    /// The first `count` bytes of a chunk that a completion has named.
    pub(super) fn chunk(&self, chunk: u16, count: usize) -> &[u8] {
        &self.memory[usize::from(chunk) * self.chunk_bytes..][..count]
    }

    /// Gives a chunk to the kernel; it learns of it with the next [`Ring::enter`].
    pub(super) fn offer(&mut self, chunk: u16) {
        let start = self.memory.as_mut_ptr().wrapping_add(usize::from(chunk) * self.chunk_bytes);
        let entry = &self.entries.0[usize::from(self.tail % CHUNKS)];
        let address = start.expose_provenance() as u64;
        entry.address.store(address, Ordering::Relaxed);
        entry.bytes.store(self.chunk_bytes as u32, Ordering::Relaxed);
        entry.number.store(chunk, Ordering::Relaxed);
        self.tail = self.tail.wrapping_add(1);
    }

    fn push(&mut self, entry: squeue::Entry, token: Token) {
        let entry = entry.user_data(token.bits());
        loop {
            // SAFETY: what a send reads stays where it is (invariant 2), what a receive writes is
            // the ring's own, and what the file is read to and written from is left alone
            // (invariant 3).
            if unsafe { self.queues.submission().push(&entry) }.is_ok() {
                return;
            }
            // It is full. What goes wrong here shows as operations that do not complete.
            let _ = self.queues.submit();
        }
    }
}

/// Memory that a file is read to and written from, on pages of its own.
pub(super) struct Memory {
    mapped: MmapRaw,
}

impl Memory {
    /// Of zeros.
    ///
    /// # Errors
    /// When there is not as much.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self { mapped: MmapMut::map_anon(bytes)?.into() })
    }

    fn raw(&self, range: Range<usize>) -> (*mut u8, u32) {
        assert!(range.end <= self.mapped.len(), "{range:?} is within the memory");
        let count = u32::try_from(range.len()).expect("invariant: what is read is a value");
        (self.mapped.as_mut_ptr().wrapping_add(range.start), count)
    }

    /// A range that is not the kernel's.
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        let (start, count) = self.raw(range);
        // SAFETY: it is within the mapping, which is initialized, and only who has the memory
        // exclusively writes to it: the kernel does not (invariant 3).
        unsafe { slice::from_raw_parts(start, count as usize) }
    }

    /// A range that is not the kernel's.
    pub(super) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let (start, count) = self.raw(range);
        // SAFETY: as in `bytes`; and `self` is exclusive.
        unsafe { slice::from_raw_parts_mut(start, count as usize) }
    }
}

/// The socket that the completion of an accept names.
pub(super) fn adopt(socket: u32) -> OwnedFd {
    // SAFETY: the kernel has just opened it for us, and nobody else knows its number.
    unsafe { OwnedFd::from_raw_fd(socket as i32) }
}
