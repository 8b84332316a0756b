//! One request a line: `numbers`, in the form of the traces of LIRS's authors (Jiang and Zhang
//! 2002), where a line `*` asks their simulator for a report and is passed over; and `keys`, where
//! each line is a key as it stands.

use crate::Flaw;
use crate::{
    events::hash,
    format::Emit,
    lines::{Lines, number},
};

pub(crate) fn read_numbers(lines: &mut Lines<'_>, emit: &mut Emit<'_>) -> Result<(), Flaw> {
    while let Some(line) = lines.next()? {
        let line = line.trim_ascii();
        if line.is_empty() || line == b"*" {
            continue;
        }
        let Some(key) = number(line) else {
            let why = format!("{} is no number", lines.shown());
            return Err(lines.malformed(why));
        };
        emit(key).map_err(|what| lines.flaw(what))?;
    }
    Ok(())
}

pub(crate) fn read_keys(lines: &mut Lines<'_>, emit: &mut Emit<'_>) -> Result<(), Flaw> {
    while let Some(line) = lines.next()? {
        if !line.is_empty() {
            let key = hash(line);
            emit(key).map_err(|what| lines.flaw(what))?;
        }
    }
    Ok(())
}
