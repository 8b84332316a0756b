//! The manifest: which log this is, and which segments it has.

use super::{
    BLOCK_BYTES, LogId, PART_BYTES_MAX, is_stamped, is_zero, segment::Header, stamp, u32_at,
    u64_at, u128_at,
};
use crate::plan::SegmentId;

/// The version of the format.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"KELVINLG";
const HEADER_BYTES: usize = 256;
const CLASSES_AT: usize = 112;
const SEEDS: std::ops::Range<usize> = 128..256;
const ROW_BYTES: usize = 72;

/// The size classes that what is clean is counted in: 0 were those without a margin.
const CLASSES: u8 = 1;

/// The most segments of a log.
pub const SEGMENTS_MAX: usize = 65_536;

/// The most bytes of a manifest: 4.5 MiB of rows, the header, and what fills the last block.
pub const MANIFEST_BYTES_MAX: usize =
    (HEADER_BYTES + SEGMENTS_MAX * ROW_BYTES).next_multiple_of(4096);

/// The most bytes of a segment: what 32 bits of offset reach.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 32;

/// The fewest blocks of a segment.
pub const SEGMENT_BLOCKS_MIN: u64 = 16;

/// Sequences that one run may draw.
pub const RUN_SEQUENCES: u64 = 1 << 40;

/// The most runs: what is left of 64 bits above the sequences of one.
pub const RUNS_MAX: u64 = (1 << 24) - 1;

/// Which index a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Integer keys from `kmin` up to, but not including, `kmax`.
    Flat {
        /// The first key.
        kmin: u64,
        /// The first key behind.
        kmax: u64,
    },
    /// Any keys, by a hash with these random bytes.
    Hash {
        /// What the hash is made from.
        seeds: [u8; 128],
    },
}

/// What a log is made with, for ever, but for the greatest key of a flat index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of a part of a large value, and the most of a value that is one record.
    pub part_bytes: u32,
    /// Bytes of an entry of a flat index: 4 to 8. Of a hash index 0.
    pub entry_bytes: u8,
    /// The index.
    pub index: IndexKind,
}

impl Shape {
    /// Whether the format has such a log.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let is_block =
            self.block_bytes.is_power_of_two() && BLOCK_BYTES.contains(&self.block_bytes);
        if !is_block {
            return false;
        }
        let block = u64::from(self.block_bytes);
        let blocks = self.segment_bytes / block;
        let is_segment = self.segment_bytes.is_multiple_of(block)
            && blocks >= SEGMENT_BLOCKS_MIN
            && self.segment_bytes <= SEGMENT_BYTES_MAX;
        let part = self.part_bytes as usize;
        let is_part = part.is_power_of_two() && (512..=PART_BYTES_MAX).contains(&part);
        let is_index = match self.index {
            IndexKind::Flat { kmin, kmax } => kmin < kmax && (4..=8).contains(&self.entry_bytes),
            IndexKind::Hash { .. } => self.entry_bytes == 0,
        };
        is_segment && is_part && is_index
    }
}

/// What a segment was when a log was stopped cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanState {
    /// Nothing is in it.
    Free,
    /// It has a footer.
    Sealed,
    /// A flush of it failed; it ends where the last good one ended.
    Failed,
}

/// A segment of the log. What is beside the number counts in a clean manifest only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which one.
    pub segment: SegmentId,
    /// What it was.
    pub state: CleanState,
    /// Its generation.
    pub generation: u64,
    /// Live bytes in it, by size classes.
    pub live_bytes: u64,
    /// The smallest sequence of its values and heads; 0 when there is none.
    pub smallest_value: u64,
    /// The sequence of that value or head that lies first in it; 0 when there is none.
    pub begun: u64,
    /// Bytes of all of its records, by size classes.
    pub all_bytes: u64,
    /// Bytes that all of its records and their entries would take side by side, by size classes.
    pub packed_bytes: u64,
    /// Live bytes of its tombstones.
    pub tombstone_bytes: u64,
    /// The greatest sequence of a tombstone in it; 0 when there is none.
    pub greatest_tombstone: u64,
}

impl Row {
    /// The row of a segment in a manifest that is not clean.
    #[must_use]
    pub fn of(segment: SegmentId) -> Self {
        Self {
            segment,
            state: CleanState::Free,
            generation: 0,
            live_bytes: 0,
            smallest_value: 0,
            begun: 0,
            all_bytes: 0,
            packed_bytes: 0,
            tombstone_bytes: 0,
            greatest_tombstone: 0,
        }
    }
}

