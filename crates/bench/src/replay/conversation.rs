//! One connection of a replay: bursts of gets, and the sets that their misses ask for.
//!
//! A burst is written as a whole and then all its replies are read. It begins with the sets of the
//! burst before. While they are written the server has no more to say than their confirmations,
//! which fit any socket, so neither end waits for the other to read.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::{
    Error,
    plan::Server,
    protocol::{GetLine, LINE_BYTES_MAX, Protocol, SetLine, put_number},
    value::Values,
};

/// Gets of a burst.
const BURST: usize = 64;

/// Bytes received by one call.
const RECEIVE_BYTES: usize = 256 << 10;

/// Sentences that are kept of what went wrong.
const SAMPLES_MAX: usize = 8;

const PROTOCOL: Protocol = Protocol::Text;

/// Counts of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// Gets that found a value.
    pub hits: u64,
    /// Gets that found none.
    pub misses: u64,
    /// Requests answered by an error or by a refusal to store.
    pub refused: u64,
    /// Values that are not those that were stored.
    pub wrong: u64,
}

/// One request: a key, and how long its value is.
#[derive(Clone, Copy, Debug)]
struct Ask {
    name: u64,
    bytes: u32,
}

pub(super) struct Conversation<'a> {
    input: BufReader<TcpStream>,
    address: String,
    values: &'a Values,
    /// Sets, and behind them the burst's gets.
    out: Vec<u8>,
    /// Sets in `out`.
    sets: usize,
    burst: Vec<Ask>,
    counts: ReplayCounts,
    samples: Vec<String>,
    line: Vec<u8>,
    received: Vec<u8>,
    expected: Vec<u8>,
}

impl<'a> Conversation<'a> {
    /// # Errors
    /// Those of connecting.
    pub(super) fn open(
        server: &Server,
        values: &'a Values,
        patience: Duration,
    ) -> Result<Self, Error> {
        // What is asked of it is the same for both kinds of sockets.
        let stream = TcpStream::from(server.address.connect()?.socket);
        let timeouts = stream
            .set_read_timeout(Some(patience))
            .and_then(|()| stream.set_write_timeout(Some(patience)));
        timeouts.map_err(|source| Error::system("cannot set up a socket", source))?;
        Ok(Self {
            input: BufReader::with_capacity(RECEIVE_BYTES, stream),
            address: server.address.to_string(),
            values,
            out: Vec::new(),
            sets: 0,
            burst: Vec::with_capacity(BURST),
            counts: ReplayCounts::default(),
            samples: Vec::new(),
            line: Vec::new(),
            received: Vec::new(),
            expected: Vec::new(),
        })
    }

    /// Gets a key, soon, and sets it if it is not there.
    ///
    /// # Errors
    /// [`Error::Broken`] and [`Error::Garbled`].
    pub(super) fn ask(&mut self, name: u64, bytes: u32) -> Result<(), Error> {
        if self.burst.len() == BURST || self.burst.iter().any(|ask| ask.name == name) {
            self.turn()?;
        }
        self.out.extend_from_slice(b"get ");
        put_name(name, &mut self.out);
        self.out.extend_from_slice(b"\r\n");
        self.burst.push(Ask { name, bytes });
        Ok(())
    }

