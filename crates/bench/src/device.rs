//! What the disk below a directory does.
//!
//! Reads the counters of its block device that Documentation/block/stat.rst names. They count
//! everybody who uses it, and a request when it is done.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{major, minor};

use crate::Error;

/// What the kernel calls a sector, whatever the device has.
const SECTOR_BYTES: u64 = 512;

/// A block device.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    stat: PathBuf,
}

/// What a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Bytes that they have read.
    pub read_bytes: u64,
    /// Milliseconds that reads have taken, all of them added: over the time that went by, the
    /// mean number that was under way.
    pub read_ms: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes that they have written.
    pub write_bytes: u64,
    /// Milliseconds that writes have taken, all of them added.
    pub write_ms: u64,
}

impl Device {
    /// The one that `path` lies on.
    ///
    /// # Errors
    /// [`Error::Device`] when there is none that counts.
    pub(crate) fn of(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Device { path: path.display().to_string(), source };
        let device = fs::metadata(path).map_err(failed)?.dev();
        let stat = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
        let device = Self { stat: stat.into() };
        device.traffic()?;
        Ok(device)
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub(crate) fn traffic(&self) -> Result<Traffic, Error> {
        let failed = |source| Error::Device { path: self.stat.display().to_string(), source };
        let text = fs::read_to_string(&self.stat).map_err(failed)?;
        read(&text).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))
    }
}

fn read(text: &str) -> Option<Traffic> {
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse::<u64>().ok());
    // Requests, those that were merged, sectors, milliseconds: of reads, then of writes.
    let mut four = || Some((fields.next()??, fields.next()??, fields.next()??, fields.next()??));
    let (reads, _, read_sectors, read_ms) = four()?;
    let (writes, _, write_sectors, write_ms) = four()?;
    Some(Traffic {
        reads,
        read_bytes: read_sectors * SECTOR_BYTES,
        read_ms,
        writes,
        write_bytes: write_sectors * SECTOR_BYTES,
        write_ms,
    })
}

impl Traffic {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            read_ms: self.read_ms.saturating_sub(before.read_ms),
            writes: self.writes.saturating_sub(before.writes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            write_ms: self.write_ms.saturating_sub(before.write_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Device, Traffic, read};

    #[test]
    fn what_counts_nothing_is_refused_and_what_counts_goes_on() {
        // No file system of that kind has a device.
        let error = Device::of("/proc/self".as_ref()).expect_err("it counts nothing");
        assert!(error.to_string().starts_with("cannot read what the disk of "), "{error}");
        // A file system in memory has none either.
        let Ok(device) = Device::of(&std::env::temp_dir()) else { return };
        let [before, after] = [(); 2].map(|()| device.traffic().expect("it counts"));
        assert!(after.writes >= before.writes && after.read_bytes >= before.read_bytes);
    }

    #[test]
    fn counters_are_read_and_told_apart() {
        let text = " 10 1 80 5 20 2 160 7 0 9 12 3 0 24 6 33 44\n";
        let after = Traffic {
            reads: 10,
            read_bytes: 40_960,
            read_ms: 5,
            writes: 20,
            write_bytes: 81_920,
            write_ms: 7,
        };
        assert_eq!(read(text), Some(after));
        assert_eq!(read("10 1 80 5 20 2 160"), None);
        let before = Traffic { reads: 3, write_ms: 6, ..Traffic::default() };
        let between = after.since(before);
        assert_eq!((between.reads, between.read_ms, between.write_ms), (7, 5, 1));
    }
}
