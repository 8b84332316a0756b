//! Random reads of 4 KiB past the page cache, by every way that there is.
//!
//! ```text
//! cargo bench -p reactor --bench files                  256 MiB in the directory of builds
//! cargo bench -p reactor --bench files -- /mnt/ssd 4096 a file of 4 GiB there
//! ```
//!
//! A row is a way and a number of reads at a time; its figures are reads a second and microseconds
//! of processor time a read, all threads together, the median of interleaved rounds. The bare
//! call, which has one read at a time, is what the system takes for itself.

#![forbid(unsafe_code)]

use std::{
    convert::Infallible,
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use base::{aligned::Buffer, random::Random};
use reactor::{
    Carrier, Driver, Epoll, Features, FileId, Files, Frames, Operation, Pool, Shape, Uring, mailbox,
};
use rustix::fs::{Mode, OFlags, open};

const READ_BYTES: usize = 4096;

/// How long a round of one row takes.
const ROUND: Duration = Duration::from_millis(500);

const ROUNDS: usize = 7;

const DEPTHS: [usize; 2] = [1, 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Bare,
    Ring(Carrier),
    Epoll,
}

const WAYS: [(&str, Way); 5] = [
    ("pread", Way::Bare),
    ("ring, registered", Way::Ring(Carrier::Registered)),
    ("ring", Way::Ring(Carrier::Ring)),
    ("ring and threads", Way::Ring(Carrier::Threads)),
    ("epoll and threads", Way::Epoll),
];

/// Nanoseconds of processor time that all threads have used.
fn processor_ns() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux");
    let used = tasks.flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    used.sum()
}

struct Figures {
    reads_per_s: f64,
    processor_us: f64,
}

/// Reads until the round is over; `read` performs some and says how many.
fn measure(mut read: impl FnMut() -> u64) -> Figures {
    let (start, before_ns) = (Instant::now(), processor_ns());
    let mut reads = 0;
    while start.elapsed() < ROUND {
        reads += read();
    }
    let (time_s, used_ns) = (start.elapsed().as_secs_f64(), processor_ns() - before_ns);
    let reads = reads as f64;
    Figures { reads_per_s: reads / time_s, processor_us: used_ns as f64 / 1000.0 / reads }
}

fn bare(file: &OwnedFd, blocks: u32, random: &mut Random) -> Figures {
    let mut buffer = Buffer::new(READ_BYTES);
    measure(|| {
        let offset = u64::from(random.below(blocks)) * READ_BYTES as u64;
        let read = rustix::io::pread(file, buffer.as_mut_slice(), offset).expect("it is readable");
        assert_eq!(read, READ_BYTES);
        1
    })
}

fn driven(
    driver: &mut dyn Driver<Infallible>,
    files: &Files,
    frames: &Frames,
    file: FileId,
    blocks: u32,
    random: &mut Random,
) -> Figures {
    let mut events = Vec::new();
    let figures = measure(|| {
        while files.room() > 0 {
            let buffer = frames.take(READ_BYTES).expect("one for each read").into_buffer();
            let offset = u64::from(random.below(blocks)) * READ_BYTES as u64;
            let read = Operation::Read { file, offset, buffer, bytes: READ_BYTES };
            files.start(0, read).expect("there is room");
        }
        driver.wait(Duration::from_secs(1), &mut events).expect("it can wait");
        events.clear();
        let mut ended = 0;
        while let Some(done) = files.take_done() {
            assert_eq!(done.result.expect("it is readable"), READ_BYTES);
            drop(frames.adopt(done.buffer.expect("it comes back")).expect("it was a frame"));
            ended += 1;
        }
        ended
    });
    while files.room() < files.depth() {
        driver.wait(Duration::from_secs(1), &mut events).expect("it can wait");
        while files.take_done().is_some() {}
    }
    figures
}

fn round(way: Way, depth: usize, path: &Path, blocks: u32, random: &mut Random) -> Figures {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let fd = open(path, flags, Mode::empty()).expect("a file system that takes direct I/O");
    if way == Way::Bare {
        return bare(&fd, blocks, random);
    }
    let (_, mailbox) = mailbox::<()>(1).expect("an eventfd");
    let (files, pool) = (Files::new(depth), Pool::new(1 << 20));
    let frames = Frames::new(&[Shape { bytes: READ_BYTES, count: depth }]);
    let mut driver: Box<dyn Driver<Infallible>> = match way {
        Way::Ring(carrier) => {
            let driver = Uring::with_at_most(Features::All, pool, mailbox.waker(), 64 << 10);
            let mut driver = driver.expect("an io_uring");
            let carried = driver.carry_files_with_at_most(carrier, &files, &frames);
            let carried = carried.expect("at least threads");
            assert_eq!(carried.carrier, carrier, "{carried}");
            Box::new(driver)
        }
        Way::Epoll | Way::Bare => {
            let mut driver = Epoll::new(pool, mailbox.waker()).expect("an epoll");
            driver.carry_files(&files).expect("threads");
            Box::new(driver)
        }
    };
    let file = files.open(Arc::new(fd)).expect("there is room");
    driven(&mut *driver, &files, &frames, file, blocks, random)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Fills a file with numbers, so that no device finds it empty.
fn fill(path: &Path, bytes: u64) {
    use std::io::Write;
    let mut file = fs::File::create(path).expect("a directory that can be written to");
    let mut random = Random::new(1, 0);
    for _ in 0..bytes >> 20 {
        let chunk: Vec<u8> = (0..1 << 17).flat_map(|_| random.bits().to_le_bytes()).collect();
        file.write_all(&chunk).expect("there is room");
    }
    file.sync_all().expect("it can be written");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let home = words.first().map_or(env!("CARGO_TARGET_TMPDIR"), String::as_str);
    let megabytes: u64 = words.get(1).map_or(256, |word| word.parse().expect("MiB"));
    let path = PathBuf::from(home).join("files-bench");
    let bytes = megabytes << 20;
    fill(&path, bytes);
    let blocks = u32::try_from(bytes / READ_BYTES as u64).expect("up to 16 TiB");
    let mut random = Random::new(2, 0);
    let rows: Vec<(&str, Way, usize)> = WAYS
        .iter()
        .flat_map(|(name, way)| DEPTHS.map(|depth| (*name, *way, depth)))
        .filter(|(_, way, depth)| *way != Way::Bare || *depth == 1)
        .collect();
    let mut figures: Vec<Vec<Figures>> = rows.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for ((_, way, depth), figures) in rows.iter().zip(&mut figures) {
            figures.push(round(*way, *depth, &path, blocks, &mut random));
        }
    }
    println!("{:<20} {:>6} {:>12} {:>10}", "way", "depth", "reads/s", "CPU us");
    for ((name, _, depth), figures) in rows.iter().zip(&figures) {
        let reads_per_s = median(figures.iter().map(|round| round.reads_per_s).collect());
        let processor_us = median(figures.iter().map(|round| round.processor_us).collect());
        println!("{name:<20} {depth:>6} {reads_per_s:>12.0} {processor_us:>10.1}");
    }
    let _ = fs::remove_file(&path);
}
