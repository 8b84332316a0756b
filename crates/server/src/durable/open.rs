//! Opening the log behind a durable table.
//!
//! A server that was killed may still be writing: its ring has requests that the kernel goes on
//! with. So each ring holds the directory's lock ([`reactor::Files::guard`]), which is there until
//! the last of them has ended, and whoever opens the log waits for it.
//!
//! A ring that is not to be served any more, or is damaged, is removed first, and made anew. What a
//! setting, another version or a passing lack keeps from being opened is left as it is.

use std::{
    cell::RefCell,
    fs::{self, File},
    io, mem,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use base::{
    clock::{Clock, Stopwatch},
    size::ByteSize,
};
use log::{
    Files, Options,
    engine::{Engine, Progress, Report, Settled},
    error::Error as LogError,
    format::{
        LogId,
        manifest::{IndexKind, Manifest, Shape},
    },
    index::{IndexLimits, Keyed},
    keys::{IndexFull, MakeKeys},
    plan::{Disk, Plan},
    random,
};

use super::{
    ring::{self, Run},
    spoilt,
};
use crate::{
    Error,
    config::{Budget, IntegerKeys, KeyRange, PositionBytes},
};

/// Milliseconds between two lines about how far opening is.
const PROGRESS_GAP_MS: u64 = 2000;

/// Damages that are logged one by one; the rest is counted, and `kelvin log verify` names it.
const DAMAGES_LOGGED_MAX: usize = 16;

/// How long a log is waited for that somebody has: longer than a device takes for what a killed
/// server has left it with, but for one that hangs.
const LOCK_WAIT_MS: u64 = 5000;

/// After how long that is said: a ring ends a little after its process.
const LOCK_SAID_MS: u64 = 100;

/// How often it is tried.
const LOCK_NAP: Duration = Duration::from_millis(20);

const NS_PER_MS: u64 = 1_000_000;

/// Bytes of a record beside its value, at most: its header and fields, a key of 250 bytes.
const RECORD_BYTES_BESIDE: u64 = 1 << 10;

/// Blocks of a segment that no record has: two of header, the end of the records, the trailer.
const BLOCKS_BESIDE: u64 = 4;

/// Why a log is not one that can be served.
#[derive(Clone, Debug)]
enum Foreign {
    /// What it has for keys.
    Keys(String),
    /// Bytes of its segments, and of the longest value that is one record.
    SmallSegments(u64, u32),
}

/// Actions until a log takes more keys: some for its manifest, and those that were due before.
const GROWTH_ACTIONS_MAX: usize = 256;

/// Makes the index of a log that has the keys which are wanted, and none of another log: before
/// anything of that is changed.
struct Wanted<'a> {
    keys: Option<IntegerKeys>,
    limits: IndexLimits,
    foreign: &'a RefCell<Option<Foreign>>,
}

impl Wanted<'_> {
    fn admit(&self, manifest: &Manifest) -> Result<(), IndexFull> {
        let Shape { segment_bytes, block_bytes, part_bytes, .. } = manifest.shape;
        let beside = BLOCKS_BESIDE * u64::from(block_bytes) + RECORD_BYTES_BESIDE;
        // Sets would be refused by what their values are long, one by one.
        let has_room = segment_bytes >= u64::from(part_bytes) + beside;
        let has = (manifest.shape.index, manifest.shape.entry_bytes);
        let is_wanted = match (has, self.keys) {
            ((IndexKind::Hash { .. }, _), None) => true,
            ((IndexKind::Flat { kmin, kmax }, entry_bytes), Some(wanted)) => {
                let IntegerKeys { range, position_bytes } = wanted;
                // It may be made longer, and not shorter: the keys behind may have records.
                kmin == range.first && kmax <= range.end && entry_bytes == position_bytes.0
            }
            _ => false,
        };
        if is_wanted && !has_room {
            *self.foreign.borrow_mut() = Some(Foreign::SmallSegments(segment_bytes, part_bytes));
            return Err(IndexFull);
        }
        if is_wanted || base::mutant!("server_any_keys_served") {
            return Ok(());
        }
        *self.foreign.borrow_mut() = Some(Foreign::Keys(match has {
            (IndexKind::Hash { .. }, _) => in_words(None),
            (IndexKind::Flat { kmin, kmax }, entry_bytes) => {
                let range = KeyRange { first: kmin, end: kmax };
                in_words(Some(IntegerKeys { range, position_bytes: PositionBytes(entry_bytes) }))
            }
        }));
        Err(IndexFull)
    }
}

