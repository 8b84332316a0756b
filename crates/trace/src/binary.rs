//! `i32be` and `i64be`: one big-endian integer a request and nothing else.

use std::io::{BufRead, ErrorKind};

use crate::format::Emit;
use crate::{Flaw, Place, What};

/// Reads integers of `N` bytes; `key` makes one of them a key.
pub(crate) fn read<const N: usize>(
    input: &mut dyn BufRead,
    key: fn([u8; N]) -> u64,
    emit: &mut Emit<'_>,
) -> Result<(), Flaw> {
    let mut offset = 0;
    loop {
        let flaw = |what| Flaw { place: Place::Offset(offset), what };
        let mut bytes = [0; N];
        let filled = fill(input, &mut bytes).map_err(|error| flaw(What::Unreadable(error)))?;
        if filled == 0 {
            return Ok(());
        }
        if filled < N {
            let why = format!("it ends with {filled} of the {N} bytes of an integer");
            return Err(flaw(What::Malformed(why)));
        }
        emit(key(bytes)).map_err(flaw)?;
        offset += N as u64;
    }
}

/// Reads until `out` is full or the input ends; returns how much that is.
fn fill(input: &mut dyn BufRead, out: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match input.read(&mut out[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
