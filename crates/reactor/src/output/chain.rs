//! Bytes on their way: the part of an output that a driver owns while it sends.

use std::{collections::VecDeque, io::IoSlice};

use super::Weight;
use crate::pool::{Buffer, Class, Share};

/// Places for buffers before the last that an empty chain keeps, so that a steady load does not
/// allocate and an idle connection, which has two chains, costs little: 4 of 32 bytes, if it has
/// ever had any.
const KEPT_BUFFERS: usize = 4;

/// Places for external memory that it keeps: 2 of some 140 bytes, if it has ever had any.
const KEPT_PIECES: usize = 2;

/// Memory outside the pool that is sent in place. It must not change before it is dropped.
pub trait External {
    /// Bytes of it; at least 1.
    fn len(&self) -> usize;

    /// Gives its bytes in order, beginning at `skip` (less than its length), until it has no more
    /// or `to` takes no more.
    fn gather<'a>(&'a self, skip: usize, to: &mut Gather<'a, '_>);

    /// More of it has been sent, but not all: with the last byte it is dropped.
    fn advanced(&self) {}

    /// Whether it has no bytes: never.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A connection that sends nothing in place.
impl External for std::convert::Infallible {
    fn len(&self) -> usize {
        match *self {}
    }

    fn gather<'a>(&'a self, _skip: usize, _to: &mut Gather<'a, '_>) {
        match *self {}
    }
}

/// Slices for one vectored send.
#[derive(Debug)]
pub struct Gather<'a, 's> {
    slices: &'s mut [IoSlice<'a>],
    count: usize,
    bytes: usize,
}

impl<'a, 's> Gather<'a, 's> {
    /// Collects into `slices`, overwriting what is there.
    pub fn new(slices: &'s mut [IoSlice<'a>]) -> Self {
        Self { slices, count: 0, bytes: 0 }
    }

    /// Takes one more slice; false if there is no place left for it.
    pub fn push(&mut self, slice: &'a [u8]) -> bool {
        if slice.is_empty() {
            return true;
        }
        let Some(place) = self.slices.get_mut(self.count) else { return false };
        *place = IoSlice::new(slice);
        self.count += 1;
        self.bytes += slice.len();
        true
    }

    /// Slices taken.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Weight {
    fn add(&mut self, buffer: &Buffer) {
        self.buffer_bytes += buffer.capacity();
        self.own_bytes += own_bytes(buffer);
    }

    fn remove(&mut self, buffer: &Buffer) {
        self.buffer_bytes -= buffer.capacity();
        self.own_bytes -= own_bytes(buffer);
    }
}

fn own_bytes(buffer: &Buffer) -> usize {
    if buffer.share() == Share::Own { buffer.capacity() } else { 0 }
}

/// External memory, and so many bytes of the buffers that are sent before it.
#[derive(Debug)]
struct Piece<E> {
    before: usize,
    external: E,
}

/// Bytes in buffers and elsewhere, in the order in which they are sent.
///
/// The bytes of all buffers are one string; the pieces say where external memory is sent between
/// them. So the short headers of many large values share a buffer, and replies without external
/// memory have no pieces.
#[derive(Debug)]
pub struct Chain<E>(Box<Parts<E>>);

/// What a chain is made of. In a box, because for every send it goes from an output to a driver, on
/// to the kernel's side, and all the way back.
#[derive(Debug)]
struct Parts<E> {
    /// Those before the last, which have no room for what came next.
    filled: VecDeque<Buffer>,
    /// Where what comes next is written: mostly the only one, and so found at once.
    last: Option<Buffer>,
    pieces: VecDeque<Piece<E>>,
    /// Bytes of the buffers that are sent behind all pieces.
    behind: usize,
    /// Bytes of the first buffer that have been sent.
    buffer_sent: usize,
    /// Bytes of the first external memory that have been sent.
    external_sent: usize,
    bytes_in_buffers: usize,
    weight: Weight,
}

