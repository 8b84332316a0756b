//! Changes when writes are answered, while the table is served.

use std::{thread, time::Duration};

use base::sync::Arc;
use log::engine::{Mode, Settled};

use super::{Durable, peers::Peers};
use crate::config::{Config, DEFAULT_TABLE, WriteMode};

/// The name of the thread that waits until what `async` has acknowledged is on the disk.
const CONFIRMING: &str = "confirming";

/// How often it looks, and for how long it rests between: a minute in all. It takes a second and a
/// flush.
const CONFIRM_LOOKS_MAX: usize = 12_000;
const CONFIRM_REST: Duration = Duration::from_millis(5);

/// Looks for each of which the threads are called: what they have begun ends without that.
const CONFIRM_LOOKS_A_CALL: usize = 20;

/// The write modes of the tables of a server that runs.
#[derive(Clone, Debug)]
pub struct WriteModes {
    tables: Arc<[(String, Durable)]>,
    peers: Peers,
}

/// That of one table.
#[derive(Clone, Debug)]
struct OneMode {
    table: String,
    durable: Durable,
    peers: Peers,
}

impl WriteModes {
    /// Those of tables for which it matters, by their names.
    pub(crate) fn new(
        tables: impl IntoIterator<Item = (String, Durable)>,
        peers: Peers,
    ) -> Option<Self> {
        let tables: Arc<[_]> = tables.into_iter().collect();
        (!tables.is_empty()).then_some(Self { tables, peers })
    }

    /// Sets the modes that are others than `config` says, and says so in the server's log. Behind a
    /// change to `safe` a thread says there when what `async` has acknowledged is on the disk.
    pub fn set(&self, config: &Config) {
        for (name, durable) in &*self.tables {
            let Some(mode) = mode_in(config, name) else {
                tracing::warn!(table = name, "the file has no such table any more");
                continue;
            };
            let (table, durable) = (name.clone(), durable.clone());
            OneMode { table, durable, peers: self.peers.clone() }.set(mode_of(mode));
        }
    }
}

/// What a configuration says of the table of this name.
fn mode_in(config: &Config, name: &str) -> Option<WriteMode> {
    if name == DEFAULT_TABLE {
        return Some(config.write_mode);
    }
    config.tables.iter().find(|table| table.name == name).map(|table| table.write_mode)
}

impl OneMode {
    fn set(self, mode: Mode) {
        let (store, table) = (&self.durable.store, &self.table);
        if store.with_log(|engine| engine.mode()) == mode {
            return;
        }
        let workers = store.set_mode(mode);
        workers.for_each(|number| self.peers.call(number));
        if mode == Mode::Async {
            tracing::info!(table, "writes are answered before they are on the disk from now on");
            return;
        }
        tracing::info!(table, "writes are answered when they are on the disk from now on");
        let confirming = thread::Builder::new().name(CONFIRMING.to_owned());
        // It ends by itself, or with the process.
        if let Err(error) = confirming.spawn(move || self.confirm()) {
            tracing::error!(%error, "nobody says when what was answered before is on the disk");
        }
    }

    fn confirm(&self) {
        let table = &self.table;
        match self.drained() {
            Settled::Done => tracing::info!(table, "what was answered before is on the disk"),
            Settled::Pending => {
                tracing::warn!(table, "what was answered a minute ago is not on the disk yet");
            }
            Settled::Failed => {
                tracing::error!(table, "what was answered before may not be on the disk")
            }
        }
    }

    /// What has become of all that was taken before.
    fn drained(&self) -> Settled {
        let store = &self.durable.store;
        let mut drain = store.with_log(log::engine::Engine::drain);
        for look in 0..CONFIRM_LOOKS_MAX {
            if look.is_multiple_of(CONFIRM_LOOKS_A_CALL) {
                self.peers.call_all();
            }
            let settled = store.with_log(|engine| engine.drained(&mut drain));
            if settled != Settled::Pending {
                return settled;
            }
            thread::sleep(CONFIRM_REST);
        }
        Settled::Pending
    }
}

/// The same for the log.
pub(crate) fn mode_of(mode: WriteMode) -> Mode {
    match mode {
        WriteMode::Safe => Mode::Safe,
        WriteMode::Async => Mode::Async,
    }
}
