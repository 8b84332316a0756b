//! `events` and `event-names`: what a resolver's clients did, in columns that a tab ends: the time,
//! `R` for a connection to an address or `W` for an answer that named it, the address, and of a `W`
//! the name.

use std::hash::{DefaultHasher, Hasher as _};

use crate::Flaw;
use crate::{format::Emit, lines::Lines};

/// Which events are requests, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Each connection asks for its address.
    Addresses,
    /// Each answer asks for its name.
    Names,
}

pub(crate) fn read(lines: &mut Lines<'_>, wanted: Wanted, emit: &mut Emit<'_>) -> Result<(), Flaw> {
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        let columns: Vec<&[u8]> = line.splitn(COLUMNS + 1, |byte| *byte == b'\t').collect();
        let key = match (columns.as_slice(), wanted) {
            (&[_, b"R", address, _], Wanted::Addresses) => hash(address),
            (&[_, b"W", _, name], Wanted::Names) => hash(name),
            (&[_, b"R" | b"W", _, _], _) => continue,
            _ => {
                let why = format!("{} is no event: time, R or W, address, name", lines.shown());
                return Err(lines.malformed(why));
            }
        };
        emit(key).map_err(|what| lines.flaw(what))?;
    }
    Ok(())
}

const COLUMNS: usize = 4;

/// A text as a key. Two texts of a trace of a million share one with a chance of one in 37 million.
pub(crate) fn hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}
