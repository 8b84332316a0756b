//! Which driver a data thread's loop gets, and why.

use std::{error::Error as _, fmt, io};

use reactor::{Epoll, Pool, Uring, Waker};
use rustix::io::Errno;

use crate::{Error, config::IoMode, memcached::LargeValue};

/// The part of a thread's buffers that io_uring receives into: a quarter.
const INBOX_DIVISOR: usize = 4;

/// Most bytes of it: 512 connections that speak at the same moment.
const INBOX_BYTES_MAX: usize = 1 << 20;

/// A driver.
#[derive(Debug)]
pub(crate) enum Driver {
    Epoll(Epoll<LargeValue>),
    Uring(Box<Uring<LargeValue>>),
}

/// What was chosen, for logs and statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoChoice {
    /// `io_uring` or `epoll`.
    pub driver: &'static str,
    /// Why it was chosen.
    pub reason: String,
}

/// What a thread's choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// The setting.
    pub(crate) mode: IoMode,
    /// Whether all listeners are Unix sockets.
    pub(crate) unix_only: bool,
}

/// Chooses and builds a driver, and the pool it receives into, which takes `buffer_bytes`
/// together with what the driver itself receives into.
///
/// # Errors
/// [`Error::Loop`] when the system refuses what was asked for.
pub(crate) fn choose(
    wish: Wish,
    thread: &str,
    buffer_bytes: usize,
    waker: Waker,
) -> Result<(Driver, Pool, IoChoice), Error> {
    let failed = |source| Error::Loop { thread: thread.to_owned(), source };
    let reason = match wish.mode {
        IoMode::Epoll => "asked for".to_owned(),
        IoMode::Auto if wish.unix_only => "better over Unix sockets".to_owned(),
        IoMode::Auto | IoMode::Uring => {
            let inbox_bytes = (buffer_bytes / INBOX_DIVISOR).min(INBOX_BYTES_MAX);
            let pool = Pool::new(buffer_bytes - inbox_bytes);
            match Uring::new(pool.clone(), waker.clone(), inbox_bytes) {
                Ok(driver) => {
                    let asked = wish.mode == IoMode::Uring;
                    let reason = if asked { "asked for" } else { "all that is needed works" };
                    let choice = IoChoice { driver: "io_uring", reason: reason.to_owned() };
                    return Ok((Driver::Uring(Box::new(driver)), pool, choice));
                }
                Err(error) if wish.mode == IoMode::Auto => explain(&error),
                Err(error) => return Err(failed(error)),
            }
        }
    };
    let pool = Pool::new(buffer_bytes);
    let driver = Epoll::new(pool.clone(), waker).map_err(failed)?;
    Ok((Driver::Epoll(driver), pool, IoChoice { driver: "epoll", reason }))
}

/// Why io_uring is not used, and what it may be for.
fn explain(error: &reactor::Error) -> String {
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    let hint = match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(source) => match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PERM | Errno::ACCESS) => {
                "; a seccomp filter, as containers have it, or kernel.io_uring_disabled forbids it"
            }
            Some(Errno::NOSYS) => "; the kernel is built without it",
            Some(Errno::NOMEM) => "; the limit of locked memory may be too low",
            Some(Errno::INVAL | Errno::OPNOTSUPP) => "; the kernel is too old",
            _ => "",
        },
        None => "",
    };
    format!("no io_uring: {error}: {source}{hint}")
}

impl fmt::Display for IoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.driver, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::explain;

    #[test]
    fn the_reason_says_what_was_tried_and_what_may_be_the_matter() {
        let explained = |errno: Errno| {
            let source = io::Error::from(errno);
            explain(&reactor::Error::Setup { what: "setting it up", source })
        };
        for (errno, hint) in [
            (Errno::PERM, "seccomp"),
            (Errno::NOSYS, "built without it"),
            (Errno::NOMEM, "locked memory"),
            (Errno::INVAL, "too old"),
        ] {
            let reason = explained(errno);
            assert!(reason.starts_with("no io_uring: setting it up: "), "{reason}");
            assert!(reason.contains(hint), "{reason}");
        }
        assert!(!explained(Errno::MFILE).contains(';'));
    }
}
