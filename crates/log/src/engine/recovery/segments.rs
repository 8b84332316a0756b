//! Which segments there are, and which of them must be read in full.

use std::collections::BTreeSet;

use super::{
    Cursor, Damage, Found, Progress, Report, Torn, Wrong,
    scan::{Span, scan},
    source::Source,
};
use crate::{
    engine::{
        Engine,
        removing::Left,
        space::{Role, Segment},
    },
    error::Error,
    format::{
        Seed,
        manifest::{CleanState, Manifest, Shape},
        segment::{HEADER_COPIES, Header, HeaderFlaw, Trailer},
    },
    keys::Keys,
    plan::{Action, DirectoryId, File, FileName, SegmentId},
};

/// What the header of a segment says.
enum Headed {
    /// It.
    Whole(Header),
    /// Nothing that can be believed.
    Damaged,
}

/// Removes the segments that were on their way when the log ended, to it or from it, and makes sure
/// of what was removed before: a flush of it may have failed, and its number may be used in another
/// directory now. Says which are somebody else's, and which cannot be removed: neither keeps the
/// log from being opened.
///
/// # Errors
/// When one is not what such a segment is: it belongs to another log, or has records.
pub(super) fn remove_unlisted<K: Keys>(
    source: &mut Source<'_>,
    found: &Found,
    (manifest, directories): (&Manifest, u16),
    index: &K,
    report: &mut Report,
) -> Result<Left, Error> {
    let mut left = Left::default();
    let listed: BTreeSet<SegmentId> = manifest.rows.iter().map(|row| row.segment).collect();
    let mut has_removed = false;
    for (id, (directory, bytes)) in &found.segments {
        if listed.contains(id) {
            continue;
        }
        let file = File { directory: *directory, name: FileName::Segment(*id) };
        let name = || format!("{} of directory {}", file.name, directory.0);
        let is_own = match read_header(source, file, *id, manifest, None)? {
            Headed::Whole(Header { generation, .. }) => {
                match first_record(source, file, *id, (manifest, generation, *bytes), index) {
                    First::Record => return Err(Error::Unlisted { file }),
                    First::Unknown => false,
                    First::None => true,
                }
            }
            // One that was being made has a part of its header, and nothing else.
            Headed::Damaged => is_unmade(source, file, *id, (manifest, *bytes)),
        };
        if !is_own {
            // Somebody else's, or nobody can tell. Its number is passed over.
            report.foreign(name());
            left.foreign.insert(*id);
            continue;
        }
        if !has_removed {
            // The manifest without its row may not be durable: only the process may have ended.
            source.perform(Action::FlushDirectory { directory: DirectoryId(0) })?;
        }
        has_removed = true;
        match source.perform(Action::Remove { file }) {
            Ok(()) => {}
            Err(_) if !base::mutant!("log_unremoved_keeps_log_shut") => {
                report.unremoved(name());
                left.unremoved.push((*id, *directory));
            }
            Err(error) => return Err(error),
        }
    }
    for directory in (0..directories).map(DirectoryId) {
        source.perform(Action::FlushDirectory { directory })?;
    }
    Ok(left)
}

/// Bytes that are looked at at once.
const BLANK_BYTES: u64 = 1 << 20;

/// Whether a file may be what a crash has left of a segment that was being made: there is nothing
/// but zeros in it, and any bytes of its header copies where these were to be, and it is no longer
/// than a segment.
fn is_unmade(
    source: &mut Source<'_>,
    file: File,
    id: SegmentId,
    (manifest, bytes): (&Manifest, u64),
) -> bool {
    if bytes > manifest.shape.segment_bytes {
        return false;
    }
    let block = u64::from(manifest.shape.block_bytes);
    let mut encoded = vec![0; block as usize];
    let header = manifest.header(id, 1);
    header.encode(&mut encoded);
    if base::mutant!("log_torn_header_is_foreign") {
        encoded.fill(0);
    }
    // The log may have been wiped since.
    let is_of = |byte, at: usize| !header.fixes(at) || byte == encoded[at];
    let may_be = |(byte, at): (&u8, u64)| {
        *byte == 0 || at < HEADER_COPIES * block && is_of(*byte, (at % block) as usize)
    };
    (0..bytes.div_ceil(BLANK_BYTES)).map(|at| at * BLANK_BYTES).all(|from| {
        let read = source.read(file, from, BLANK_BYTES as usize);
        read.is_ok_and(|read| read.iter().zip(from..).all(may_be))
    })
}

/// What is found of records in a segment without a row.
enum First {
    None,
    Record,
    /// There is none in what can be read.
    Unknown,
}

