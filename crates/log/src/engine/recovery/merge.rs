//! Records of all segments, in the order in which they were written.
//!
//! A segment is looked into when its smallest sequence is the next, some blocks of its footer at a
//! time: where segments follow one another, few blocks are in memory. Where many have begun and
//! none has ended, each has fewer blocks, and in the end one.

use std::{cmp::Reverse, collections::BinaryHeap, mem};

use super::{Damage, scan, scan::Span, source::Source};
use crate::{
    format::{
        record::Kind,
        segment::{
            ENTRY_BYTES, HEADER_COPIES, Listed, Trailer, decode_footer_block, entries_of_block,
            footer_blocks,
        },
    },
    keys::Keys,
    plan::SegmentId,
    position::SizeClass,
};

/// Footer blocks that are read at once: 64 KiB of the largest.
const BLOCKS_AT_ONCE: u64 = 16;

/// Bytes of footers that are in memory at a time, beside a block of each segment: those of 512
/// segments that are read 64 KiB at once. What a block lists takes as much there as the block.
const LOADED_BYTES_MAX: u64 = if cfg!(test) { 64 << 10 } else { 32 << 20 };

/// The part of what is left of them that one segment takes: so 448 have 64 KiB each before there
/// is less for the others.
const SHARE_DIVISOR: u64 = 64;

/// The records of one segment.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) segment: SegmentId,
    pub(super) span: Span,
    trailer: Trailer,
    /// The next block of the footer.
    next: u64,
    /// Entries that were read, the next one last.
    entries: Vec<Listed>,
    /// Bytes of the footer that they are from.
    loaded_bytes: u64,
    /// What was handed out last.
    last: Option<(u64, bool, u32)>,
    /// Whether the segment was read in full: it has no footer, or a damaged one.
    pub(super) is_scanned: bool,
    /// Of a segment without a valid footer: what one would list, if nothing of it is lost.
    to_seal: Option<Vec<Listed>>,
    /// Where the last record ends.
    pub(super) records_end: u64,
    /// Its parts of large values, as far as they were read.
    pub(super) parts: Parts,
    /// What turned out to be damaged when the footer could not be used.
    pub(super) damages: Vec<Damage>,
    /// Whether there are records that may be known another time.
    pub(super) may_tell_more: bool,
}

/// Parts of large values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    pub(super) count: u64,
    /// By size classes.
    pub(super) bytes: u64,
}

impl Parts {
    fn of(listed: &[Listed]) -> Self {
        let mut parts = Self::default();
        parts.add(listed);
        parts
    }

    fn add(&mut self, listed: &[Listed]) {
        for part in listed.iter().filter(|listed| listed.kind == Kind::Part) {
            self.count += 1;
            let class = SizeClass::from_bits(part.class);
            self.bytes += class.map_or(0, |class| u64::from(class.bytes()));
        }
    }

    /// Bytes that they take side by side, with their entries in a footer.
    pub(super) fn packed_bytes(&self) -> u64 {
        self.bytes + self.count * ENTRY_BYTES as u64
    }
}

impl Cursor {
    /// The records that a footer lists.
    pub(super) fn of_footer(segment: SegmentId, span: Span, trailer: Trailer) -> Self {
        Self {
            segment,
            span,
            trailer,
            next: 0,
            entries: Vec::new(),
            loaded_bytes: 0,
            last: None,
            is_scanned: false,
            to_seal: None,
            records_end: trailer.records_end,
            parts: Parts::default(),
            damages: Vec::new(),
            may_tell_more: false,
        }
    }

    /// The records that were found, the last of which ends at `records_end`.
    pub(super) fn of_scan(
        segment: SegmentId,
        span: Span,
        listed: Vec<Listed>,
        records_end: u64,
        is_whole: bool,
    ) -> Self {
        let trailer = Trailer {
            records_end: 0,
            entries: 0,
            smallest_sequence: 0,
            greatest_sequence: 0,
            keys: 0,
        };
        let mut entries = listed.clone();
        let parts = Parts::of(&entries);
        entries.sort_unstable_by_key(|listed| Reverse(listed.order()));
        Self {
            segment,
            span,
            trailer,
            next: 0,
            entries,
            loaded_bytes: 0,
            last: None,
            is_scanned: true,
            to_seal: is_whole.then_some(listed),
            records_end,
            parts,
            damages: Vec::new(),
            may_tell_more: false,
        }
    }