impl<E> Default for Chain<E> {
    fn default() -> Self {
        Self(Box::new(Parts {
            filled: VecDeque::new(),
            last: None,
            pieces: VecDeque::new(),
            behind: 0,
            buffer_sent: 0,
            external_sent: 0,
            bytes_in_buffers: 0,
            weight: Weight::default(),
        }))
    }
}

impl<E: External> Chain<E> {
    /// Bytes that are still to be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.bytes_in_buffers + self.0.weight.external_bytes - self.0.external_sent
    }

    /// Whether everything has been sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.bytes_in_buffers == 0 && self.0.pieces.is_empty()
    }

    /// All of it, if that is one slice of a buffer.
    pub(crate) fn one_slice(&self) -> Option<&[u8]> {
        let rest = &self.first()?.bytes()[self.0.buffer_sent..];
        (self.0.pieces.is_empty() && rest.len() == self.0.bytes_in_buffers).then_some(rest)
    }

    /// Whether all of it is one slice of memory that lies elsewhere.
    pub(crate) fn is_one_piece(&self) -> bool {
        if self.0.bytes_in_buffers > 0 || self.0.pieces.len() != 1 {
            return false;
        }
        let mut slices = [IoSlice::new(&[])];
        let mut gather = Gather::new(&mut slices);
        self.gather(&mut gather);
        gather.bytes() == self.len() && gather.bytes() > 0
    }

    /// Collects the bytes that are to be sent next, as many as `to` takes.
    pub fn gather<'a>(&'a self, to: &mut Gather<'a, '_>) {
        let mut buffers = self.0.filled.iter().chain(&self.0.last);
        let mut rest = buffers.next().map_or(&[][..], |first| &first.bytes()[self.0.buffer_sent..]);
        let mut push_buffered = |mut len: usize, to: &mut Gather<'a, '_>| {
            while len > 0 {
                if rest.is_empty() {
                    rest = buffers.next().expect("invariant: buffers have what is sent").bytes();
                }
                let (now, later) = rest.split_at(len.min(rest.len()));
                if !to.push(now) {
                    return false;
                }
                (rest, len) = (later, len - now.len());
            }
            true
        };
        let mut skip = self.0.external_sent;
        for Piece { before, external } in &self.0.pieces {
            if !push_buffered(*before, to) {
                return;
            }
            let taken = to.bytes();
            external.gather(skip, to);
            if to.bytes() - taken < external.len() - skip {
                return;
            }
            skip = 0;
        }
        push_buffered(self.0.behind, to);
    }

    /// Sends everything into a vector, as a simulation does.
    #[must_use]
    pub fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); 16];
            let mut gather = Gather::new(&mut slices);
            self.gather(&mut gather);
            let count = gather.count();
            let before = bytes.len();
            slices[..count].iter().for_each(|slice| bytes.extend_from_slice(slice));
            self.advance(bytes.len() - before);
        }
        bytes
    }

    /// Notes that the next `count` bytes have been sent, and drops what is no longer needed.
    ///
    /// # Panics
    /// Panics when there are fewer bytes.
    pub fn advance(&mut self, mut count: usize) {
        if count == self.0.bytes_in_buffers && self.0.pieces.is_empty() {
            // Usually all of it is sent at once.
            (self.0.behind, self.0.bytes_in_buffers) = (0, 0);
            return self.clear();
        }
        while let Some(Piece { before, external }) = self.0.pieces.front_mut() {
            let sent_before = count.min(*before);
            *before -= sent_before;
            count -= sent_before;
            let (is_next, len) = (*before == 0, external.len());
            self.advance_buffers(sent_before);
            if !is_next {
                return;
            }
            let sent = count.min(len - self.0.external_sent);
            self.0.external_sent += sent;
            count -= sent;
            if self.0.external_sent < len {
                if sent > 0
                    && let Some(piece) = self.0.pieces.front()
                {
                    piece.external.advanced();
                }
                return;
            }
            self.0.pieces.pop_front();
            self.0.external_sent = 0;
            self.0.weight.external_bytes -= len;
            self.0.weight.externals -= 1;
        }
        self.0.behind = self.0.behind.checked_sub(count).expect("no more is sent than there is");
        self.advance_buffers(count);
        if self.is_empty() {
            self.clear();
        }
    }

    fn advance_buffers(&mut self, mut count: usize) {
        self.0.bytes_in_buffers -= count;
        while count > 0 {
            let first = self.first().expect("invariant: buffers have what is sent");
            let left = first.bytes().len() - self.0.buffer_sent;
            if count < left {
                self.0.buffer_sent += count;
                return;
            }
            count -= left;
            if let Some(first) = self.0.filled.pop_front().or_else(|| self.0.last.take()) {
                self.0.weight.remove(&first);
            }
            self.0.buffer_sent = 0;
        }
    }

    /// Drops room that was taken and not used, and queues that grew.
    pub(super) fn clear(&mut self) {
        self.0.last = None;
        if !self.0.filled.is_empty() {
            self.0.filled.clear();
        }
        if self.0.filled.capacity() > KEPT_BUFFERS {
            self.0.filled.shrink_to(KEPT_BUFFERS);
        }
        if self.0.pieces.capacity() > KEPT_PIECES {
            self.0.pieces.shrink_to(KEPT_PIECES);
        }
        self.0.buffer_sent = 0;
        self.0.weight = Weight::default();
    }

    pub(super) fn weight(&self) -> Weight {
        self.0.weight
    }

    pub(super) fn bytes_in_buffers(&self) -> usize {
        self.0.bytes_in_buffers
    }

    fn first(&self) -> Option<&Buffer> {
        self.0.filled.front().or(self.0.last.as_ref())
    }

    pub(super) fn last_buffer(&self) -> Option<&Buffer> {
        self.0.last.as_ref()
    }

    pub(super) fn last_class(&self) -> Option<Class> {
        self.0.last.as_ref().map(Buffer::class)
    }

    /// Buffers, and bytes in the last one.
    pub(super) fn end(&self) -> (usize, usize) {
        let last_len = self.0.last.as_ref().map(|last| last.bytes().len());
        (self.0.filled.len() + usize::from(last_len.is_some()), last_len.unwrap_or(0))
    }

    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        match &mut self.0.last {
            Some(last) => last.room(),
            None => &mut [],
        }
    }

    pub(super) fn push_buffer(&mut self, buffer: Buffer) {
        self.0.weight.add(&buffer);
        if let Some(filled) = self.0.last.replace(buffer) {
            self.0.filled.push_back(filled);
        }
    }

    #[inline]
    pub(super) fn commit_with(&mut self, count: usize, tail: &[u8]) {
        let len = count + tail.len();
        let Some(last) = &mut self.0.last else {
            return assert_eq!(len, 0, "committed without room");
        };
        last.commit_with(count, tail);
        self.0.bytes_in_buffers += len;
        self.0.behind += len;
    }

    pub(super) fn push_external(&mut self, external: E) {
        debug_assert!(!external.is_empty(), "external memory without bytes");
        self.0.weight.external_bytes += external.len();
        self.0.weight.externals += 1;
        let before = std::mem::take(&mut self.0.behind);
        self.0.pieces.push_back(Piece { before, external });
    }

    /// Goes back to where there were `buffers` buffers and `last_len` bytes in the last one.
    pub(super) fn truncate(&mut self, buffers: usize, last_len: usize) {
        let mut removed = 0;
        while self.end().0 > buffers {
            let last = self.0.last.take().expect("invariant: counted");
            self.0.last = self.0.filled.pop_back();
            removed += last.bytes().len();
            self.0.weight.remove(&last);
        }
        if let Some(last) = &mut self.0.last {
            removed += last.bytes().len() - last_len;
            last.truncate(last_len);
        }
        self.0.bytes_in_buffers -= removed;
        self.0.behind -= removed;
    }
}
