//! Whether a log was stopped in order, and is as that stop has left it.

use super::{Found, source::Source};
use crate::{
    format::{
        Seed,
        manifest::{CleanState, Manifest, Row},
        record::Record,
        segment::{HEADER_COPIES, Header, Trailer},
    },
    plan::{File, FileName},
    position::SizeClass,
};

/// Whether the log was stopped cleanly, and every segment is there as it was. The manifest may have
/// been put back from a copy: segments may have been written to since that it has as free, and
/// freed that it has as sealed. So each header is read, and what is free is looked into.
pub(super) fn are_clean(source: &mut Source<'_>, manifest: &Manifest, found: &Found) -> bool {
    let is_there = |row: &Row| {
        let bytes = found.segments.get(&row.segment).map(|(_, bytes)| *bytes);
        bytes == Some(manifest.shape.segment_bytes) && row.generation != 0
    };
    manifest.clean_sequence != 0
        && manifest.rows.iter().all(is_there)
        && manifest.rows.iter().all(|row| match row.state {
            CleanState::Free => {
                base::mutant!("log_clean_unlooked") || is_free(source, manifest, row, found)
            }
            CleanState::Sealed | CleanState::Failed => {
                base::mutant!("log_clean_generation_unlooked")
                    || is_of_generation(source, manifest, row, found)
            }
        })
}

fn file_of(row: &Row, found: &Found) -> Option<File> {
    let (directory, _) = found.segments.get(&row.segment)?;
    Some(File { directory: *directory, name: FileName::Segment(row.segment) })
}

/// The generation that one copy of a segment's header says, if it is one.
fn generation_of(copy: &[u8], manifest: &Manifest, row: &Row) -> Option<u64> {
    let header = Header::decode(copy).ok()?;
    let is_known = header.dead_below <= manifest.dead_below;
    let is_of = header.log == manifest.log && header.segment == row.segment.0 && is_known;
    is_of.then_some(header.generation)
}

/// Whether the segment is of the row's generation: what it had then is there.
fn is_of_generation(
    source: &mut Source<'_>,
    manifest: &Manifest,
    row: &Row,
    found: &Found,
) -> bool {
    let Some(file) = file_of(row, found) else { return false };
    let block = manifest.shape.block_bytes as usize;
    let Ok(copies) = source.read(file, 0, HEADER_COPIES as usize * block) else { return false };
    let generations = copies.chunks_exact(block).map(|copy| generation_of(copy, manifest, row));
    // One copy may be damaged; the greater one counts.
    generations.flatten().max() == Some(row.generation)
}

/// Whether the segment is of the row's generation, no record is where the first would be, and no
/// trailer says where records end: an open that came to no end may have sealed it.
fn is_free(source: &mut Source<'_>, manifest: &Manifest, row: &Row, found: &Found) -> bool {
    let Some(file) = file_of(row, found) else { return false };
    let shape = &manifest.shape;
    let block = shape.block_bytes as usize;
    let begin = HEADER_COPIES as usize * block;
    // Of an earlier generation there may be anything; then a record has to be read to tell.
    let is_first = row.generation == 1;
    let record = SizeClass::LARGEST.bytes() as usize;
    let bytes = begin + if is_first { block } else { record.next_multiple_of(block) };
    let bytes = bytes.min(usize::try_from(shape.segment_bytes).unwrap_or(usize::MAX));
    let Ok(bytes) = source.read(file, 0, bytes) else { return false };
    let Some((headers, records)) = bytes.split_at_checked(begin) else { return false };
    let is_as_was = |copy| generation_of(copy, manifest, row) == Some(row.generation);
    let seed = Seed::new(manifest.log, row.segment.0, row.generation);
    let is_empty = match is_first {
        true => records.len() >= block && records.iter().all(|byte| *byte == 0),
        false => Record::decode(records, seed, begin as u64).is_err(),
    };
    if !is_empty || !headers.chunks_exact(block).all(is_as_was) {
        return false;
    }
    let offset = shape.segment_bytes - u64::from(shape.block_bytes);
    let trailer = source.read(file, offset, block);
    base::mutant!("log_sealed_taken_for_free")
        || trailer.is_ok_and(|bytes| Trailer::decode(bytes, seed, offset).is_none())
}
