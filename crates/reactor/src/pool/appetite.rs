//! How large a buffer a connection should be given next.

use super::{Buffer, Class};

/// Uses of less than a quarter in a row before a buffer becomes smaller. Growth is immediate and
/// shrinking slow, so a load that alternates between large and small does not swing with it.
const SMALL_USES: u8 = 16;

/// The size that suits a connection, learned from how it used the last buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appetite {
    class: Class,
    small_uses: u8,
}

impl Appetite {
    /// Begins with the smallest buffer.
    pub(crate) const fn new() -> Self {
        Self { class: Class::MIN, small_uses: 0 }
    }

    /// The class to take next.
    pub(crate) fn class(self) -> Class {
        self.class
    }

    /// Learns that `used` bytes that were needed at a time, in pieces of up to `piece`, took more
    /// than one buffer: the next takes them all, up to `max`. One of the present class would have
    /// done that if it has room for another piece, and was not to be had.
    pub(crate) fn outgrow(&mut self, used: usize, piece: usize, max: Class) {
        if used + piece <= self.class.bytes() {
            self.note_use(used);
            return;
        }
        let fitting = Class::for_bytes(used).unwrap_or(Class::MAX);
        // What is written in pieces leaves the end of a buffer unused.
        self.class = self.class.larger().max(fitting).min(max);
        self.small_uses = 0;
    }

    /// Learns that `used` bytes of `buffer` were needed at a time. A full one asks for the next
    /// size, up to `max`; many uses of less than a quarter ask for the one below.
    pub(crate) fn learn(&mut self, used: usize, buffer: &Buffer, max: Class) {
        if used >= buffer.capacity() {
            self.class = self.class.max(buffer.class().larger().min(max));
            self.small_uses = 0;
        } else {
            self.note_use(used);
        }
    }

    /// Learns that a buffer of the present class suffices.
    fn note_use(&mut self, used: usize) {
        if used < self.class.bytes() / 4 {
            self.small_uses += 1;
            if self.small_uses == SMALL_USES {
                self.class = self.class.smaller();
                self.small_uses = 0;
            }
        } else {
            self.small_uses = 0;
        }
    }
}