/// What a log is for, which stays: a log of one kind opened as one of another would forget what is
/// kept, or bring back what is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// It keeps what it has.
    #[default]
    Keeps,
    /// It drops its oldest segment, and has tombstones for what must not come back after a crash.
    Ring,
    /// It drops its oldest segment, and what it has is of no use to a later run.
    RingOfOneRun,
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Keeps => "a log that keeps what it has",
            Self::Ring => "a ring that is opened again",
            Self::RingOfOneRun => "a ring that every run begins empty",
        })
    }
}

/// What the manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Which log it is.
    pub log: LogId,
    /// What it was made with.
    pub shape: Shape,
    /// What it is for.
    pub purpose: Purpose,
    /// How many times it was opened.
    pub run: u64,
    /// After a clean stop: the next sequence. Else 0.
    pub clean_sequence: u64,
    /// Records with a sequence below this one are dead, whatever their keys: 0 of a log that was
    /// never wiped.
    pub dead_below: u64,
    /// After a clean stop: large values of which the file [`FileName::Parts`] says where their
    /// parts lie.
    ///
    /// [`FileName::Parts`]: crate::plan::FileName::Parts
    pub large_values: u64,
    /// Its segments, by number.
    pub rows: Vec<Row>,
}

/// Why a manifest is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It begins with something else.
    #[error("it is no manifest of a log")]
    NoManifest,
    /// It is of a version that this program does not know.
    #[error("it is of version {found}, and this program knows version {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// The checksum does not fit.
    #[error("its checksum is wrong")]
    Checksum,
    /// The checksum fits, but no manifest is written like this.
    #[error("it is malformed")]
    Form,
}

impl Manifest {
    /// The header of a segment of the log.
    #[must_use]
    pub fn header(&self, segment: SegmentId, generation: u64) -> Header {
        Header {
            log: self.log,
            segment: segment.0,
            block_bytes: self.shape.block_bytes,
            generation,
            segment_bytes: self.shape.segment_bytes,
            dead_below: self.dead_below,
        }
    }

    /// Has it say nothing of a clean stop.
    fn forget_clean(&mut self) {
        self.clean_sequence = 0;
        self.large_values = 0;
        for row in &mut self.rows {
            *row = Row::of(row.segment);
        }
    }

    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let block = self.shape.block_bytes as usize;
        let bytes = HEADER_BYTES + self.rows.len() * ROW_BYTES;
        let mut file = vec![0; bytes.next_multiple_of(block)];
        let (kind, kmin, kmax, seeds) = match self.shape.index {
            IndexKind::Flat { kmin, kmax } => (1, kmin, kmax, [0; 128]),
            IndexKind::Hash { seeds } => (2, 0, 0, seeds),
        };
        file[..8].copy_from_slice(&MAGIC);
        file[8..12].copy_from_slice(&VERSION.to_le_bytes());
        file[16..32].copy_from_slice(&self.log.0.to_le_bytes());
        let file_bytes = file.len() as u64;
        file[32..40].copy_from_slice(&file_bytes.to_le_bytes());
        file[40..48].copy_from_slice(&self.run.to_le_bytes());
        file[48..56].copy_from_slice(&self.shape.segment_bytes.to_le_bytes());
        file[56..60].copy_from_slice(&self.shape.block_bytes.to_le_bytes());
        file[60] = kind;
        file[61] = self.shape.entry_bytes;
        file[62] = u8::try_from(self.shape.part_bytes.ilog2()).unwrap_or(0);
        file[63] = match self.purpose {
            Purpose::Keeps => 0,
            Purpose::Ring => 1,
            Purpose::RingOfOneRun => 2,
        };
        file[64..72].copy_from_slice(&kmin.to_le_bytes());
        file[72..80].copy_from_slice(&kmax.to_le_bytes());
        file[80..88].copy_from_slice(&self.clean_sequence.to_le_bytes());
        file[88..96].copy_from_slice(&(self.rows.len() as u64).to_le_bytes());
        file[96..104].copy_from_slice(&self.dead_below.to_le_bytes());
        file[104..112].copy_from_slice(&self.large_values.to_le_bytes());
        file[CLASSES_AT] = CLASSES;
        file[SEEDS].copy_from_slice(&seeds);
        for (row, bytes) in self.rows.iter().zip(file[HEADER_BYTES..].chunks_exact_mut(ROW_BYTES)) {
            encode_row(row, bytes);
        }
        stamp(0, &mut file, 12);
        file
    }

    /// Reads the file. What is clean in one that counts in other size classes is not believed: it
    /// is as if the log had not been stopped.
    ///
    /// # Errors
    /// Why it is none.
    pub fn decode(file: &[u8]) -> Result<Self, Flaw> {
        if !file.starts_with(&MAGIC) || file.len() < HEADER_BYTES {
            return Err(Flaw::NoManifest);
        }
        if !is_stamped(0, file, 12) {
            return Err(Flaw::Checksum);
        }
        match u32_at(file, 8) {
            Some(VERSION) => decode_whole(file).ok_or(Flaw::Form),
            Some(found) => Err(Flaw::Version { found }),
            None => Err(Flaw::NoManifest),
        }
    }
}

