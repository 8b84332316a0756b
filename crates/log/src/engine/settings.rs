//! How a log is run.

use super::REWRITE_CHUNKS;
use crate::{
    error::Error,
    format::{
        PART_BYTES_MAX,
        manifest::{Manifest, Purpose},
    },
};

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When it is flushed.
    Safe,
    /// At once; [`Settings`] bound what may be lost.
    Async,
}

/// A log that drops its oldest segment when it is full, whatever lives in it: for what may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Bytes of its segments at most.
    pub bytes_max: u64,
    /// Whether it is opened again after a crash. If not, nothing is kept on the disk for what an
    /// older record could come back. What a log was made as it stays.
    pub recovers: bool,
}

/// How a log is run. May differ each time that it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// When writes are answered.
    pub mode: Mode,
    /// Bytes of a chunk, the most that is written at once.
    pub chunk_bytes: u32,
    /// How many chunks there are. Three are kept: two for rewriting after a failed flush, and one.
    pub chunks: u16,
    /// In `Async`: records that may be acknowledged and not flushed, in bytes. With the head of a
    /// large value, all of its bytes. A single record may have more, when nothing else is at risk.
    pub at_risk_bytes_max: u64,
    /// In `Async`: how long a record may be acknowledged and not flushed, in milliseconds, unless
    /// the disk takes longer than half of it for a flush; then writes wait.
    pub at_risk_ms_max: u64,
    /// How much the sealed segments may take, in percent of what lives in them; what lives in those
    /// that are mostly dead is moved when they take more. 0 is never, and 110 the least beside.
    /// `docs/log.md` says what a log takes beside that, and where the target does not hold.
    pub space_target_percent: u32,
    /// Whether the oldest segment is dropped when there is room for no more; then nothing is moved,
    /// and there are no values in parts.
    pub ring: Option<Ring>,
}

impl Default for Settings {
    /// 24 chunks of 1 MiB, which a segment of 64 MiB takes again after a failed flush even when
    /// they hold the smallest records; in `Async` 16 MiB or a second may be lost. A log takes 1.3
    /// times what lives in it.
    fn default() -> Self {
        Self {
            mode: Mode::Safe,
            chunk_bytes: 1 << 20,
            chunks: 24,
            at_risk_bytes_max: 16 << 20,
            at_risk_ms_max: 1000,
            space_target_percent: 130,
            ring: None,
        }
    }
}

impl Settings {
    /// What a log is for that is run like this.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        match self.ring {
            None => Purpose::Keeps,
            Some(ring) if ring.recovers => Purpose::Ring,
            Some(_) => Purpose::RingOfOneRun,
        }
    }

    /// Whether a log is for what these settings are for: who only looks into one need not ask.
    pub(super) fn check_purpose(&self, manifest: &Manifest) -> Result<(), Error> {
        let (found, wanted) = (manifest.purpose, self.purpose());
        let is_it = found == wanted || base::mutant!("log_opened_for_anything");
        if is_it { Ok(()) } else { Err(Error::Purpose { found, wanted }) }
    }

    pub(super) fn check(&self, manifest: &Manifest) -> Result<(), Error> {
        let shape = &manifest.shape;
        let what = if !self.chunk_bytes.is_multiple_of(shape.block_bytes) || self.chunk_bytes == 0 {
            "chunks have whole blocks"
        } else if usize::from(self.chunks) <= REWRITE_CHUNKS {
            "there are at least three chunks"
        } else if u64::from(self.chunk_bytes) < u64::from(shape.part_bytes) + PART_FIELDS_BYTES {
            "a chunk holds a part of a large value"
        } else if shape.part_bytes as usize > PART_BYTES_MAX {
            "a part is as large as the format has it"
        } else if (1..SPACE_TARGET_PERCENT_MIN).contains(&self.space_target_percent) {
            "a log takes a tenth more than what lives in it at least"
        } else if self.ring.is_some() && self.space_target_percent == 0 {
            "a ring drops segments"
        } else {
            return Ok(());
        };
        Err(Error::Settings { what })
    }
}

/// The least that the sealed segments may take, in percent of what lives in them: for a tenth each
/// record is written some six times.
const SPACE_TARGET_PERCENT_MIN: u32 = 110;

/// What a part takes beside its bytes, rounded up.
const PART_FIELDS_BYTES: u64 = 64;
