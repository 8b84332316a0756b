//! The manifest of a log.

use log::format::{manifest::Manifest, stamp};

/// The byte that says which size classes what is clean is counted in.
const CLASSES_AT: usize = 112;

/// Reads any bytes, and the same bytes with the checksum that makes them worth looking at. What
/// is a manifest is written as what was read, or, if it counts in other size classes than today's,
/// as what is read as the same.
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
        Ok(manifest) => {
            let written = manifest.encode();
            if written[CLASSES_AT] == file[CLASSES_AT] {
                assert_eq!(written, file, "it is written in one way");
            } else {
                assert_eq!(Manifest::decode(&written), Ok(manifest), "it is read as it was");
            }
        }
        Err(flaw) => assert!(!flaw.to_string().is_empty()),
    }
}
