//! The formats of trace files: their names, which files have them, and who reads them.

use std::{fmt, io::BufRead, str::FromStr};

use crate::{
    Builder, Compression, Trace, binary,
    events::{self, Wanted},
    lines::Lines,
    lis, text,
};
use crate::{Flaw, Place, What};

/// Takes one key after another; says when there are too many.
pub(crate) type Emit<'e> = dyn FnMut(u64) -> Result<(), What> + 'e;

/// What a trace file holds, after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines of first block, number of blocks, anything, number of the request.
    Lis,
    /// Big-endian integers of 4 bytes.
    I32Be,
    /// Big-endian integers of 8 bytes.
    I64Be,
    /// A decimal number a line; `*` is passed over.
    Numbers,
    /// Events of a resolver's clients: connections by address.
    Events,
    /// The same: answers by name.
    EventNames,
    /// A line is a key.
    Keys,
}

/// All formats with their names.
pub const FORMATS: [(&str, Format); 7] = [
    ("lis", Format::Lis),
    ("i32be", Format::I32Be),
    ("i64be", Format::I64Be),
    ("numbers", Format::Numbers),
    ("events", Format::Events),
    ("event-names", Format::EventNames),
    ("keys", Format::Keys),
];

/// What the ends of names say, without `.gz` and the like.
const SUFFIXES: [(&str, Format); 5] = [
    (".lis", Format::Lis),
    (".events.tsv", Format::Events),
    (".trc", Format::Numbers),
    (".keys", Format::Keys),
    (".txt", Format::Keys),
];

/// What the names of well-known sets say of files that end in `.trace` or nothing.
const SETS: [(&str, Format); 4] = [
    ("cache2k", Format::I32Be),
    ("corda", Format::I64Be),
    ("scarab", Format::I64Be),
    ("lirs", Format::Numbers),
];

impl Format {
    /// What a file's name, without its compression, says of its format.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let suffix = SUFFIXES.iter().find(|(suffix, _)| name.ends_with(suffix));
        let set = || SETS.iter().find(|(set, _)| name.contains(set));
        suffix.or_else(set).map(|(_, format)| *format)
    }
}

impl FromStr for Format {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        FORMATS.iter().find(|(name, _)| *name == text).map(|(_, format)| *format).ok_or(())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = FORMATS.iter().find(|(_, format)| format == self);
        f.write_str(found.expect("invariant: every format has a name").0)
    }
}

/// Reads a trace of at most `requests_max` requests (at most [`crate::REQUESTS_MAX`] are possible).
///
/// # Errors
/// What is wrong with it, and where. A trace without requests is wrong, too.
pub fn read(
    name: &str,
    format: Format,
    compression: Compression,
    input: impl BufRead,
    requests_max: usize,
) -> Result<Trace, Flaw> {
    let mut builder = Builder::new(requests_max);
    let mut input = compression.decoded(input);
    let mut emit = |key| builder.push(key);
    match format {
        Format::Lis => lis::read(&mut Lines::new(&mut input), &mut emit),
        Format::I32Be => {
            binary::read(&mut input, |bytes| u32::from_be_bytes(bytes).into(), &mut emit)
        }
        Format::I64Be => binary::read(&mut input, u64::from_be_bytes, &mut emit),
        Format::Numbers => text::read_numbers(&mut Lines::new(&mut input), &mut emit),
        Format::Events => events::read(&mut Lines::new(&mut input), Wanted::Addresses, &mut emit),
        Format::EventNames => events::read(&mut Lines::new(&mut input), Wanted::Names, &mut emit),
        Format::Keys => text::read_keys(&mut Lines::new(&mut input), &mut emit),
    }?;
    let trace = builder.finish(name);
    if trace.keys().is_empty() {
        return Err(Flaw { place: Place::Offset(0), what: What::Empty });
    }
    Ok(trace)
}
