//! The saved index of a log: header and table.

use log::index::checkpoint::{HEADER_BYTES, Header, Table};

/// Bytes of the header's own checksum.
const CRC: std::ops::Range<usize> = 12..16;
/// Bytes of the table's checksum in the header.
const TABLE_CRC: std::ops::Range<usize> = 80..84;

/// Reads the first bytes as a header and the rest as the table that it tells of, as they are and
/// once more with checksums that fit, since no input that is made up has those. What is read is
/// written as the same bytes.
///
/// # Panics
/// When it is not so.
pub fn body(data: &[u8]) {
    let mut header = [0; HEADER_BYTES];
    let (first, rest) = data.split_at(data.len().min(HEADER_BYTES));
    header[..first.len()].copy_from_slice(first);
    check(&header, rest);
    header[TABLE_CRC].copy_from_slice(&crc32c::crc32c(rest).to_le_bytes());
    header[CRC].fill(0);
    let crc = crc32c::crc32c(&header);
    header[CRC].copy_from_slice(&crc.to_le_bytes());
    check(&header, rest);
}

fn check(bytes: &[u8; HEADER_BYTES], rest: &[u8]) {
    let header = match Header::parse(bytes) {
        Ok(header) => header,
        Err(flaw) => {
            assert!(!flaw.to_string().is_empty());
            return;
        }
    };
    assert!(header.encode() == *bytes, "a header is written as it was read");
    assert!(header.file_bytes() >= header.table_offset());
    match Table::parse(rest, &header, u64::from(u32::MAX)) {
        Ok(table) => {
            assert_eq!(table.blocks().len(), header.blocks as usize);
            assert!(table.encode() == rest, "a table is written as it was read");
            let found = table
                .blocks()
                .enumerate()
                .all(|(row, block)| table.find(block).is_some_and(|found| found.0 == row));
            assert!(found, "every block is found in its row");
        }
        Err(flaw) => assert!(!flaw.to_string().is_empty()),
    }
}