/// Whether any record is in the segment: one that was on its way has none.
fn first_record<K: Keys>(
    source: &mut Source<'_>,
    file: File,
    id: SegmentId,
    (manifest, generation, bytes): (&Manifest, u64, u64),
    index: &K,
) -> First {
    let span = Span {
        file,
        seed: Seed::new(manifest.log, id.0, generation),
        block_bytes: manifest.shape.block_bytes,
        end: manifest.shape.segment_bytes.min(bytes),
    };
    let scan = scan(source, span, index);
    if scan.records_end > HEADER_COPIES * u64::from(span.block_bytes) {
        First::Record
    } else if scan.unreadable.is_empty() {
        First::None
    } else {
        First::Unknown
    }
}

fn read_header(
    source: &mut Source<'_>,
    file: File,
    id: SegmentId,
    manifest: &Manifest,
    report: Option<&mut Report>,
) -> Result<Headed, Error> {
    let block = u64::from(manifest.shape.block_bytes);
    let (mut newest, mut flawed) = (None::<Header>, Vec::new());
    for copy in 0..HEADER_COPIES {
        let (decoded, bytes) = match source.read(file, copy * block, block as usize) {
            Ok(bytes) => (Header::decode(bytes), bytes.to_vec()),
            Err(failure) if failure.is_of_medium() => (Err(HeaderFlaw::Damaged), Vec::new()),
            Err(failure) => return Err(Error::Disk { doing: "read", file, failure }),
        };
        let is_of = |header: &Header| {
            header.segment == id.0
                && header.segment_bytes == manifest.shape.segment_bytes
                && header.block_bytes == manifest.shape.block_bytes
        };
        match decoded {
            Ok(header) if header.log != manifest.log => return Err(Error::OtherLog { file }),
            Ok(header) if is_of(&header) => {
                if newest.is_none_or(|newest| newest.generation < header.generation) {
                    newest = Some(header);
                }
            }
            Err(HeaderFlaw::Version(version)) => return Err(Error::Version { file, version }),
            Ok(_) | Err(HeaderFlaw::Damaged) => flawed.push((copy, bytes)),
        }
    }
    // A crash while the segment was freed leaves one copy, and it is freed again.
    let is_torn =
        |newest: Header, copy, bytes: &[u8]| newest.is_torn(copy, bytes, manifest.dead_below);
    flawed.retain(|(copy, bytes)| !newest.is_some_and(|it| is_torn(it, *copy, bytes)));
    if let Some(report) = report {
        for (copy, _) in flawed {
            let (offset, what) = (copy * block, Wrong::HeaderCopy);
            report.damage(Damage { file, offset, bytes: block, what });
        }
    }
    Ok(newest.map_or(Headed::Damaged, Headed::Whole))
}

/// Flushes what was read and has no flushed footer: after the end of a process it may exist only
/// in the device's cache, and a second crash would take what was served meanwhile.
///
/// # Errors
/// When a flush fails.
pub(super) fn flush_scanned(source: &mut Source<'_>, cursors: &[Cursor]) -> Result<(), Error> {
    if base::mutant!("log_serve_before_flush") {
        return Ok(());
    }
    for cursor in cursors.iter().filter(|cursor| cursor.is_scanned) {
        source.perform(Action::Flush { file: cursor.span.file })?;
    }
    Ok(())
}

impl<K: Keys> Engine<K> {
    /// Something in it could not be read: it may be read another time.
    pub(super) fn forbid_freeing(&mut self, id: SegmentId) {
        if let Some(segment) = self.segment_mut(id) {
            segment.may_be_freed = false;
        }
    }

    /// Takes the segments as a clean stop has left them.
    pub(super) fn take_clean(&mut self, found: &Found) {
        self.next_segment = self.manifest.rows.last().map_or(0, |row| row.segment.0 + 1);
        self.segments = vec![None; self.next_segment as usize];
        for row in &self.manifest.rows {
            let Some((directory, _)) = found.segments.get(&row.segment) else { continue };
            let role = match row.state {
                CleanState::Free => Role::Free,
                CleanState::Sealed => Role::Sealed,
                CleanState::Failed => Role::Unlisted,
            };
            if role == Role::Free {
                self.free.push(row.segment);
            }
            self.segments[row.segment.0 as usize] = Some(Segment {
                role,
                live_bytes: row.live_bytes,
                smallest_value: row.smallest_value,
                begun: row.begun,
                all_bytes: row.all_bytes,
                packed_bytes: row.packed_bytes,
                tombstone_bytes: row.tombstone_bytes,
                greatest_tombstone: row.greatest_tombstone,
                ..Segment::empty(self.manifest.log, row.segment, *directory, row.generation)
            });
        }
    }

