//! Operations one by one, without a loop.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use base::aligned::Buffer;
use reactor::{
    Done, Driver, Event, FILE_DEPTH_MAX, Failure, FileId, Files, Frames, Operation, Pool, Shape,
    mailbox,
};

use super::{Either, PATIENCE, Scratch, WAYS, Way, byte_at};

const FILE_BYTES: usize = 1 << 20;

struct Stage {
    driver: Either<Infallible>,
    files: Files,
    frames: Frames,
}

impl Stage {
    fn new(way: Way, depth: usize) -> Self {
        let (_, mailbox) = mailbox::<()>(1).expect("an eventfd");
        let files = Files::new(depth);
        let shapes = [Shape { bytes: 4096, count: 8 }, Shape { bytes: 64 << 10, count: 8 }];
        let (pool, frames) = (Pool::new(1 << 20), Frames::new(&shapes));
        let driver = Either::new(way, pool, mailbox.waker(), &files, &frames);
        assert_eq!(frames.stats().used, 0, "what was tried out has come back");
        Self { driver, files, frames }
    }

    fn open(&self, scratch: &Scratch, direct: bool) -> FileId {
        self.files.open(Arc::new(scratch.open(direct))).expect("there is room")
    }

    /// Waits for the next operation that ends.
    fn next(&mut self) -> Done {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(done) = self.files.take_done() {
                return done;
            }
            let mut events = Vec::new();
            self.driver.wait(PATIENCE, &mut events).expect("it can wait");
            let is_told = events.iter().any(|event| matches!(event, Event::FilesDone));
            let done = self.files.take_done();
            assert_eq!(is_told, done.is_some(), "who waits is told");
            if let Some(done) = done {
                return done;
            }
            assert!(Instant::now() < deadline, "nothing ends");
        }
    }

    fn perform(&mut self, operation: Operation) -> Done {
        self.files.start(9, operation).expect("there is room");
        let done = self.next();
        assert_eq!(done.token, 9);
        done
    }
}

fn as_in_file(bytes: &[u8], offset: usize) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| *byte == byte_at(offset + at))
}

#[test]
fn what_is_left_is_told_of_by_each_wait_and_at_once() {
    let scratch = Scratch::new(FILE_BYTES);
    for way in WAYS {
        let mut stage = Stage::new(way, 2);
        let file = stage.open(&scratch, true);
        let read = Operation::Read { file, offset: 0, buffer: Buffer::new(4096), bytes: 4096 };
        stage.files.start(7, read).expect("there is room");
        let mut is_told = |timeout| {
            let mut events = Vec::new();
            stage.driver.wait(timeout, &mut events).expect("it can wait");
            events.iter().any(|event| matches!(event, Event::FilesDone))
        };
        let start = Instant::now();
        while !is_told(PATIENCE) {
            assert!(start.elapsed() < PATIENCE, "nothing ends");
        }
        let start = Instant::now();
        let long = Duration::from_secs(5);
        assert!(is_told(long) && is_told(long), "{way:?}: who left it is not told again");
        assert!(start.elapsed() < long, "{way:?}: it sleeps on what was left");
        assert!(stage.driver.is_carrying(), "{way:?}: nobody comes back for it");
        assert_eq!(stage.files.take_done().map(|done| done.token), Some(7));
        assert!(!stage.driver.is_carrying());
    }
}

#[test]
fn many_reads_at_a_time_each_get_their_own() {
    let scratch = Scratch::new(FILE_BYTES);
    for way in WAYS {
        let mut stage = Stage::new(way, 16);
        let file = stage.open(&scratch, true);
        let (mut started, mut ended, mut places) = (0u64, 0, BTreeMap::new());
        while ended < 400 {
            while started < 400 && stage.files.room() > 0 {
                let bytes = if started % 3 == 0 { 64 << 10 } else { 4096 };
                let offset = (started as usize * 7919 * 4096) % (FILE_BYTES - bytes);
                let offset = offset - offset % 4096;
                let buffer = match stage.frames.take(bytes) {
                    Some(frame) => frame.into_buffer(),
                    None => Buffer::new(bytes),
                };
                let read = Operation::Read { file, offset: offset as u64, buffer, bytes };
                stage.files.start(started, read).expect("there is room");
                places.insert(started, (offset, bytes));
                started += 1;
            }
            let Done { token, result, buffer } = stage.next();
            let (offset, bytes) = places.remove(&token).expect("each ends once");
            assert_eq!(result.expect("it can be read"), bytes, "{way:?}");
            let buffer = buffer.expect("it comes back");
            assert!(as_in_file(&buffer.as_slice()[..bytes], offset), "{way:?}: read {token}");
            drop(stage.frames.adopt(buffer));
            ended += 1;
        }
        assert_eq!((stage.frames.stats().used, stage.files.room()), (0, 16), "{way:?}");
    }
}

#[test]
fn a_read_over_the_end_gets_what_there_is() {
    for bytes in [0, 1, 4096, 5000, 8192, 12_000] {
        let scratch = Scratch::new(bytes);
        for way in WAYS {
            for direct in [false, true] {
                let mut stage = Stage::new(way, 1);
                let file = stage.open(&scratch, direct);
                let buffer = stage.frames.take(64 << 10).expect("a frame").into_buffer();
                let read = Operation::Read { file, offset: 0, buffer, bytes: 64 << 10 };
                let Done { result, buffer, .. } = stage.perform(read);
                assert_eq!(result.expect("it can be read"), bytes, "{way:?} {direct}");
                let buffer = buffer.expect("it comes back");
                assert!(as_in_file(&buffer.as_slice()[..bytes], 0), "{way:?} {direct}");
            }
        }
    }
}

