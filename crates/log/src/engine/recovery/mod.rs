//! Opening a log: what was promised is found again, and nothing is served before it is durable.
//!
//! The order is that of "Recovery" in `docs/formats/log.md`.

mod clean;
mod fill;
mod home;
mod inspect;
mod merge;
mod parts;
mod report;
mod scan;
mod segments;
mod source;
mod verify;

use std::collections::{BTreeMap, BTreeSet};

use self::{home::Found, merge::Cursor, source::Source};
pub use self::{
    report::{Damage, Progress, Report, Torn, Wrong},
    verify::Verified,
};
use super::{
    Counts, Engine, Settings,
    attempts::Attempts,
    chain::Chain,
    copies::Copies,
    footer::Footer,
    freeing::Freeing,
    keeping::{PARTS, read_parts},
    listing::{Listing, Spare},
    moving::Compaction,
    pins::Pins,
    removing::Removing,
    room::Needed,
    space::Role,
    throttle::Throttle,
    unread::Unread,
    wiping::Wiping,
};
use crate::{
    error::Error,
    format::{
        LogId,
        manifest::{self, Manifest, RUN_SEQUENCES, RUNS_MAX, Shape},
        parts::Places,
    },
    keys::{Keys, MakeKeys},
    plan::{Action, Buffer, DirectoryId, Disk, File, FileName},
    position::UNIT_BYTES,
};

/// What a log is made with when there is none.
#[derive(Clone, Copy, Debug)]
pub struct New {
    /// Random bits that stand for the log.
    pub log: LogId,
    /// What it is made with. An existing log keeps what it was made with.
    pub shape: Shape,
}

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
        let found = home::list(&mut source, opening.directories, &mut report)?;
        let mut manifest = match found.manifest_bytes {
            Some(bytes) => home::read_manifest(&mut source, bytes)?,
            None => home::new_manifest(&opening.new, opening.settings.purpose(), &found)?,
        };
        opening.settings.check_purpose(&manifest)?;
        opening.settings.check(&manifest)?;
        source.set_block_bytes(manifest.shape.block_bytes);
        let saved = saved_index(&mut make, &mut source, &manifest, &found, &mut report);
        report.is_clean = saved.is_some();
        let (index, larges) = match saved {
            Some(saved) => saved,
            None => (make.empty(&manifest)?, Places::new()),
        };
        let mut engine = Self::new(index, &opening, manifest.clone());
        engine.larges = larges;
        engine.check_reach()?;
        // A new log has removed nothing.
        let directories = found.manifest_bytes.map_or(0, |_| opening.directories);
        let of = (&manifest, directories);
        let left = segments::remove_unlisted(&mut source, &found, of, &engine.index, &mut report)?;
        let unfinished =
            [(found.has_index_new, FileName::IndexNew), (found.has_parts_new, FileName::PartsNew)];
        for (_, name) in unfinished.into_iter().filter(|(is_there, _)| *is_there) {
            source.perform(Action::Remove { file: File { directory: HOME, name } })?;
        }
        engine.may_outgrow_segment = !engine.fits_a_segment(Needed::most(&opening.settings));
        if report.is_clean {
            engine.take_clean(&found);
            report.segments = manifest.rows.len();
        } else {
            let seen = engine.recover(&mut source, &found, opening.progress, &mut report)?;
            // Records of a run that this manifest does not know of: it was put back.
            manifest.dead_below = engine.manifest.dead_below;
            manifest.run = manifest.run.max(seen.max(manifest.dead_below) / RUN_SEQUENCES);
        }
        // What is lost is named each time, and what cannot be read may come back.
        engine.may_save = report.damages.is_empty();
        if manifest.run >= RUNS_MAX {
            return Err(Error::SequencesUsedUp);
        }
        let mut chain = Chain::default();
        if found.has_index && manifest.clean_sequence == 0 {
            // Of a stop that has found no room for its manifest, or of one long ago: it must not
            // take the room of this one.
            let file = File { directory: HOME, name: FileName::Index };
            chain.push_tolerant(Action::Remove { file });
        }
        if found.has_parts && manifest.large_values == 0 {
            chain.push_tolerant(Action::Remove { file: PARTS });
        }
        manifest.run += 1;
        manifest.clean_sequence = 0;
        manifest.large_values = 0;
        manifest.rows = manifest.rows.iter().map(|row| manifest::Row::of(row.segment)).collect();
        chain.push_manifest(&manifest.encode());
        chain.perform(source.disk)?;
        report.run = manifest.run;
        report.bytes_read = source.bytes_read;
        engine.next_sequence = manifest.run * RUN_SEQUENCES;
        engine.manifest = manifest;
        engine.note_empty(left);
        // What was dead when it was closed may be more than the target allows.
        engine.compaction.look_again();
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
        let heads = self.fill_index(source, &mut cursors, progress, report)?;
        segments::flush_scanned(source, &cursors)?;
        self.find_parts(source, heads, report);
        self.seal_scanned(source, cursors);
        Ok(seen)
    }

    fn new(index: K, opening: &Opening<'_>, manifest: Manifest) -> Self {
        let settings = opening.settings;
        let chunk = |number| {
            let mut buffer = Buffer::of_pool(number, settings.chunk_bytes as usize);
            // No put is to wait for that.
            buffer.touch();
            buffer
        };
        let buffers = (0..settings.chunks).map(chunk).collect();
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
            attempts: Attempts::default(),
            has_freed_last: false,
            is_stopping: false,
            next_segment: 0,
            freeing: Freeing::default(),
            removing: Removing::default(),
            copies: Copies::default(),
            compaction: Compaction::default(),
            growth: None,
            growth_error: None,
            wiping: Wiping::default(),
            is_manifest_unsure: false,
            may_outgrow_segment: false,
            may_save: true,
            closing: Vec::new(),
            open: None,
            sealing: None,
            stranded: Vec::new(),
            failed_tickets: Vec::new(),
            mended: 0,
            rewritten_below: 0,
            good_ends: BTreeMap::new(),
            failures: 0,
            failed_directory: None,
            buffers,
            spare: Spare::default(),
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
            unread: Unread::default(),
            dropped: BTreeSet::new(),
            heads: Vec::new(),
            pins: Pins::default(),
            counts: Counts::default(),
            throttle: Throttle::default(),
        }
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
                Listing::of(shape.block_bytes, listed),
            )
            .of_keys(self.index.entries())
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

/// The index that the last stop has saved, and where the parts of large values lie, if that was a
/// clean one.
fn saved_index<K: Keys>(
    make: &mut impl MakeKeys<K>,
    source: &mut Source<'_>,
    manifest: &Manifest,
    found: &home::Found,
    report: &mut Report,
) -> Option<(K, Places)> {
    if !clean::are_clean(source, manifest, found) {
        return None;
    }
    let index = make.saved(manifest, source.disk);
    let saved = index.and_then(|index| {
        let Some(index) = index else { return Ok(None) };
        let read = |file, offset, bytes| source.read(file, offset, bytes).map(<[u8]>::to_vec);
        Ok(Some((index, read_parts(manifest, read)?)))
    });
    saved.unwrap_or_else(|error| {
        report.damage(of_index(error));
        None
    })
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
