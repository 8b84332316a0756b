use super::{CleanState, Flaw, IndexKind, Manifest, Purpose, Row, Shape, stamp};
use crate::{format::LogId, plan::SegmentId};

fn flat() -> Shape {
    Shape {
        segment_bytes: 64 << 20,
        block_bytes: 4096,
        part_bytes: 1 << 18,
        entry_bytes: 5,
        index: IndexKind::Flat { kmin: 10, kmax: 1000 },
    }
}

fn sample() -> Manifest {
    let row = Row {
        state: CleanState::Sealed,
        generation: 4,
        live_bytes: 77,
        smallest_value: 5,
        begun: 6,
        all_bytes: 88,
        packed_bytes: 99,
        tombstone_bytes: 64,
        greatest_tombstone: 7,
        ..Row::of(SegmentId(2))
    };
    Manifest {
        log: LogId(0xfeed),
        shape: Shape { block_bytes: 512, segment_bytes: 16 << 10, ..flat() },
        purpose: Purpose::RingOfOneRun,
        run: 3,
        clean_sequence: 9,
        dead_below: 8,
        large_values: 7,
        rows: vec![Row::of(SegmentId(0)), row],
    }
}

#[test]
fn a_manifest_lies_as_the_page_says() {
    let file = sample().encode();
    assert_eq!(file.len(), 512);
    assert_eq!(&file[..8], b"KELVINLG");
    assert_eq!(file[40..48], 3u64.to_le_bytes());
    assert_eq!(file[56..64], [0, 2, 0, 0, 1, 5, 18, 2]);
    assert_eq!(file[64..72], 10u64.to_le_bytes());
    assert_eq!(file[96..104], 8u64.to_le_bytes());
    assert_eq!(file[104..112], 7u64.to_le_bytes());
    assert_eq!(file[112..128], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(file[328..332], 2u32.to_le_bytes());
    assert_eq!(file[392..400], 7u64.to_le_bytes());
    assert_eq!(Manifest::decode(&file), Ok(sample()));
    let seeds = std::array::from_fn(|at| at as u8);
    let shape = Shape { entry_bytes: 0, index: IndexKind::Hash { seeds }, ..sample().shape };
    let hash = Manifest { shape, ..sample() };
    assert_eq!(Manifest::decode(&hash.encode()), Ok(hash));
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_manifest_is_noticed() {
    let file = sample().encode();
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&flipped).is_err(), "bit {bit} flipped was believed");
    }
    for cut in 0..file.len() {
        assert!(Manifest::decode(&file[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn what_no_manifest_is_written_like_is_refused_in_spite_of_its_checksum() {
    let mended = |at: usize, byte: u8| {
        let mut file = sample().encode();
        file[at] = byte;
        stamp(0, &mut file, 12);
        Manifest::decode(&file)
    };
    assert_eq!(mended(8, 2), Err(Flaw::Version { found: 2 }));
    // Reserved bytes, the kind of index, the part, the entry, rows out of order, states, the run.
    for (at, byte) in [
        (63, 3),
        (112, 2),
        (113, 1),
        (60, 3),
        (62, 40),
        (61, 9),
        (256, 2),
        (332, 3),
        (40, 0),
        (500, 1),
    ] {
        assert_eq!(mended(at, byte), Err(Flaw::Form), "byte {at} is {byte}");
    }
    assert_eq!(Manifest::decode(b"KELVINSG"), Err(Flaw::NoManifest));
}

#[test]
fn what_was_clean_by_the_size_classes_without_a_margin_is_not_believed() {
    let mut file = sample().encode();
    file[112] = 0;
    stamp(0, &mut file, 12);
    let rows = vec![Row::of(SegmentId(0)), Row::of(SegmentId(2))];
    let forgotten = Manifest { clean_sequence: 0, large_values: 0, rows, ..sample() };
    assert_eq!(Manifest::decode(&file), Ok(forgotten));
}

#[test]
fn shapes_that_the_format_has_no_log_for() {
    assert!(flat().is_valid());
    for shape in [
        Shape { block_bytes: 256, ..flat() },
        Shape { block_bytes: 8192, ..flat() },
        Shape { block_bytes: 1000, ..flat() },
        Shape { segment_bytes: (64 << 20) + 512, ..flat() },
        Shape { segment_bytes: 15 * 4096, ..flat() },
        Shape { segment_bytes: (4 << 30) + 4096, ..flat() },
        Shape { part_bytes: 1 << 19, ..flat() },
        Shape { part_bytes: 1000, ..flat() },
        Shape { entry_bytes: 3, ..flat() },
        Shape { index: IndexKind::Flat { kmin: 5, kmax: 5 }, ..flat() },
        Shape { index: IndexKind::Hash { seeds: [0; 128] }, ..flat() },
    ] {
        assert!(!shape.is_valid(), "{shape:?}");
    }
}
