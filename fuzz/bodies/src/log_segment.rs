//! What is in a segment of a log beside records: header copies, footer blocks, trailers.

use log::format::{
    LogId, Seed,
    segment::{Header, Trailer, decode_footer_block, encode_footer_block},
    stamp,
};

const OFFSET: u64 = 8192;

/// Reads any bytes as each of them, and the same bytes with the checksum of each. What is one is
/// written as what was read.
///
/// # Panics
/// When it is not so.
pub fn body(data: &[u8]) {
    look(data);
    if data.len() >= 16 {
        let mut block = data.to_vec();
        stamp(0, &mut block, 12);
        look(&block);
        let mut block = data.to_vec();
        Seed::new(LogId(1), 2, 3).stamp(OFFSET, &mut block, 8);
        look(&block);
    }
}

fn look(block: &[u8]) {
    let seed = Seed::new(LogId(1), 2, 3);
    let mut again = vec![0xAA; block.len()];
    if let Ok(header) = Header::decode(block) {
        header.encode(&mut again);
        assert_eq!(again, block, "a header is written in one way");
    }
    if let Some(trailer) = Trailer::decode(block, seed, OFFSET) {
        trailer.encode(seed, OFFSET, &mut again);
        assert_eq!(again, block, "a trailer is written in one way");
    }
    for number in 0..2 {
        if let Some(entries) = decode_footer_block(block, number, seed, OFFSET) {
            encode_footer_block(&entries, number, seed, OFFSET, &mut again);
            assert_eq!(again, block, "a footer block is written in one way");
        }
    }
}
