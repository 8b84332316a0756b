//! Reading all that a log's segments hold, and comparing it with their footers.
//!
//! Recovery trusts a footer; a damaged record is found out about when it is read. Here every record
//! is. Takes the memory of one segment's list of records.

use super::{
    Damage, Progress, Wrong,
    scan::{Scan, Span, scan},
    source::Source,
};
use crate::{
    engine::{Engine, space::Role},
    format::segment::{Listed, Trailer, decode_footer_block, entries_of_block, footer_blocks},
    keys::Keys,
    plan::{Disk, SegmentId},
    position::SizeClass,
};

/// What was read to verify a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Segments that are sealed.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
}

impl<K: Keys> Engine<K> {
    /// Reads every record of every sealed segment, and says what is damaged: each record by its
    /// place. What is wrong with the others, the report of the open says.
    pub fn verify(
        &self,
        disk: &mut dyn Disk,
        progress: &mut dyn FnMut(Progress),
        damaged: &mut dyn FnMut(Damage),
    ) -> Verified {
        let shape = self.manifest.shape;
        let mut source = Source::new(disk, shape.block_bytes);
        let mut verified = Verified::default();
        let segments = self.segments.len();
        for (at, segment) in self.segments.iter().enumerate() {
            progress(Progress { segments_done: at, segments, records: verified.records });
            let Some(segment) = segment.as_ref().filter(|segment| segment.role == Role::Sealed)
            else {
                continue;
            };
            let id = SegmentId(u32::try_from(at).unwrap_or(u32::MAX));
            let span = Span {
                file: segment.file(id),
                seed: segment.seed,
                block_bytes: shape.block_bytes,
                end: shape.segment_bytes,
            };
            verified.segments += 1;
            verified.records += self.verify_segment(&mut source, span, damaged);
        }
        verified.bytes_read = source.bytes_read;
        verified
    }

    fn verify_segment(
        &self,
        source: &mut Source<'_>,
        span: Span,
        damaged: &mut dyn FnMut(Damage),
    ) -> u64 {
        let file = span.file;
        let block = u64::from(span.block_bytes);
        let offset = span.end - block;
        let trailer = source.read(file, offset, block as usize).ok();
        let trailer = trailer.and_then(|bytes| Trailer::decode(bytes, span.seed, offset));
        let trailer = trailer.filter(|trailer| super::Cursor::is_possible(trailer, &span));
        let Some(trailer) = trailer else {
            damaged(Damage { file, offset, bytes: block, what: Wrong::Footer });
            return 0;
        };
        let mut scan = scan(source, Span { end: trailer.records_end, ..span }, &self.index);
        // Of a batch with a damaged record the footer says whether the others count: if it was
        // flushed, and not torn by a crash before the segment was sealed.
        scan.listed.sort_unstable_by_key(|listed| listed.unit);
        scan.dropped.sort_unstable_by_key(|listed| listed.unit);
        let mut counting = 0;
        let footer = read_footer(source, span, &trailer, |listed| {
            if let Some(found) = find(&scan.dropped, listed) {
                counting += 1;
                return listed.means(found);
            }
            let found = find(&scan.listed, listed);
            if found.is_none() {
                let class = SizeClass::from_bits(listed.class);
                let bytes = class.map_or(0, |class| class.bytes().into());
                damaged(Damage { file, offset: listed.offset(), bytes, what: Wrong::Records });
            }
            found.is_some_and(|found| listed.means(found))
        });
        let records = scan.listed.len() as u64 + counting;
        match footer {
            // Those that are missing were named one by one.
            Some(agreed) if agreed == records && records <= trailer.entries => {}
            Some(_) => {
                let bytes = span.end - trailer.records_end;
                let offset = trailer.records_end;
                damaged(Damage { file, offset, bytes, what: Wrong::Footer });
            }
            None => {
                let bytes = span.end - trailer.records_end;
                damaged(Damage { file, offset: trailer.records_end, bytes, what: Wrong::Footer });
                // Nothing lists what should be there: what is missing is named by its place.
                holes(&mut scan, &trailer).for_each(|(offset, bytes)| {
                    damaged(Damage { file, offset, bytes, what: Wrong::Records });
                });
            }
        }
        // Padding, and what is in front of a batch, no footer lists.
        scan.unreadable.drain(..).for_each(damaged);
        records
    }
}

/// What was found, in the order of places, where `listed` is.
fn find<'a>(found: &'a [Listed], listed: &Listed) -> Option<&'a Listed> {
    let at = found.binary_search_by_key(&listed.unit, |found| found.unit).ok()?;
    found.get(at)
}

/// Stretches without a record, in a segment that was flushed as a whole.
fn holes(scan: &mut Scan, trailer: &Trailer) -> impl Iterator<Item = (u64, u64)> {
    let rest = trailer.records_end.saturating_sub(scan.records_end);
    let last = (rest > 16).then_some((scan.records_end, rest));
    std::mem::take(&mut scan.holes).into_iter().chain(last)
}

/// Hands all entries of a footer to `agrees`. Says with how many it agrees; `None` when a block of
/// the footer is damaged.
fn read_footer(
    source: &mut Source<'_>,
    span: Span,
    trailer: &Trailer,
    mut agrees: impl FnMut(&Listed) -> bool,
) -> Option<u64> {
    let block = u64::from(span.block_bytes);
    let entries = usize::try_from(trailer.entries).ok()?;
    let blocks = footer_blocks(entries, span.block_bytes);
    let (mut agreed, mut is_whole) = (0, true);
    for number in 0..blocks {
        let offset = trailer.records_end + number * block;
        let read = source.read(span.file, offset, block as usize).ok();
        let found = read.and_then(|bytes| decode_footer_block(bytes, number, span.seed, offset));
        let is_last = number + 1 == blocks;
        let full = entries_of_block(span.block_bytes);
        match found {
            Some(found) if is_last || found.len() == full => {
                agreed += found.iter().filter(|listed| agrees(listed)).count() as u64;
            }
            _ => is_whole = false,
        }
    }
    is_whole.then_some(agreed)
}
