//! Why there is no trace.

use std::{fmt, io, path::PathBuf};

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is not what its format says.
    #[error("{}: {flaw}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        flaw: Flaw,
    },
}

/// What is wrong with a trace, and where.
#[derive(Debug)]
pub struct Flaw {
    /// Where it was met, in the text or the bytes after decompression.
    pub place: Place,
    /// What it is.
    pub what: What,
}

/// A place in a file after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, the first is 1.
    Line(u64),
    /// Bytes before it.
    Offset(u64),
}

/// What can be wrong with a trace.
#[derive(Debug)]
pub enum What {
    /// Reading or decompressing fails.
    Unreadable(io::Error),
    /// Something else was expected; the text is for a person.
    Malformed(String),
    /// More requests than a simulation holds.
    TooManyRequests {
        /// The limit.
        max: usize,
    },
    /// No request at all.
    Empty,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Line(number) => write!(f, "line {number}: ")?,
            Place::Offset(bytes) => write!(f, "at byte {bytes}: ")?,
        }
        match &self.what {
            What::Unreadable(error) => write!(f, "{error}"),
            What::Malformed(what) => f.write_str(what),
            What::TooManyRequests { max } => write!(f, "more than {max} requests"),
            What::Empty => f.write_str("no request at all"),
        }
    }
}
