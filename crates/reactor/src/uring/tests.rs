//! Slots of connections that close while the kernel is at work on them.

use std::{
    convert::Infallible,
    io::Read,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use super::Uring;
use crate::{
    ConnId,
    driver::{Driver, Event, Sending},
    input::Input,
    mailbox,
    output::Output,
    pool::Pool,
};

/// More than it takes until the kernel is told of a socket.
const SENDS: usize = 100;

/// Longer than anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

struct Sole {
    driver: Uring<Infallible>,
    output: Output<Infallible>,
}

impl Sole {
    fn new() -> Self {
        let pool = Pool::new(1 << 20);
        let (_, mailbox) = mailbox::<()>(1).expect("an eventfd");
        let driver = Uring::new(pool.clone(), mailbox.waker(), 16 << 10).expect("an io_uring");
        Self { driver, output: Output::new(pool) }
    }

    fn open(&mut self, conn: ConnId) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        ours.set_nonblocking(true).expect("an open socket");
        theirs.set_read_timeout(Some(PATIENCE)).expect("a time");
        self.driver.open(conn, ours.into()).expect("a socket");
        theirs
    }

    /// Hands bytes over that go out with the next wait.
    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.output.put(bytes);
        let sending = self.driver.send(conn, self.output.launch());
        assert!(matches!(sending, Sending::Pending), "{sending:?}");
    }

    /// Waits until what was handed over has been sent.
    fn land(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut events = Vec::new();
            self.driver.wait(Duration::from_millis(1), &mut events).expect("a ring");
            if let Some(Event::Sent { chain, .. }) = events.pop() {
                return self.output.landed(chain);
            }
            assert!(Instant::now() < deadline, "nothing is sent");
        }
    }
}

#[test]
fn a_send_that_is_waited_for_is_worth_waking_up_for() {
    let mut sole = Sole::new();
    let conn = ConnId { index: 0, generation: 0 };
    let _peer = sole.open(conn);
    // Bytes are asked for as well, so nobody need hear of a send.
    sole.driver.receive(conn, Input::new().request());
    sole.driver.wait(Duration::ZERO, &mut Vec::new()).expect("a ring");
    for (is_awaited, wanted) in [(false, 2), (true, 1), (false, 2)] {
        sole.send(conn, b"a reply");
        if is_awaited {
            sole.driver.expect_sent(conn);
        }
        assert_eq!(sole.driver.wanted(), wanted, "whoever waits for it hears nothing");
        sole.land();
    }
}

#[test]
fn a_place_is_emptied_after_the_last_send_and_then_used_again() {
    let mut sole = Sole::new();
    for generation in 0..3 {
        let conn = ConnId { index: 0, generation };
        let mut peer = sole.open(conn);
        for number in 0..SENDS {
            assert!(number > 0 || !sole.driver.socket(0).kept, "a new socket is in no place");
            sole.send(conn, format!("{generation} {number:02}\n").as_bytes());
            sole.land();
        }
        assert!(sole.driver.socket(0).kept, "who sends often is told to the kernel");
        sole.send(conn, b"last\n");
        sole.driver.close(conn);
        assert_eq!(sole.driver.vacant, [], "the kernel sends from this slot");
        sole.driver.wait(Duration::ZERO, &mut Vec::new()).expect("a ring");
        assert_eq!(sole.driver.vacant, [0]);

        let mut sent = String::new();
        peer.read_to_string(&mut sent).expect("an end");
        let lines: Vec<&str> = sent.lines().collect();
        let expected: Vec<String> = (0..SENDS)
            .map(|number| format!("{generation} {number:02}"))
            .chain(["last".to_owned()])
            .collect();
        assert_eq!(lines, expected);
    }
}
