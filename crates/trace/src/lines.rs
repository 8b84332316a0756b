//! Lines of a text, numbered, each of bounded length.

use std::io::{BufRead, Read};

use crate::{Flaw, Place, What};

/// Longest line in bytes: four numbers of 64 bits take 83, a name in the DNS 253; beyond this a
/// file is no trace in lines but something else.
const LINE_BYTES_MAX: usize = 4096;

/// Reads lines.
pub(crate) struct Lines<'i> {
    input: &'i mut dyn BufRead,
    line: Vec<u8>,
    number: u64,
}

impl<'i> Lines<'i> {
    pub(crate) fn new(input: &'i mut dyn BufRead) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// The next line without its end, `\n` or `\r\n`; none at the end of the text.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Flaw> {
        self.line.clear();
        self.number += 1;
        // One byte more than allowed tells a line that is too long from one that just fits.
        let most = LINE_BYTES_MAX as u64 + 1;
        let read = (&mut *self.input).take(most).read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| self.flaw(What::Unreadable(error)))?;
        if read == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        }
        if self.line.len() > LINE_BYTES_MAX {
            return Err(self.malformed(format!("more than {LINE_BYTES_MAX} bytes without an end")));
        }
        Ok(Some(&self.line))
    }

    /// Something wrong with the line that was read last.
    pub(crate) fn flaw(&self, what: What) -> Flaw {
        Flaw { place: Place::Line(self.number), what }
    }

    /// A line that was read last and is not what it should be: `why` says so.
    pub(crate) fn malformed(&self, why: impl Into<String>) -> Flaw {
        self.flaw(What::Malformed(why.into()))
    }

    /// The line that was read last, for messages.
    pub(crate) fn shown(&self) -> String {
        let shown = self.line.iter().take(SHOWN_BYTES_MAX).copied().collect::<Vec<u8>>();
        let dots = if self.line.len() > SHOWN_BYTES_MAX { "..." } else { "" };
        format!("`{}{dots}`", shown.escape_ascii())
    }
}

/// Bytes of a line that a message quotes.
const SHOWN_BYTES_MAX: usize = 60;

/// A decimal number that fills `text`.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