    /// Finishes what is under way; returns what was counted.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) fn finish(mut self) -> Result<(ReplayCounts, Vec<String>), Error> {
        while !self.out.is_empty() {
            self.turn()?;
        }
        Ok((self.counts, self.samples))
    }

    /// Sends everything, reads all replies, and writes the sets for what was missing.
    fn turn(&mut self) -> Result<(), Error> {
        let sent = self.input.get_mut().write_all(&self.out);
        sent.map_err(|source| self.broken(source))?;
        self.out.clear();
        for _ in 0..std::mem::take(&mut self.sets) {
            self.read_line()?;
            match PROTOCOL.read_set(&self.line) {
                SetLine::Stored => {}
                SetLine::NotStored | SetLine::Refused => self.refused(),
                SetLine::Unknown => return Err(self.garbled("the reply to a set")),
            }
        }
        let mut burst = std::mem::take(&mut self.burst);
        for ask in burst.drain(..) {
            self.read_get(ask)?;
        }
        self.burst = burst;
        Ok(())
    }

    fn read_get(&mut self, ask: Ask) -> Result<(), Error> {
        self.read_line()?;
        match PROTOCOL.read_get(&self.line) {
            GetLine::Value { key, size } => {
                let mut name = Vec::new();
                put_name(ask.name, &mut name);
                if key != Some(name.as_slice()) {
                    return Err(self.garbled("a value of the key that was asked for"));
                }
                self.counts.hits += 1;
                self.read_value(ask, size)
            }
            GetLine::Miss => {
                self.counts.misses += 1;
                self.set(ask);
                Ok(())
            }
            GetLine::Refused => {
                self.refused();
                Ok(())
            }
            GetLine::Unknown => Err(self.garbled("the reply to a get")),
        }
    }

    /// Reads a value with what follows it, and compares it with the one that was stored.
    fn read_value(&mut self, ask: Ask, size: usize) -> Result<(), Error> {
        let tail = PROTOCOL.tail();
        self.received.clear();
        let rest = (size + tail.len()) as u64;
        let read = self.input.by_ref().take(rest).read_to_end(&mut self.received);
        match read {
            Ok(count) if count as u64 == rest => {}
            Ok(_) => return Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Err(source) => return Err(self.broken(source)),
        }
        self.expected.clear();
        put_value(self.values, ask, &mut self.expected);
        self.expected.extend_from_slice(tail);
        if self.received != self.expected {
            self.counts.wrong += 1;
            let Ask { name, bytes } = ask;
            self.sample(format!("wrong value of {name:016x}: {size} bytes, {bytes} were stored"));
        }
        Ok(())
    }

    fn set(&mut self, ask: Ask) {
        self.out.extend_from_slice(b"set ");
        put_name(ask.name, &mut self.out);
        self.out.extend_from_slice(b" 0 0 ");
        put_number(ask.bytes as usize, &mut self.out);
        self.out.extend_from_slice(b"\r\n");
        put_value(self.values, ask, &mut self.out);
        self.out.extend_from_slice(b"\r\n");
        self.sets += 1;
    }

    /// Reads a line, without its end.
    fn read_line(&mut self) -> Result<(), Error> {
        self.line.clear();
        let mut input = self.input.by_ref().take(LINE_BYTES_MAX as u64);
        let read = input.read_until(b'\n', &mut self.line);
        match read {
            Ok(0) => return Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(source) => return Err(self.broken(source)),
        }
        if self.line.pop() != Some(b'\n') {
            return Err(self.garbled("the end of a line"));
        }
        self.line.pop_if(|byte| *byte == b'\r');
        Ok(())
    }

    fn refused(&mut self) {
        self.counts.refused += 1;
        self.sample(format!("refused: `{}`", self.line.escape_ascii()));
    }

    fn sample(&mut self, sample: String) {
        if self.samples.len() < SAMPLES_MAX && !self.samples.contains(&sample) {
            self.samples.push(sample);
        }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Broken { address: self.address.clone(), source }
    }

    fn garbled(&self, expected: &'static str) -> Error {
        let got = format!("`{}`", self.line.escape_ascii());
        Error::Garbled { address: self.address.clone(), got, expected }
    }
}

/// A key: its number in hexadecimal digits.
fn put_name(name: u64, out: &mut Vec<u8>) {
    let digits = name.to_be_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    out.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
}

fn put_value(values: &Values, ask: Ask, out: &mut Vec<u8>) {
    values.append_named(ask.name, ask.bytes as usize, out);
}

#[cfg(test)]
mod tests {
    use super::put_name;

    #[test]
    fn keys_are_hexadecimal_numbers() {
        for name in [0, 0x1f, 1 << 32 | 7, u64::MAX] {
            let mut out = Vec::new();
            put_name(name, &mut out);
            assert_eq!(String::from_utf8(out), Ok(format!("{name:016x}")));
        }
    }
}
