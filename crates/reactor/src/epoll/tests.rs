//! When it sleeps, and when not.

use std::{convert::Infallible, fs::File, sync::Arc, time::Duration};

use base::clock::Stopwatch;

use super::Epoll;
use crate::{Driver, Event, Files, Operation, Pool, mailbox};

#[test]
fn an_epoll_tells_of_what_is_left_at_once() {
    let (_sender, mailbox) = mailbox::<()>(1).expect("an eventfd");
    let driver = Epoll::<Infallible>::new(Pool::new(1 << 20), mailbox.waker());
    let (mut driver, files) = (driver.expect("an epoll"), Files::new(1));
    driver.carry_files(&files).expect("threads");
    let null = File::open("/dev/null").expect("it is there");
    let file = files.open(Arc::new(null.into())).expect("room");
    files.start(1, Operation::Flush { file }).expect("room");
    let mut events = Vec::new();
    while !files.has_done() {
        driver.wait(Duration::from_secs(1), &mut events).expect("an epoll");
    }
    events.clear();
    let (watch, long) = (Stopwatch::start(), Duration::from_secs(2));
    driver.wait(long, &mut events).expect("an epoll");
    let took = Duration::from_nanos(watch.elapsed_ns());
    assert!(took < long / 2, "it sleeps on what was left: {took:?}");
    assert!(matches!(events[..], [Event::FilesDone]), "{events:?}");
}
