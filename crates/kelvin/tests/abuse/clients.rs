//! Many clients at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::conn::REPLY_TIMEOUT;
use crate::harness::server::Server;

/// Nothing was taken for this long: the server lets the clients wait.
const STUCK: Duration = Duration::from_millis(700);

/// Connections whose requests and replies are moved in turns, so that none waits for another.
pub(crate) struct Crowd<S = TcpStream> {
    streams: Vec<S>,
    /// What each has sent of its request.
    unsent: Vec<Vec<u8>>,
}

impl Crowd {
    /// Opens connections over TCP.
    pub(crate) fn connect(server: &Server, clients: usize) -> Self {
        let streams: Vec<TcpStream> = (0..clients)
            .map(|_| TcpStream::connect(server.addr()).expect("the server accepts connections"))
            .collect();
        for stream in &streams {
            stream.set_nonblocking(true).expect("a socket can be non-blocking");
        }
        Crowd { unsent: vec![Vec::new(); clients], streams }
    }
}

impl Crowd<UnixStream> {
    /// Opens connections over the Unix socket: for a client that does not read, the kernel keeps
    /// 200 KiB there, and over TCP several MiB.
    pub(crate) fn connect_unix(server: &Server, clients: usize) -> Self {
        let connect = |_| {
            let stream = UnixStream::connect(server.unix_path()).expect("it listens");
            stream.set_nonblocking(true).expect("a socket can be non-blocking");
            stream
        };
        Crowd { unsent: vec![Vec::new(); clients], streams: (0..clients).map(connect).collect() }
    }
}

impl<S: Read + Write> Crowd<S> {
    /// Sends each client's request, reading nothing, until all is sent or no byte moves any more.
    pub(crate) fn send_until_stuck(&mut self, request: impl Fn(usize) -> Vec<u8>) {
        self.unsent = (0..self.streams.len()).map(request).collect();
        let mut last_progress = Instant::now();
        while self.unsent.iter().any(|u| !u.is_empty()) && last_progress.elapsed() < STUCK {
            let moved: usize = (0..self.streams.len()).map(|i| self.send_some(i)).sum();
            if moved > 0 {
                last_progress = Instant::now();
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn send_some(&mut self, client: usize) -> usize {
        let unsent = &mut self.unsent[client];
        match self.streams[client].write(unsent) {
            Ok(sent) => {
                unsent.drain(..sent);
                sent
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => {
                unsent.clear();
                0
            }
        }
    }

    /// Sends what is left and asserts that each client gets exactly this reply.
    pub(crate) fn expect_all(&mut self, reply: &[u8]) {
        let mut at = vec![0; self.streams.len()];
        let mut last_progress = Instant::now();
        let mut chunk = vec![0; 256 * 1024];
        while at.iter().any(|&a| a < reply.len()) {
            assert!(last_progress.elapsed() < REPLY_TIMEOUT, "no reply any more; {at:?} came");
            for (client, at) in at.iter_mut().enumerate() {
                if self.send_some(client) > 0 {
                    last_progress = Instant::now();
                }
                match self.streams[client].read(&mut chunk) {
                    Ok(0) => panic!("the server closed after {at} bytes"),
                    Ok(n) => {
                        let expected = reply.get(*at..*at + n);
                        assert!(expected == Some(&chunk[..n]), "wrong bytes at {at}");
                        *at += n;
                        last_progress = Instant::now();
                    }
                    Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock, "{e}"),
                }
            }
        }
    }
}

/// Lets this process open as many files as it may: the usual 1024 are too few for a crowd.
pub(crate) fn raise_open_files() {
    let pid = std::process::id();
    let raise = format!("prlimit --pid {pid} --nofile=$(ulimit -H -n):");
    let status = Command::new("sh").args(["-c", &raise]).status();
    assert!(status.expect("sh runs").success(), "prlimit could not raise the open files");
}

/// Descriptors that this process may have.
pub(crate) fn open_files() -> usize {
    let text = std::fs::read_to_string("/proc/self/limits").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    soft.expect("the limit is a number")
}
