//! How often a trace is to be repeated, and how much memory that asks for.

use std::io::{self, Error};

use trace::{LogNormal, Source};

use super::MIB;
use crate::options::HitsOptions;

/// Bytes of a key, and what a record takes beside its key and value: the budget of
/// docs/formats/record.md.
const KEY_BYTES: u64 = 16;
const BEYOND_BYTES: u64 = 36;

/// Most copies of a trace.
const COPIES_MAX: u32 = 1 << 20;

/// A trace and a size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) trace: String,
    pub(super) percent: f64,
    pub(super) copies: u32,
    pub(super) requests: u64,
    pub(super) memory_mib: u64,
}

/// The cells of a trace.
///
/// # Errors
/// When it cannot be read, or is too small to fill the memory with any number of copies.
pub(super) fn cells(source: &Source, options: &HitsOptions) -> io::Result<Vec<Cell>> {
    let trace = source.load(options.seed).map_err(Error::other)?;
    let copy_bytes = |copy: u32| -> u64 {
        let value_bytes = |key: u32| {
            let name = u64::from(copy) << 32 | u64::from(key);
            u64::from(LogNormal::SMALL_OBJECTS.bytes(options.seed, name))
        };
        (0..trace.footprint()).map(|key| KEY_BYTES + BEYOND_BYTES + value_bytes(key)).sum()
    };
    let cell = |&percent: &f64| {
        let mut bytes = 0;
        for copy in 0..COPIES_MAX {
            bytes += copy_bytes(copy);
            let memory_mib = (bytes as f64 * percent / 100.0) as u64 / MIB;
            if memory_mib >= options.min_memory_mib {
                let copies = copy + 1;
                let requests = trace.keys().len() as u64 * u64::from(copies);
                let trace = trace.name().to_owned();
                return Ok(Cell { trace, percent, copies, requests, memory_mib });
            }
        }
        Err(Error::other(format!("{}: too few keys", trace.name())))
    };
    options.sizes.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::cells;
    use crate::options::HitsOptions;

    #[test]
    fn a_trace_is_repeated_until_it_fills_the_memory() {
        let options = HitsOptions {
            traces: Vec::new(),
            sizes: vec![10.0, 100.0],
            min_memory_mib: 8,
            requests_max: u64::MAX,
            seed: 1,
            kelvin: None,
            json: None,
        };
        let source = "loop:keys=1000,requests=3000".parse().expect("a source");
        let cells = cells(&source, &options).expect("it can be made");
        // A copy is about a MiB: 1000 times 924 bytes of value in the mean and 52 beside.
        for (cell, copies) in cells.iter().zip([70..100, 7..11]) {
            assert!(copies.contains(&cell.copies), "{cell:?}");
            assert_eq!((cell.memory_mib, cell.requests), (8, 3000 * u64::from(cell.copies)));
        }
    }
}
