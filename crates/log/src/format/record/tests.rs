use proptest::{collection::vec, prelude::*};

use super::{BATCH_BYTES, Flaw, Kind, Parts, Record};
use crate::{
    format::{LogId, Seed},
    position::Position,
};

const LOG: LogId = LogId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

fn encode(record: &Record<'_>, seed: Seed, offset: u64) -> Vec<u8> {
    let mut bytes = vec![0xAA; record.bytes()];
    record.encode(seed, offset, &mut bytes);
    bytes
}

fn sample() -> Record<'static> {
    Record {
        token: 99,
        expiry_ms: (1 << 48) - 1,
        flags: 7,
        is_stale: true,
        tags: &[1, 2, 3, 4, 5, 6, 7, 8],
        ..Record::new(Kind::Value, 0x0102_0304_0506_0708, b"key", b"value")
    }
}

#[test]
fn a_record_lies_as_the_page_says() {
    let seed = Seed::new(LOG, 3, 1);
    let bytes = encode(&sample(), seed, 8192);
    assert_eq!(bytes.len(), 64);
    let front = [LOG.0.to_le_bytes(), (1_u128 << 64 | 3).to_le_bytes()].concat();
    assert_eq!(bytes[..2], crc32c::crc32c(&front).to_le_bytes()[..2]);
    assert_eq!(bytes[..2], seed.mark());
    assert_eq!(bytes[2..4], [1, 0x0f]);
    assert_eq!(&bytes[8..16], &[3, 0, 1, 0, 5, 0, 0, 0]);
    assert_eq!(&bytes[16..24], &[8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(&bytes[24..32], &99u64.to_le_bytes());
    assert_eq!(&bytes[32..38], &[0xff; 6]);
    assert_eq!(&bytes[38..42], &[7, 0, 0, 0]);
    assert_eq!(&bytes[42..58], b"\x01\x02\x03\x04\x05\x06\x07\x08keyvalue");
    assert_eq!(&bytes[58..], &[0; 6]);
    // An integer key and a value of four bytes each.
    assert_eq!(Record::new(Kind::Value, 1, &[0; 4], &[0; 4]).bytes(), 32);
}

#[test]
fn only_its_own_place_makes_a_record_valid() {
    let seed = Seed::new(LOG, 3, 1);
    let bytes = encode(&sample(), seed, 8192);
    assert_eq!(Record::decode(&bytes, seed, 8192), Ok((sample(), 64)));
    let others = [
        (Seed::new(LOG, 3, 2), 8192, Flaw::NoRecord),
        (Seed::new(LOG, 4, 1), 8192, Flaw::NoRecord),
        (Seed::new(LogId(LOG.0 + 1), 3, 1), 8192, Flaw::NoRecord),
        (seed, 8208, Flaw::Checksum),
    ];
    for (seed, offset, flaw) in others {
        assert_eq!(Record::decode(&bytes, seed, offset), Err(flaw));
        // Also where the mark is the same, as that of one in 65,536 others is.
        let mut bytes = bytes.clone();
        bytes[..2].copy_from_slice(&seed.mark());
        assert_eq!(Record::decode(&bytes, seed, offset), Err(Flaw::Checksum));
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let seed = Seed::new(LOG, 3, 1);
    let bytes = encode(&sample(), seed, 8192);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(
            Record::decode(&flipped, seed, 8192).is_err(),
            "a record with bit {bit} flipped was believed"
        );
    }
    for cut in 0..bytes.len() {
        assert!(Record::decode(&bytes[..cut], seed, 8192).is_err(), "cut at {cut}");
    }
}

#[test]
fn what_no_record_is_written_like_is_refused_in_spite_of_its_checksum() {
    let seed = Seed::new(LOG, 0, 1);
    let of = |kind| Record::new(kind, 5, b"key", b"");
    let part_key = [1; 16];
    for record in [
        Record { value: b"v", ..of(Kind::Tombstone) },
        Record { tags: &[0; 8], ..of(Kind::Tombstone) },
        Record { key: b"", ..of(Kind::Value) },
        Record { value: &[0; 17], ..of(Kind::Head) },
        Record { key: &part_key, ..of(Kind::Part) },
        Record { key: b"short", value: b"v", ..of(Kind::Part) },
        Record { key: &part_key, value: b"v", part: 4096, ..of(Kind::Part) },
        Record { key: &part_key, value: b"v", is_stale: true, ..of(Kind::Part) },
        Record { key: b"", value: b"1", ..of(Kind::Padding) },
        Record { key: b"k", ..of(Kind::Padding) },
        Record { key: b"", is_member: true, ..of(Kind::Padding) },
        Record { key: &part_key, value: b"v", is_member: true, ..of(Kind::Part) },
        Record { key: b"k", ..Record::batch(2, 64) },
        Record { value: b"v", ..Record::batch(2, 64) },
        Record { is_member: true, ..Record::batch(2, 64) },
        Record::batch(0, 64),
        Record::batch(2, 0),
    ] {
        let bytes = encode(&record, seed, 0);
        assert_eq!(Record::decode(&bytes, seed, 0), Err(Flaw::Form), "{record:?}");
    }
    // Fields that are there and say what absent ones would.
    let mut bytes = encode(&Record { flags: 1, ..of(Kind::Value) }, seed, 0);
    bytes[24..28].fill(0);
    seed.stamp(0, &mut bytes, 4);
    assert_eq!(Record::decode(&bytes, seed, 0), Err(Flaw::Form));
}

#[test]
fn a_batch_lies_as_the_page_says() {
    let seed = Seed::new(LOG, 3, 1);
    let batch = Record::batch(0x0102, 0x0304);
    let bytes = encode(&batch, seed, 8192);
    assert_eq!(bytes.len(), BATCH_BYTES);
    assert_eq!((&bytes[..2], &bytes[2..4]), (&seed.mark()[..], &[6, 0][..]));
    assert_eq!(
        &bytes[8..],
        &[0, 0, 2, 1, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(Record::decode(&bytes, seed, 8192), Ok((batch, BATCH_BYTES)));
    let member = Record { is_member: true, ..sample() };
    let bytes = encode(&member, seed, 8192);
    assert_eq!(bytes[3], 0x2f);
    assert_eq!(Record::decode(&bytes, seed, 8192), Ok((member, 64)));
}

#[test]
fn a_head_says_where_the_parts_lie() {
    let positions: Vec<Position> = [5, 1 << 40].into_iter().filter_map(Position::new).collect();
    let value = Parts::encode(300_000, 42, &positions);
    let parts = Parts::parse(&value).unwrap();
    assert_eq!((parts.value_bytes, parts.upload), (300_000, 42));
    assert_eq!(parts.positions().collect::<Vec<_>>(), positions);
    assert_eq!(Parts::parse(&value[..16]), None);
    assert_eq!(Parts::parse(&value[..31]), None);
    assert_eq!(Parts::parse(&Parts::encode(0, 42, &positions)), None);
    assert_eq!(Parts::parse(&Parts::encode((1 << 30) + 1, 42, &positions)), None);
}

#[test]
fn a_record_is_one_only_in_its_generation_and_place() {
    let seed = Seed::new(LOG, 3, 9);
    let record = Record::new(Kind::Value, 7, b"key", b"value");
    let bytes = encode(&record, seed, 64);
    assert!(Record::decode(&bytes, seed, 64).is_ok());
    for (segment, generation, offset) in [(3, 8, 64), (3, 10, 64), (4, 9, 64), (3, 9, 80)] {
        let seed = Seed::new(LOG, segment, generation);
        let found = Record::decode(&bytes, seed, offset);
        assert!(found.is_err(), "a stale record is believed: {segment} {generation} {offset}");
    }
}

proptest! {
    #[test]
    fn records_come_back(
        sequence: u64, token: u64, expiry_ms in 0..1u64 << 48, flags: u32, is_stale: bool,
        is_recached: bool, is_member: bool, tags in 0usize..4, key in vec(any::<u8>(), 1..300),
        value in vec(any::<u8>(), 0..600), segment: u32, generation: u64, unit in 0u64..1 << 28,
    ) {
        let tags = vec![3; tags * 8];
        let record = Record {
            token, expiry_ms, flags, is_stale, is_recached, is_member, tags: &tags,
            ..Record::new(Kind::Value, sequence, &key, &value)
        };
        let seed = Seed::new(LOG, segment, generation);
        let mut bytes = encode(&record, seed, unit * 16);
        let length = bytes.len();
        prop_assert_eq!(length % 16, 0);
        bytes.extend([7; 40]);
        prop_assert_eq!(Record::decode(&bytes, seed, unit * 16), Ok((record, length)));
    }
}
