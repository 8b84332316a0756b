//! The log of this repository, through its blocking interface.

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use kelvin_log::{
    Log, Options,
    engine::{Mode, Put},
    error::Error,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};

use super::{AtRisk, Engine, Kind, OwnCounts, OwnSpace, Session, Setup};
use crate::random::Random;

/// Bytes of an entry of the flat index.
const ENTRY_BYTES: u8 = 5;

/// What a crash may take, as the log's default settings have it (or what came within a second).
const AT_RISK: AtRisk = AtRisk { by_power_cut: Some(16 << 20), by_kill: Some(16 << 20) };

/// The log's footers and its last segments.
const ROOM_PERCENT: u64 = 115;

const DEFAULT: Kind = Kind {
    name: "",
    is_subject: true,
    is_default: false,
    keeps_reads: false,
    at_risk: AT_RISK,
    room_percent: ROOM_PERCENT,
    open: flat,
};

/// Integer keys, direct I/O.
pub(super) const FLAT: Kind = Kind { name: "kelvin", is_default: true, ..DEFAULT };

/// Keys as strings of four bytes.
pub(super) const HASH: Kind = Kind { name: "kelvin-hash", open: hash, ..DEFAULT };

/// Integer keys, through the page cache.
pub(super) const PAGES: Kind = Kind { name: "kelvin-pages", open: pages, ..DEFAULT };

#[derive(Debug)]
struct Kelvin {
    log: Log<Keyed>,
    is_flat: bool,
    settings: String,
}

/// A thread's access: there is nothing that is its own.
struct KelvinSession<'a>(&'a Kelvin);

fn flat(setup: &Setup<'_>) -> io::Result<Box<dyn Engine>> {
    let index = IndexKind::Flat { kmin: 0, kmax: setup.records.into() };
    open(setup, Options::new(setup.directory, index, ENTRY_BYTES))
}

fn pages(setup: &Setup<'_>) -> io::Result<Box<dyn Engine>> {
    let index = IndexKind::Flat { kmin: 0, kmax: setup.records.into() };
    let options = Options::new(setup.directory, index, ENTRY_BYTES);
    open(setup, Options { is_direct: false, ..options })
}

fn hash(setup: &Setup<'_>) -> io::Result<Box<dyn Engine>> {
    let mut random = Random::new(0);
    let seeds = std::array::from_fn(|_| random.next() as u8);
    open(setup, Options::new(setup.directory, IndexKind::Hash { seeds }, 0))
}

fn open(setup: &Setup<'_>, mut options: Options) -> io::Result<Box<dyn Engine>> {
    assert_eq!(Some(options.settings.at_risk_bytes_max), AT_RISK.by_kill, "what is printed");
    if let Some(bytes) = setup.segment_bytes {
        options.shape.segment_bytes = bytes;
    }
    if let Some(percent) = setup.space_percent {
        options.settings.space_target_percent = percent;
    }
    options.settings.mode = if setup.is_safe { Mode::Safe } else { Mode::Async };
    let limits =
        IndexLimits { kmax_limit: setup.records.into(), entries_max: setup.records.into() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let (log, _) = Log::open(&options, LogId(now), limits, &mut |_| {}).map_err(failed)?;
    let settings = format!(
        "{} chunks of {} KiB, segments of {} MiB, {} % of space, {}, {}",
        options.settings.chunks,
        options.settings.chunk_bytes >> 10,
        options.shape.segment_bytes >> 20,
        options.settings.space_target_percent,
        match options.shape.index {
            IndexKind::Flat { .. } => "flat index of 5 bytes a key",
            IndexKind::Hash { .. } => "hash index of 16 bytes an entry",
        },
        if options.is_direct { "direct I/O, no cache of records" } else { "page cache" },
    );
    let is_flat = matches!(options.shape.index, IndexKind::Flat { .. });
    Ok(Box::new(Kelvin { log, is_flat, settings }))
}

fn failed(error: Error) -> io::Error {
    io::Error::other(format!("kelvin: {error}"))
}

impl Kelvin {
    #[inline]
    fn with_key<T>(&self, key: u32, call: impl FnOnce(&[u8]) -> T) -> T {
        if self.is_flat { call(&u64::from(key).to_le_bytes()) } else { call(&key.to_le_bytes()) }
    }
}

impl Engine for Kelvin {
    fn session(&self) -> io::Result<Box<dyn Session + '_>> {
        Ok(Box::new(KelvinSession(self)))
    }

    fn flush(&self) -> io::Result<()> {
        self.log.flush().map_err(failed)
    }

    fn counts(&self) -> Option<OwnCounts> {
        Some(OwnCounts { reads: self.log.disk_reads(), flushes: self.log.counts().flushes })
    }

    fn space(&self) -> Option<OwnSpace> {
        let space = self.log.space();
        Some(OwnSpace {
            segment_bytes: self.log.shape().segment_bytes,
            live_bytes: space.live_bytes,
            used_bytes: space.used_bytes,
            moved_bytes: self.log.counts().moved_bytes,
            overwritten: self.log.counts().overwritten,
            open: space.open,
            free: space.free,
        })
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.log.close().map_err(failed)
    }
}

impl Session for KelvinSession<'_> {
    #[inline]
    fn put(&mut self, key: u32, value: &[u8]) -> io::Result<()> {
        let put = |key: &[u8]| self.0.log.put(&Put { key, value, ..Put::default() });
        self.0.with_key(key, put).map_err(failed)
    }

    #[inline]
    fn get(&mut self, key: u32, out: &mut [u8]) -> io::Result<Option<usize>> {
        let stored = self.0.with_key(key, |key| self.0.log.get(key)).map_err(failed)?;
        Ok(stored.map(|stored| {
            let bytes = stored.value.len();
            let kept = bytes.min(out.len());
            out[..kept].copy_from_slice(&stored.value[..kept]);
            bytes
        }))
    }

    fn remove(&mut self, key: u32) -> io::Result<()> {
        self.0.with_key(key, |key| self.0.log.remove(key)).map(|_| ()).map_err(failed)
    }
}
