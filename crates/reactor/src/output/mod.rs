//! What a session wants to send.
//!
//! Owns a queue of bytes in pool buffers and, between them, memory that lies elsewhere and is
//! sent in place. All of it leaves in one send: the queue is moved into the driver as a [`Chain`]
//! and comes back empty when everything has been sent; what is written in the meantime queues up
//! in a chain of its own.
//!
//! Writing never fails. A session asks [`Output::has_room`] before each unit of a reply (one
//! line, one value of a multi-get) and stops when there is none, so the bound is passed by at
//! most one unit, [`OUTPUT_UNIT_BYTES_MAX`] or one external value.

mod chain;
#[cfg(test)]
mod tests;

pub use chain::{Chain, External, Gather};

use crate::pool::{Appetite, BUFFER_BYTES_MAX, Buffer, Class, OWN_OUTPUT_BYTES, Pool, Share};

/// Bytes of buffers that may be queued for one connection before its session has to stop.
pub const OUTPUT_BYTES_HIGH: usize = 64 << 10;

/// Bytes of external memory that may be queued for one connection before its session has to stop.
/// A client's socket takes 2.5 MiB at a time at most; values above this go out alone.
pub const EXTERNAL_BYTES_HIGH: usize = 1 << 20;

/// External values that may be queued for one connection. The places of 16 take some 2 KiB, which
/// no pool counts; of the shortest, of 4 KiB, they are as much as may be queued in buffers.
pub(crate) const EXTERNALS_HIGH: usize = 16;

/// Most bytes a session may write between two calls of [`Output::has_room`]: what each connection
/// has of its own, so that one unit can always be written.
pub const OUTPUT_UNIT_BYTES_MAX: usize = OWN_OUTPUT_BYTES;

const OUTPUT_CLASS_MAX: Class = Class::fixed(OUTPUT_BYTES_HIGH);

const _: () = assert!(OUTPUT_UNIT_BYTES_MAX <= BUFFER_BYTES_MAX);

/// Replies of one connection that are not on their way yet.
#[derive(Debug)]
pub struct Output<E> {
    chain: Chain<E>,
    /// The last one that has been sent, to be written to when the present one is.
    spare: Option<Chain<E>>,
    in_flight: Weight,
    /// How often it was heard that bytes have gone out.
    moved: u64,
    pool: Pool,
    appetite: Appetite,
}

/// What a chain costs while it is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) buffer_bytes: usize,
    /// The part of it that is the connection's own.
    pub(crate) own_bytes: usize,
    pub(crate) external_bytes: usize,
    pub(crate) externals: usize,
}

/// A place in an output, to go back to. See [`Output::mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    buffers: usize,
    last_len: usize,
    externals: usize,
}

