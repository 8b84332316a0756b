//! What was not taken, with either driver.

use std::{convert::Infallible, time::Duration};

use base::clock::Stopwatch;

use super::{Files, Operation, open};
use crate::{Driver, Epoll, Event, Frames, Pool, Uring, mailbox};

/// A driver does not sleep while something is left.
fn check_what_is_left(driver: &mut impl Driver<Infallible>, files: &Files) {
    files.start(1, Operation::Flush { file: open(files) }).expect("there is room");
    let mut events = Vec::new();
    while !files.has_done() {
        driver.wait(Duration::from_secs(1), &mut events).expect("it can wait");
    }
    events.clear();
    let (watch, long) = (Stopwatch::start(), Duration::from_secs(2));
    driver.wait(long, &mut events).expect("it can wait");
    let took = Duration::from_nanos(watch.elapsed_ns());
    assert!(took < long / 2, "it sleeps on what was left: {took:?}");
    assert!(matches!(events[..], [Event::FilesDone]), "{events:?}");
}

#[test]
fn an_epoll_tells_of_what_is_left_at_once() {
    let (_sender, mailbox) = mailbox::<()>(1).expect("an eventfd");
    let driver = Epoll::new(Pool::new(1 << 20), mailbox.waker());
    let (mut driver, files) = (driver.expect("an epoll"), Files::new(1));
    driver.carry_files(&files).expect("threads");
    check_what_is_left(&mut driver, &files);
}

#[test]
fn a_ring_tells_of_what_is_left_at_once() {
    let (_sender, mailbox) = mailbox::<()>(1).expect("an eventfd");
    let driver = Uring::new(Pool::new(1 << 20), mailbox.waker(), 16 << 10);
    let (mut driver, files) = (driver.expect("an io_uring"), Files::new(1));
    driver.carry_files(&files, &Frames::new(&[])).expect("the ring");
    check_what_is_left(&mut driver, &files);
}