/// The block of the log that a manifest which begins with these bytes is of. Nothing is checked but
/// that they may be one.
#[must_use]
pub fn block_bytes(start: &[u8]) -> Option<u32> {
    let block = u32_at(start, 56).filter(|_| start.starts_with(&MAGIC))?;
    (block.is_power_of_two() && BLOCK_BYTES.contains(&block)).then_some(block)
}

fn encode_row(row: &Row, bytes: &mut [u8]) {
    let state = match row.state {
        CleanState::Free => 0u32,
        CleanState::Sealed => 1,
        CleanState::Failed => 2,
    };
    bytes[..4].copy_from_slice(&row.segment.0.to_le_bytes());
    bytes[4..8].copy_from_slice(&state.to_le_bytes());
    bytes[8..16].copy_from_slice(&row.generation.to_le_bytes());
    bytes[16..24].copy_from_slice(&row.live_bytes.to_le_bytes());
    bytes[24..32].copy_from_slice(&row.smallest_value.to_le_bytes());
    bytes[32..40].copy_from_slice(&row.begun.to_le_bytes());
    bytes[40..48].copy_from_slice(&row.all_bytes.to_le_bytes());
    bytes[48..56].copy_from_slice(&row.packed_bytes.to_le_bytes());
    bytes[56..64].copy_from_slice(&row.tombstone_bytes.to_le_bytes());
    bytes[64..72].copy_from_slice(&row.greatest_tombstone.to_le_bytes());
}

fn decode_row(bytes: &[u8]) -> Option<Row> {
    Some(Row {
        segment: SegmentId(u32_at(bytes, 0)?),
        state: match u32_at(bytes, 4)? {
            0 => CleanState::Free,
            1 => CleanState::Sealed,
            2 => CleanState::Failed,
            _ => return None,
        },
        generation: u64_at(bytes, 8)?,
        live_bytes: u64_at(bytes, 16)?,
        smallest_value: u64_at(bytes, 24)?,
        begun: u64_at(bytes, 32)?,
        all_bytes: u64_at(bytes, 40)?,
        packed_bytes: u64_at(bytes, 48)?,
        tombstone_bytes: u64_at(bytes, 56)?,
        greatest_tombstone: u64_at(bytes, 64)?,
    })
}

fn decode_whole(file: &[u8]) -> Option<Manifest> {
    let index = match (file.get(60)?, u64_at(file, 64)?, u64_at(file, 72)?) {
        (1, kmin, kmax) if is_zero(file.get(SEEDS)?) => IndexKind::Flat { kmin, kmax },
        (2, 0, 0) => IndexKind::Hash { seeds: file.get(SEEDS)?.try_into().ok()? },
        _ => return None,
    };
    let shape = Shape {
        segment_bytes: u64_at(file, 48)?,
        block_bytes: u32_at(file, 56)?,
        part_bytes: 1u32.checked_shl(u32::from(file[62]))?,
        entry_bytes: file[61],
        index,
    };
    let count = usize::try_from(u64_at(file, 88)?).ok().filter(|it| *it <= SEGMENTS_MAX)?;
    let end = HEADER_BYTES + count * ROW_BYTES;
    let rows: Option<Vec<Row>> =
        file.get(HEADER_BYTES..end)?.chunks_exact(ROW_BYTES).map(decode_row).collect();
    let mut manifest = Manifest {
        log: LogId(u128_at(file, 16)?),
        shape,
        purpose: match file[63] {
            0 => Purpose::Keeps,
            1 => Purpose::Ring,
            2 => Purpose::RingOfOneRun,
            _ => return None,
        },
        run: u64_at(file, 40)?,
        clean_sequence: u64_at(file, 80)?,
        dead_below: u64_at(file, 96)?,
        large_values: u64_at(file, 104)?,
        rows: rows?,
    };
    let is_ordered = manifest.rows.is_sorted_by(|a, b| a.segment < b.segment)
        && manifest.rows.last().is_none_or(|row| (row.segment.0 as usize) < SEGMENTS_MAX);
    let is_form = shape.is_valid()
        && file[CLASSES_AT] <= CLASSES
        && is_zero(&file[CLASSES_AT + 1..SEEDS.start])
        && is_zero(&file[end..])
        && file.len() == end.next_multiple_of(shape.block_bytes as usize)
        && u64_at(file, 32)? == file.len() as u64
        && (1..=RUNS_MAX).contains(&manifest.run);
    if file[CLASSES_AT] != CLASSES && !base::mutant!("log_old_classes_believed") {
        manifest.forget_clean();
    }
    (is_ordered && is_form).then_some(manifest)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
