//! The disk below: what it counts, how long a flush takes it, and files that it alone has.

mod counts;

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{Advice, OFlags, SeekFrom, fadvise, seek, statvfs, syncfs},
    io::Errno,
};

pub(super) use self::counts::{Counts, Device, Over, read_bytes, watched, write_bytes};

/// What the kernel calls a sector, whatever the device has.
const SECTOR_BYTES: u64 = 512;

/// What a file system allocates and a probe writes.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// Bytes that are read at a time to have files in memory.
const WARM_BYTES: usize = 1 << 20;

/// Blocks of the file that a probe writes to in turn.
const PROBE_BLOCKS: u64 = 256;

/// Fewest flushes of a probe.
const PROBE_FLUSHES_MIN: usize = 5;

/// Bytes that the file system has allocated to what is in `path`. Files may go meanwhile.
pub(super) fn allocated_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let found = match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        bytes += found.blocks() * SECTOR_BYTES;
        if found.is_dir() {
            bytes += allocated_bytes(&entry.path())?;
        }
    }
    Ok(bytes)
}

/// Bytes that are free where `path` is.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = statvfs(path)?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// A directory that is removed in the end, and what that gives the device to do is waited for.
#[derive(Debug)]
pub(crate) struct Place(PathBuf);

impl Place {
    /// Makes `name` in `parent`, which is made if it is not there.
    ///
    /// # Errors
    /// When it is there already: it may be somebody else's.
    pub(crate) fn make(parent: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        let path = parent.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
        // A file system that discards what it frees is to do so before the next engine's turn.
        let parent = self.0.parent().map(File::open);
        if let Some(Ok(parent)) = parent {
            let _ = syncfs(parent);
        }
    }
}

/// Writes what of the files in `path` is dirty, and drops their pages from memory. Unlike
/// `/proc/sys/vm/drop_caches` it takes nothing from others and needs no rights. Files must not be
/// mapped.
pub(crate) fn forget(path: &Path) -> io::Result<()> {
    each_file(path, &mut |file| {
        file.sync_data()?;
        Ok(fadvise(file, 0, None, Advice::DontNeed)?)
    })
}

/// Reads every file in `path`, so that it is in memory as far as that suffices. Not what was never
/// written, of which a mapped file may have far more than there is memory.
pub(super) fn warm(path: &Path) -> io::Result<()> {
    let mut bytes = vec![0; WARM_BYTES];
    each_file(path, &mut |file| {
        let mut at = 0;
        while let Some(from) = found(seek(file, SeekFrom::Data(at)))? {
            at = found(seek(file, SeekFrom::Hole(from)))?.unwrap_or(from);
            let mut next = from;
            while next < at {
                let read = file.read_at(&mut bytes, next)?;
                next = if read == 0 { at } else { next + read as u64 };
            }
        }
        Ok(())
    })
}

/// What a search for data or for a hole has found; `None` behind the end of a file.
fn found(sought: Result<u64, Errno>) -> io::Result<Option<u64>> {
    match sought {
        Err(Errno::NXIO) => Ok(None),
        sought => Ok(Some(sought?)),
    }
}

fn each_file(path: &Path, call: &mut dyn FnMut(&File) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            each_file(&entry.path(), call)?;
        } else if kind.is_file() {
            call(&File::open(entry.path())?)?;
        }
    }
    Ok(())
}

/// Memory that begins where a block may, for what goes past the page cache.
#[derive(Debug)]
pub(super) struct Aligned {
    memory: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    pub(super) fn new(len: usize) -> Self {
        let memory = vec![0x5A; len + BLOCK_BYTES];
        let from = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self { memory, from, len }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.len]
    }
}

/// A file of written blocks, one of which is written past all caches and flushed, again and again.
#[derive(Debug)]
pub(super) struct Probe {
    file: File,
    block: Aligned,
    next: u64,
}

impl Probe {
    /// Makes the file in `directory`.
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let path = directory.join("probe");
        let blocks = vec![0xA5; BLOCK_BYTES * PROBE_BLOCKS as usize];
        fs::write(&path, blocks)?;
        File::open(&path)?.sync_all()?;
        let direct = OFlags::DIRECT.bits() as i32;
        let file = OpenOptions::new().write(true).custom_flags(direct).open(&path)?;
        Ok(Self { file, block: Aligned::new(BLOCK_BYTES), next: 0 })
    }

    /// The median of writes and flushes of a block in a row, in microseconds.
    pub(super) fn flush_us(&mut self, time: Duration) -> io::Result<f64> {
        let (begun, mut taken) = (Instant::now(), Vec::new());
        while begun.elapsed() < time || taken.len() < PROBE_FLUSHES_MIN {
            let offset = self.next % PROBE_BLOCKS * BLOCK_BYTES as u64;
            self.next += 1;
            let start = Instant::now();
            self.file.write_all_at(self.block.bytes(), offset)?;
            self.file.sync_data()?;
            taken.push(start.elapsed());
        }
        taken.sort_unstable();
        Ok(taken[taken.len() / 2].as_secs_f64() * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::{BLOCK_BYTES, Place, Probe, allocated_bytes, forget, warm};

    #[test]
    fn a_place_goes_with_what_is_in_it() {
        let place = Place::make(&std::env::temp_dir(), "kelvin-peers-place").expect("a place");
        let inside = place.path().join("inside");
        fs::create_dir(&inside).expect("a directory");
        fs::write(inside.join("file"), b"bytes").expect("a file");
        let holes = fs::File::create(inside.join("holes")).expect("a file");
        // So many that a test which read them would be noticed.
        holes.set_len(1 << 42).expect("it has no blocks");
        fs::write(inside.join("blocks"), [7; 2 * BLOCK_BYTES]).expect("a file");
        let bytes = allocated_bytes(place.path()).expect("it is counted");
        let least = 2 * BLOCK_BYTES as u64;
        assert!((least..least + (1 << 20)).contains(&bytes), "{bytes}");
        warm(place.path()).expect("it is read");
        forget(place.path()).expect("it is forgotten");
        let mut probe = Probe::new(place.path()).expect("a probe");
        assert!(probe.flush_us(Duration::ZERO).expect("it flushes") > 0.0);
        let path = place.path().to_owned();
        drop(place);
        assert!(!path.exists());
    }
}
