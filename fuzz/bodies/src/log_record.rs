//! Records of a log.

use log::format::{
    LogId, Seed,
    record::{Kind, Parts, Record},
};

const OFFSET: u64 = 8192;

/// Reads any bytes, and the same bytes with the mark and the checksum that make them worth looking
/// at. What is a record is written as what was read, and valid in no other place.
///
/// # Panics
/// When it is not so.
pub fn body(data: &[u8]) {
    look(data);
    if data.len() >= 8 {
        let (mut bytes, seed) = (data.to_vec(), Seed::new(LogId(1), 2, 3));
        // What stands for the mark in files: it is no letters.
        if data.starts_with(b"Kr") {
            bytes[..2].copy_from_slice(&seed.mark());
        }
        seed.stamp(OFFSET, &mut bytes, 4);
        look(&bytes);
    }
}

fn look(bytes: &[u8]) {
    let seed = Seed::new(LogId(1), 2, 3);
    let (record, length) = match Record::decode(bytes, seed, OFFSET) {
        Ok(found) => found,
        Err(flaw) => {
            assert!(!flaw.to_string().is_empty());
            return;
        }
    };
    let mut again = vec![0xAA; record.bytes()];
    record.encode(seed, OFFSET, &mut again);
    assert_eq!(again, bytes[..length], "it is written in one way");
    assert!(Record::decode(bytes, seed, OFFSET + 16).is_err(), "it is valid elsewhere");
    if record.kind == Kind::Head {
        let parts = Parts::parse(record.value).expect("a head says where its parts lie");
        let positions: Vec<_> = parts.positions().collect();
        assert_eq!(Parts::encode(parts.value_bytes, parts.upload, &positions), record.value);
    }
}