impl Foreign {
    fn error(self, path: PathBuf, wanted: Option<IntegerKeys>) -> Error {
        match self {
            Self::Keys(has) => Error::LogOfOtherKeys { path, has, wants: in_words(wanted) },
            Self::SmallSegments(segment, value) => Error::LogOfSmallSegments {
                path,
                segment: ByteSize(segment),
                value: ByteSize(value.into()),
            },
        }
    }
}

/// What is for keys, in words.
fn in_words(keys: Option<IntegerKeys>) -> String {
    let Some(IntegerKeys { range, position_bytes }) = keys else { return "strings".to_owned() };
    let KeyRange { first, end } = range;
    format!("integers from {first} to below {end} (positions of {} bytes)", position_bytes.0)
}

impl MakeKeys<Keyed> for Wanted<'_> {
    fn empty(&mut self, manifest: &Manifest) -> Result<Keyed, IndexFull> {
        self.admit(manifest)?;
        self.limits.empty(manifest)
    }

    fn saved(
        &mut self,
        manifest: &Manifest,
        disk: &mut dyn Disk,
    ) -> Result<Option<Keyed>, LogError> {
        self.admit(manifest)?;
        self.limits.saved(manifest, disk)
    }
}

/// Opens the log in `directory`, or makes both. Says in the server's own log how far it is.
pub(crate) fn open(
    directory: &Path,
    run: Run,
    clock: &Clock,
) -> Result<(Engine<Keyed>, Files), Error> {
    let path = directory.to_owned();
    make_directory(directory).map_err(|source| Error::DataDir { path: path.clone(), source })?;
    let failed = |source| Error::Log { doing: "cannot open the log", path: path.clone(), source };
    let no_random = |_| failed(LogError::Settings { what: "the system gives no random bytes" });
    let seeds = random().map_err(no_random)?;
    let id = LogId(u128::from_le_bytes(random().map_err(no_random)?));
    let (index, entry_bytes) = match run.keys {
        None => (IndexKind::Hash { seeds }, 0),
        Some(IntegerKeys { range, position_bytes }) => {
            (IndexKind::Flat { kmin: range.first, kmax: range.end }, position_bytes.0)
        }
    };
    let mut options = Options::new(directory, index, entry_bytes);
    options.clock = clock.clone();
    options.settings.mode = run.mode;
    options.settings.ring = run.ring;
    options.settings.chunks = Budget::LOG_CHUNKS;
    if let Some(ring) = run.ring {
        options.shape.segment_bytes = ring::segment_bytes(ring);
    }
    let foreign = RefCell::new(None);
    let watch = Stopwatch::start();
    let mut next_ms = PROGRESS_GAP_MS;
    let mut show = |Progress { segments_done, segments, records }: Progress| {
        if watch.elapsed_ns() / NS_PER_MS >= next_ms {
            next_ms = watch.elapsed_ns() / NS_PER_MS + PROGRESS_GAP_MS;
            tracing::info!(segments_done, segments, records, "opening the log");
        }
    };
    let mut open = |is_spoilt| {
        let files = wait_for_lock(&mut || Files::lock(&options.directories, options.is_direct))?;
        if let Some(ring) = run.ring
            && ring::make_ready(&files, directory, ring, is_spoilt)?
        {
            tracing::info!(directory = %directory.display(), "the ring begins empty");
        }
        let kmax_limit = run.keys.map_or(0, |keys| keys.range.end);
        let limits = IndexLimits { kmax_limit, entries_max: run.keys_max };
        let make = Wanted { keys: run.keys, limits, foreign: &foreign };
        log::open_locked(files, &options, id, make, &mut show)
    };
    let mut opened = open(false);
    if let Some(ring) = run.ring
        && let Some(why) = spoilt::why(&opened, ring, directory)?
    {
        // A tombstone may be what is lost, and a cache may lose the rest.
        tracing::error!(directory = %directory.display(), why, "the ring is not served");
        drop(opened);
        opened = open(true);
    }
    if let Some(foreign) = foreign.take() {
        return Err(foreign.error(path, run.keys));
    }
    let (mut engine, files, report) = opened.map_err(failed)?;
    if let Some(keys) = run.keys {
        grow(&mut engine, &files, keys.range.end, clock.now_ms()).map_err(failed)?;
    }
    if run.ring.is_some() {
        ring::begin(&mut engine, &files, clock.now_ms());
    }
    tell(directory, &engine, &files, &report, Duration::from_nanos(watch.elapsed_ns()));
    Ok((engine, files))
}

