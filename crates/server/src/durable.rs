//! A durable table in a server: the log behind it, who carries out what it wants, and its threads.
//!
//! ```text
//!   data thread: event loop + sessions + store worker -- read, write, flush --> reactor::Files
//!        |  ^                                |
//!        |  | answers, by a call             +-- create, allocate, rename, remove, ...
//!        v  |                                v
//!   other data threads                  keeper: the log's own thread, which blocks
//! ```
//!
//! [`mod@open`] opens the log, [`thread`] is the handler of a data thread's loop, [`carriage`] what
//! hands the log's operations to the loop's driver, [`keeper`] the thread for those that no driver
//! can do. When all threads have ended, [`Durable::close`] stops the log in order.
//!
//! Thread safety: as each part says. Invariant: the log's files are locked as long as a [`Durable`]
//! lives.

pub(crate) mod carriage;
mod figures;
pub(crate) mod keeper;
mod open;
pub(crate) mod peers;
pub(crate) mod thread;

use std::path::PathBuf;

use base::{clock::Clock, sync::Arc};
use cache::Cache;
use log::{Files, engine::Engine, index::Keyed};
use store::Store;

use crate::{Error, memcached::durable::Deed, stats::TableReport};
pub(crate) use figures::Gauges;
pub(crate) use open::open;

/// The table of a server.
pub(crate) type Table = Store<Keyed, Deed<'static>>;

/// What all threads of a server share that has a durable table.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    pub(crate) store: Table,
    pub(crate) files: Arc<Files>,
    pub(crate) gauges: Arc<Gauges>,
    directory: PathBuf,
    clock: Clock,
}

impl Durable {
    /// A table over an open log and an empty cache, for so many data threads.
    pub(crate) fn new(
        (engine, files): (Engine<Keyed>, Files),
        directory: PathBuf,
        cache: &Cache,
        threads: usize,
    ) -> Self {
        // The keeper is one more.
        let store = Store::new(engine, cache.clone(), threads + 1);
        let gauges = Arc::new(Gauges::new(threads + 1, store.clone()));
        Self { store, files: Arc::new(files), gauges, directory, clock: cache.clock().clone() }
    }

    /// What `stats` says of it.
    pub(crate) fn report(&self) -> Arc<dyn TableReport> {
        Arc::clone(&self.gauges) as Arc<dyn TableReport>
    }

    /// Stops the log in order, when nobody uses it any more: the next start is quick then.
    ///
    /// # Errors
    /// When something is not durable that should be, or a thread has left something undone.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let now_ms = self.clock.now_ms();
        self.store.with_log(|engine| {
            if engine.out() > 0 {
                tracing::warn!("the log was not stopped in order: the next start reads all of it");
                return Ok(());
            }
            engine.close(&mut &*self.files, now_ms).map_err(|source| Error::Log {
                doing: "the log could not be stopped in order",
                path: self.directory.clone(),
                source,
            })
        })
    }
}
