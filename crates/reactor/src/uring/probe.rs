//! Whether the kernel does what the driver needs, found out by having it done.

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use rustix::io::Errno;

use super::{
    ring::{Completion, Ring},
    token::{Kind, Token},
};
use crate::output::External;

/// Longer than any of it takes: all of it happens in the kernel's first call.
const PATIENCE: Duration = Duration::from_secs(1);

const MESSAGE: &[u8] = b"probe";

/// Tries out what the driver uses: receiving into chunks until cancelled, and sending.
///
/// # Errors
/// What does not work, and what the system says.
pub(super) fn run<E: External>(ring: &mut Ring<E>) -> Result<(), (&'static str, io::Error)> {
    ring.nop(PROBE);
    expect("an empty operation", ring, |completion| completion.result.map(drop))?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| ("making two sockets", error))?;
    let sockets = [&ours, &theirs];
    for socket in sockets {
        socket.set_nonblocking(true).map_err(|error| ("making two sockets", error))?;
    }
    ring.receive(ours.as_fd(), PROBE);
    io::Write::write_all(&mut &theirs, MESSAGE).map_err(|error| ("writing to a socket", error))?;
    let received =
        expect("receiving more than once", ring, |completion| match completion.result {
            // One that does not go on cannot be used.
            Ok(_) if !completion.more => Err(Errno::OPNOTSUPP),
            result => result.map(drop),
        })?;
    let held = received.held.ok_or_else(|| unexpected("receiving into chunks"))?;
    let as_sent = ring.inbox().bytes(&held) == MESSAGE;
    ring.inbox().give_back(held);
    if !as_sent {
        return Err(unexpected("receiving into chunks"));
    }
    ring.cancel(PROBE);
    expect("cancelling", ring, |completion| match completion.result {
        Err(Errno::CANCELED) if !completion.more => Ok(()),
        result => Err(result.err().unwrap_or(Errno::PROTO)),
    })?;
    Ok(())
}

const PROBE: Token = Token { kind: Kind::Probe, slot: 0 };

fn unexpected(what: &'static str) -> (&'static str, io::Error) {
    (what, io::Error::other("it does not do what is expected"))
}

/// Waits for the completion of what was started, and judges it.
fn expect<E: External>(
    what: &'static str,
    ring: &mut Ring<E>,
    judge: impl FnOnce(&Completion) -> Result<(), Errno>,
) -> Result<Completion, (&'static str, io::Error)> {
    ring.enter(1, PATIENCE).map_err(|error| (what, error))?;
    let mut completions = Vec::new();
    ring.take_completions(&mut completions);
    let completion = completions.pop().ok_or_else(|| unexpected(what))?;
    match judge(&completion) {
        Ok(()) if completions.is_empty() => Ok(completion),
        Ok(()) => Err(unexpected(what)),
        Err(error) => Err((what, error.into())),
    }
}
