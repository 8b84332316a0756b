//! A server that does nothing but answer: the machine's limit for one thread.
//!
//! Finds where gets and sets of memcached's text protocol end, and answers with what lies at a
//! place that the number at the end of the key says: each get with the value there, each set with
//! its confirmation when it has written there. It hashes, looks up and evicts nothing, parses
//! nothing else, and none of this repository's code is in it. What it costs a request is what the
//! kernel and the memory cost, on this machine, any server that receives, sends and stores on one
//! thread; what a server costs beyond it is the server's own.
//!
//! With a file ([`disk`]) what is got lies on the disk, and what is set goes there.
//!
//! It tells its process (`stats`) and its name (`version`), so that a load generator finds its CPU
//! time. One key a get; no `noreply`.

mod disk;
mod outbox;
mod poll;
mod replies;
mod requests;
mod ring;
mod uring;

use std::{
    io::{self, Write, stdout},
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixListener},
};

use rustix::io::Errno;

use self::{
    disk::Disk,
    outbox::Outbox,
    replies::Replies,
    requests::Requests,
    ring::{Ring, Token},
};
use crate::{
    machine,
    options::{BareOptions, Io, Place},
};

/// What values are made of before they are set.
const FILLING: u8 = b'b';

/// Serves until it is killed.
///
/// # Errors
/// When it cannot listen, run on the CPUs, or wait.
pub(crate) fn run(options: &BareOptions) -> io::Result<()> {
    machine::pin(&options.cpus)?;
    let (value_bytes, keys) = (options.value_bytes, options.keys);
    // Both before anybody is told that it listens: to fill memory or a file takes a while.
    match (&options.file, options.io) {
        (Some(path), _) => {
            let disk = Disk::new(path, value_bytes, keys)?;
            uring::serve(listen(&options.place)?, disk)
        }
        (None, Io::Uring) => {
            let replies = Replies::new(value_bytes, keys)?;
            uring::serve(listen(&options.place)?, replies)
        }
        (None, Io::Epoll) => {
            let replies = Replies::new(value_bytes, keys)?;
            poll::serve(&listen(&options.place)?, replies)
        }
    }
}

/// Listens, and says where.
fn listen(place: &Place) -> io::Result<OwnedFd> {
    let listener: OwnedFd = match place {
        Place::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            writeln!(stdout(), "listening on {}", listener.local_addr()?)?;
            listener.into()
        }
        Place::Unix(path) => {
            let listener = UnixListener::bind(path)?;
            writeln!(stdout(), "listening on unix:{}", path.display())?;
            listener.into()
        }
    };
    stdout().flush()?;
    Ok(listener)
}

/// What requests are answered with.
trait Answers {
    /// Names a reply that is not copied.
    type Long: Copy;

    fn value_bytes(&self) -> usize;

    /// Has the kernel know what it is going to be asked for.
    ///
    /// # Errors
    /// What the system says.
    fn register(&mut self, _ring: &mut Ring) -> io::Result<()> {
        Ok(())
    }

    /// Whether more requests may be taken now.
    fn has_room(&self) -> bool {
        true
    }

    /// Takes `bytes` of the requests of the peer in `slot`, stores what is set and adds replies to
    /// `outbox`.
    ///
    /// # Errors
    /// [`Refused`] when a line does not end, or too much waits.
    fn answer(
        &mut self,
        slot: u32,
        requests: &mut Requests,
        bytes: &[u8],
        outbox: &mut Outbox<Self::Long>,
    ) -> Result<(), Refused>;

    /// All of a reply; nothing if it is not there yet.
    fn long(&self, long: Self::Long) -> &[u8];

    /// A reply is sent, or never will be.
    fn forget(&mut self, _long: Self::Long) {}

    /// Hands over what is to be read and written.
    fn begin(&mut self, _ring: &mut Ring) {}

    /// Something was read or written. Returns the slot of who may have a reply.
    ///
    /// # Errors
    /// What the disk says.
    fn end(&mut self, _token: Token, _result: Result<u32, Errno>) -> io::Result<Option<u32>> {
        Ok(None)
    }
}

/// A peer that is to be cut off.
#[derive(Debug)]
struct Refused;

#[cfg(test)]
mod tests;
