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
    /// What half of the puts took that were begun when they were due.
    pub(super) put_us: f64,
    pub(super) device: Counts,
    pub(super) time: Duration,
}

/// A window without a store.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(super) struct Alone {
    pub(super) offered: Offered,
    /// How much of what a store had asked of the device was asked of it again: of reads, writes or
    /// flushes, whatever was the least. One after the other, it may be less than all.
    pub(super) asked_share: f64,
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
    fn all(Taken { device: counts, time, .. }: Taken) -> impl Iterator<Item = Self> {
        let Counts { reads, read_bytes, writes, write_bytes, flushes } = counts;
        let reads = Self::of(Request::Read, reads, read_bytes, time);
        let writes = Self::of(Request::Write, writes, write_bytes, time);
        let flushes = Self::of(Request::Flush, flushes, 0, time);
        [reads, writes, flushes].into_iter().flatten()
    }

    /// How many come in this time.
    fn due(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.interval.as_secs_f64().max(1e-9)
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
        let path = directory.join("bare");
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true);
        let direct = how.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(&path);
        // Where a file system refuses it, a store does without as well.
        let file = direct.or_else(|_| how.open(&path))?;
        let filling = Aligned::new(REQUEST_BYTES_MAX);
        let bytes = bytes.next_multiple_of(REQUEST_BYTES_MAX as u64);
        // Blocks that were only allocated would be read without the device.
        for at in (0..bytes).step_by(REQUEST_BYTES_MAX) {
            file.write_all_at(filling.bytes(), at)?;
        }
        file.sync_all()?;
        Ok(Self { file, bytes })
    }

    /// Puts as a store had them that took this of the machine in as long. `nth`: which window it
    /// is, of which each reads and writes elsewhere.
    pub(super) fn window(
        &self,
        taken: Taken,
        writers: u32,
        per_s: f64,
        nth: u64,
    ) -> io::Result<Alone> {
        let spin = Spin(Duration::from_secs_f64(taken.put_us.max(0.0) / 1e6));
        let is_over = AtomicBool::new(false);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let over = Over(&is_over);
            let is_over = &is_over;
            let ask = |requests| scope.spawn(move || self.ask(requests, nth, is_over));
            let threads: Vec<_> = Requests::all(taken).map(ask).collect();
            let puts = (0..writers).map(|_| || Some((0, &[][..]))).collect();
            let offered = pace::open(&spin, puts, per_s, taken.time);
            let time = begun.elapsed();
            drop(over);
            let mut asked_share = 1.0_f64;
            for (thread, requests) in threads.into_iter().zip(Requests::all(taken)) {
                let asked = thread.join().expect("a thread panicked")?;
                asked_share = asked_share.min(asked as f64 / requests.due(time));
            }
            Ok(Alone { offered: offered?, asked_share })
        })
    }

    /// Asks for one after the other, somewhere in the file, until it is over. Says how many that
    /// were.
    fn ask(&self, requests: Requests, nth: u64, is_over: &AtomicBool) -> io::Result<u64> {
        let Requests { request, interval, bytes } = requests;
        let mut memory = Aligned::new(bytes);
        let places = (self.bytes - bytes as u64) / BLOCK_BYTES as u64 + 1;
        let mut random = Random::new(nth << 2 | request as u64);
        let (mut due, mut asked) = (Instant::now(), 0);
        while !is_over.load(Ordering::Acquire) {
            let now = Instant::now();
            let left = due.saturating_duration_since(now);
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
            asked += 1;
            // What a device that stood still has missed does not come all at once.
            due = now.max(due + interval);
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Alone, BLOCK_BYTES, Bare, Counts, REQUEST_BYTES_MAX, Request, Requests, Taken};
    use crate::disk::device::Place;

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
        let taken = |device| Taken { put_us: 1.0, device, time: second };
        assert!(Requests::all(taken(counts)).eq(expected));
        assert_eq!(Requests::all(taken(Counts::default())).count(), 0);
        assert_eq!(expected[0].due(second), 100.0);
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
        let taken = Taken { put_us: 300.0, device, time: Duration::from_millis(200) };
        let begun = Instant::now();
        let Alone { offered, asked_share } = bare.window(taken, 2, 400.0, 1).expect("it runs");
        assert!(begun.elapsed() >= Duration::from_millis(180));
        assert!(offered.pace.p50_us >= 300.0 && offered.served_p50_us >= 300.0, "{offered:?}");
        // How many depends on the device.
        assert!(asked_share > 0.0, "something was not asked for at all");
        let nothing = Taken { device: Counts::default(), ..taken };
        let spun = bare.window(nothing, 1, 400.0, 2).expect("it runs");
        assert_eq!(spun.asked_share, 1.0);
    }
}
