use super::{
    Header, HeaderFlaw, Listed, Trailer, decode_footer_block, encode_footer_block,
    entries_of_block, footer_blocks,
};
use crate::format::{KeyHash, LogId, Seed, record::Kind};

const HEADER: Header = Header {
    log: LogId(77),
    segment: 3,
    block_bytes: 4096,
    generation: 9,
    segment_bytes: 64 << 20,
    dead_below: 0,
};

/// Every flipped bit of `bytes` is answered with nothing.
fn assert_guarded(bytes: &[u8], is_valid: impl Fn(&[u8]) -> bool) {
    assert!(is_valid(bytes));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_valid(&flipped), "bit {bit} flipped was believed");
    }
    for cut in 0..bytes.len() {
        assert!(!is_valid(&bytes[..cut]), "cut at {cut}");
    }
}

#[test]
fn header_copies_come_back_whole_or_not_at_all() {
    let mut block = [0xAA; 512];
    HEADER.encode(&mut block);
    assert_eq!(&block[..8], b"KELVINSG");
    assert_eq!(block[32..36], 3u32.to_le_bytes());
    assert_eq!(block[40..48], 9u64.to_le_bytes());
    assert_eq!(Header::decode(&block), Ok(HEADER));
    let wiped = Header { dead_below: 5, ..HEADER };
    wiped.encode(&mut block);
    assert_eq!(block[56..64], 5u64.to_le_bytes());
    assert_eq!(Header::decode(&block), Ok(wiped));
    assert_guarded(&block, |block| Header::decode(block).is_ok());
}

#[test]
fn a_later_version_of_a_header_is_told_from_damage() {
    let mut block = [0; 512];
    HEADER.encode(&mut block);
    block[8] = 2;
    assert_eq!(Header::decode(&block), Err(HeaderFlaw::Damaged));
    super::stamp(0, &mut block, 12);
    assert_eq!(Header::decode(&block), Err(HeaderFlaw::Version(2)));
}

#[test]
fn a_copy_that_two_crashes_have_torn_is_told_from_damage() {
    let mut encoded = [[0; 1024]; 3];
    for (bytes, generation) in encoded.iter_mut().zip(7..) {
        Header { generation, ..HEADER }.encode(bytes);
    }
    let [before, this, next] = encoded;
    let header = Header { generation: 8, ..HEADER };
    // The second copy of generation 8 was torn, and then the first one of generation 9.
    let mut torn = before;
    torn[12..14].copy_from_slice(&this[12..14]);
    torn[14..16].copy_from_slice(&next[14..16]);
    assert!(Header::decode(&torn).is_err());
    assert!(header.is_torn(1, &torn, 0));
    assert!(!header.is_torn(0, &torn, 0), "that copy is whole before the other is written");
    // What was dead when the others were written is not known, but that it was nothing.
    torn[56] = 1;
    assert!(!header.is_torn(1, &torn, 0));
    assert!(header.is_torn(1, &torn, 7));
    torn[20] ^= 1;
    assert!(!header.is_torn(1, &torn, 7));
}

fn listed(sequence: u64) -> Listed {
    Listed {
        hash: KeyHash(u128::from(sequence) << 64 | 5),
        sequence,
        unit: 512 + sequence as u32,
        kind: if sequence.is_multiple_of(3) { Kind::Tombstone } else { Kind::Value },
        class: 4,
        part: 0,
    }
}

#[test]
fn footers_come_back_block_by_block() {
    assert_eq!((entries_of_block(512), entries_of_block(4096)), (15, 127));
    assert_eq!([0, 1, 15, 16].map(|entries| footer_blocks(entries, 512)), [0, 1, 1, 2]);
    let seed = Seed::new(HEADER.log, 3, 9);
    let entries: Vec<Listed> = (1..=9).map(listed).collect();
    let mut block = [0xAA; 512];
    encode_footer_block(&entries, 1, seed, 8192, &mut block);
    assert_eq!(decode_footer_block(&block, 1, seed, 8192), Some(entries));
    assert_eq!(decode_footer_block(&block, 0, seed, 8192), None);
    assert_eq!(decode_footer_block(&block, 1, seed, 8704), None);
    assert_eq!(decode_footer_block(&block, 1, Seed::new(HEADER.log, 3, 8), 8192), None);
    assert_guarded(&block, |block| decode_footer_block(block, 1, seed, 8192).is_some());
}

#[test]
fn trailers_come_back_whole_or_not_at_all() {
    let seed = Seed::new(HEADER.log, 3, 9);
    let trailer = Trailer {
        records_end: 8192,
        entries: 9,
        smallest_sequence: 1,
        greatest_sequence: u64::MAX,
        keys: 7,
    };
    let mut block = [0xAA; 512];
    trailer.encode(seed, 65_024, &mut block);
    assert_eq!(block[48..56], 7u64.to_le_bytes());
    assert_eq!(Trailer::decode(&block, seed, 65_024), Some(trailer));
    assert_eq!(Trailer::decode(&block, seed, 0), None);
    assert_guarded(&block, |block| Trailer::decode(block, seed, 65_024).is_some());
}

#[test]
fn a_tombstone_comes_behind_what_is_as_old() {
    let value = Listed { kind: Kind::Value, unit: 900, ..listed(3) };
    assert!(value.order() < listed(3).order());
    assert!(listed(3).order() < listed(4).order());
}

#[test]
fn a_footer_may_have_the_class_above_and_nothing_else_that_differs() {
    let found = listed(4);
    assert!(found.means(&found));
    assert!(Listed { class: 5, ..found }.means(&found));
    for other in [
        Listed { class: 3, ..found },
        Listed { class: 6, ..found },
        Listed { class: 5, sequence: 5, ..found },
        Listed { unit: found.unit + 1, ..found },
        Listed { kind: Kind::Head, ..found },
        Listed { part: 1, ..found },
        Listed { hash: KeyHash(5), ..found },
    ] {
        assert!(!other.means(&found), "{other:?}");
    }
}
