//! Chains that the kernel reads from while it sends them.
//!
//! Owns each chain from its launch until the completion of its send lands it: it is neither
//! changed nor dropped in between. Those that never land are leaked.
//!
//! Thread safety: none.

use std::{io::IoSlice, mem};

use crate::output::{Chain, External, Gather};

/// Chains under way, by slot.
#[derive(Debug)]
pub(super) struct Flights<E: External> {
    chains: Vec<Option<Chain<E>>>,
    flying: usize,
}

/// The bytes of a chain that are sent first. They stay valid until the chain is landed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: *const u8,
    pub(super) len: u32,
}

impl<E: External> Flights<E> {
    pub(super) fn new() -> Self {
        Self { chains: Vec::new(), flying: 0 }
    }

    /// Takes a chain over; the kernel may read its first bytes from now on.
    ///
    /// # Panics
    /// Panics when the slot has one under way, or the chain is empty.
    pub(super) fn launch(&mut self, slot: u32, chain: Chain<E>) -> Span {
        let index = slot as usize;
        if index >= self.chains.len() {
            self.chains.resize_with(index + 1, || None);
        }
        assert!(self.chains[index].is_none(), "one send at a time");
        self.flying += 1;
        // Its place first and then its address: memory must not be moved behind a pointer.
        let chain = self.chains[index].insert(chain);
        let mut slices = [IoSlice::new(&[])];
        chain.gather(&mut Gather::new(&mut slices));
        let len = slices[0].len().min(u32::MAX as usize);
        assert!(len > 0, "an empty chain is not sent");
        Span { start: slices[0].as_ptr(), len: len as u32 }
    }

    /// Gives the chain back, whose send is complete.
    ///
    /// # Panics
    /// Panics when the slot has none under way.
    pub(super) fn land(&mut self, slot: u32) -> Chain<E> {
        let chain = self.chains[slot as usize].take().expect("invariant: it was launched");
        self.flying -= 1;
        chain
    }
}

impl<E: External> Drop for Flights<E> {
    fn drop(&mut self) {
        if self.flying > 0 {
            // The kernel may still read them.
            mem::forget(mem::take(&mut self.chains));
        }
    }
}

#[cfg(test)]
mod tests;
