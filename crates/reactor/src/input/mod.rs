//! What a connection has received and its session has not used yet.
//!
//! Owns at most one buffer, and none when there are no bytes. Bytes are always contiguous, so
//! that a parser can borrow from them. A request that does not fit makes the buffer grow by
//! doubling; what is left of a large buffer moves to a small one, so that a connection that waits
//! with half a line holds the smallest buffer that takes it.

#[cfg(test)]
mod tests;

use crate::pool::{Appetite, BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, Buffer, Class, Pool, Share};

/// Most bytes a connection's input can hold. A session that has so many and still cannot use any
/// is closed.
pub const INPUT_BYTES_MAX: usize = BUFFER_BYTES_MAX;

/// Largest buffer that is handed out ahead of need, and so the most that one connection is read
/// per turn unless one request is longer: 64 KiB are some 1,500 small requests, or 1 ms.
const RECEIVE_CLASS_MAX: Class = Class::fixed(64 << 10);

/// Received bytes.
#[derive(Debug)]
pub struct Input {
    buffer: Option<Buffer>,
    used: usize,
    /// At most [`INPUT_BYTES_MAX`].
    needed: u32,
    ended: bool,
    appetite: Appetite,
}

impl Input {
    pub(crate) fn new() -> Self {
        Self { buffer: None, used: 0, needed: 0, ended: false, appetite: Appetite::new() }
    }

    /// The bytes that have not been consumed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.bytes()[self.used..])
    }

    /// Drops the first `count` bytes: the session has used them.
    ///
    /// # Panics
    /// Panics when there are fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.bytes().len(), "{count} bytes consumed that never came");
        self.used += count;
    }

    /// Says that nothing can be done before `count` bytes are there, of which the present ones
    /// are the first: the buffer grows to that in one step. Holds until bytes arrive; more than
    /// [`INPUT_BYTES_MAX`] is taken for that.
    pub fn need(&mut self, count: usize) {
        self.needed = count.min(INPUT_BYTES_MAX) as u32;
    }

    /// Whether the peer has said that it sends no more: what is here is all.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Whether no further byte fits.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes().len() >= INPUT_BYTES_MAX
    }

    /// Notes that the peer sends no more.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Receives `bytes` without a driver, as a simulation does: as many as one receive would take.
    /// Returns how many.
    pub fn feed(&mut self, bytes: &[u8], pool: &Pool) -> usize {
        match self.request().into_buffer(pool) {
            Ok(mut buffer) => {
                let count = buffer.append(bytes);
                self.received(buffer, count);
                count
            }
            Err(request) => {
                self.restore(request.into_held());
                0
            }
        }
    }

    /// Takes a buffer that the driver has received into.
    pub(crate) fn received(&mut self, buffer: Buffer, count: usize) {
        // What was carried over is not counted: appetite is for what comes at a time.
        let room = buffer.capacity() - (buffer.bytes().len() - count);
        let used = if count == room { buffer.capacity() } else { count };
        self.appetite.learn(used, &buffer, RECEIVE_CLASS_MAX);
        self.restore(Some(buffer));
        self.needed = 0;
    }

    /// Takes back the bytes of a request that received nothing.
    #[inline]
    pub(crate) fn restore(&mut self, held: Option<Buffer>) {
        debug_assert!(self.buffer.is_none(), "a connection has one receive at a time");
        self.buffer = held.filter(|buffer| !buffer.bytes().is_empty());
        self.used = 0;
    }

    /// Drops all bytes.
    pub(crate) fn clear(&mut self) {
        self.buffer = None;
        self.used = 0;
    }

    /// Gives memory back that the unused bytes do not need. To be called after each service.
    pub(crate) fn settle(&mut self, pool: &Pool) {
        let Some(buffer) = &mut self.buffer else { return };
        let left = buffer.bytes().len() - self.used;
        if left == 0 {
            return self.clear();
        }
        // Two sizes apart: at most a quarter is copied, and a load on the edge does not swing.
        let below = buffer.class().smaller();
        if let Some(smaller) = copy_below(below, &buffer.bytes()[self.used..], pool) {
            *buffer = smaller;
            self.used = 0;
        }
    }

    /// Whether the pool has memory for the next receive.
    pub(crate) fn can_receive(&self, pool: &Pool) -> bool {
        let least = needed_class(self.needed, self.bytes().len());
        least == Class::MIN
            || pool.has_room(least)
            || self.buffer.as_ref().is_some_and(|held| held.class() >= least)
    }

    /// What the next receive needs, with the bytes that the new ones go behind.
    pub(crate) fn request(&mut self) -> Receive {
        let mut held = self.buffer.take();
        if let Some(buffer) = &mut held
            && self.used > 0
        {
            buffer.remove_front(self.used);
        }
        self.used = 0;
        Receive { held, class: self.appetite.class(), needed: self.needed }
    }
}