/// Has a log take integers up to what its table has now.
fn grow(engine: &mut Engine<Keyed>, files: &Files, end: u64, now_ms: u64) -> Result<(), LogError> {
    for _ in 0..GROWTH_ACTIONS_MAX {
        if engine.grow(end)? == Settled::Done {
            return Ok(());
        }
        let Some(Plan { token, action }) = engine.poll(now_ms) else { break };
        engine.complete(token, files.perform(action));
    }
    Err(LogError::Settings { what: "the log does not take more keys" })
}

/// Opens a log that somebody may have for a while.
fn wait_for_lock<T>(open: &mut impl FnMut() -> Result<T, LogError>) -> Result<T, LogError> {
    let watch = Stopwatch::start();
    let mut is_said = false;
    loop {
        let waited_ms = watch.elapsed_ns() / NS_PER_MS;
        match open() {
            Err(LogError::InUse { directory }) if waited_ms < LOCK_WAIT_MS => {
                let is_due = waited_ms >= LOCK_SAID_MS;
                if is_due && !mem::replace(&mut is_said, true) {
                    tracing::warn!(
                        directory = %directory.display(),
                        waits_ms = LOCK_WAIT_MS,
                        "somebody has the log: waiting, since it may be a server that was killed, \
                         whose last writes are not over"
                    );
                }
                thread::sleep(LOCK_NAP);
            }
            other => return other,
        }
    }
}

/// Makes a directory, and has it outlast a failure of power.
fn make_directory(path: &Path) -> io::Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(path)?;
    for made in missing {
        let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

fn tell(directory: &Path, engine: &Engine<Keyed>, files: &Files, report: &Report, took: Duration) {
    let space = engine.space();
    tracing::info!(
        directory = %directory.display(),
        run = report.run,
        stopped_in_order = report.run == 1 || report.is_clean,
        segments = report.segments,
        bytes = %ByteSize(space.bytes),
        live = %ByteSize(space.live_bytes),
        direct = files.is_direct(),
        ?took,
        "log opened"
    );
    if !files.is_direct() {
        tracing::warn!(
            "the file system refuses direct I/O for the log's blocks: it is read and written \
             through the page cache, which takes memory beside `memory`"
        );
    }
    for file in report.unremoved.iter().take(DAMAGES_LOGGED_MAX) {
        tracing::warn!(%file, "a file that the log needs no more cannot be removed");
    }
    for damage in report.damages.iter().take(DAMAGES_LOGGED_MAX) {
        let path = files.path(damage.file);
        let (offset, bytes) = (damage.offset, damage.bytes);
        tracing::error!(path = %path.display(), offset, bytes, what = %damage.what, "damaged");
    }
    let all = report.damages.len() as u64 + report.unlisted;
    if all > 0 {
        tracing::error!(
            damages = all,
            "parts of the log are lost: `kelvin log verify` names them all"
        );
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
