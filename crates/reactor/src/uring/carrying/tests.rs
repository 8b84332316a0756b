//! What of files works, and which file an operation meets.

use std::{convert::Infallible, fs::File, io::Read, os::unix::net::UnixStream, time::Duration};

use rustix::fs::{FlockOperation, flock};

use super::*;
use crate::{ConnId, Done, Driver, Frame, Pool, Sending, Shape, mailbox, output::Output};

fn driver() -> (Uring<Infallible>, (crate::Sender<()>, crate::Mailbox<()>)) {
    let (sender, mailbox) = mailbox::<()>(1).expect("an eventfd");
    let driver = Uring::new(Pool::new(1 << 20), mailbox.waker(), 16 << 10);
    (driver.expect("an io_uring"), (sender, mailbox))
}

fn frames() -> Frames {
    Frames::new(&[Shape { bytes: PROBE_BYTES, count: 2 }])
}

#[test]
fn memory_that_the_kernel_does_not_lock_is_read_into_all_the_same() {
    let (mut driver, _mail) = driver();
    let (files, frames, others) = (Files::new(2), frames(), self::frames());
    // It takes one set of buffers, and no second one.
    others.register(|rack, buffers| driver.ring.register(rack, buffers)).expect("a first set");
    let carried = driver.carry_files(&files, &frames).expect("the ring");
    assert_eq!(carried.carrier, Carrier::Ring);
    let text = carried.to_string();
    assert!(text.starts_with("files on the ring: locking the memory"), "{text}");
    assert_eq!(frames.stats().used, 0);
    let (fd, written) = probe_file().expect("a file");
    rustix::io::pwrite(&fd, written.as_slice(), 0).expect("room");
    let file = files.open(fd).expect("room");
    let buffer = frames.take(PROBE_BYTES).expect("a frame").into_buffer();
    let read = Operation::Read { file, offset: 0, buffer, bytes: PROBE_BYTES };
    files.start(1, read).expect("room");
    let mut events = Vec::new();
    while !files.has_done() {
        driver.wait(Duration::from_secs(1), &mut events).expect("a ring");
    }
    assert!(matches!(events[..], [Event::FilesDone]), "{events:?}");
    let done = files.take_done().expect("it is done");
    assert_eq!(done.buffer.expect("it comes back").as_slice(), written.as_slice());
}

#[test]
fn a_message_that_came_first_is_heard_of_all_the_same() {
    let (mut driver, (sender, _mailbox)) = driver();
    sender.send(()).expect("room");
    let carried = driver.carry_files(&Files::new(2), &frames()).expect("the ring");
    assert_eq!((carried.carrier, carried.refused.is_none()), (Carrier::Registered, true));
    let mut events = Vec::new();
    driver.wait(Duration::from_secs(10), &mut events).expect("a ring");
    assert!(matches!(events[..], [Event::Woken]), "{events:?}");
}

/// A file in memory of one repeated byte.
fn file_of(byte: u8) -> OwnedFd {
    let fd = memfd_create("kelvin-test", MemfdFlags::CLOEXEC).expect("a file");
    rustix::io::pwrite(&fd, &[byte; PROBE_BYTES], 0).expect("room");
    fd
}

#[test]
fn a_place_is_not_taken_from_an_operation_that_has_yet_to_begin() {
    let (mut driver, _mail) = driver();
    let files = Files::new(4);
    driver.carry_files(&files, &frames()).expect("the ring");
    let start = |token, file| {
        let buffer = Buffer::new(PROBE_BYTES);
        let read = Operation::Read { file, offset: 0, buffer, bytes: PROBE_BYTES };
        files.start(token, read).expect("room");
    };
    // Each is closed before the ring hears of it, and the next has its number.
    for byte in 1..=4 {
        let file = files.open(Arc::new(file_of(byte))).expect("room");
        start(u64::from(byte), file);
        files.close(file);
    }
    let mut ended = 0;
    while ended < 4 {
        driver.wait(Duration::from_secs(1), &mut Vec::new()).expect("a ring");
        while let Some(Done { token, result, buffer }) = files.take_done() {
            let bytes = buffer.expect("it comes back");
            assert_eq!(result.expect("it can be read"), PROBE_BYTES);
            assert_eq!(u64::from(bytes.as_slice()[0]), token, "another file was read");
            ended += 1;
        }
    }
    let cargo = driver.cargo.as_ref().expect("files are carried");
    assert!(cargo.berths.iter().all(|berth| berth.users == 0 && berth.file.is_none()));
}

