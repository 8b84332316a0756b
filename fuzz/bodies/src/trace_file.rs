//! A trace file in any format, compressed in any way.

use trace::{Compression, FORMATS, read};

/// Most requests that are read: enough for every path, few enough to be quick.
const REQUESTS_MAX: usize = 1 << 12;

const COMPRESSIONS: [Compression; 4] =
    [Compression::None, Compression::Gzip, Compression::Xz, Compression::Zstd];

/// The first byte says the format and the compression, the rest is the file. A trace that is read
/// has keys that are numbered from 0 without a gap, and is read in the same way again; one that is
/// not says why.
///
/// # Panics
/// When it does not.
pub fn body(data: &[u8]) {
    let Some((choice, file)) = data.split_first() else { return };
    let choice = usize::from(*choice);
    let compression = COMPRESSIONS[choice % COMPRESSIONS.len()];
    let (_, format) = FORMATS[choice / COMPRESSIONS.len() % FORMATS.len()];
    let read = || read("fuzz", format, compression, file, REQUESTS_MAX);
    match read() {
        Ok(trace) => {
            assert!(!trace.keys().is_empty() && trace.keys().len() <= REQUESTS_MAX);
            let mut next = 0;
            for key in trace.keys() {
                assert!(*key <= next, "{key} comes before {next}");
                next = next.max(key + 1);
            }
            assert_eq!(next, trace.footprint());
            assert_eq!(read().expect("read before"), trace);
        }
        Err(flaw) => assert!(!flaw.to_string().is_empty()),
    }
}