#[test]
fn what_is_written_and_flushed_is_read_again() {
    for way in WAYS {
        let scratch = Scratch::new(64 << 10);
        let mut stage = Stage::new(way, 4);
        let file = stage.open(&scratch, true);
        let mut buffer = stage.frames.take(64 << 10).expect("a frame").into_buffer();
        buffer.as_mut_slice()[8192..20480].fill(0xAB);
        let buffer = Arc::new(buffer);
        let (from, bytes) = (8192, 12_288);
        let write = Operation::Write { file, offset: 4096, buffer, from, bytes };
        assert_eq!(stage.perform(write).result.expect("it can be written"), bytes);
        assert_eq!(stage.perform(Operation::Flush { file }).result.expect("it can be"), 0);
        let content = std::fs::read(&scratch.0).expect("it is there");
        assert!(as_in_file(&content[..4096], 0), "{way:?}");
        assert_eq!(content[4096..4096 + bytes], vec![0xAB; bytes], "{way:?}");
        assert!(as_in_file(&content[4096 + bytes..], 4096 + bytes), "{way:?}");
        assert_eq!(content.len(), 64 << 10);
    }
}

#[test]
fn what_the_system_refuses_is_told_with_its_reason() {
    let scratch = Scratch::new(4096);
    for way in WAYS {
        let mut stage = Stage::new(way, 4);
        let readable = std::fs::File::open(&scratch.0).expect("it is there");
        let file = stage.files.open(Arc::new(readable.into())).expect("there is room");
        let buffer = Arc::new(Buffer::new(4096));
        let write = Operation::Write { file, offset: 0, buffer, from: 0, bytes: 4096 };
        let refused = stage.perform(write).result.expect_err("it is only to be read");
        let Failure::System(error) = &refused else { panic!("{refused}") };
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
        let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
        let file = stage.files.open(Arc::new(full.into())).expect("there is room");
        let buffer = Arc::new(Buffer::new(4096));
        let write = Operation::Write { file, offset: 0, buffer, from: 0, bytes: 4096 };
        let refused = stage.perform(write).result.expect_err("it has no room");
        let Failure::System(error) = &refused else { panic!("{refused}") };
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOSPC.raw_os_error()));
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let file = stage.files.open(Arc::new(socket.into())).expect("there is room");
        let flushed = stage.perform(Operation::Flush { file }).result;
        assert!(flushed.is_err(), "{way:?}: a socket cannot be flushed");
        // The others are not disturbed.
        let file = stage.open(&scratch, true);
        let read = Operation::Read { file, offset: 0, buffer: Buffer::new(4096), bytes: 4096 };
        assert_eq!(stage.perform(read).result.expect("it can be read"), 4096);
    }
}

#[test]
fn a_file_that_is_closed_is_read_to_the_end_and_its_number_leads_to_the_next() {
    let (scratch, other) = (Scratch::new(FILE_BYTES), Scratch::new(0));
    std::fs::write(&other.0, [7; 4096]).expect("a file");
    for way in WAYS {
        let mut stage = Stage::new(way, 8);
        let read = |file| {
            let buffer = Buffer::new(64 << 10);
            Operation::Read { file, offset: 0, buffer, bytes: 64 << 10 }
        };
        for round in 0..3 {
            let file = stage.open(&scratch, true);
            stage.files.start(1, read(file)).expect("there is room");
            if round > 0 {
                // The kernel is at work on it.
                stage.driver.wait(std::time::Duration::ZERO, &mut Vec::new()).expect("it can wait");
            }
            stage.files.close(file);
            let successor = stage.open(&other, false);
            stage.files.start(2, read(successor)).expect("there is room");
            let done = [stage.next(), stage.next()];
            for Done { token, result, buffer } in done {
                let (bytes, buffer) = (result.expect("open"), buffer.expect("it comes back"));
                match token {
                    1 => assert!(as_in_file(&buffer.as_slice()[..bytes], 0) && bytes == 64 << 10),
                    _ => assert_eq!(buffer.as_slice()[..bytes], [7; 4096], "{way:?}"),
                }
            }
            stage.files.close(successor);
        }
    }
}

#[test]
fn a_driver_that_ends_leaves_no_file_and_no_thread_behind() {
    let scratch = Scratch::new(FILE_BYTES);
    for way in WAYS {
        let mut stage = Stage::new(way, FILE_DEPTH_MAX);
        let file = stage.open(&scratch, true);
        for token in 0..FILE_DEPTH_MAX as u64 {
            let offset = token % 200 * 4096;
            let read = Operation::Read { file, offset, buffer: Buffer::new(4096), bytes: 4096 };
            stage.files.start(token, read).expect("there is room");
        }
        stage.driver.wait(std::time::Duration::ZERO, &mut Vec::new()).expect("it can wait");
        drop(stage);
        let is_open = std::fs::read_dir("/proc/self/fd").expect("Linux").flatten().any(|entry| {
            std::fs::read_link(entry.path())
                .is_ok_and(|target| target.file_name() == scratch.0.file_name())
        });
        assert!(!is_open, "{way:?}: the file is still open");
    }
}
