//! Lines for the entries that found no place in either bucket.
//!
//! At the load that growth keeps, displacement finds a place for all but a few in a million. The
//! rest goes here rather than failing: a durable table may not lose an entry to a collision.

use std::ops::ControlFlow;

use base::sync::{atomic::Ordering, lock};

use super::{Bucket, Full, Index, LINE_ENTRIES, Locked, find::OVERFLOW_CHAIN_MAX};
use crate::{arena::Arena, geometry::BLOCK_LINES};

/// Which lines are free. A leaf among the locks: nothing else is taken while it is held.
#[derive(Debug, Default)]
pub(crate) struct OverflowLines {
    /// Lines that blocks have been supplied for.
    supplied: u64,
    /// Lines handed out at least once; they are numbered from 1.
    used: u64,
    /// Lines that no bucket leads to any more.
    free: Vec<u64>,
}

impl OverflowLines {
    fn available(&self) -> u64 {
        self.supplied - self.used + self.free.len() as u64
    }
}

impl Index {
    /// Whether a split could run out of lines: it needs no more than the longest chain has.
    pub(super) fn overflow_is_short(&self) -> bool {
        lock(&self.overflow_lines).available() < OVERFLOW_CHAIN_MAX.min(BLOCK_LINES) as u64
    }

    /// Blocks that hold overflow lines.
    pub(super) fn overflow_blocks(&self) -> usize {
        let supplied = lock(&self.overflow_lines).supplied;
        usize::try_from(supplied).expect("invariant: 24 bits") / BLOCK_LINES
    }

    /// Whether another overflow line can be had.
    pub(crate) fn has_overflow_lines(&self) -> bool {
        lock(&self.overflow_lines).available() > 0
    }

    pub(super) fn supply_overflow(&self, block: u32) -> Result<(), u32> {
        let mut lines = lock(&self.overflow_lines);
        let at = usize::try_from(lines.supplied).expect("invariant: 24 bits") / BLOCK_LINES;
        match self.overflow.get(at) {
            Some(place) if at < OVERFLOW_BLOCKS_MAX => {
                place.store(block, Ordering::Release);
                lines.supplied += BLOCK_LINES as u64;
                Ok(())
            }
            _ => Err(block),
        }
    }

    /// A free place in the lines behind a locked bucket; chains one more line if all are full.
    pub(super) fn overflow_room<'a>(
        &self,
        arena: &'a Arena,
        first: &Locked<'a>,
    ) -> Result<(Bucket<'a>, usize), Full> {
        let mut length = 0;
        let room = self.walk_overflow(arena, first.bucket(), |line| {
            length += 1;
            match line.room() {
                Some(place) => ControlFlow::Break((line, place)),
                None => ControlFlow::Continue(()),
            }
        });
        if let ControlFlow::Break(room) = room {
            return Ok(room);
        }
        if length == OVERFLOW_CHAIN_MAX {
            return Err(Full);
        }
        let number = {
            let mut lines = lock(&self.overflow_lines);
            match lines.free.pop() {
                Some(number) => number,
                None if lines.used < lines.supplied => {
                    lines.used += 1;
                    lines.used
                }
                None => return Err(Full),
            }
        };
        let line = self.overflow_line(arena, number).expect("invariant: supplied");
        line.chain_to(first.bucket().overflow());
        first.set_overflow(number);
        Ok((line, 0))
    }

    /// Unchains the empty lines behind a locked bucket.
    pub(super) fn trim_overflow(&self, arena: &Arena, first: &Locked<'_>) {
        let mut chain = Vec::new();
        let mut number = first.bucket().overflow();
        while chain.len() < OVERFLOW_CHAIN_MAX
            && let Some(line) = self.overflow_line(arena, number)
        {
            chain.push((number, line));
            number = line.overflow();
        }
        let mut next = 0;
        for (number, line) in chain.into_iter().rev() {
            if (0..LINE_ENTRIES).all(|place| line.entry(place).is_empty()) {
                lock(&self.overflow_lines).free.push(number);
            } else {
                line.chain_to(next);
                next = number;
            }
        }
        first.set_overflow(next);
    }
}

/// Line numbers have 24 bits.
const OVERFLOW_BLOCKS_MAX: usize = (1 << 24) / BLOCK_LINES - 1;