    /// Records that it has, of whatever kind, before any was handed out.
    pub(super) fn records(&self) -> u64 {
        self.trailer.entries.max(self.entries.len() as u64)
    }

    /// How many keys there were, by its footer; 0 when it has none.
    pub(super) fn keys(&self) -> u64 {
        self.trailer.keys
    }

    /// There is a record of this sequence, which does not count.
    pub(super) fn saw(&mut self, sequence: u64) {
        self.trailer.greatest_sequence = self.trailer.greatest_sequence.max(sequence);
    }

    /// What its footer shall list; `None` when it has one, or must not have one.
    pub(super) fn take_to_seal(&mut self) -> Option<Vec<Listed>> {
        self.to_seal.take()
    }

    /// Whether everything that is in the segment could be read.
    pub(super) fn is_known(&self) -> bool {
        !self.is_scanned || self.to_seal.is_some()
    }

    /// Whether such a footer has its place in the segment.
    pub(super) fn is_possible(trailer: &Trailer, span: &Span) -> bool {
        let block = u64::from(span.block_bytes);
        let footer = usize::try_from(trailer.entries)
            .ok()
            .filter(|entries| (*entries as u64) < span.end)
            .map(|entries| footer_blocks(entries, span.block_bytes) * block);
        let end = footer.and_then(|bytes| trailer.records_end.checked_add(bytes + block));
        trailer.records_end.is_multiple_of(block) && end.is_some_and(|end| end <= span.end)
    }

    /// The greatest sequence in the segment; 0 when there is none.
    pub(super) fn greatest_sequence(&self) -> u64 {
        let found = self.entries.first().map_or(0, |listed| listed.sequence);
        found.max(self.trailer.greatest_sequence)
    }

    /// Not more than the order of the next record; `None` when there is none.
    fn bound(&self) -> Option<(u64, bool, u32)> {
        if let Some(next) = self.entries.last() {
            return Some(next.order());
        }
        self.has_blocks().then_some((self.trailer.smallest_sequence, false, 0))
    }

    fn blocks(&self) -> u64 {
        footer_blocks(usize::try_from(self.trailer.entries).unwrap_or(0), self.span.block_bytes)
    }

    fn has_blocks(&self) -> bool {
        !self.is_scanned && self.next < self.blocks()
    }

    /// Reads on, at most `blocks` blocks at once, until there is a next record that decides.
    fn load<K: Keys>(&mut self, source: &mut Source<'_>, index: &K, blocks: u64) {
        while self.entries.is_empty() && self.has_blocks() {
            if self.load_blocks(source, blocks).is_some() {
                continue;
            }
            self.loaded_bytes = 0;
            let mut scan = scan::scan(source, self.span, index);
            // Records were flushed before the footer was written: every hole is damage.
            let end = self.trailer.records_end;
            scan.flushed = end.max(scan.flushed);
            scan.holes.push((scan.records_end, end.saturating_sub(scan.records_end)));
            self.damages = scan.take_damages(self.span.file);
            let mut listed = scan.listed;
            // All of them, also those that were read before.
            self.parts = Parts::of(&listed);
            // A crash may have torn the footer, and left the trailer, while the segment was sealed:
            // it is written again, or nothing could be moved or dropped. It must not hide a loss.
            let is_whole = self.damages.is_empty() || base::mutant!("log_loss_under_new_footer");
            if is_whole && !base::mutant!("log_torn_footer_stays") {
                self.to_seal = Some(listed.clone());
            }
            listed.retain(|listed| self.last.is_none_or(|last| listed.order() > last));
            listed.sort_unstable_by_key(|listed| Reverse(listed.order()));
            self.entries = listed;
            self.is_scanned = true;
        }
        if self.entries.is_empty() {
            self.let_go();
        }
    }

    /// Gives the memory back of what was read. Returns how many bytes of the footer that was.
    fn let_go(&mut self) -> u64 {
        self.entries = Vec::new();
        mem::take(&mut self.loaded_bytes)
    }

