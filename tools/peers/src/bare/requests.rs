//! Where requests end.
//!
//! Pure: bytes in, requests out. What it keeps of a request is the start of a line that was cut,
//! and how much of a set's data has not come.

/// Longest line: a key of 250 bytes and four numbers, with room.
const LINE_BYTES_MAX: usize = 2048;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Get,
    Set,
    Stats,
    Version,
    /// Anything else.
    Unknown,
}

/// A line that does not end.
#[derive(Debug)]
pub(super) struct Endless;

/// The requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The start of a line.
    held: Vec<u8>,
    /// Bytes of a set's data that are still to come, their end included.
    skip: usize,
}

impl Requests {
    /// Takes what was received and tells `each` of every request that it completes.
    ///
    /// # Errors
    /// [`Endless`] when a line is too long.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Request),
    ) -> Result<(), Endless> {
        loop {
            if self.skip > 0 {
                let count = self.skip.min(bytes.len());
                bytes = &bytes[count..];
                self.skip -= count;
                if self.skip > 0 {
                    return Ok(());
                }
                each(Request::Set);
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
                Line::Complete(request) => each(request),
                Line::Data(bytes) => self.skip = bytes,
            }
        }
    }
}

/// What a line is.
enum Line {
    /// A whole request.
    Complete(Request),
    /// The first line of a set; so many bytes follow.
    Data(usize),
}

fn read(line: &[u8]) -> Line {
    let line = line.trim_ascii_end();
    if line.starts_with(b"get ") {
        return Line::Complete(Request::Get);
    }
    if line.starts_with(b"set ") {
        // `set KEY FLAGS EXPIRY BYTES`, and the data with two bytes behind it.
        let bytes = line.split(|byte| *byte == b' ').nth(4).and_then(number);
        return bytes.map_or(Line::Complete(Request::Unknown), |bytes| Line::Data(bytes + 2));
    }
    Line::Complete(match line {
        b"stats" => Request::Stats,
        b"version" => Request::Version,
        _ => Request::Unknown,
    })
}

/// At most nine digits.
fn number(digits: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(digits).ok()?;
    if text.len() > 9 { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Request, Requests};

    #[test]
    fn requests_are_found_wherever_they_are_cut() {
        let bytes =
            b"get a\r\nset b 0 0 5\r\nget \n\r\nset c 0 0 0\r\n\r\nset d 0 0 x\r\nstats\r\n\
                      version\r\nget e\r\n";
        use Request::{Get, Set, Stats, Unknown, Version};
        let expected = [Get, Set, Set, Unknown, Stats, Version, Get];
        for size in 1..=bytes.len() {
            let (mut requests, mut found) = (Requests::default(), Vec::new());
            for piece in bytes.chunks(size) {
                requests.take(piece, |request| found.push(request)).expect("short lines");
            }
            assert_eq!(found, expected, "in pieces of {size}");
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
