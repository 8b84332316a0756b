//! The ring of a table that spills: how it is asked for, and when what it has is removed.
//!
//! Records of a ring may be out of date by the next start: memory had newer ones. So a ring that
//! does not recover begins empty each time. One that does has tombstones for what is out of date,
//! and begins empty only after a run that wrote none, and where it is damaged: the tombstone may be
//! what is lost.
//!
//! Thread safety: plain functions, for who has the directory's lock. Invariants:
//! 1. Nothing is removed but files of a log whose manifest says that it is a ring.
//! 2. The manifest goes last, so that a removal which did not end is gone on with.

use std::{fs, io, ops::RangeInclusive, path::Path};

use log::{
    Files,
    engine::{Engine, Mode, Ring, SEGMENTS_LEAST},
    error::Error as LogError,
    format::manifest::{Manifest, Purpose},
    index::Keyed,
    plan::{Action, DirectoryId, File, FileName, Outcome, Plan},
};
use store::Admission;

use crate::config::{self, Config, IntegerKeys};

use super::{carriage::failure_of, modes::mode_of};

/// The directory of a server's log.
const HOME: DirectoryId = DirectoryId(0);

/// How a server runs the log of its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) mode: Mode,
    /// Of a table that spills.
    pub(crate) ring: Option<Ring>,
    pub(crate) admission: Admission,
    /// Integers that are keys; `None` where keys are bytes.
    pub(crate) keys: Option<IntegerKeys>,
    /// Keys that the log may have.
    pub(crate) keys_max: u64,
}

/// Keys that a log may have: its index takes 18 bytes of memory for each that it has, and for its
/// directory 1.7 MB for each 2^28 that there may be, however few there are.
const KEYS: RangeInclusive<u64> = 1 << 27..=1 << 30;

/// So many keys for each byte of `memory`: an index of all of them has 36 times that, so that what
/// ends a log that has so many is not this limit.
const KEYS_PER_BYTE: u64 = 2;

/// The most keys that a log may have in a server with so much memory.
pub(super) fn keys_max(memory_bytes: u64) -> u64 {
    memory_bytes.saturating_mul(KEYS_PER_BYTE).clamp(*KEYS.start(), *KEYS.end())
}

impl Run {
    /// As the configuration of the table has it.
    pub(crate) fn of(config: &Config, keys: Option<IntegerKeys>) -> Self {
        let recovers = config.spill_recover;
        let ring = Ring { bytes_max: config.spill_size.0, recovers };
        // Nobody waits for what a ring has that begins empty.
        let mode = match config.spills() && !recovers {
            true => Mode::Async,
            false => mode_of(config.write_mode),
        };
        let admission = match config.spill_admission {
            config::Admission::All => Admission::All,
            config::Admission::Seen => Admission::Seen,
        };
        let keys_max = keys_max(config.memory.0);
        let ring = config.spills().then_some(ring);
        Self { mode, ring, admission, keys, keys_max }
    }

    /// Whether the write mode is of use.
    pub(crate) fn has_modes(&self) -> bool {
        self.ring.is_none_or(|ring| ring.recovers)
    }
}

/// Bytes of the segments of a new ring: a 64th of it, so that little of it is empty or about to be
/// dropped, but not so little that records do not fit, nor more than of other logs.
pub(super) fn segment_bytes(ring: Ring) -> u64 {
    const LEAST: u64 = 1 << 20;
    const MOST: u64 = 64 << 20;
    let part = (ring.bytes_max / 64).max(1);
    (1 << part.ilog2()).clamp(LEAST, MOST)
}

/// Actions that the first segments of a ring take: six for each of seven, and some for the
/// manifest.
const FIRST_ACTIONS_MAX: usize = 64;

/// Has a ring make its first segments: what is evicted before there is one may be lost.
pub(super) fn begin(engine: &mut Engine<Keyed>, files: &Files, now_ms: u64) {
    for _ in 0..FIRST_ACTIONS_MAX {
        if !engine.awaits_segment() {
            return;
        }
        let Some(Plan { token, action }) = engine.poll(now_ms) else { return };
        engine.complete(token, files.perform(action));
    }
}

/// Removes what a ring has that is not to be served any more. `is_spoilt`: it was opened in vain.
/// Says whether there was one.
///
/// # Errors
/// When files cannot be read or removed.
pub(super) fn make_ready(
    files: &Files,
    directory: &Path,
    ring: Ring,
    is_spoilt: bool,
) -> Result<bool, LogError> {
    let Some(had) = ring_of(directory)? else { return Ok(false) };
    if had && ring.recovers && !is_spoilt || base::mutant!("server_ring_kept") {
        return Ok(false);
    }
    empty(files)?;
    Ok(true)
}

/// Whether the ring in a directory recovers; `None` if there is none. What cannot be read is left
/// to who opens it.
fn ring_of(directory: &Path) -> Result<Option<bool>, LogError> {
    Ok(manifest_of(directory)?.and_then(|manifest| recovers(&manifest)))
}

/// The least bytes that the log in a directory can be served as a ring with.
pub(super) fn least_bytes(directory: &Path) -> Option<u64> {
    let manifest = manifest_of(directory).ok().flatten()?;
    Some(SEGMENTS_LEAST as u64 * manifest.shape.segment_bytes)
}

fn manifest_of(directory: &Path) -> Result<Option<Manifest>, LogError> {
    let bytes = match fs::read(directory.join(FileName::Manifest.to_string())) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(manifest_failed(&error)),
    };
    Ok(Manifest::decode(&bytes).ok())
}

/// Whether the log with this manifest is a ring, and one that recovers.
fn recovers(manifest: &Manifest) -> Option<bool> {
    match manifest.purpose {
        Purpose::Keeps if base::mutant!("server_empties_anything") => Some(false),
        Purpose::Keeps => None,
        Purpose::Ring => Some(true),
        Purpose::RingOfOneRun => Some(false),
    }
}

/// Removes a log.
fn empty(files: &Files) -> Result<(), LogError> {
    let found = match files.perform(Action::List { directory: HOME }) {
        Outcome::Listed(found) => found,
        outcome => return done("list", FileName::Manifest, outcome),
    };
    let names = found.iter().filter_map(|found| found.name.parse().ok());
    let names: Vec<FileName> = names.filter(|name| *name != FileName::Manifest).collect();
    for name in names {
        remove(files, name)?;
    }
    // What is left of a ring says that it is one.
    flush_directory(files)?;
    remove(files, FileName::Manifest)?;
    flush_directory(files)
}

fn remove(files: &Files, name: FileName) -> Result<(), LogError> {
    let file = File { directory: HOME, name };
    done("remove", name, files.perform(Action::Remove { file }))
}

fn flush_directory(files: &Files) -> Result<(), LogError> {
    let outcome = files.perform(Action::FlushDirectory { directory: HOME });
    done("flush the directory of", FileName::Manifest, outcome)
}

fn done(doing: &'static str, name: FileName, outcome: Outcome) -> Result<(), LogError> {
    match outcome {
        Outcome::Failed(failure, _) => {
            let file = File { directory: HOME, name };
            Err(LogError::Disk { doing, file, failure })
        }
        _ => Ok(()),
    }
}

fn manifest_failed(error: &io::Error) -> LogError {
    let file = File { directory: HOME, name: FileName::Manifest };
    LogError::Disk { doing: "read", file, failure: failure_of(error) }
}

#[cfg(all(test, not(miri)))]
mod tests;
