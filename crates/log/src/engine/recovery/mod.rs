//! Opening a log: what was promised is found again, and nothing is served before it is durable.
//!
//! The order is that of "Recovery" in `docs/formats/log.md`.

mod inspect;
mod merge;
mod scan;
mod segments;
mod source;
mod tally;
mod verify;

use std::collections::BTreeMap;

pub use self::verify::Verified;
use self::{
    merge::{Cursor, merge},
    source::Source,
    tally::Tally,
};
use super::{
    Counts, Engine, Settings, chain::Chain, pins::Pins, read::Fetched, sealing::Footer,
    space::Role, write::Needed,
};
use crate::{
    error::Error,
    format::{
        LogId,
        manifest::{self, MANIFEST_BYTES_MAX, Manifest, RUN_SEQUENCES, RUNS_MAX, Shape},
    },
    keys::{Keys, MakeKeys},
    plan::{Action, Buffer, DirectoryId, Disk, Failure, File, FileName, SegmentId},
    position::{Entry, Position, SizeClass, UNIT_BYTES},
};

/// The most damages and notices that a report lists; the rest is counted.
const LISTED_MAX: usize = 4096;

/// What a log is made with when there is none.
#[derive(Clone, Copy, Debug)]
pub struct New {
    /// Random bits that stand for the log.
    pub log: LogId,
    /// What it is made with. An existing log keeps what it was made with.
    pub shape: Shape,
}

/// Something that is lost or cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub file: File,
    /// From which byte.
    pub offset: u64,
    /// How many; 0 when that is not known.
    pub bytes: u64,
    /// What is wrong.
    pub what: Wrong,
}

/// What is wrong with a part of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The manifest has a segment that is in no directory.
    #[error("the segment is missing")]
    Missing,
    /// The file has another size than segments have.
    #[error("the segment has {got} bytes instead of {expected}")]
    Size {
        /// Its size.
        got: u64,
        /// What it should be.
        expected: u64,
    },
    /// No copy of the header is valid: nothing in the segment can be checked.
    #[error("the header is damaged")]
    Header,
    /// One copy of the header is damaged, and the other one counts.
    #[error("a copy of the header is damaged")]
    HeaderCopy,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(Failure),
    /// The footer does not say what is in the segment.
    #[error("the footer is damaged, or does not fit the records")]
    Footer,
    /// Flushed records were here.
    #[error("flushed records are damaged")]
    Records,
    /// The record of a key is damaged, or the index as it was saved; then it is made anew.
    #[error("{0}")]
    Named(Error),
}

/// A segment that was being written when the log ended: from `offset` on, over `bytes` bytes, there
/// is no valid record. An honest disk leaves this, too, when the log is not stopped in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub file: File,
    /// From which byte.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// What was found when a log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many times it was opened, this time included.
    pub run: u64,
    /// Whether the log was stopped cleanly, and its index was loaded.
    pub is_clean: bool,
    /// Segments.
    pub segments: usize,
    /// How many of them were read in full.
    pub tails: usize,
    /// Records that were looked at; each says what its key is.
    pub records: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// What is lost.
    pub damages: Vec<Damage>,
    /// Where segments end that were being written.
    pub torn: Vec<Torn>,
    /// Names that are none of the log's, left alone.
    pub foreign: Vec<String>,
    /// What the three lists have no room for.
    pub unlisted: u64,
}

/// How far opening is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Segments that were looked at.
    pub segments_done: usize,
    /// Of so many.
    pub segments: usize,
    /// Records that were looked at, after all segments were.
    pub records: u64,
}

/// Records between two calls for progress: 10 to 100 ms.
const PROGRESS_RECORDS: u64 = 1 << 18;

/// What opening is about.
pub struct Opening<'a> {
    /// How many directories the log has.
    pub directories: u16,
    /// What the log is made with when there is none.
    pub new: New,
    /// How it is run.
    pub settings: Settings,
    /// The time.
    pub now_ms: u64,
    /// Is told how far opening is.
    pub progress: &'a mut dyn FnMut(Progress),
}

impl Report {
    pub(super) fn damage(&mut self, damage: Damage) {
        push_bounded(&mut self.damages, damage, &mut self.unlisted);
    }

