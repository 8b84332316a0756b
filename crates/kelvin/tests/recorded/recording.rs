//! The recorded replies of a script: `fixtures/memcached/<name>.replies`.
//!
//! One paragraph a burst: a heading `[n] line` with its number and the start of what was sent, then
//! the masked reply, one escaped line each; `CLOSED` if the server closed the connection. The last
//! line gives the order of the CAS tokens, smallest first.

use std::fmt::Write as _;
use std::fs;

use crate::harness::fixture;

/// What one server answered to one script, masked.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Recording {
    /// One a burst.
    pub(crate) replies: Vec<Reply>,
    /// The numbers of the masked tokens, smallest token first.
    pub(crate) order: Vec<usize>,
}

/// What one server answered to one burst, masked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The masked bytes.
    pub(crate) bytes: Vec<u8>,
    /// The server closed the connection behind them.
    pub(crate) closed: bool,
}

const CLOSED: &str = "CLOSED";
const ORDER: &str = "order";

impl Recording {
    /// Reads the recording of a script.
    pub(crate) fn load(name: &str) -> Recording {
        let path = fixture(&format!("{name}.replies"));
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|e| panic!("{}: {e}; record it first", path.display()));
        let mut recording = Recording::default();
        for line in text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
            if line.starts_with('[') {
                recording.replies.push(Reply::default());
            } else if let Some(order) = line.strip_prefix(ORDER) {
                let words = order.split_ascii_whitespace();
                recording.order = words.map(|w| w.parse().expect("token numbers")).collect();
            } else {
                let reply = recording.replies.last_mut().expect("a heading comes first");
                match line {
                    CLOSED => reply.closed = true,
                    _ => reply.bytes.extend(unescape(line)),
                }
            }
        }
        recording
    }

    /// Writes the recording of a script; `headings` has one line a burst.
    pub(crate) fn store(&self, name: &str, headings: &[String]) {
        let mut text = String::from(
            "# Replies of memcached 1.6.45, masked; made by the test `recorded`, see README.md.\n",
        );
        for (index, (reply, heading)) in self.replies.iter().zip(headings).enumerate() {
            write!(text, "\n[{}] {heading}\n{reply}", index + 1).expect("a string takes text");
        }
        let order: String = self.order.iter().map(|n| format!(" {n}")).collect();
        write!(text, "\n{ORDER}{order}\n").expect("a string takes text");
        fs::write(fixture(&format!("{name}.replies")), text).expect("a recording can be written");
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in self.bytes.split_inclusive(|&b| b == b'\n') {
            writeln!(f, " {}", escape(line))?;
        }
        if self.closed {
            writeln!(f, "{CLOSED}")?;
        }
        Ok(())
    }
}

/// A run of one byte above this length is written as `{x*count}`.
const RUN_BYTES_MAX: usize = 40;

fn escape(line: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(&first) = rest.first() {
        let run = rest.iter().take_while(|&&b| b == first).count();
        let one = match first {
            b'{' => "{{".to_owned(),
            _ => first.escape_ascii().to_string().replace("\\'", "'").replace("\\\"", "\""),
        };
        if run > RUN_BYTES_MAX {
            write!(text, "{{{one}*{run}}}").expect("a string takes text");
            rest = &rest[run..];
        } else {
            text.push_str(&one);
            rest = &rest[1..];
        }
    }
    text
}

fn unescape(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in crate::script::pieces(&line[1..]) {
        match piece {
            crate::script::Piece::Bytes(b) => bytes.extend(b),
            symbol => panic!("a recording holds {symbol:?}"),
        }
    }
    bytes
}
