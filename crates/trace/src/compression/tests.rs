use std::io::Read;

use super::Compression;

/// The same six bytes by each program, with a checksum.
const TEXT: &[u8] = b"1\n2\n1\n";
const GZIP: &str = "1f8b080000000000000333e432e232e402005a36694506000000";
const XZ: &str = concat!(
    "fd377a585a000004e6d6b4460200210116000000742fe5a3010005310a320a310a000000f92310c7",
    "7f4b85e700011e06c12fa41d1fb6f37d010000000004595a",
);
const ZSTD: &str = "28b52ffd2406310000310a320a310ac8e21e07";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().map(|digit| (digit as char).to_digit(16).expect("hex") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn all() -> [(Compression, Vec<u8>); 3] {
    [
        (Compression::Gzip, bytes(GZIP)),
        (Compression::Xz, bytes(XZ)),
        (Compression::Zstd, bytes(ZSTD)),
    ]
}

fn decoded(compression: Compression, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    compression.decoded(bytes).read_to_end(&mut out).map(|_| out)
}

#[test]
fn each_is_undone_once_and_twice() {
    assert_eq!(decoded(Compression::None, TEXT).expect("as it is"), TEXT);
    for (compression, bytes) in all() {
        assert_eq!(decoded(compression, &bytes).expect("whole"), TEXT, "{compression:?}");
        let twice = [bytes.as_slice(), &bytes].concat();
        let expected = [TEXT, TEXT].concat();
        assert_eq!(decoded(compression, &twice).expect("whole"), expected, "{compression:?}");
    }
}

#[test]
fn what_is_cut_or_damaged_is_an_error() {
    for (compression, bytes) in all() {
        for len in 1..bytes.len() {
            assert!(decoded(compression, &bytes[..len]).is_err(), "{compression:?}, {len} bytes");
        }
        // The content itself: its checksum tells.
        let content = bytes.windows(2).rposition(|pair| pair == b"1\n" || pair == b"\x32\xe2");
        let mut damaged = bytes.clone();
        damaged[content.expect("it is in there")] ^= 3;
        assert!(decoded(compression, &damaged).is_err(), "{compression:?}");
        assert!(decoded(compression, TEXT).is_err(), "{compression:?}");
    }
}

#[test]
fn a_dictionary_beyond_the_limit_is_refused() {
    // The window of this frame is 2^31 bytes: exponent 21 above 2^10.
    let huge = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00];
    let error = decoded(Compression::Zstd, &huge).expect_err("too large");
    assert!(error.to_string().to_lowercase().contains("window"), "{error}");
}

#[test]
fn names_say_how_a_file_is_compressed() {
    for (name, expected) in [
        ("a.trace.xz", (Compression::Xz, "a.trace")),
        ("a.gz", (Compression::Gzip, "a")),
        ("a.lis.zst", (Compression::Zstd, "a.lis")),
        ("a.gz.lis", (Compression::None, "a.gz.lis")),
    ] {
        assert_eq!(Compression::of_name(name), expected);
    }
}
