//! A large value on its way to a client, sent from where the cache has it.

use cache::Pinned;
use reactor::{External, Gather};

use super::durable::{SentPart, UnsentValue};

/// A value that is sent in place. While it waits to be sent its memory is not used again; the cache
/// or the durable table bounds how much that may be in all, the output how much for one connection.
#[derive(Debug)]
pub struct LargeValue(Kept);

/// Where it lies.
#[derive(Debug)]
enum Kept {
    /// In the cache.
    Pinned(Pinned),
    /// In memory of its own.
    Unsent(UnsentValue),
    /// A part of one, in the buffer that it was read into.
    Part(SentPart),
}

impl LargeValue {
    pub(super) fn new(pinned: Pinned) -> Self {
        Self(Kept::Pinned(pinned))
    }

    pub(super) fn part(part: SentPart) -> Self {
        Self(Kept::Part(part))
    }

    pub(super) fn unsent(value: UnsentValue) -> Self {
        Self(Kept::Unsent(value))
    }
}

impl External for LargeValue {
    fn len(&self) -> usize {
        match &self.0 {
            Kept::Pinned(pinned) => pinned.meta().value_len as usize,
            Kept::Unsent(value) => value.bytes().len(),
            Kept::Part(part) => part.bytes().len(),
        }
    }

    fn advanced(&self) {
        if let Kept::Part(part) = &self.0 {
            part.advanced();
        }
    }

    fn gather<'a>(&'a self, mut skip: usize, to: &mut Gather<'a, '_>) {
        let pinned = match &self.0 {
            Kept::Pinned(pinned) => pinned,
            Kept::Part(part) => {
                to.push(&part.bytes()[skip..]);
                return;
            }
            Kept::Unsent(value) => {
                to.push(&value.bytes()[skip..]);
                return;
            }
        };
        for slice in pinned.slices() {
            if skip >= slice.len() {
                skip -= slice.len();
            } else if to.push(&slice[skip..]) {
                skip = 0;
            } else {
                return;
            }
        }
    }
}
