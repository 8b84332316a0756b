//! The manifest of a log.

use log::format::{manifest::Manifest, stamp};

/// Reads any bytes, and the same bytes with the checksum that makes them worth looking at. What
/// is a manifest is written as what was read.
///
/// # Panics
/// When it is not so.
pub fn body(data: &[u8]) {
    look(data);
    if data.len() >= 16 {
        let mut file = data.to_vec();
        stamp(0, &mut file, 12);
        look(&file);
    }
}

fn look(file: &[u8]) {
    match Manifest::decode(file) {
        Ok(manifest) => assert_eq!(manifest.encode(), file, "it is written in one way"),
        Err(flaw) => assert!(!flaw.to_string().is_empty()),
    }
}