    /// Looks into every segment of the manifest.
    pub(super) fn find_segments(
        &mut self,
        source: &mut Source<'_>,
        found: &Found,
        progress: &mut dyn FnMut(Progress),
        report: &mut Report,
    ) -> Result<Vec<Cursor>, Error> {
        let manifest = self.manifest.clone();
        let segments = manifest.rows.len();
        let last = manifest.rows.last().map_or(0, |row| row.segment.0 + 1);
        self.next_segment = last;
        self.segments = vec![None; last as usize];
        report.segments = segments;
        let mut cursors = Vec::new();
        for (done, row) in manifest.rows.iter().enumerate() {
            progress(Progress { segments_done: done, segments, records: 0 });
            let id = row.segment;
            let name = FileName::Segment(id);
            let Some((directory, bytes)) = found.segments.get(&id) else {
                let file = File { directory: DirectoryId(0), name };
                report.damage(Damage { file, offset: 0, bytes: 0, what: Wrong::Missing });
                continue;
            };
            let file = File { directory: *directory, name };
            note_size(file, *bytes, &manifest.shape, report);
            match read_header(source, file, id, &manifest, Some(report))? {
                Headed::Damaged => {
                    report.damage(Damage { file, offset: 0, bytes: *bytes, what: Wrong::Header });
                }
                Headed::Whole(Header { generation, dead_below, .. }) => {
                    // A manifest that was put back may not know of all that is dead.
                    if !base::mutant!("log_dead_by_the_manifest_alone") {
                        self.manifest.dead_below = self.manifest.dead_below.max(dead_below);
                    }
                    let seed = Seed::new(manifest.log, id.0, generation);
                    let span = Span {
                        file,
                        seed,
                        block_bytes: manifest.shape.block_bytes,
                        end: manifest.shape.segment_bytes.min(*bytes),
                    };
                    let (role, cursor) = self.look_into(source, id, span, report);
                    self.segments[id.0 as usize] = Some(Segment {
                        role,
                        may_be_freed: cursor.as_ref().is_none_or(Cursor::is_known),
                        ..Segment::empty(manifest.log, id, *directory, generation)
                    });
                    if role == Role::Free {
                        self.free.push(id);
                    }
                    cursors.extend(cursor);
                }
            }
        }
        Ok(cursors)
    }

    fn look_into(
        &self,
        source: &mut Source<'_>,
        id: SegmentId,
        span: Span,
        report: &mut Report,
    ) -> (Role, Option<Cursor>) {
        let shape = &self.manifest.shape;
        let block = u64::from(shape.block_bytes);
        let offset = shape.segment_bytes - block;
        let trailer = source.read(span.file, offset, block as usize).ok();
        let trailer = trailer.and_then(|bytes| Trailer::decode(bytes, span.seed, offset));
        if let Some(trailer) = trailer.filter(|trailer| Cursor::is_possible(trailer, &span)) {
            return (Role::Sealed, Some(Cursor::of_footer(id, span, trailer)));
        }
        report.tails += 1;
        let mut scan = scan(source, span, &self.index);
        // What cannot be read, or whose key is none of the index's, may be known another time: such
        // a segment is neither used nor sealed.
        let is_read = scan.unreadable.is_empty() && !scan.has_unknown;
        let is_whole = is_read && span.end == shape.segment_bytes;
        if is_whole && scan.is_blank {
            return (Role::Free, None);
        }
        report.tail_records += scan.listed.len() as u64;
        let (offset, file) = (scan.records_end, span.file);
        let damages = scan.take_damages(file);
        // A footer would hide what is lost from the next open, which may be the first that serves.
        let may_seal = is_whole && (damages.is_empty() || base::mutant!("log_damage_sealed"));
        damages.into_iter().for_each(|damage| report.damage(damage));
        for (offset, bytes) in scan.holes.drain(..) {
            report.torn(Torn { file, offset, bytes });
        }
        report.torn(Torn { file, offset, bytes: span.end.saturating_sub(offset) });
        let mut cursor = Cursor::of_scan(id, span, scan.listed, scan.records_end, may_seal);
        cursor.saw(scan.greatest_sequence);
        cursor.may_tell_more = !is_read;
        (Role::Unlisted, Some(cursor))
    }
}

fn note_size(file: File, got: u64, shape: &Shape, report: &mut Report) {
    let expected = shape.segment_bytes;
    if got != expected {
        let what = Wrong::Size { got, expected };
        let offset = got.min(expected);
        report.damage(Damage { file, offset, bytes: expected - offset, what });
    }
}
