//! No cache at all: what the harness itself costs.

use std::hint::black_box;

use super::{Engine, Session};
use crate::load::{Key, ValueBuffer};

/// Finds every key and stores nothing.
#[derive(Debug)]
pub(crate) struct Empty;

impl<const N: usize> Engine<N> for Empty {
    type Session<'e> = Empty;

    fn session(&self) -> Empty {
        Empty
    }

    fn records(&self) -> u64 {
        0
    }

    fn evictions(&self) -> Option<u64> {
        None
    }
}

impl<const N: usize> Session<N> for Empty {
    #[inline(always)]
    fn get(&mut self, key: &Key<N>, out: &mut ValueBuffer) -> bool {
        black_box((key, out));
        true
    }

    #[inline(always)]
    fn put(&mut self, key: &Key<N>, value: &[u8]) {
        black_box((key, value));
    }
}