    fn torn(&mut self, torn: Torn) {
        push_bounded(&mut self.torn, torn, &mut self.unlisted);
    }

    fn foreign(&mut self, name: String) {
        push_bounded(&mut self.foreign, name, &mut self.unlisted);
    }
}

fn push_bounded<T>(list: &mut Vec<T>, item: T, unlisted: &mut u64) {
    if list.len() < LISTED_MAX {
        list.push(item);
    } else {
        *unlisted += 1;
    }
}

/// What the directories have.
#[derive(Debug, Default)]
struct Found {
    manifest_bytes: Option<u64>,
    has_index_new: bool,
    segments: BTreeMap<SegmentId, (DirectoryId, u64)>,
}

const HOME: DirectoryId = DirectoryId(0);
const MANIFEST: File = File { directory: HOME, name: FileName::Manifest };

impl<K: Keys> Engine<K> {
    /// Opens a log, or makes one where there is none. `make` makes its empty index.
    ///
    /// # Errors
    /// When there is no log that can be served. What is damaged in one that can is in the report.
    pub fn open(
        disk: &mut dyn Disk,
        opening: Opening<'_>,
        mut make: impl MakeKeys<K>,
    ) -> Result<(Self, Report), Error> {
        let mut report = Report::default();
        let mut source = Source::new(disk, opening.new.shape.block_bytes);
        let found = list(&mut source, opening.directories, &mut report)?;
        let mut manifest = match found.manifest_bytes {
            Some(bytes) => read_manifest(&mut source, bytes)?,
            None => new_manifest(&opening.new, &found)?,
        };
        opening.settings.check(&manifest)?;
        source.set_block_bytes(manifest.shape.block_bytes);
        let saved = if segments::are_clean(&mut source, &manifest, &found) {
            make.saved(&manifest, source.disk).unwrap_or_else(|error| {
                report.damage(of_index(error));
                None
            })
        } else {
            None
        };
        report.is_clean = saved.is_some();
        let index = saved.map_or_else(|| make.empty(&manifest), Ok)?;
        segments::remove_unlisted(&mut source, &found, &manifest, &index, &mut report)?;
        if found.has_index_new {
            let file = File { directory: HOME, name: FileName::IndexNew };
            source.perform(Action::Remove { file })?;
        }
        let mut engine = Self::new(index, &opening, manifest.clone());
        engine.may_outgrow_segment = !engine.fits_a_segment(Needed::most(&opening.settings));
        if report.is_clean {
            engine.take_clean(&found);
            report.segments = manifest.rows.len();
        } else {
            let seen = engine.recover(&mut source, &found, opening.progress, &mut report)?;
            // Records of a run that this manifest does not know of: it was put back.
            manifest.run = manifest.run.max(seen / RUN_SEQUENCES);
        }
        // What is lost is named each time, and what cannot be read may come back.
        engine.may_save = report.damages.is_empty();
        if manifest.run >= RUNS_MAX {
            return Err(Error::SequencesUsedUp);
        }
        manifest.run += 1;
        manifest.clean_sequence = 0;
        manifest.rows = manifest.rows.iter().map(|row| manifest::Row::of(row.segment)).collect();
        let mut chain = Chain::default();
        chain.push_manifest(&manifest.encode());
        chain.perform(source.disk)?;
        report.run = manifest.run;
        report.bytes_read = source.bytes_read;
        engine.next_sequence = manifest.run * RUN_SEQUENCES;
        engine.manifest = manifest;
        Ok((engine, report))
    }

    /// Finds the newest record of each key, and makes durable what was found. Says the greatest
    /// sequence that there is.
    fn recover(
        &mut self,
        source: &mut Source<'_>,
        found: &Found,
        progress: &mut dyn FnMut(Progress),
        report: &mut Report,
    ) -> Result<u64, Error> {
        let mut cursors = self.find_segments(source, found, progress, report)?;
        let seen = cursors.iter().map(Cursor::greatest_sequence).max().unwrap_or(0);
        let heads = self.merge(source, &mut cursors, progress, report)?;
        segments::flush_scanned(source, &cursors)?;
        self.find_parts(source, heads, report);
        self.seal_scanned(source, cursors);
        Ok(seen)
    }

