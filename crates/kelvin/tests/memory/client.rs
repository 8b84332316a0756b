//! A client that sends many requests before it reads the replies.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::harness::server::Server;

/// Requests that are under way at a time: their replies must fit into socket buffers.
const BATCH: usize = 64;

/// Bytes under way at a time.
const BATCH_BYTES: usize = 256 << 10;

/// A reply that takes longer has failed.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    writer: TcpStream,
    reader: BufReader<TcpStream>,
    requests: Vec<u8>,
    waiting: usize,
    line: String,
}

impl Client {
    pub(crate) fn new(server: &Server) -> Self {
        let writer = TcpStream::connect(server.addr()).expect("the server accepts connections");
        writer.set_nodelay(true).expect("a socket takes TCP_NODELAY");
        writer.set_read_timeout(Some(REPLY_TIMEOUT)).expect("a socket takes a timeout");
        let reader = BufReader::new(writer.try_clone().expect("a socket can be duplicated"));
        Self { writer, reader, requests: Vec::new(), waiting: 0, line: String::new() }
    }

    /// Stores a value, sooner or later. `expiry` as in the protocol.
    pub(crate) fn set(&mut self, key: &str, expiry: u64, value: &[u8]) {
        write!(self.requests, "set {key} 0 {expiry} {}\r\n", value.len()).expect("memory");
        self.requests.extend_from_slice(value);
        self.requests.extend_from_slice(b"\r\n");
        self.waiting += 1;
        if self.waiting == BATCH || self.requests.len() >= BATCH_BYTES {
            self.finish();
        }
    }

    /// Waits for all stores, each of which must have succeeded.
    pub(crate) fn finish(&mut self) {
        self.writer.write_all(&self.requests).expect("the server takes requests");
        self.requests.clear();
        for _ in 0..std::mem::take(&mut self.waiting) {
            assert_eq!(self.read_line(), "STORED", "to a set");
        }
    }

    fn read_line(&mut self) -> &str {
        self.line.clear();
        self.reader.read_line(&mut self.line).expect("the server answers");
        self.line.trim_end()
    }

    /// Bytes of keys and values of those `keys` that are there, and how many.
    pub(crate) fn holds(&mut self, keys: impl Iterator<Item = String>) -> (u64, u64) {
        let (mut bytes, mut count) = (0, 0);
        let mut keys = keys.peekable();
        while keys.peek().is_some() {
            self.requests.clear();
            for key in keys.by_ref().take(BATCH) {
                write!(self.requests, "mg {key} s k q\r\n").expect("memory");
            }
            self.requests.extend_from_slice(b"mn\r\n");
            self.writer.write_all(&self.requests).expect("the server takes requests");
            loop {
                let line = self.read_line();
                if line == "MN" {
                    break;
                }
                // HD s123 kname
                let mut words = line.split(' ').skip(1);
                let len = words.next().and_then(|word| word.strip_prefix('s'));
                let key = words.next().and_then(|word| word.strip_prefix('k'));
                let (Some(Ok(len)), Some(key)) = (len.map(str::parse::<u64>), key) else {
                    panic!("not what was asked for: {line}");
                };
                bytes += len + key.len() as u64;
                count += 1;
            }
        }
        self.requests.clear();
        (bytes, count)
    }

    /// A number of `stats`.
    pub(crate) fn stat(&mut self, name: &str) -> u64 {
        self.writer.write_all(b"stats\r\n").expect("the server takes requests");
        let mut found = None;
        loop {
            let line = self.read_line();
            if line == "END" {
                return found.unwrap_or_else(|| panic!("there is no {name}"));
            }
            if let Some(value) = line.strip_prefix("STAT ").and_then(|line| line.strip_prefix(name))
                && let Some(value) = value.strip_prefix(' ')
            {
                found = Some(value.parse().expect("a number"));
            }
        }
    }

    /// Sends a command and returns the line that answers it.
    pub(crate) fn command(&mut self, command: &str) -> String {
        self.writer.write_all(command.as_bytes()).expect("the server takes requests");
        self.writer.write_all(b"\r\n").expect("the server takes requests");
        self.read_line().to_owned()
    }
}

/// Nothing may be left unread.
impl Drop for Client {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.waiting, 0, "stores that nobody waited for");
            self.writer.shutdown(std::net::Shutdown::Write).expect("an open socket");
            let mut rest = Vec::new();
            self.reader.read_to_end(&mut rest).expect("the server closes");
            assert!(rest.is_empty(), "replies that nobody asked for");
        }
    }
}