impl<E: External> Output<E> {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            chain: Chain::default(),
            spare: None,
            in_flight: Weight::default(),
            moved: 0,
            pool,
            appetite: Appetite::new(),
        }
    }

    /// Whether another unit may be written: nothing waits to be sent, or less than the bound and
    /// less than the pool can spare. When not, the session returns [`crate::Next::Blocked`] and is
    /// called again when there is.
    #[must_use]
    #[inline]
    pub fn has_room(&self) -> bool {
        self.is_idle()
            || (self.below_bound()
                && self.chain.weight().buffer_bytes + self.in_flight.buffer_bytes
                    < self.pool.greed_bytes())
    }

    /// Appends `bytes`.
    pub fn put(&mut self, bytes: &[u8]) {
        if bytes.len() <= BUFFER_BYTES_MAX {
            self.room(bytes.len());
            return self.commit_with(0, bytes);
        }
        for part in bytes.chunks(BUFFER_BYTES_MAX) {
            self.put(part);
        }
    }

    /// Room for at least `len` bytes in one piece, of which [`Output::commit`] appends as many as
    /// were written. What is in there is of no meaning.
    ///
    /// # Panics
    /// Panics when `len` exceeds [`BUFFER_BYTES_MAX`].
    #[inline]
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        if self.chain.room().len() < len {
            self.make_room(len);
        }
        self.chain.room()
    }

    #[inline(never)]
    fn make_room(&mut self, len: usize) {
        let buffer = self.take(Class::for_bytes(len).expect("invariant: it fits a buffer"));
        self.chain.push_buffer(buffer);
    }

    /// One more buffer, of at least `least`: from the connection's own memory while that
    /// suffices, else from the common one.
    fn take(&self, least: Class) -> Buffer {
        // What is queued already was too small, so more is to come.
        let wanted = self.chain.last_class().map_or(self.appetite.class(), Class::larger);
        if wanted == Class::MIN && least == Class::MIN && self.is_idle() {
            // The usual case: the first bytes of a short reply.
            return self.pool.take_always(Class::MIN, Share::Own);
        }
        let (queued, flying) = (self.chain.weight(), self.in_flight);
        let left_bytes =
            OUTPUT_BYTES_HIGH.saturating_sub(queued.buffer_bytes + flying.buffer_bytes);
        let class = match wanted {
            Class::MIN => least,
            _ => self.pool.temper(wanted.min(Class::within(left_bytes))).max(least),
        };
        let taken_bytes = queued.own_bytes + flying.own_bytes;
        let is_own = |class: Class| taken_bytes + class.bytes() <= OWN_OUTPUT_BYTES;
        if !is_own(class) && self.pool.has_room(class) {
            self.pool.take_always(class, Share::Common)
        } else if is_own(class) || is_own(least) {
            let class = if is_own(class) { class } else { least };
            self.pool.take_always(class, Share::Own)
        } else {
            // The rest of a unit that was begun.
            self.pool.take_always(least, Share::Common)
        }
    }

    /// Appends the first `count` bytes of the room.
    ///
    /// # Panics
    /// Panics when the room is smaller.
    #[inline]
    pub fn commit(&mut self, count: usize) {
        self.chain.commit_with(count, &[]);
    }

    /// Appends the first `count` bytes of the room and `tail` behind them.
    ///
    /// # Panics
    /// Panics when the room is smaller than both.
    #[inline]
    pub fn commit_with(&mut self, count: usize, tail: &[u8]) {
        self.chain.commit_with(count, tail);
    }

    /// Appends memory that lies elsewhere. It is dropped when it has been sent, or when the
    /// connection is closed.
    pub fn attach(&mut self, external: E) {
        self.chain.push_external(external);
    }

    /// This place, to [`Output::rewind`] to.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let (buffers, last_len) = self.chain.end();
        Mark { buffers, last_len, externals: self.chain.weight().externals }
    }

    /// Takes back all bytes appended since `mark`.
    ///
    /// # Panics
    /// Panics when external memory was attached since.
    pub fn rewind(&mut self, mark: Mark) {
        assert_eq!(mark.externals, self.chain.weight().externals, "rewound over external memory");
        self.chain.truncate(mark.buffers, mark.last_len);
    }

    /// Bytes that wait to be given to the driver.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chain.len()
    }

    /// Whether nothing waits to be given to the driver.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// Gives memory back that was taken and not written. To be called after each service.
    pub(crate) fn settle(&mut self) {
        // A chain that was sent has been cleared.
        if self.chain.is_empty() && self.chain.last_buffer().is_some() {
            self.chain.clear();
        }
    }

    /// Whether nothing waits and nothing is on its way. Who has to have that returns
    /// [`crate::Next::Behind`] when it is not so.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.is_empty() && self.in_flight == Weight::default()
    }

    /// Another number than before when the peer has taken something since.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Bytes of what was launched have gone out, but not all.
    pub fn note_moved(&mut self) {
        self.moved += 1;
    }

    /// Whether the connection's own bound allows another unit.
    pub(crate) fn below_bound(&self) -> bool {
        let (queued, flying) = (self.chain.weight(), self.in_flight);
        queued.buffer_bytes + flying.buffer_bytes < OUTPUT_BYTES_HIGH
            && queued.external_bytes + flying.external_bytes < EXTERNAL_BYTES_HIGH
            && queued.externals + flying.externals < EXTERNALS_HIGH
    }

    /// Everything that waits, for the driver. Another launch may follow when the chain has come
    /// back.
    #[must_use]
    pub fn launch(&mut self) -> Chain<E> {
        let next = self.spare.take().unwrap_or_default();
        let chain = std::mem::replace(&mut self.chain, next);
        let (buffers, bytes) = (chain.end().0, chain.bytes_in_buffers());
        if buffers > 1 {
            // In one piece they would have gone out with the next wait, without a call.
            self.appetite.outgrow(bytes, OUTPUT_UNIT_BYTES_MAX, OUTPUT_CLASS_MAX);
        } else if let Some(last) = chain.last_buffer() {
            self.appetite.learn(bytes, last, OUTPUT_CLASS_MAX);
        }
        self.in_flight = chain.weight();
        chain
    }

    /// The driver has sent all that was launched, and gives the empty chain back.
    pub fn landed(&mut self, mut chain: Chain<E>) {
        debug_assert!(chain.is_empty(), "a chain comes back when it has been sent");
        // What has been sent is cleared, but it may have been launched with nothing to send and a
        // buffer that nothing was written to.
        if chain.last_buffer().is_some() {
            chain.clear();
        }
        self.in_flight = Weight::default();
        self.note_moved();
        self.spare = Some(chain);
    }
}