/// A receive that a driver is asked for: into which buffer, decided when bytes are there.
#[derive(Debug)]
pub struct Receive {
    held: Option<Buffer>,
    class: Class,
    needed: u32,
}

impl Receive {
    /// The buffer to receive into, with the bytes held so far in front and room behind them.
    ///
    /// # Errors
    /// The request itself when the pool has no such buffer now.
    pub fn into_buffer(self, pool: &Pool) -> Result<Buffer, Self> {
        let is_short = self.needed as usize <= BUFFER_BYTES_MIN;
        if self.held.is_none() && self.class == Class::MIN && is_short {
            // The usual case: a short request.
            return Ok(pool.take_always(Class::MIN, Share::Own));
        }
        self.into_larger(pool)
    }

    #[inline(never)]
    fn into_larger(self, pool: &Pool) -> Result<Buffer, Self> {
        let held_bytes = self.held.as_ref().map_or(0, |held| held.bytes().len());
        let least = needed_class(self.needed, held_bytes);
        let wanted = self.class.max(least);
        match self.held {
            Some(held) if held.class() >= wanted => Ok(held),
            held => match (take(wanted, least, pool), held) {
                (Some(mut buffer), held) => {
                    if let Some(held) = held {
                        buffer.append(held.bytes());
                    }
                    Ok(buffer)
                }
                // Less than wanted, but it has room.
                (None, Some(held)) if held.class() >= least => Ok(held),
                (None, held) => Err(Self { held, ..self }),
            },
        }
    }

    /// The request that led to `buffer`, into which nothing came: what it held goes back to a
    /// buffer of its size.
    #[must_use]
    pub fn again(buffer: Buffer, pool: &Pool) -> Self {
        let class = buffer.class();
        let held = copy_below(class, buffer.bytes(), pool).unwrap_or(buffer);
        Self { held: Some(held).filter(|held| !held.bytes().is_empty()), class, needed: 0 }
    }

    /// Bytes of the buffer that it asks for.
    pub(crate) fn wanted_bytes(&self) -> usize {
        let held_bytes = self.held.as_ref().map_or(0, |held| held.bytes().len());
        self.class.max(needed_class(self.needed, held_bytes)).bytes()
    }

    /// The bytes held so far, when nothing will be received.
    #[must_use]
    pub fn into_held(self) -> Option<Buffer> {
        self.held
    }
}

/// The smallest class that will do for `held` bytes and at least one more, or for `needed`.
fn needed_class(needed: u32, held: usize) -> Class {
    Class::for_bytes((needed as usize).max(held + 1)).unwrap_or(Class::MAX)
}

/// A buffer of `wanted`, or less if greed says so, but at least of `least`. The smallest is the
/// connection's own.
fn take(wanted: Class, least: Class, pool: &Pool) -> Option<Buffer> {
    match pool.temper(wanted).max(least) {
        Class::MIN => Some(pool.take_always(Class::MIN, Share::Own)),
        class => pool.take(class),
    }
}

/// A copy of `bytes` in a buffer smaller than `class`, if they fit one and there is one.
fn copy_below(class: Class, bytes: &[u8], pool: &Pool) -> Option<Buffer> {
    let fitting = Class::for_bytes(bytes.len()).filter(|fitting| *fitting < class)?;
    let mut copy = take(fitting, fitting, pool)?;
    copy.append(bytes);
    Some(copy)
}