    fn new(index: K, opening: &Opening<'_>, manifest: Manifest) -> Self {
        let settings = opening.settings;
        let buffers = (0..settings.chunks)
            .map(|number| Buffer::of_pool(number, settings.chunk_bytes as usize))
            .collect();
        Self {
            index,
            settings,
            units_of_segment: manifest.shape.segment_bytes / u64::from(UNIT_BYTES),
            manifest,
            directories: opening.directories,
            segments: Vec::new(),
            free: Vec::new(),
            preparing: None,
            chain: Chain::default(),
            retry_at_ms: 0,
            attempts: 0,
            next_segment: 0,
            growth: None,
            growth_error: None,
            is_manifest_unsure: false,
            may_outgrow_segment: false,
            may_save: true,
            closing: Vec::new(),
            open: None,
            sealing: None,
            stranded: Vec::new(),
            failed_tickets: Vec::new(),
            failures: 0,
            buffers,
            retired: Vec::new(),
            jobs: BTreeMap::new(),
            next_token: 0,
            next_ticket: 0,
            next_sequence: 0,
            drain_below: 0,
            held_below: 0,
            async_from: 0,
            now_ms: opening.now_ms,
            larges: BTreeMap::new(),
            heads: Vec::new(),
            pins: Pins::default(),
            counts: Counts::default(),
        }
    }

    /// Fills the index with the newest record of each key. Says where heads of large values are.
    fn merge(
        &mut self,
        source: &mut Source<'_>,
        cursors: &mut [Cursor],
        progress: &mut dyn FnMut(Progress),
        report: &mut Report,
    ) -> Result<Vec<Position>, Error> {
        let segments = self.manifest.rows.len();
        let mut tally = Tally::default();
        let units_of_segment = self.units_of_segment;
        let index = &self.index;
        merge(source, cursors, index, |segment, listed| {
            report.records += 1;
            if report.records.is_multiple_of(PROGRESS_RECORDS) {
                progress(Progress { segments_done: segments, segments, records: report.records });
            }
            let units = u64::from(segment.0) * units_of_segment + u64::from(listed.unit);
            let class = if listed.kind == crate::format::record::Kind::Tombstone {
                Some(SizeClass::TOMBSTONE)
            } else {
                SizeClass::from_bits(listed.class)
            };
            let (Some(position), Some(class)) = (Position::new(units), class) else {
                return Ok(());
            };
            if let Err(flaw) = index.admits(listed.hash) {
                // The range is smaller than it was: this manifest was put back from a copy.
                if let Some(found) = self.segment(segment) {
                    let (file, offset) = (found.file(segment), listed.offset());
                    let what = Wrong::Named(Error::Key(flaw));
                    report.damage(Damage { file, offset, bytes: class.bytes().into(), what });
                }
                return Ok(());
            }
            let entry = index.kept(Entry { position, class });
            let old = index.insert(listed.hash, entry)?;
            tally.replace(listed, entry, old, units_of_segment);
            Ok::<(), Error>(())
        })?;
        for cursor in cursors {
            cursor.damages.drain(..).for_each(|damage| report.damage(damage));
        }
        for (at, bytes) in tally.live {
            let at = u32::try_from(at).map_or(SegmentId(u32::MAX), SegmentId);
            if let Some(segment) = self.segment_mut(at) {
                segment.live_bytes = u64::try_from(bytes).unwrap_or(0);
            }
        }
        Ok(tally.heads.into_iter().collect())
    }

    /// Reads the heads of large values: they say where live parts lie.
    fn find_parts(&mut self, source: &mut Source<'_>, heads: Vec<Position>, report: &mut Report) {
        for position in heads {
            match self.read_head(source, position) {
                Ok(parts) => {
                    for (position, class) in &parts {
                        self.add_live(*position, *class);
                    }
                    self.larges.insert(position, parts);
                }
                Err(error) => {
                    let (id, offset) = self.place(position);
                    let file = self.segment(id).map_or(MANIFEST, |segment| segment.file(id));
                    let what = Wrong::Named(error);
                    report.damage(Damage { file, offset, bytes: 0, what });
                }
            }
        }
    }

