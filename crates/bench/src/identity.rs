//! Who a server is: what it calls itself, and its process on this machine.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    os::fd::OwnedFd,
    time::Duration,
};

use crate::{
    Error,
    address::{Address, Connected},
    cpu,
};

/// How long a server may take to say who it is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest answer that is read: statistics are some 5 KiB.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// A server under test.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Where it is.
    pub address: Address,
    /// What it answers to `version`.
    pub version: String,
    /// Its process, if it is on this machine and known.
    pub process: Option<Process>,
}

/// A process on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub name: String,
    /// The CPUs that it is pinned to, if it is.
    pub cpus: Vec<usize>,
}

impl Identity {
    /// Asks the server at `address`. Its process is `pid`, or else what the system says of a Unix
    /// socket, or else what a server on this machine says itself (`stats`).
    ///
    /// # Errors
    /// [`Error::Connect`] and [`Error::Resolve`]; [`Error::Broken`] when it does not answer;
    /// [`Error::Process`] when `pid` does not exist.
    pub(crate) fn ask(address: &Address, pid: Option<u32>) -> Result<Self, Error> {
        let Connected { socket, is_local, pid: listening } = address.connect()?;
        let broken = |source| Error::Broken { address: address.to_string(), source };
        let mut stream = Stream::new(socket).map_err(broken)?;
        let is_line = |answer: &[u8]| answer.ends_with(b"\n");
        let version = stream.ask(b"version\r\n", is_line).map_err(broken)?;
        let version = version.trim().trim_start_matches("VERSION ").to_owned();
        if let Some(pid) = pid {
            cpu::Sample::take(pid, None)?;
        }
        let mut found = pid.or(listening);
        if found.is_none() && is_local {
            let is_end =
                |answer: &[u8]| answer.ends_with(b"END\r\n") || answer.ends_with(b"ERROR\r\n");
            let stats = stream.ask(b"stats\r\n", is_end).map_err(broken)?;
            found = stats.lines().find_map(|line| line.strip_prefix("STAT pid ")?.parse().ok());
        }
        let process = found.and_then(|pid| {
            Some(Process { pid, name: cpu::process_name(pid)?, cpus: cpu::pinned_to(pid) })
        });
        Ok(Self { address: address.clone(), version, process })
    }
}

/// Works for both kinds of sockets: all that is asked of it is what they have in common.
struct Stream(TcpStream);

impl Stream {
    fn new(socket: OwnedFd) -> std::io::Result<Self> {
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self(stream))
    }

    fn ask(
        &mut self,
        request: &[u8],
        is_complete: impl Fn(&[u8]) -> bool,
    ) -> std::io::Result<String> {
        self.0.write_all(request)?;
        let mut answer = Vec::new();
        let mut chunk = [0; 4096];
        while !is_complete(&answer) && answer.len() < ANSWER_BYTES_MAX {
            match self.0.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => answer.extend_from_slice(&chunk[..count]),
                // The system may end a read early that has a timeout.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}
