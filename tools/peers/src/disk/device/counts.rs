//! What a device and the kernel count, and for how long a device does nothing.

use std::{
    fs, io,
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{major, minor};

use super::SECTOR_BYTES;

/// Between two looks at whether a device does anything.
const LOOK_TIME: Duration = Duration::from_millis(10);

/// A block device's counters.
#[derive(Debug)]
pub(in crate::disk) struct Device {
    stat: PathBuf,
}

/// What a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::disk) struct Counts {
    pub(in crate::disk) reads: u64,
    pub(in crate::disk) read_bytes: u64,
    pub(in crate::disk) writes: u64,
    pub(in crate::disk) write_bytes: u64,
    pub(in crate::disk) flushes: u64,
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
    pub(in crate::disk) fn of(path: &Path) -> io::Result<Option<Self>> {
        let device = fs::metadata(path)?.dev();
        let stat = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
        Ok(Some(Self { stat: stat.into() }).filter(|it| it.stat.is_file()))
    }

    /// What it has counted. Of everything that uses it.
    pub(in crate::disk) fn counts(&self) -> io::Result<Counts> {
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
pub(in crate::disk) fn watched<T>(
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
pub(in crate::disk) struct Over<'a>(pub(in crate::disk) &'a AtomicBool);

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
    pub(in crate::disk) fn since(self, before: Self) -> Self {
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
pub(in crate::disk) fn read_bytes() -> Option<u64> {
    own_count("read_bytes: ")
}

/// Bytes that this process has had written, or will: a page that it changes in memory counts
/// at once, also when it is removed before it is written.
pub(in crate::disk) fn write_bytes() -> Option<u64> {
    own_count("write_bytes: ")
}

fn own_count(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Counts, Stillness, counts};

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
}
