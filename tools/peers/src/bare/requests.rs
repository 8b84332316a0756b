//! Where requests end.
//!
//! Pure: bytes in, requests out. What it keeps of a request is the start of a line that was cut,
//! and how much of a set's data has not come.

/// Longest line: a key of 250 bytes and four numbers, with room.
const LINE_BYTES_MAX: usize = 2048;

/// Behind a line, and behind the data of a set.
const LINE_END: &[u8] = b"\r\n";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Of the value of this key.
    Get(u64),
    Set,
    Stats,
    Version,
    /// Anything else.
    Unknown,
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read<'b> {
    /// All of a request.
    Request(Request),
    /// Bytes of a set's data, without the end of its line, from byte `at` on.
    Data { key: u64, at: usize, bytes: &'b [u8] },
}

/// A line that does not end.
#[derive(Debug)]
pub(super) struct Endless;

/// The requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The start of a line.
    held: Vec<u8>,
    /// Data of a set that is still to come.
    data: Data,
}

#[derive(Clone, Copy, Debug, Default)]
struct Data {
    key: u64,
    /// Bytes that have come.
    at: usize,
    /// Bytes that have not, their end included.
    left: usize,
}

impl Requests {
    /// Takes what was received and tells `each` of every request that it completes, and of data.
    ///
    /// # Errors
    /// [`Endless`] when a line is too long.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Read<'_>),
    ) -> Result<(), Endless> {
        loop {
            if self.data.left > 0 {
                let Data { key, at, left } = self.data;
                let (data, rest) = bytes.split_at(left.min(bytes.len()));
                let value = &data[..data.len().min(left.saturating_sub(LINE_END.len()))];
                if !value.is_empty() {
                    each(Read::Data { key, at, bytes: value });
                }
                self.data = Data { key, at: at + data.len(), left: left - data.len() };
                if self.data.left > 0 {
                    return Ok(());
                }
                bytes = rest;
                each(Read::Request(Request::Set));
            }
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                self.held.extend_from_slice(bytes);
                return if self.held.len() > LINE_BYTES_MAX { Err(Endless) } else { Ok(()) };
            };
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            let read = if self.held.is_empty() {
                read(line)
            } else {
                self.held.extend_from_slice(line);
                let read = read(&self.held);
                self.held.clear();
                read
            };
            match read {
                Line::Complete(request) => each(Read::Request(request)),
                Line::Data(data) => self.data = data,
            }
        }
    }
}

/// What a line is.
enum Line {
    /// A whole request.
    Complete(Request),
    /// The first line of a set; its data follows.
    Data(Data),
}

fn read(line: &[u8]) -> Line {
    let line = line.trim_ascii_end();
    if let Some(key) = line.strip_prefix(b"get ") {
        return Line::Complete(Request::Get(ending(key)));
    }
    if line.starts_with(b"set ") {
        // `set KEY FLAGS EXPIRY BYTES`, and the data with two bytes behind it.
        let mut words = line.split(|byte| *byte == b' ').skip(1);
        let key = words.next().map_or(0, ending);
        let bytes = words.nth(2).and_then(number);
        return bytes.map_or(Line::Complete(Request::Unknown), |bytes| {
            Line::Data(Data { key, at: 0, left: bytes + LINE_END.len() })
        });
    }
    Line::Complete(match line {
        b"stats" => Request::Stats,
        b"version" => Request::Version,
        _ => Request::Unknown,
    })
}

/// The number that a key ends with: of its last ten bytes, what is a digit.
fn ending(key: &[u8]) -> u64 {
    let digits = key[key.len().saturating_sub(10)..].iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// At most nine digits.
fn number(digits: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(digits).ok()?;
    if text.len() > 9 { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Read, Request, Requests};

    #[test]
    fn requests_are_found_wherever_they_are_cut() {
        let bytes =
            b"get a12\r\nset b3 0 0 5\r\nget \n\r\nset c 0 0 0\r\n\r\nset d 0 0 x\r\nstats\r\n\
                      version\r\nget e:0000000000070\r\n";
        use Request::{Get, Set, Stats, Unknown, Version};
        let expected = [Get(12), Set, Set, Unknown, Stats, Version, Get(70)];
        for size in 1..=bytes.len() {
            let (mut requests, mut found) = (Requests::default(), Vec::new());
            let mut data = Vec::new();
            for piece in bytes.chunks(size) {
                let each = |read: Read<'_>| match read {
                    Read::Request(request) => found.push(request),
                    Read::Data { key, at, bytes } => {
                        assert_eq!((key, at), (3, data.len()));
                        data.extend_from_slice(bytes);
                    }
                };
                requests.take(piece, each).expect("short lines");
            }
            assert_eq!(found, expected, "in pieces of {size}");
            assert_eq!(data, b"get \n", "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_has_an_end() {
        let mut requests = Requests::default();
        let half = [b'x'; LINE_BYTES_MAX / 2];
        for _ in 0..2 {
            requests.take(&half, |_| panic!("it has no end")).expect("not yet too long");
        }
        assert!(requests.take(b"x", |_| panic!("it has no end")).is_err());
    }
}
