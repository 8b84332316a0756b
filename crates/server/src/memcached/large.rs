//! A large value on its way to a client, sent from where the cache has it.

use std::sync::Arc;

use cache::Pinned;
use reactor::{External, Gather};

/// A value that is sent in place. While it waits to be sent its memory is not used again; the cache
/// bounds how much may be pinned in all, the output how much for one connection.
#[derive(Debug)]
pub struct LargeValue(Kept);

/// Where it lies.
#[derive(Debug)]
enum Kept {
    /// In the cache.
    Pinned(Pinned),
    /// In memory that it shares with others who asked for the same read.
    Shared(Arc<[u8]>),
}

impl LargeValue {
    pub(super) fn new(pinned: Pinned) -> Self {
        Self(Kept::Pinned(pinned))
    }

    pub(super) fn shared(value: Arc<[u8]>) -> Self {
        Self(Kept::Shared(value))
    }
}

impl External for LargeValue {
    fn len(&self) -> usize {
        match &self.0 {
            Kept::Pinned(pinned) => pinned.meta().value_len as usize,
            Kept::Shared(value) => value.len(),
        }
    }

    fn gather<'a>(&'a self, mut skip: usize, to: &mut Gather<'a, '_>) {
        let pinned = match &self.0 {
            Kept::Pinned(pinned) => pinned,
            Kept::Shared(value) => {
                to.push(&value[skip..]);
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
