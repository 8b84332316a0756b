//! The body of a storage request: a value and its line end.
//!
//! A body always takes `value_len + 2` bytes off the input. If the last two are not a line end,
//! the request fails with [`super::lines::BAD_DATA_CHUNK`], nothing is stored, and the next line
//! starts behind those bytes all the same, in the middle of a longer value if so it is.

use super::lines::LINE_END;

/// Bytes behind the value.
pub const TERMINATOR_LEN: usize = LINE_END.len();

/// A body at the start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// All of it is there.
    Whole {
        /// The value.
        value: &'a [u8],
        /// Bytes of value and line end.
        consumed: usize,
    },
    /// All of it is there, but the line end is wrong.
    Malformed {
        /// Bytes to drop.
        consumed: usize,
    },
    /// Not all of it is there: wait for the rest, or take it piece by piece with [`Inflow`].
    Partial,
}

/// Looks at the body of `value_len` bytes that `input` starts with.
#[inline]
pub fn split(input: &[u8], value_len: u32) -> Body<'_> {
    let value_len = value_len as usize;
    let consumed = value_len + TERMINATOR_LEN;
    match input.get(..consumed) {
        None => Body::Partial,
        Some(body) if body[value_len..] == *LINE_END => {
            Body::Whole { value: &body[..value_len], consumed }
        }
        Some(_) => Body::Malformed { consumed },
    }
}

/// A body that is taken off the input piece by piece, for values too large to be buffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inflow {
    value_left: u32,
    terminator_seen: u8,
    malformed: bool,
}

/// One piece of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The next bytes of the value; may be empty.
    pub value: &'a [u8],
    /// Bytes taken off the input, those of the line end included.
    pub consumed: usize,
    /// Where this leaves the body.
    pub state: InflowState,
}

/// How far a body has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflowState {
    /// More is to come.
    Open,
    /// Complete, with its line end.
    Complete,
    /// Over, but the line end is wrong.
    Malformed,
}

impl Inflow {
    /// A body of which nothing has been taken yet.
    pub const fn new(value_len: u32) -> Self {
        Self { value_left: value_len, terminator_seen: 0, malformed: false }
    }

    /// A body without a line end, as the binary protocol has it.
    pub const fn bare(value_len: u32) -> Self {
        Self { terminator_seen: TERMINATOR_LEN as u8, ..Self::new(value_len) }
    }

    /// Bytes of the body still to come.
    pub const fn left(&self) -> u64 {
        self.value_left as u64 + (TERMINATOR_LEN as u8 - self.terminator_seen) as u64
    }

    /// Takes what belongs to the body off the start of `input`.
    pub fn take<'a>(&mut self, input: &'a [u8]) -> Piece<'a> {
        let value_len = input.len().min(self.value_left as usize);
        let (value, rest) = input.split_at(value_len);
        self.value_left -= value_len as u32;
        let mut consumed = value_len;
        if self.value_left == 0 {
            let expected = &LINE_END[usize::from(self.terminator_seen)..];
            let end_len = rest.len().min(expected.len());
            self.malformed |= rest[..end_len] != expected[..end_len];
            self.terminator_seen += end_len as u8;
            consumed += end_len;
        }
        Piece { value, consumed, state: self.state() }
    }

    fn state(&self) -> InflowState {
        match (self.left() == 0, self.malformed) {
            (false, _) => InflowState::Open,
            (true, false) => InflowState::Complete,
            (true, true) => InflowState::Malformed,
        }
    }
}

#[cfg(test)]
mod tests;
