//! Opening the log behind a durable table.
//!
//! A server that was killed may still be writing: its ring has requests that the kernel goes on
//! with. So each ring holds the directory's lock ([`reactor::Files::guard`]), which is there until
//! the last of them has ended, and whoever opens the log waits for it.
//!
//! A ring that is not to be served any more, or cannot be, is removed first, and made anew.

use std::{
    cell::Cell,
    fs::{self, File},
    io, mem,
    path::Path,
    thread,
    time::Duration,
};

use base::{
    clock::{Clock, Stopwatch},
    size::ByteSize,
};
use log::{
    Files, Options,
    engine::{Engine, Progress, Report},
    error::Error as LogError,
    format::{
        LogId,
        manifest::{IndexKind, Manifest},
    },
    index::{IndexLimits, Keyed},
    keys::{IndexFull, MakeKeys},
    plan::Disk,
    random,
};

use super::ring::{self, Run};
use crate::{Error, config::Budget};

/// Keys that a log may have. Its index takes memory for those that it has, and 7 MB.
const KEYS_MAX: u64 = 1 << 30;

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

/// Makes the index of a log of strings, and none of another log: before anything of that is
/// changed.
struct Strings<'a> {
    limits: IndexLimits,
    is_foreign: &'a Cell<bool>,
}

impl Strings<'_> {
    fn admit(&self, manifest: &Manifest) -> Result<(), IndexFull> {
        match manifest.shape.index {
            IndexKind::Hash { .. } => Ok(()),
            IndexKind::Flat { .. } => {
                self.is_foreign.set(true);
                Err(IndexFull)
            }
        }
    }
}

impl MakeKeys<Keyed> for Strings<'_> {
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
    let mut options = Options::new(directory, IndexKind::Hash { seeds }, 0);
    options.clock = clock.clone();
    options.settings.mode = run.mode;
    options.settings.ring = run.ring;
    options.settings.chunks = Budget::LOG_CHUNKS;
    if let Some(ring) = run.ring {
        options.shape.segment_bytes = ring::segment_bytes(ring);
    }
    let is_foreign = Cell::new(false);
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
        let limits = IndexLimits { kmax_limit: 0, entries_max: KEYS_MAX };
        let make = Strings { limits, is_foreign: &is_foreign };
        log::open_locked(files, &options, id, make, &mut show)
    };
    let mut opened = open(false);
    if run.ring.is_some()
        && let Some(why) = why_spoilt(&opened)
    {
        // A tombstone may be what is lost, and a cache may lose the rest.
        tracing::error!(directory = %directory.display(), why, "the ring is not served");
        drop(opened);
        opened = open(true);
    }
    if is_foreign.get() {
        return Err(Error::LogOfIntegers { path });
    }
    let (mut engine, files, report) = opened.map_err(failed)?;
    if run.ring.is_some() {
        ring::begin(&mut engine, &files, clock.now_ms());
    }
    tell(directory, &engine, &files, &report, Duration::from_nanos(watch.elapsed_ns()));
    Ok((engine, files))
}

/// Why a ring is not served as it is, if so it is.
fn why_spoilt(opened: &Result<(Engine<Keyed>, Files, Report), LogError>) -> Option<String> {
    match opened {
        Ok((engine, _, _)) if engine.is_whole() => None,
        Ok(_) => Some("it is damaged".to_owned()),
        Err(LogError::InUse { .. }) => None,
        Err(error) => Some(error.to_string()),
    }
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