    fn read_head(
        &self,
        source: &mut Source<'_>,
        position: Position,
    ) -> Result<Vec<(Position, SizeClass)>, Error> {
        let reading = self.head_reading(position)?;
        let bytes = source
            .read(reading.file(), reading.first_byte(), reading.bytes())
            .map_err(|failure| reading.failed(failure))?;
        let Fetched::Head(_, parts) = reading.finish(bytes)? else { return Ok(Vec::new()) };
        let readings = parts.positions().zip(self.part_classes(&parts)).collect();
        Ok(readings)
    }

    /// Gives the segments that were read in full their footers.
    fn seal_scanned(&mut self, source: &mut Source<'_>, cursors: Vec<Cursor>) {
        let shape = self.manifest.shape;
        for mut cursor in cursors {
            let Some(listed) = cursor.take_to_seal() else { continue };
            let (file, seed) = (cursor.span.file, cursor.span.seed);
            let records_end = cursor.records_end.next_multiple_of(u64::from(shape.block_bytes));
            let mut footer = Footer::new(
                file,
                seed,
                shape.block_bytes,
                shape.segment_bytes,
                records_end,
                listed,
            )
            .with_own_flush();
            let mut result = if footer.has_room() { Ok(()) } else { Err(()) };
            while result.is_ok()
                && let Some(action) = footer.next()
            {
                let mut chain = Chain::default();
                chain.push(action);
                result = chain.perform(source.disk).map_err(|_| ());
            }
            // Without a footer it is read in full again.
            if let Some(segment) = self.segment_mut(cursor.segment) {
                segment.role = if result.is_ok() { Role::Sealed } else { Role::Unlisted };
            }
        }
    }
}

/// An index that cannot be loaded.
fn of_index(error: Error) -> Damage {
    let index = File { directory: HOME, name: FileName::Index };
    let (file, offset) = match &error {
        Error::SavedIndex { file, offset, .. } => (*file, *offset),
        Error::Disk { file, .. } => (*file, 0),
        _ => (index, 0),
    };
    Damage { file, offset, bytes: 0, what: Wrong::Named(error) }
}

fn list(source: &mut Source<'_>, directories: u16, report: &mut Report) -> Result<Found, Error> {
    let mut found = Found::default();
    for directory in (0..directories).map(DirectoryId) {
        for entry in source.list(Action::List { directory })? {
            match (entry.name.parse::<FileName>(), directory) {
                (Ok(FileName::Segment(id)), _) => {
                    let file = |directory| File { directory, name: FileName::Segment(id) };
                    if let Some((other, _)) = found.segments.insert(id, (directory, entry.bytes)) {
                        return Err(Error::Twice { first: file(other), second: file(directory) });
                    }
                }
                (Ok(FileName::Manifest), HOME) => found.manifest_bytes = Some(entry.bytes),
                (Ok(FileName::IndexNew), HOME) => found.has_index_new = true,
                (Ok(_), HOME) => {}
                _ => report.foreign(format!("{} of directory {}", entry.name, directory.0)),
            }
        }
    }
    Ok(found)
}

fn read_manifest(source: &mut Source<'_>, bytes: u64) -> Result<Manifest, Error> {
    let of = |flaw| Error::Manifest { file: MANIFEST, flaw };
    let bytes = usize::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes <= MANIFEST_BYTES_MAX)
        .ok_or(of(manifest::Flaw::Form))?;
    let whole = bytes.next_multiple_of(4096);
    let read = source.read(MANIFEST, 0, whole).map_err(|failure| Error::Disk {
        doing: "read",
        file: MANIFEST,
        failure,
    })?;
    Manifest::decode(read.get(..bytes).unwrap_or(read)).map_err(of)
}

fn new_manifest(new: &New, found: &Found) -> Result<Manifest, Error> {
    if let Some((id, (directory, _))) = found.segments.first_key_value() {
        let file = File { directory: *directory, name: FileName::Segment(*id) };
        return Err(Error::NoManifest { file });
    }
    if !new.shape.is_valid() {
        return Err(Error::Settings { what: "the format has no log of this shape" });
    }
    Ok(Manifest { log: new.log, shape: new.shape, run: 0, clean_sequence: 0, rows: Vec::new() })
}
