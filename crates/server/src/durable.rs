//! A table with a log in a server, which is durable or spills: the log behind it, who carries out
//! what it wants, and its threads.
//!
//! ```text
//!   data thread: event loop + sessions + store worker -- read, write, flush --> reactor::Files
//!        |  ^                                |
//!        |  | answers, by a call             +-- create, allocate, rename, remove, ...
//!        v  |                                v
//!   other data threads                  keeper: the log's own thread, which blocks
//! ```
//!
//! A server has one such table, or several beside tables in memory ([`tables`]).
//! [`mod@open`] opens the log, [`ring`] knows when that of a table that spills begins empty,
//! [`thread`] is the handler of a data thread's loop, [`carriage`] what hands the log's operations
//! to the loop's driver, [`keeper`] the thread for those that no driver can do. When all threads
//! have ended, [`Durable::close`] stops the log in order.
//!
//! Thread safety: as each part says. Invariant: the log's files are locked as long as a [`Durable`]
//! lives.

pub(crate) mod carriage;
mod figures;
mod index_share;
pub(crate) mod keeper;
pub(crate) mod modes;
mod open;
pub(crate) mod peers;
pub(crate) mod ring;
#[cfg(all(test, not(miri)))]
pub(crate) mod scratch;
mod spoilt;
pub(crate) mod tables;
pub(crate) mod thread;

use std::path::PathBuf;

use base::sync::Arc;
use cache::Cache;
use log::{Files, engine::Engine, index::Keyed};
use store::Store;

use crate::{Error, descriptors::Shares, memcached::durable::Deed};
pub(crate) use figures::{Gauges, Kept};
pub(crate) use index_share::IndexShare;
#[cfg(test)]
pub(crate) use index_share::give_what_is_left;
pub use modes::WriteModes;
pub(crate) use open::open;
use ring::Run;

/// The table of a server.
pub(crate) type Table = Store<Keyed, Deed<'static>>;

/// What all threads of a server share that has a table with a log.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    pub(crate) store: Table,
    pub(crate) files: Arc<Files>,
    pub(crate) gauges: Arc<Gauges>,
    /// Files of the log that each thread may keep at hand.
    pub(crate) kept_max: usize,
    run: Run,
    directory: PathBuf,
}

impl Durable {
    /// A table over an open log and an empty cache, for so many data threads.
    ///
    /// # Errors
    /// When it is to spill, and the log is not for that.
    pub(crate) fn new(
        (engine, mut files): (Engine<Keyed>, Files),
        (directory, run): (PathBuf, Run),
        cache: &Cache,
        threads: usize,
        shares: Shares,
    ) -> Result<Self, Error> {
        files.keep_open(shares.log_files);
        // The keeper is one more.
        let store = match run.ring {
            None => Store::new(engine, cache.clone(), threads + 1),
            Some(_) => {
                let store = Store::spilling(engine, cache.clone(), threads + 1, run.admission);
                store.map_err(|source| Error::Ring { path: directory.clone(), source })?
            }
        };
        let spilling = run.ring.map(|_| cache.clone());
        let gauges = Arc::new(Gauges::new(threads + 1, store.clone(), spilling));
        let (files, kept_max) = (Arc::new(files), shares.kept);
        Ok(Self { store, files, gauges, kept_max, run, directory })
    }

    /// Longest value of a record, beside what the cache takes.
    pub(crate) fn value_bytes_max(&self) -> usize {
        match self.run.ring {
            None => self.store.with_log(|engine| engine.manifest().shape.part_bytes) as usize,
            // What is longer than the log takes is in memory only.
            Some(_) => usize::MAX,
        }
    }

    /// Whether it matters when writes are answered.
    pub(crate) fn has_modes(&self) -> bool {
        self.run.has_modes()
    }

    /// Stops the log in order, when nobody uses it any more: the next start is quick then.
    ///
    /// # Errors
    /// When something is not durable that should be, or a thread has left something undone.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let closed = self.close_log();
        if let Err(error) = &closed
            && self.run.ring.is_some()
        {
            tracing::warn!(%error, "what the ring has may be lost");
            return Ok(());
        }
        closed
    }

    fn close_log(&self) -> Result<(), Error> {
        if self.store.with_log(|engine| engine.out()) > 0 {
            return Err(Error::LogLeft { path: self.directory.clone() });
        }
        self.store.close(&mut &*self.files).map_err(|source| Error::Log {
            doing: "the log could not be stopped in order",
            path: self.directory.clone(),
            source,
        })
    }
}
