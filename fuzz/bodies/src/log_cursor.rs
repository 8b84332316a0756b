//! Cursors of iterations over a log.

use log::{Cursor, format::cursor::CURSOR_BYTES};

/// Where the checksum is.
const CRC_AT: usize = 8;

/// Reads any bytes, and the same bytes with the checksum that makes them worth looking at. What is
/// a cursor is written as what was read.
///
/// # Panics
/// When it is not so.
pub fn body(data: &[u8]) {
    look(data);
    if data.len() == CURSOR_BYTES {
        let mut bytes = data.to_vec();
        log::format::stamp(0, &mut bytes, CRC_AT);
        look(&bytes);
    }
}

fn look(bytes: &[u8]) {
    if let Some(cursor) = Cursor::decode(bytes) {
        assert_eq!(cursor.encode(), bytes, "it is written in one way");
    }
}
