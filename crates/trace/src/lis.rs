//! `lis`: references to ranges of blocks, in the form that ARC's authors published theirs (Megiddo
//! and Modha 2003). Each line has four numbers: first block, number of blocks, one to ignore, and
//! the number of the request; it stands for one request a block, in ascending order.

use crate::Flaw;
use crate::{
    format::Emit,
    lines::{Lines, number},
};

pub(crate) fn read(lines: &mut Lines<'_>, emit: &mut Emit<'_>) -> Result<(), Flaw> {
    while let Some(line) = lines.next()? {
        let mut columns = line.split(u8::is_ascii_whitespace).filter(|column| !column.is_empty());
        let Some(first) = columns.next() else { continue };
        let (first, blocks) = (number(first), columns.next().and_then(number));
        let rest = columns.filter(|column| number(column).is_some()).count();
        let (Some(first), Some(blocks), 2) = (first, blocks, rest) else {
            let why = format!("{} are not four numbers", lines.shown());
            return Err(lines.malformed(why));
        };
        let Some(end) = first.checked_add(blocks) else {
            let why = format!("{blocks} blocks from {first} on have no number");
            return Err(lines.malformed(why));
        };
        for block in first..end {
            emit(block).map_err(|what| lines.flaw(what))?;
        }
    }
    Ok(())
}