    fn load_blocks(&mut self, source: &mut Source<'_>, blocks: u64) -> Option<()> {
        let block = u64::from(self.span.block_bytes);
        let count = (self.blocks() - self.next).min(blocks);
        let offset = self.trailer.records_end + self.next * block;
        let bytes = source.read(self.span.file, offset, (count * block) as usize).ok()?;
        let mut entries = Vec::new();
        for (at, bytes) in (0..count).zip(bytes.chunks_exact(block as usize)) {
            let number = self.next + at;
            let offset = offset + at * block;
            let found = decode_footer_block(bytes, number, self.span.seed, offset)?;
            let is_last = number + 1 == self.blocks();
            let full = entries_of_block(self.span.block_bytes);
            if !is_last && found.len() != full || found.is_empty() {
                return None;
            }
            entries.extend(found);
        }
        let records = HEADER_COPIES * block..self.trailer.records_end;
        let is_whole = bytes.len() as u64 == count * block
            && entries.is_sorted_by_key(Listed::order)
            && entries.iter().all(|listed| records.contains(&listed.offset()));
        if !is_whole {
            return None;
        }
        self.parts.add(&entries);
        entries.retain(|listed| listed.kind.decides());
        entries.reverse();
        self.entries = entries;
        self.loaded_bytes = count * block;
        self.next += count;
        Some(())
    }
}

/// Blocks that a segment's footer is read by when so many bytes of all footers are in memory.
fn blocks_at_once(loaded_bytes: u64, block_bytes: u32) -> u64 {
    let share_bytes = LOADED_BYTES_MAX.saturating_sub(loaded_bytes) / SHARE_DIVISOR;
    (share_bytes / u64::from(block_bytes)).clamp(1, BLOCKS_AT_ONCE)
}

/// Hands every record that decides to `take`, in the order of sequences, a tombstone behind what is
/// as old.
///
/// # Errors
/// The first one of `take`.
pub(super) fn merge<K: Keys, E>(
    source: &mut Source<'_>,
    cursors: &mut [Cursor],
    index: &K,
    mut take: impl FnMut(SegmentId, &Listed) -> Result<(), E>,
) -> Result<(), E> {
    let mut heap: BinaryHeap<_> = cursors
        .iter()
        .enumerate()
        .filter_map(|(at, cursor)| Some(Reverse((cursor.bound()?, at))))
        .collect();
    let mut loaded_bytes = 0;
    while let Some(Reverse((_, at))) = heap.pop() {
        let cursor = &mut cursors[at];
        if cursor.entries.is_empty() {
            let blocks = blocks_at_once(loaded_bytes, cursor.span.block_bytes);
            cursor.load(source, index, blocks);
            loaded_bytes += cursor.loaded_bytes;
        } else {
            // Up to where another segment comes in.
            let until = heap.peek().map(|Reverse((bound, _))| *bound);
            while let Some(next) = cursor.entries.last()
                && until.is_none_or(|until| next.order() <= until)
            {
                cursor.last = Some(next.order());
                if next.kind.decides() {
                    take(cursor.segment, next)?;
                }
                cursor.entries.pop();
            }
            if cursor.entries.is_empty() {
                loaded_bytes -= cursor.let_go();
            }
        }
        heap.extend(cursor.bound().map(|bound| Reverse((bound, at))));
    }
    Ok(())
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::{BLOCKS_AT_ONCE, LOADED_BYTES_MAX, blocks_at_once};

    #[test]
    fn footers_of_many_segments_that_overlap_have_a_bound_in_memory() {
        for block_bytes in [512, 4096] {
            let (mut loaded_bytes, mut counts) = (0, Vec::new());
            for segments in 1..=5000 {
                let blocks = blocks_at_once(loaded_bytes, block_bytes);
                loaded_bytes += blocks * u64::from(block_bytes);
                let one_each = segments * u64::from(block_bytes);
                assert!(loaded_bytes <= LOADED_BYTES_MAX + one_each, "{segments} segments");
                counts.push(blocks);
            }
            assert!(counts.is_sorted_by(|before, after| before >= after), "{counts:?}");
            assert!(counts.iter().all(|blocks| (1..=BLOCKS_AT_ONCE).contains(blocks)));
            assert_eq!(counts.last(), Some(&1), "what is left is one each");
        }
    }
}
