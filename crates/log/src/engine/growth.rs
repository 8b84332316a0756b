//! More keys for an index that has a range of them.
//!
//! A key is taken only when the manifest that has it is durable: else a recovery would not know it.

use super::{Engine, Settled, chain::Chain, preparing::Preparing};
use crate::{error::Error, format::manifest::IndexKind, keys::Keys};

impl<K: Keys> Engine<K> {
    /// Has the index take keys below `kmax`. `Pending`: ask again after I/O was reported. Done
    /// when it takes them already.
    ///
    /// # Errors
    /// When the index cannot have them, or the manifest could not be written; then asking again
    /// tries again.
    pub fn grow(&mut self, kmax: u64) -> Result<Settled, Error> {
        let limit = self.index.kmax_limit().unwrap_or(0);
        if kmax > limit {
            return Err(Error::Growth { kmax, limit });
        }
        if kmax <= self.kmax() {
            return Ok(Settled::Done);
        }
        if let Some(error) = self.growth_error.take() {
            return Err(error);
        }
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let is_out = matches!(self.preparing, Some(Preparing::Growing(to)) if to >= kmax);
        if !is_out {
            self.growth = self.growth.max(Some(kmax));
        }
        Ok(Settled::Pending)
    }

    /// The first key behind the range; of a log without one the last of all.
    fn kmax(&self) -> u64 {
        match self.manifest.shape.index {
            IndexKind::Flat { kmax, .. } => kmax,
            IndexKind::Hash { .. } => u64::MAX,
        }
    }

    pub(super) fn wants_growth(&self) -> bool {
        self.growth.is_some() && self.preparing.is_none() && !self.is_read_only()
    }

    pub(super) fn begin_growth(&mut self) {
        // While one growth was on its way another may have been asked for, and not of more.
        let to = self.growth.take().filter(|to| *to > self.kmax());
        let Some(to) = to else { return };
        let mut manifest = self.manifest.clone();
        if let IndexKind::Flat { kmax, .. } = &mut manifest.shape.index {
            *kmax = to;
        }
        if base::mutant!("log_grow_before_manifest") {
            self.index.grow(to);
            self.manifest.shape = manifest.shape;
        }
        let mut chain = Chain::default();
        chain.push_manifest(&manifest.encode());
        self.chain = chain;
        self.preparing = Some(Preparing::Growing(to));
    }

    /// The manifest is durable.
    pub(super) fn end_growth(&mut self, to: u64) {
        if let IndexKind::Flat { kmax, .. } = &mut self.manifest.shape.index {
            *kmax = to;
        }
        self.index.grow(to);
    }
}
