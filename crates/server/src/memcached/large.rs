//! A large value on its way to a client, sent from where the cache has it.

use cache::Pinned;
use reactor::{External, Gather};

/// A pinned value. While it waits to be sent its memory is not used again; the cache bounds how
/// much may be pinned in all, the output how much for one connection.
#[derive(Debug)]
pub struct LargeValue(Pinned);

impl LargeValue {
    pub(super) fn new(pinned: Pinned) -> Self {
        Self(pinned)
    }
}

impl External for LargeValue {
    fn len(&self) -> usize {
        self.0.meta().value_len as usize
    }

    fn gather<'a>(&'a self, mut skip: usize, to: &mut Gather<'a, '_>) {
        for slice in self.0.slices() {
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