/// A lock is of a file that was opened once, and so gone when nobody has that open any more.
#[test]
fn a_lock_is_held_as_long_as_the_ring_whoever_closes_its_file() {
    let path = std::env::temp_dir().join(format!("kelvin-guard-{}", std::process::id()));
    let open = || File::create(&path).expect("a file can be made");
    let is_locked = || {
        let locked = flock(open(), FlockOperation::NonBlockingLockExclusive);
        matches!(locked, Err(Errno::WOULDBLOCK))
    };
    let (mut driver, _mail) = driver();
    let files = Files::new(2);
    let guard = open();
    flock(&guard, FlockOperation::NonBlockingLockExclusive).expect("nobody has it");
    files.guard(Arc::new(guard.into()));
    let carried = driver.carry_files(&files, &Frames::new(&[])).expect("the ring");
    assert_eq!(carried.carrier, Carrier::Ring, "{carried}");
    // As when a process is killed: the ring is what the kernel lets go last.
    driver.cargo = None;
    drop(files);
    assert!(is_locked(), "others may begin while the ring still writes");
    drop(driver);
    assert!(!is_locked(), "the lock outlives the ring");
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn without_frames_there_is_nothing_to_register() {
    let (mut driver, _mail) = driver();
    let carried = driver.carry_files(&Files::new(2), &Frames::new(&[])).expect("the ring");
    assert_eq!((carried.carrier, carried.refused.is_none()), (Carrier::Ring, true));
}

/// A driver with one connection, which `theirs` is the other end of.
fn connected(files: &Files, frames: &Frames) -> (Uring<Frame>, ConnId, UnixStream) {
    let (_, mailbox) = mailbox::<()>(1).expect("an eventfd");
    let driver = Uring::<Frame>::new(Pool::new(1 << 20), mailbox.waker(), 16 << 10);
    let mut driver = driver.expect("an io_uring");
    driver.carry_files(files, frames).expect("the ring");
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    ours.set_nonblocking(true).expect("an open socket");
    theirs.set_nonblocking(true).expect("an open socket");
    let conn = ConnId { index: 0, generation: 0 };
    driver.open(conn, ours.into()).expect("a socket");
    (driver, conn, theirs)
}

#[test]
fn what_lies_in_one_frame_goes_out_with_the_next_wait_and_not_by_a_call() {
    let frames = frames();
    let (mut driver, conn, mut theirs) = connected(&Files::new(2), &frames);
    let mut frame = frames.take(PROBE_BYTES).expect("a frame");
    let expected = [b"header ", &frame.data()[..10], b" trailer"].concat();
    frame.dress(0..10, b"header ", b" trailer");
    let mut output = Output::new(Pool::new(1 << 20));
    output.attach(frame);
    assert!(matches!(driver.send(conn, output.launch()), Sending::Pending));
    let mut got = [1; 64];
    assert!(theirs.read(&mut got).is_err(), "nothing has been sent");
    let mut events = Vec::new();
    driver.wait(Duration::ZERO, &mut events).expect("a ring");
    let Some(Event::Sent { chain, .. }) = events.pop() else { panic!("it is not sent") };
    let count = theirs.read(&mut got).expect("it has been sent");
    assert_eq!(got[..count], expected);
    assert_eq!(frames.stats().used, 0, "what has been sent is free");
    output.landed(chain);
}

#[test]
fn what_is_started_is_begun_before_the_same_turn_sends() {
    let (files, frames) = (Files::new(2), frames());
    let (mut driver, conn, mut theirs) = connected(&files, &frames);
    // What is written can be seen from outside.
    let (fd, buffer) = probe_file().expect("a file");
    let file = files.open(Arc::clone(&fd)).expect("room");
    let expected = buffer.as_slice().to_vec();
    let write = Operation::Write { file, offset: 0, buffer, from: 0, bytes: PROBE_BYTES };
    files.start(1, write).expect("room");
    let mut frame = frames.take(PROBE_BYTES).expect("a frame");
    frame.dress(0..10, b"header ", b" trailer");
    let mut output = Output::new(Pool::new(1 << 20));
    output.attach(frame);
    assert!(matches!(driver.send(conn, output.launch()), Sending::Pending));
    let mut written = vec![0; PROBE_BYTES];
    let start = Stopwatch::start();
    while written != expected {
        rustix::io::pread(&fd, &mut written, 0).expect("a file");
        let waited_ns = u128::from(start.elapsed_ns());
        assert!(waited_ns < PATIENCE.as_nanos(), "it waits until all is sent");
    }
    assert!(theirs.read(&mut [0; 64]).is_err(), "nothing has been sent");
    let mut events = Vec::new();
    while !files.has_done() {
        driver.wait(Duration::from_secs(1), &mut events).expect("a ring");
    }
    let sent = events.into_iter().find_map(|event| match event {
        Event::Sent { chain, .. } => Some(chain),
        _ => None,
    });
    output.landed(sent.expect("it is sent"));
    assert_eq!(files.take_done().expect("it is done").result.expect("room"), PROBE_BYTES);
}
