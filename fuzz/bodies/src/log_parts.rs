//! Where the parts of large values lie, as a stop has saved it.

use log::format::{
    parts::{self, HEADER_BYTES, Header},
    stamp,
};

/// Reads any bytes as the header, with the checksum that makes them worth looking at, and as words.
/// What is a header is written as what was read, and what is said by words is said by words again.
///
/// # Panics
/// When it is not so.
pub fn body(data: &[u8]) {
    let mut header = data.to_vec();
    header.resize(HEADER_BYTES, 0);
    stamp(0, &mut header, 12);
    if let Some(found) = Header::decode(&header) {
        let mut again = vec![0xAA; HEADER_BYTES];
        found.encode(&mut again);
        assert_eq!(again, header, "it is written in one way");
        assert!(found.file_bytes().is_none_or(|bytes| bytes / 8 >= found.words));
    }
    let (words, _) = data.as_chunks();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    if let Some(places) = parts::places(&words) {
        let again: Vec<u64> = parts::words(&places).collect();
        assert_eq!(again.len(), words.len());
        assert_eq!(parts::places(&again), Some(places));
    }
}
