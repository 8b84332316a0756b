//! What happens to operations on files, whoever carries them out.

mod fetching;
mod operations;

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use reactor::{Carrier, Direction, Driver, Epoll, Event, External, Features, Uring};
use reactor::{ConnId, Files, Frames, Pool, Receive, Sending, Waker};

/// Longer than anything here may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Every driver with every carrier that it has.
pub(crate) const WAYS: [Way; 5] = [
    Way::Epoll,
    Way::Uring(Features::All, Carrier::Registered),
    Way::Uring(Features::All, Carrier::Ring),
    Way::Uring(Features::All, Carrier::Threads),
    Way::Uring(Features::Least, Carrier::Registered),
];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Epoll,
    Uring(Features, Carrier),
}

/// One of the drivers.
pub(crate) enum Either<E: External> {
    Epoll(Epoll<E>),
    Uring(Box<Uring<E>>),
}

impl<E: External> Either<E> {
    pub(crate) fn new(way: Way, pool: Pool, waker: Waker, files: &Files, frames: &Frames) -> Self {
        match way {
            Way::Epoll => {
                let mut driver = Epoll::new(pool, waker).expect("an epoll");
                driver.carry_files(files).expect("threads");
                Self::Epoll(driver)
            }
            Way::Uring(most, carrier) => {
                let driver = Uring::with_at_most(most, pool, waker, 64 << 10);
                let mut driver = driver.expect("an io_uring");
                let carried = driver.carry_files_with_at_most(carrier, files, frames);
                let carried = carried.expect("at least threads");
                assert_eq!(carried.carrier, carrier, "{carried}");
                Self::Uring(Box::new(driver))
            }
        }
    }
}

macro_rules! either {
    ($of:expr, $driver:ident => $call:expr) => {
        match $of {
            Either::Epoll($driver) => $call,
            Either::Uring($driver) => $call,
        }
    };
}

impl<E: External> Driver<E> for Either<E> {
    fn listen(&mut self, listener: u32, socket: std::os::fd::OwnedFd) -> std::io::Result<()> {
        either!(self, driver => driver.listen(listener, socket))
    }

    fn set_accepting(&mut self, accepting: bool) -> std::io::Result<()> {
        either!(self, driver => driver.set_accepting(accepting))
    }

    fn close_listeners(&mut self) {
        either!(self, driver => driver.close_listeners());
    }

    fn open(&mut self, conn: ConnId, socket: std::os::fd::OwnedFd) -> std::io::Result<()> {
        either!(self, driver => driver.open(conn, socket))
    }

    fn receive(&mut self, conn: ConnId, request: Receive) {
        either!(self, driver => driver.receive(conn, request));
    }

    fn send(&mut self, conn: ConnId, chain: reactor::Chain<E>) -> Sending<E> {
        either!(self, driver => driver.send(conn, chain))
    }

    fn shutdown(&mut self, conn: ConnId, direction: Direction) {
        either!(self, driver => driver.shutdown(conn, direction));
    }

    fn close(&mut self, conn: ConnId) {
        either!(self, driver => driver.close(conn));
    }

    fn is_carrying(&self) -> bool {
        either!(self, driver => driver.is_carrying())
    }

    fn has_news(&mut self) -> bool {
        either!(self, driver => driver.has_news())
    }

    fn wait(&mut self, timeout: Duration, events: &mut Vec<Event<E>>) -> std::io::Result<()> {
        either!(self, driver => driver.wait(timeout, events))
    }
}

/// A file that goes when the test ends.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// Byte `i` is `byte_at(i)`.
    pub(crate) fn new(bytes: usize) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("files-{}-{number}", std::process::id());
        // Where there is a file system that takes direct I/O.
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, (0..bytes).map(byte_at).collect::<Vec<u8>>()).expect("a directory");
        Self(path)
    }

    /// Opens it, past the page cache where that is possible.
    pub(crate) fn open(&self, direct: bool) -> std::os::fd::OwnedFd {
        use rustix::fs::{Mode, OFlags, open};
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let past =
            if direct { open(&self.0, flags | OFlags::DIRECT, Mode::empty()).ok() } else { None };
        past.unwrap_or_else(|| open(&self.0, flags, Mode::empty()).expect("it is there"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(crate) fn byte_at(i: usize) -> u8 {
    (i % 251) as u8 ^ (i / 4096) as u8
}
