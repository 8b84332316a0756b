use super::{Check, PERIOD, Values, Verdict};
use crate::sizes::Sizes;

fn values(text: &str) -> Values {
    Values::new(Sizes::for_values(text).expect("sizes"), 42)
}

fn bytes(values: &Values, key: u32, version: u32) -> Vec<u8> {
    let mut out = Vec::new();
    values.append(key, version, values.size(key, version), &mut out);
    out
}

/// The verdict on `bytes`, which come in pieces of `piece`.
fn verdict(values: &Values, key: u32, bytes: &[u8], piece: usize, window: (u32, u32)) -> Verdict {
    let mut check = Check::new(bytes.len());
    bytes.chunks(piece).for_each(|bytes| check.feed(values, key, bytes));
    check.verdict(values, key, window.0, window.1)
}

#[test]
fn what_was_written_is_right_however_it_is_cut() {
    for size in ["1", "7", "15", "16", "17", "32", "1000", "200000"] {
        let values = values(size);
        let written = bytes(&values, 9, 5);
        assert_eq!(written.len().to_string(), size);
        for piece in [1, 3, 16, 1000, written.len()] {
            if written.len() / piece <= 2000 {
                assert_eq!(verdict(&values, 9, &written, piece, (4, 6)), Verdict::Right, "{size}");
            }
        }
    }
}

#[test]
fn versions_outside_of_the_window_are_told_apart() {
    let values = values("32");
    let of = |version, window| verdict(&values, 9, &bytes(&values, 9, version), 32, window);
    assert_eq!(of(5, (5, 5)), Verdict::Right);
    assert_eq!(of(4, (5, 9)), Verdict::Stale);
    assert_eq!(of(10, (5, 9)), Verdict::Wrong);
    assert_eq!(of(0, (0, 9)), Verdict::Wrong);
    assert_eq!(of(1, (0, 9)), Verdict::Right);
    // A short value does not say which version it is.
    let short = self::values("8");
    let of = |version, window| verdict(&short, 9, &bytes(&short, 9, version), 8, window);
    assert_eq!(of(5, (5, 9)), Verdict::Right);
    assert_eq!(of(4, (5, 9)), Verdict::Wrong);
}

#[test]
fn any_flipped_byte_is_noticed() {
    let values = values("100");
    let written = bytes(&values, 1, 1);
    for at in 0..written.len() {
        let mut broken = written.clone();
        broken[at] ^= 0x20;
        assert_eq!(verdict(&values, 1, &broken, 100, (1, 1)), Verdict::Wrong, "byte {at}");
    }
}

#[test]
fn values_of_others_and_mixtures_are_noticed() {
    let values = values("200000");
    let written = bytes(&values, 1, 7);
    assert_eq!(verdict(&values, 2, &written, 4096, (1, 9)), Verdict::Wrong, "of another key");
    let shorter = &written[..written.len() - 1];
    assert_eq!(verdict(&values, 1, shorter, 4096, (1, 9)), Verdict::Wrong, "cut off");
    let mut mixed = written.clone();
    mixed[100_000..].copy_from_slice(&bytes(&values, 1, 6)[100_000..]);
    assert_eq!(
        verdict(&values, 1, &mixed, 4096, (1, 9)),
        Verdict::Wrong,
        "half of another version"
    );
    let mut swapped = written.clone();
    swapped.copy_within(65_536..131_072, 0);
    swapped[..16].copy_from_slice(&written[..16]);
    assert_eq!(verdict(&values, 1, &swapped, 4096, (1, 9)), Verdict::Wrong, "blocks swapped");
    let mut moved = written;
    let (first, second) = (100, 100 + 65_536);
    assert!(second - first != PERIOD);
    for at in 0..64 {
        moved.swap(first + at, second + at);
    }
    assert_eq!(verdict(&values, 1, &moved, 4096, (1, 9)), Verdict::Wrong, "pieces swapped");
}

#[test]
fn sizes_belong_to_versions() {
    let values = values("20..400");
    let sizes: Vec<usize> = (1..200).map(|version| values.size(3, version)).collect();
    assert!(sizes.iter().any(|size| *size != sizes[0]));
    for version in 1..200 {
        let written = bytes(&values, 3, version);
        assert_eq!(verdict(&values, 3, &written, 64, (1, 200)), Verdict::Right);
    }
}

#[test]
fn says_what_is_wrong() {
    let values = values("100");
    let describe = |bytes: &[u8]| {
        let mut check = Check::new(bytes.len());
        check.feed(&values, 1, bytes);
        check.describe(&values, 1)
    };
    let mut broken = bytes(&values, 1, 3);
    assert_eq!(describe(&broken), "version 3 (100 bytes)");
    broken[99] ^= 1;
    assert_eq!(describe(&broken), "100 bytes that begin as version 3 and go on otherwise");
    broken[0] ^= 1;
    assert_eq!(describe(&broken), "100 bytes that are no version of it");
    assert_eq!(describe(b"ab\n"), "3 bytes `ab\\n`");
}
