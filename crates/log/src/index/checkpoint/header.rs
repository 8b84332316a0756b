//! The parts of a checkpoint that say what the rest is.

use super::{BLOCK_BYTES, Flaw, HEADER_BYTES, Stamp};
use crate::format::LogId;

const MAGIC: &[u8; 8] = b"KELVINIX";
const VERSION: u32 = 1;

const CRC_AT: usize = 12;
/// Bytes behind the fields, all of them zero.
const FIELDS_END: usize = 84;

/// Bytes of an entry of the table.
const ROW_BYTES: usize = 8;

/// Bytes of a hash index's slot, where a flat one says those of its entries.
const SLOT_BYTES: u32 = 15;

/// Which index it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A flat one, for keys in `[kmin, kmax)`.
    Flat {
        /// Bytes of an entry, 4 to 8.
        entry_bytes: u32,
        /// The least key.
        kmin: u64,
        /// One more than the greatest.
        kmax: u64,
    },
    /// A hash index.
    Hash {
        /// Buckets that it has.
        buckets: u64,
    },
}

/// The first bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose it is.
    pub stamp: Stamp,
    /// What it is.
    pub kind: Kind,
    /// Entries in all blocks, tombstones included.
    pub entries: u64,
    /// Blocks in the file.
    pub blocks: u32,
    /// Checksum of the table.
    pub table_crc: u32,
}

/// Which blocks are in the file, and their checksums. Number `k` of the table begins at byte
/// [`Table::offset`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    rows: Vec<(u32, u32)>,
}

impl Header {
    /// The header as it is in the file.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let (kind, width, from, to) = match self.kind {
            Kind::Flat { entry_bytes, kmin, kmax } => (1_u32, entry_bytes, kmin, kmax),
            Kind::Hash { buckets } => (2, SLOT_BYTES, 0, buckets),
        };
        put(0, MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(16, &self.stamp.log_id.0.to_le_bytes());
        put(32, &self.stamp.run.to_le_bytes());
        put(40, &kind.to_le_bytes());
        put(44, &width.to_le_bytes());
        put(48, &from.to_le_bytes());
        put(56, &to.to_le_bytes());
        put(64, &self.entries.to_le_bytes());
        put(72, &u64::from(self.blocks).to_le_bytes());
        put(80, &self.table_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// With what is wrong with it.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Flaw> {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if !bytes.starts_with(MAGIC) {
            return Err(Flaw::Foreign);
        }
        // Before the checksum, which another version may have elsewhere.
        if u32_at(8) != VERSION {
            return Err(Flaw::Version { got: u32_at(8) });
        }
        let covered = [&bytes[..CRC_AT], &[0; 4], &bytes[CRC_AT + 4..]];
        let crc = covered.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        if crc != u32_at(CRC_AT) {
            return Err(Flaw::HeaderChecksum);
        }
        let (width, from, to) = (u32_at(44), u64_at(48), u64_at(56));
        let kind = match u32_at(40) {
            1 if (4..=8).contains(&width) && from <= to => {
                Kind::Flat { entry_bytes: width, kmin: from, kmax: to }
            }
            2 if width == SLOT_BYTES && from == 0 => Kind::Hash { buckets: to },
            _ => return Err(Flaw::Header),
        };
        let blocks = u32::try_from(u64_at(72)).map_err(|_| Flaw::Header)?;
        if bytes[FIELDS_END..].iter().any(|&byte| byte != 0) {
            return Err(Flaw::Header);
        }
        let log_id = u128::from_le_bytes(std::array::from_fn(|byte| bytes[16 + byte]));
        let stamp = Stamp { log_id: LogId(log_id), run: u64_at(32) };
        Ok(Self { stamp, kind, entries: u64_at(64), blocks, table_crc: u32_at(80) })
    }

    /// Where the table begins.
    #[must_use]
    pub fn table_offset(&self) -> u64 {
        Table::offset(self.blocks as usize)
    }

    /// Bytes of the table, padding included.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        (u64::from(self.blocks) * ROW_BYTES as u64).next_multiple_of(HEADER_BYTES as u64)
    }

    /// Bytes of the whole file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.table_offset() + self.table_bytes()
    }
}

impl Table {
    /// Adds a block, whose number is greater than all before.
    pub(super) fn push(&mut self, block: u32, crc: u32) {
        self.rows.push((block, crc));
    }

    /// Where the block of row number `row` begins.
    #[must_use]
    pub fn offset(row: usize) -> u64 {
        HEADER_BYTES as u64 + row as u64 * BLOCK_BYTES as u64
    }

    /// The row of a block, and the checksum that it has.
    #[must_use]
    pub fn find(&self, block: u32) -> Option<(usize, u32)> {
        let row = self.rows.binary_search_by_key(&block, |&(number, _)| number).ok()?;
        Some((row, self.rows[row].1))
    }

    /// The numbers of its blocks.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = u32> {
        self.rows.iter().map(|&(block, _)| block)
    }

    /// The table as it is in the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let rows = self.rows.iter();
        let mut bytes: Vec<u8> = rows
            .flat_map(|&(block, crc)| (u64::from(crc) << 32 | u64::from(block)).to_le_bytes())
            .collect();
        bytes.resize(bytes.len().next_multiple_of(HEADER_BYTES), 0);
        bytes
    }

    /// Reads the table that `header` tells of; its blocks are below `blocks_max`.
    ///
    /// # Errors
    /// With what is wrong with it.
    pub fn parse(bytes: &[u8], header: &Header, blocks_max: u64) -> Result<Self, Flaw> {
        if bytes.len() as u64 != header.table_bytes() {
            return Err(Flaw::Length);
        }
        if crc32c::crc32c(bytes) != header.table_crc {
            return Err(Flaw::TableChecksum);
        }
        let (rows, padding) = bytes.split_at(header.blocks as usize * ROW_BYTES);
        let rows: Vec<(u32, u32)> = rows
            .as_chunks()
            .0
            .iter()
            .map(|&row| u64::from_le_bytes(row))
            .map(|row| (row as u32, (row >> 32) as u32))
            .collect();
        let is_ascending = rows.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let is_within = rows.last().is_none_or(|row| u64::from(row.0) < blocks_max);
        if !is_ascending || !is_within || padding.iter().any(|&byte| byte != 0) {
            return Err(Flaw::Table);
        }
        Ok(Self { rows })
    }
}
