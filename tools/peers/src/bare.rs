//! A server that does nothing but answer: the machine's limit for one thread.
//!
//! Finds where gets and sets of memcached's text protocol end, and answers with what lies at a
//! place that the number at the end of the key says: each get with the value there, each set with
//! its confirmation when it has written there. It hashes, looks up and evicts nothing, parses
//! nothing else, and none of this repository's code is in it. What it costs a request is what the
//! kernel and the memory cost, on this machine, any server that receives, sends and stores on one
//! thread; what a server costs beyond it is the server's own.
//!
//! It tells its process (`stats`) and its name (`version`), so that a load generator finds its CPU
//! time. One key a get; no `noreply`.

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

use self::replies::Replies;
use crate::{
    machine,
    options::{BareOptions, Io, Place},
};

/// Serves until it is killed.
///
/// # Errors
/// When it cannot listen, run on the CPUs, or wait.
pub(crate) fn run(options: &BareOptions) -> io::Result<()> {
    machine::pin(&options.cpus)?;
    // Before anybody is told that it listens: to fill memory takes a while.
    let replies = Replies::new(options.value_bytes, options.keys)?;
    let listener: OwnedFd = match &options.place {
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
    match options.io {
        Io::Uring => uring::serve(listener, replies),
        Io::Epoll => poll::serve(&listener, replies),
    }
}

#[cfg(test)]
mod tests;
