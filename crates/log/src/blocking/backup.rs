//! A copy of a log, made while it serves, and what a log takes.

use std::path::Path;

use super::{Files, Log};
use crate::{
    engine::{Copying, Cut, Damage, Progress, Space, Verified},
    error::Error,
    keys::Keys,
};

impl<K: Keys + Send + 'static> Log<K> {
    /// Copies the log into an empty directory, which is a log then: opening it is restoring it.
    /// Everything that was acknowledged before the call is in it, and of what is written meanwhile
    /// all up to some moment. What is freed meanwhile is kept until it is copied.
    ///
    /// # Errors
    /// When something cannot be written, or is not durable. What is in the directory then is no
    /// log: it has no manifest. What cannot be read is told to `damaged`, and is missing in the
    /// copy.
    pub fn backup(
        &self,
        to: &Path,
        progress: &mut dyn FnMut(Copying),
        damaged: &mut dyn FnMut(Damage),
    ) -> Result<Copying, Error> {
        let shared = &self.shared;
        let mut target = Files::lock(&[to.to_path_buf()], shared.files.asks_for_direct())?;
        let mut state = shared.lock();
        target.use_blocks_of(state.engine.manifest().shape.block_bytes);
        shared.drain(state)?;
        state = shared.lock();
        let cut = loop {
            if let Some(cut) = state.engine.begin_backup() {
                break cut;
            }
            if state.is_stopping {
                return Err(Error::Stopping);
            }
            // What failed will never be written again.
            if state.engine.is_read_only() {
                return Err(Error::Unflushed);
            }
            state = shared.wait_for_report(state);
        };
        drop(state);
        let copied = cut.copy(&mut &shared.files, &mut &target, progress, damaged);
        self.end_backup(&cut);
        target.unlock();
        copied
    }

    fn end_backup(&self, cut: &Cut) {
        let mut state = self.shared.lock();
        state.engine.end_backup(cut);
        self.shared.wake_for_work(&mut state, false);
    }

    /// Reads every record of every sealed segment, and says which are damaged. Only for a log that
    /// was opened by [`Log::inspect`]: nobody else is to wait for so long.
    ///
    /// # Errors
    /// When the log serves.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(Progress),
        damaged: &mut dyn FnMut(Damage),
    ) -> Result<Verified, Error> {
        if !self.shared.files.forbids_changes() {
            return Err(Error::Settings { what: "a log that serves is not verified" });
        }
        let state = self.shared.lock();
        Ok(state.engine.verify(&mut &self.shared.files, progress, damaged))
    }

    /// What the log's segments are, and what is live in them.
    #[must_use]
    pub fn space(&self) -> Space {
        self.shared.lock().engine.space()
    }

    /// Has the index be looked at.
    pub fn with_index<T>(&self, uses: impl FnOnce(&K) -> T) -> T {
        uses(self.shared.lock().engine.index())
    }

    /// What the log is for.
    #[must_use]
    pub fn purpose(&self) -> crate::format::manifest::Purpose {
        self.shared.lock().engine.manifest().purpose
    }

    /// What the log was made with.
    #[must_use]
    pub fn shape(&self) -> crate::format::manifest::Shape {
        self.shared.lock().engine.manifest().shape
    }
}
