//! The disk below: what it counts, how long a flush takes it, and files that it alone has.

use std::{
    fs::{self, File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::{
    fs::{Advice, OFlags, SeekFrom, fadvise, major, minor, seek, statvfs, syncfs},
    io::Errno,
};

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

/// Between two looks at whether a device does anything.
const LOOK_TIME: Duration = Duration::from_millis(10);

/// A block device's counters.
#[derive(Debug)]
pub(super) struct Device {
    stat: PathBuf,
}

/// What a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    pub(super) writes: u64,
    pub(super) write_bytes: u64,
    pub(super) flushes: u64,
}

/// For how long a device has done nothing of what it was asked for.
#[derive(Debug, Default)]
struct Stillness {
    longest: Duration,
    /// Since when it certainly has, and what it had done by then.
    since: Option<(Instant, Counts)>,
}

impl Stillness {
    /// It was looked at within a time: so much was done, and so many requests were on their way.
    fn look(&mut self, time: Range<Instant>, counts: Counts, in_flight: u64) {
        match self.since {
            _ if in_flight == 0 => self.since = None,
            Some((since, before)) if before == counts => {
                self.longest = self.longest.max(time.start - since);
            }
            _ => self.since = Some((time.end, counts)),
        }
    }
}

impl Device {
    /// The one that `path` lies on; `None` when that counts nothing, as a file system in memory.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let device = fs::metadata(path)?.dev();
        let stat = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
        Ok(Some(Self { stat: stat.into() }).filter(|it| it.stat.is_file()))
    }

    /// What it has counted. Of everything that uses it.
    pub(super) fn counts(&self) -> io::Result<Counts> {
        Ok(self.stat()?.0)
    }

    /// For how long at most something was asked of it and nothing was done, until it is over: from
    /// one look to another one, which are a hundredth of a second apart, so never too long.
    fn standstill(&self, is_over: &AtomicBool) -> io::Result<Duration> {
        let mut stillness = Stillness::default();
        while !is_over.load(Ordering::Acquire) {
            let before = Instant::now();
            let (counts, in_flight) = self.stat()?;
            stillness.look(before..Instant::now(), counts, in_flight);
            std::thread::sleep(LOOK_TIME);
        }
        Ok(stillness.longest)
    }

    fn stat(&self) -> io::Result<(Counts, u64)> {
        let text = fs::read_to_string(&self.stat)?;
        counts(&text).ok_or_else(|| io::Error::other(format!("{}: {text:?}", self.stat.display())))
    }
}

/// Does something, and says for how long a device stood still meanwhile, if there is one.
pub(super) fn watched<T>(
    device: Option<&Device>,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<(T, Option<Duration>)> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        let watch = device.map(|device| scope.spawn(|| device.standstill(&is_over)));
        let found = call()?;
        drop(over);
        let still = watch.map(|it| it.join().expect("a thread panicked")).transpose()?;
        Ok((found, still))
    })
}

/// Says when it is over, also when somebody panics: whoever looks on then does so no more.
pub(super) struct Over<'a>(pub(super) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Reads the fields that Documentation/block/stat.rst names: what was done, and how many requests
/// are on their way.
fn counts(text: &str) -> Option<(Counts, u64)> {
    let fields: Vec<u64> = text.split_whitespace().map_while(|it| it.parse().ok()).collect();
    let counts = Counts {
        reads: *fields.first()?,
        read_bytes: fields.get(2)? * SECTOR_BYTES,
        writes: *fields.get(4)?,
        write_bytes: fields.get(6)? * SECTOR_BYTES,
        flushes: *fields.get(15)?,
    };
    Some((counts, *fields.get(8)?))
}

impl Counts {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }
}

/// Bytes that this process has had read from whatever device. `None` where the kernel does not
/// count them.
pub(super) fn read_bytes() -> Option<u64> {
    own_count("read_bytes: ")
}

/// Bytes that this process has had written, or will: a page that it changes in memory counts
/// at once, also when it is removed before it is written.
pub(super) fn write_bytes() -> Option<u64> {
    own_count("write_bytes: ")
}

fn own_count(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok())
}

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
    use std::{
        fs,
        time::{Duration, Instant},
    };

    use super::{
        BLOCK_BYTES, Counts, Place, Probe, Stillness, allocated_bytes, counts, forget, warm,
    };

    #[test]
    fn counters_are_read() {
        let text = " 10 1 80 5 20 2 160 7 0 9 12 3 0 24 6 33 44\n";
        let expected =
            Counts { reads: 10, read_bytes: 40_960, writes: 20, write_bytes: 81_920, flushes: 33 };
        assert_eq!(counts(text), Some((expected, 0)));
        assert_eq!(counts("10 1 80"), None);
        let before = Counts { reads: 3, ..Counts::default() };
        assert_eq!(expected.since(before).reads, 7);
    }

    #[test]
    fn a_device_stands_still_while_it_has_something_to_do_and_does_nothing() {
        let (start, mut stillness) = (Instant::now(), Stillness::default());
        let mut look = |from_ms, reads, in_flight| {
            let at = |ms| start + Duration::from_millis(ms);
            let counts = Counts { reads, ..Counts::default() };
            stillness.look(at(from_ms)..at(from_ms + 1), counts, in_flight);
            stillness.longest.as_millis()
        };
        // It has nothing to do, and then what it was given just now.
        assert_eq!([look(0, 5, 0), look(100, 5, 0), look(200, 5, 3)], [0; 3]);
        // From the end of one look to the begin of another one.
        assert_eq!([look(210, 5, 3), look(220, 5, 1)], [9, 19]);
        assert_eq!(
            [look(300, 6, 1), look(310, 7, 1), look(320, 7, 0)],
            [19; 3],
            "it does something"
        );
        assert_eq!([look(400, 7, 1), look(450, 7, 1)], [19, 49]);
    }

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
