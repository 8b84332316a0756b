//! How queues are made: with what the kernel has, and when it has memory for them.

use std::{io, thread, time::Duration};

use io_uring::IoUring;
use rustix::io::Errno;

/// Operations handed over at a time: a send for each connection of a burst, and as many others.
/// More wait in a queue of ours. 32 KiB of the kernel's memory.
const SUBMISSIONS: u32 = 512;

/// Completions that the kernel has room for: 128 KiB. What does not fit it keeps elsewhere.
const COMPLETIONS: u32 = 8192;

/// What the kernel says to a feature that it does not know.
const INVAL: i32 = Errno::INVAL.raw_os_error();

/// What it says when it has no memory now, or the user has as much as is allowed.
const NOMEM: i32 = Errno::NOMEM.raw_os_error();

/// How often it is asked for memory, so long after one another. Rings that have ended, such as
/// those of the server that was here before, give theirs back some time later.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// What a ring may have beside what the driver cannot do without. Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Features {
    /// Nothing: Linux 6.0.
    Least,
    /// Completions are made when they are asked for, Linux 6.1; the ring is called by a number
    /// that needs no look at the table of descriptors.
    Deferred,
    /// All that is of use: a queue without an array of indices, Linux 6.6; numbers for sockets that
    /// send often, Linux 6.10; sleeping without being counted as waiting for I/O, Linux 6.15.
    All,
}

/// Queues with as many features as the kernel has, at most `most`. Waits up to a second for memory.
pub(super) fn queues(most: Features) -> io::Result<IoUring> {
    let tried = patiently(|| queues_with(most), thread::sleep);
    let less = match most {
        Features::All => Features::Deferred,
        Features::Deferred => Features::Least,
        Features::Least => return tried,
    };
    match tried {
        Err(error) if error.raw_os_error() == Some(INVAL) => queues(less),
        tried => tried,
    }
}

/// Tries again, a pause later, while the kernel has no memory.
fn patiently<T>(
    mut attempt: impl FnMut() -> io::Result<T>,
    mut pause: impl FnMut(Duration),
) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(NOMEM) => pause(PAUSE),
            tried => return tried,
        }
    }
    attempt()
}

fn queues_with(features: Features) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_clamp().setup_cqsize(COMPLETIONS).setup_submit_all().dontfork();
    builder.setup_taskrun_flag();
    if features == Features::Least {
        builder.setup_coop_taskrun();
    } else {
        // Completions are made when we ask for them, and not between two of our instructions.
        builder.setup_single_issuer().setup_defer_taskrun();
    }
    if features == Features::All {
        builder.setup_no_sqarray();
    }
    builder.build(SUBMISSIONS)
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::{ATTEMPTS, INVAL, NOMEM, PAUSE, patiently};

    fn failed(code: i32) -> io::Result<&'static str> {
        Err(io::Error::from_raw_os_error(code))
    }

    #[test]
    fn memory_that_comes_back_is_waited_for() {
        let mut tries = 0;
        let attempt = || {
            tries += 1;
            if tries < ATTEMPTS { failed(NOMEM) } else { Ok("queues") }
        };
        let mut waited = Duration::ZERO;
        assert_eq!(patiently(attempt, |pause| waited += pause).expect("memory"), "queues");
        assert_eq!(waited, PAUSE * 19);
    }

    #[test]
    fn memory_that_does_not_come_back_is_an_error_and_so_is_all_else_at_once() {
        for (code, pauses) in [(NOMEM, ATTEMPTS - 1), (INVAL, 0)] {
            let mut waited = 0;
            let tried = patiently(|| failed(code), |_| waited += 1);
            let error = tried.expect_err("the kernel says no");
            assert_eq!((error.raw_os_error(), waited), (Some(code), pauses));
        }
    }
}
