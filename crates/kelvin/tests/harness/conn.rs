//! A connection to a server under test.

use super::rng::Rng;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a reply may take before the test fails: far more than a busy machine needs.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A request above this size is written by a thread of its own, so that a server which answers
/// while it reads cannot block the test: well below what a socket buffers.
const INLINE_WRITE_BYTES: usize = 32 * 1024;

/// Between the packets of one request, so that the server reads them one by one.
const PACKET_GAP: Duration = Duration::from_micros(200);

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What one read gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// Bytes were appended to the buffer.
    Bytes,
    /// The server closed the connection.
    Closed,
    /// Nothing came in time.
    Nothing,
}

/// One client connection.
pub(crate) struct Conn {
    stream: Stream,
}

impl Conn {
    /// A connection over TCP, without delay of small packets.
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a connected socket takes TCP_NODELAY");
        Self::prepared(Stream::Tcp(stream))
    }

    /// A connection over a Unix socket.
    pub(crate) fn unix(stream: UnixStream) -> Self {
        Self::prepared(Stream::Unix(stream))
    }

    fn prepared(stream: Stream) -> Self {
        match &stream {
            Stream::Tcp(s) => s.set_write_timeout(Some(REPLY_TIMEOUT)),
            Stream::Unix(s) => s.set_write_timeout(Some(REPLY_TIMEOUT)),
        }
        .expect("a connected socket takes a timeout");
        Conn { stream }
    }

    fn second_handle(&self) -> Self {
        let stream = match &self.stream {
            Stream::Tcp(s) => s.try_clone().map(Stream::Tcp),
            Stream::Unix(s) => s.try_clone().map(Stream::Unix),
        };
        Conn { stream: stream.expect("a socket can be duplicated") }
    }

    /// Writes all bytes, or says why not: a server may close while the client still sends.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(s) => s.write_all(bytes),
            Stream::Unix(s) => s.write_all(bytes),
        }
    }

    /// Writes all bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the server takes the request");
    }

    /// Says that no more requests will come; replies still can. A server that has hung up does
    /// not hear it.
    pub(crate) fn shut_write_if_open(&mut self) {
        let shut = match &self.stream {
            Stream::Tcp(s) => s.shutdown(Shutdown::Write),
            Stream::Unix(s) => s.shutdown(Shutdown::Write),
        };
        let gone = [ErrorKind::NotConnected, ErrorKind::BrokenPipe];
        assert!(shut.as_ref().map_or_else(|e| gone.contains(&e.kind()), |()| true), "{shut:?}");
    }

    /// Reads once, waiting at most `timeout`.
    pub(crate) fn read_once(&mut self, into: &mut Vec<u8>, timeout: Duration) -> Got {
        let mut chunk = [0; 64 * 1024];
        let end = Instant::now() + timeout;
        let got = loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Some(left.max(Duration::from_millis(1)));
            let got = match &mut self.stream {
                Stream::Tcp(s) => s.set_read_timeout(left).and_then(|()| s.read(&mut chunk)),
                Stream::Unix(s) => s.set_read_timeout(left).and_then(|()| s.read(&mut chunk)),
            };
            // The system may end a read early that has a timeout.
            if !got.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted) {
                break got;
            }
        };
        match got {
            Ok(0) => Got::Closed,
            Ok(n) => {
                into.extend_from_slice(&chunk[..n]);
                Got::Bytes
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Got::Nothing
            }
            Err(_) => Got::Closed,
        }
    }

    /// Sends `pieces` as packets of their own and reads until `done` says so of what came, the
    /// server closes, or nothing comes for [`REPLY_TIMEOUT`]. Returns the bytes and whether it
    /// closed.
    pub(crate) fn exchange(
        &mut self,
        pieces: &[&[u8]],
        mut done: impl FnMut(&[u8]) -> bool,
    ) -> (Vec<u8>, bool) {
        let mut writer = self.second_handle();
        let total: usize = pieces.iter().map(|p| p.len()).sum();
        let mut write = move || {
            for piece in pieces {
                if writer.try_send(piece).is_err() {
                    return;
                }
                if pieces.len() > 1 {
                    std::thread::sleep(PACKET_GAP);
                }
            }
        };
        std::thread::scope(|scope| {
            if total <= INLINE_WRITE_BYTES {
                write();
            } else {
                scope.spawn(write);
            }
            let mut deadline = Instant::now() + REPLY_TIMEOUT;
            let mut reply = Vec::new();
            while !done(&reply) {
                let left = deadline.saturating_duration_since(Instant::now());
                match self.read_once(&mut reply, left) {
                    Got::Closed => return (reply, true),
                    Got::Nothing if left.is_zero() => break,
                    Got::Nothing => {}
                    Got::Bytes => deadline = Instant::now() + REPLY_TIMEOUT,
                }
            }
            (reply, false)
        })
    }

    /// Sends a request and asserts that exactly this reply comes back next.
    pub(crate) fn ask(&mut self, request: &[u8], reply: &[u8]) {
        let (got, _) = self.exchange(&[request], |got| got.len() >= reply.len());
        assert_eq!(
            got.escape_ascii().to_string(),
            reply.escape_ascii().to_string(),
            "to {:.200}",
            request.escape_ascii().to_string()
        );
    }

    /// Reads until the server closes, and returns what came before.
    pub(crate) fn read_to_close(&mut self) -> Vec<u8> {
        let (reply, closed) = self.exchange(&[], |_| false);
        assert!(closed, "the server keeps the connection open after {} bytes", reply.len());
        reply
    }

    /// Reads until nothing came for `quiet`. Returns the bytes and whether the server closed.
    pub(crate) fn read_until_quiet(&mut self, quiet: Duration) -> (Vec<u8>, bool) {
        let mut reply = Vec::new();
        loop {
            match self.read_once(&mut reply, quiet) {
                Got::Bytes => {}
                Got::Nothing => return (reply, false),
                Got::Closed => return (reply, true),
            }
        }
    }
}

/// Cuts bytes at random places into at most `most` pieces, none empty.
pub(crate) fn cut<'a>(bytes: &'a [u8], rng: &mut Rng, most: usize) -> Vec<&'a [u8]> {
    if bytes.len() < 2 {
        return vec![bytes];
    }
    let mut at: Vec<usize> = (1..most).map(|_| 1 + rng.below(bytes.len() - 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.dedup();
    at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
}
