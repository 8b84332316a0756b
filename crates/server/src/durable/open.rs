//! Opening the log behind a durable table.

use std::{fs, path::Path, time::Duration};

use base::{
    clock::{Clock, Stopwatch},
    size::ByteSize,
};
use log::{
    Files, Options,
    engine::{Engine, Mode, Progress, Report},
    error::Error as LogError,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
    random,
};

use crate::Error;

/// Keys that a log may have. Its index takes memory for those that it has, and 7 MB.
const KEYS_MAX: u64 = 1 << 30;

/// Milliseconds between two lines about how far opening is.
const PROGRESS_GAP_MS: u64 = 2000;

/// Damages that are logged one by one; the rest is counted, and `kelvin log verify` names it.
const DAMAGES_LOGGED_MAX: usize = 16;

const NS_PER_MS: u64 = 1_000_000;

/// Opens the log in `directory`, or makes both. Says in the server's own log how far it is.
pub(crate) fn open(
    directory: &Path,
    mode: Mode,
    clock: &Clock,
) -> Result<(Engine<Keyed>, Files), Error> {
    let path = directory.to_owned();
    fs::create_dir_all(directory)
        .map_err(|source| Error::DataDir { path: path.clone(), source })?;
    let failed = |source| Error::Log { doing: "cannot open the log", path: path.clone(), source };
    let no_random = |_| failed(LogError::Settings { what: "the system gives no random bytes" });
    let seeds = random().map_err(no_random)?;
    let id = LogId(u128::from_le_bytes(random().map_err(no_random)?));
    let mut options = Options::new(directory, IndexKind::Hash { seeds }, 0);
    options.clock = clock.clone();
    options.settings.mode = mode;
    let limits = IndexLimits { kmax_limit: 0, entries_max: KEYS_MAX };
    let watch = Stopwatch::start();
    let mut next_ms = PROGRESS_GAP_MS;
    let mut show = |Progress { segments_done, segments, records }: Progress| {
        if watch.elapsed_ns() / NS_PER_MS >= next_ms {
            next_ms = watch.elapsed_ns() / NS_PER_MS + PROGRESS_GAP_MS;
            tracing::info!(segments_done, segments, records, "opening the log");
        }
    };
    let (engine, files, report) = log::open(&options, id, limits, &mut show).map_err(failed)?;
    if let IndexKind::Flat { .. } = engine.manifest().shape.index {
        return Err(Error::LogOfIntegers { path });
    }
    tell(directory, &engine, &files, &report, Duration::from_nanos(watch.elapsed_ns()));
    Ok((engine, files))
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
