//! A loop without a store: puts that are due at the same times as a store's and that take as long,
//! while as much is read from the device and written to it.
//!
//! What such a put waits for, it waits for the machine. A guest's processors are taken away while
//! its host serves its device: the more a store reads and writes the more often, however little
//! of that its puts wait for.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use super::pace::{self, Offered};
use crate::{
    disk::{
        device::{Aligned, BLOCK_BYTES, Counts, Over},
        engine::{Engine, Session},
    },
    random::Random,
};

/// The most that is read or written at once, and by which the file is made.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// The longest pause of a thread that asks.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// A file as large as what a store keeps, written once.
#[derive(Debug)]
pub(super) struct Bare {
    file: File,
    bytes: u64,
}

/// What a window of a store took of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// A put that waited for nothing.
    pub(super) put_us: f64,
    pub(super) device: Counts,
}

/// What is asked of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Read,
    Write,
    Flush,
}

/// When that is asked, and for how much.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Requests {
    request: Request,
    interval: Duration,
    bytes: usize,
}

impl Requests {
    /// As many in this time, each of the mean size; `None` when there are none.
    fn of(request: Request, count: u64, bytes: u64, time: Duration) -> Option<Self> {
        let mean_bytes = usize::try_from(bytes.checked_div(count)?).unwrap_or(REQUEST_BYTES_MAX);
        let bytes = mean_bytes.next_multiple_of(BLOCK_BYTES).min(REQUEST_BYTES_MAX);
        Some(Self { request, interval: time.div_f64(count as f64), bytes })
    }

    /// All that a store has asked for in this time.
    fn all(counts: Counts, time: Duration) -> impl Iterator<Item = Self> {
        let Counts { reads, read_bytes, writes, write_bytes, flushes } = counts;
        let reads = Self::of(Request::Read, reads, read_bytes, time);
        let writes = Self::of(Request::Write, writes, write_bytes, time);
        let flushes = Self::of(Request::Flush, flushes, 0, time);
        [reads, writes, flushes].into_iter().flatten()
    }
}

/// Puts that take a time and do nothing.
struct Spin(Duration);

impl Engine for Spin {
    fn session(&self) -> io::Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

impl Session for &Spin {
    fn put(&mut self, _: u32, _: &[u8]) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < self.0 {}
        Ok(())
    }

    fn get(&mut self, _: u32, _: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(None)
    }

    fn remove(&mut self, _: u32) -> io::Result<()> {
        Ok(())
    }
}

impl Bare {
    /// Makes a file of about so many bytes in `directory`.
    pub(super) fn new(directory: &Path, bytes: u64) -> io::Result<Self> {
        let direct = OFlags::DIRECT.bits() as i32;
        let mut how = OpenOptions::new();
        how.read(true).write(true).create_new(true).custom_flags(direct);
        let file = how.open(directory.join("bare"))?;
        let filling = Aligned::new(REQUEST_BYTES_MAX);
        let bytes = bytes.next_multiple_of(REQUEST_BYTES_MAX as u64);
        // Blocks that were only allocated would be read without the device.
        for at in (0..bytes).step_by(REQUEST_BYTES_MAX) {
            file.write_all_at(filling.bytes(), at)?;
        }
        file.sync_all()?;
        Ok(Self { file, bytes })
    }

    /// Puts as a store had them that took this of the machine in as long.
    pub(super) fn window(
        &self,
        taken: Taken,
        writers: u32,
        per_s: f64,
        time: Duration,
    ) -> io::Result<Offered> {
        let spin = Spin(Duration::from_secs_f64(taken.put_us.max(0.0) / 1e6));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let over = Over(&is_over);
            let is_over = &is_over;
            let ask = |requests| scope.spawn(move || self.ask(requests, is_over));
            let threads: Vec<_> = Requests::all(taken.device, time).map(ask).collect();
            let puts = (0..writers).map(|_| || Some((0, &[][..]))).collect();
            let offered = pace::open(&spin, puts, per_s, time);
            drop(over);
            for thread in threads {
                thread.join().expect("a thread panicked")?;
            }
            offered
        })
    }

    /// Asks for one after the other, somewhere in the file, until it is over.
    fn ask(&self, requests: Requests, is_over: &AtomicBool) -> io::Result<()> {
        let Requests { request, interval, bytes } = requests;
        let mut memory = Aligned::new(bytes);
        let places = (self.bytes - bytes as u64) / BLOCK_BYTES as u64 + 1;
        let mut random = Random::new(request as u64);
        let mut due = Instant::now();
        while !is_over.load(Ordering::Acquire) {
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                std::thread::sleep(left.min(PAUSE_MAX));
                continue;
            }
            let at = random.next() % places * BLOCK_BYTES as u64;
            match request {
                Request::Read => self.file.read_exact_at(memory.bytes_mut(), at)?,
                Request::Write => self.file.write_all_at(memory.bytes(), at)?,
                Request::Flush => self.file.sync_data()?,
            }
            due += interval;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{BLOCK_BYTES, Bare, Counts, REQUEST_BYTES_MAX, Request, Requests, Taken};
    use crate::disk::device::{self, Place};

    #[test]
    fn requests_have_the_mean_size_and_come_as_often() {
        let second = Duration::from_secs(1);
        let interval = Duration::from_millis(10);
        let requests = |request, bytes| Requests { request, interval, bytes };
        let counts = Counts {
            reads: 100,
            read_bytes: 100 * 5000,
            writes: 100,
            write_bytes: 1 << 40,
            flushes: 100,
        };
        let expected = [
            requests(Request::Read, 2 * BLOCK_BYTES),
            requests(Request::Write, REQUEST_BYTES_MAX),
            requests(Request::Flush, 0),
        ];
        assert!(Requests::all(counts, second).eq(expected));
        assert_eq!(Requests::all(Counts::default(), second).count(), 0);
    }

    #[test]
    fn a_window_takes_as_long_a_put_and_asks_the_device_for_as_much() {
        let place = Place::make(&std::env::temp_dir(), "kelvin-peers-bare").expect("a place");
        let bare = Bare::new(place.path(), 1).expect("a file");
        assert_eq!(bare.bytes, REQUEST_BYTES_MAX as u64);
        let device = Counts {
            reads: 50,
            read_bytes: 50 * 16_384,
            writes: 20,
            write_bytes: 20 * 65_536,
            flushes: 5,
        };
        let taken = Taken { put_us: 300.0, device };
        let before = device::write_bytes().zip(device::read_bytes());
        let begun = Instant::now();
        let offered = bare.window(taken, 2, 400.0, Duration::from_millis(100)).expect("it runs");
        assert!(begun.elapsed() >= Duration::from_millis(90));
        assert!(offered.pace.p50_us >= 300.0 && offered.served_p50_us >= 300.0, "{offered:?}");
        let after = device::write_bytes().zip(device::read_bytes());
        if let Some(((written, read), (written_before, read_before))) = after.zip(before) {
            // Other tests write meanwhile.
            assert!(written - written_before >= 2 * 65_536, "{written_before} {written}");
            assert!(read - read_before >= 5 * 16_384, "{read_before} {read}");
        }
    }
}
