//! Tables with a log, and tables beside others, in the life of a server: opened before its threads
//! start, closed after they have ended.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use base::{
    clock::Clock,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use cache::Cache;
use store::Volatile;

use super::{Running, Thread, join};
use crate::{
    Error,
    config::{Budget, Config, IntegerKeys, MemoryUse},
    descriptors::Shares,
    durable::{
        self, Durable, IndexShare, WriteModes,
        keeper::{self, Errands},
        peers::Peers,
        ring::Run,
        tables::{Backing, Served},
        thread::Seat,
    },
    memory,
    stats::TableStats,
};

/// The name of the thread that opens a log.
const OPENER: &str = "opening";

/// How often a server that opens its log looks whether it is to stop.
const STOP_POLL: Duration = Duration::from_millis(50);

/// A log's own thread. It ends when nobody has errands for it.
#[derive(Debug)]
pub(super) struct Keeper {
    errands: Errands,
    /// It is not to wait for long.
    ends: Arc<AtomicBool>,
    handle: Thread,
}

/// What came of opening tables.
pub(super) enum Opened {
    /// They are open: none where the default one is all there is, and in memory alone.
    Tables(Vec<Served>),
    /// The server is to stop.
    Stopped,
}

/// The tables that the configuration asks for, over the default one's cache, unless that alone is
/// all. Those that were opened before one that cannot be are stopped in order.
pub(super) fn open_all(
    config: &Config,
    cache: &Cache,
    clock: &Clock,
    shares: Shares,
    stops: &mut impl FnMut() -> bool,
) -> Result<Opened, Error> {
    let shares = shares.of_each(config.logs());
    let mut tables = Vec::new();
    if config.tables.is_empty() && !config.has_log() {
        return Ok(Opened::Tables(tables));
    }
    let mut open_one = || {
        let budget = Budget::new(config, config.threads())?;
        match open(config, None, cache, &budget, clock, shares, stops)? {
            None => return Ok(false),
            Some(backing) => {
                tables.push(Served::default(config, cache, backing, config.threads() + 1))
            }
        }
        for table in &config.tables {
            let own = config.of_table(table);
            let budget = Budget::of_table(&own, own.threads())?;
            let cache = memory::cache(&own, &budget, own.threads(), clock)?;
            let keys = table.integers();
            let opened = open(&own, keys, &cache, &budget, clock, shares, stops)?;
            let Some(backing) = opened else {
                return Ok(false);
            };
            let served = Served::default(&own, &cache, backing, own.threads() + 1);
            tables.push(served.named(table));
        }
        Ok(true)
    };
    match open_one() {
        Ok(true) => Ok(Opened::Tables(tables)),
        Ok(false) => close_all(&tables).map(|()| Opened::Stopped),
        Err(error) => close_all(&tables).and(Err(error)),
    }
}

/// Stops the logs of tables in order, that of each whatever becomes of the others'.
pub(super) fn close_all(tables: &[Served]) -> Result<(), Error> {
    let mut outcome = Ok(());
    for durable in tables.iter().filter_map(Served::log) {
        outcome = outcome.and(durable.close());
    }
    outcome
}

/// What a table has its records in; `None` if the server is to stop. To read a large log takes a
/// while: it is left alone when the server is to stop. The thread that reads it then ends with the
/// process, as by a crash, of which a log that is opened makes nothing.
fn open(
    config: &Config,
    keys: Option<IntegerKeys>,
    cache: &Cache,
    budget: &Budget,
    clock: &Clock,
    shares: Shares,
    stops: &mut impl FnMut() -> bool,
) -> Result<Option<Backing>, Error> {
    let Some(directory) = config.data_dir.clone().filter(|_| config.has_log()) else {
        return Ok(Some(Backing::Memory(Volatile::new(cache.clone()))));
    };
    let run = Run::of(config, keys);
    let (sender, inbox) = mpsc::sync_channel(1);
    let (path, clock) = (directory.clone(), clock.clone());
    let opener = thread::Builder::new().name(OPENER.to_owned()).spawn(move || {
        // It fails when the server is to stop.
        let _ = sender.send(durable::open(&path, run, &clock));
        Ok(())
    });
    let opener = opener.map_err(|source| Error::Thread {
        thread: OPENER.to_owned(),
        what: "start",
        source,
    })?;
    let opened = loop {
        match inbox.recv_timeout(STOP_POLL) {
            Ok(opened) => break opened?,
            Err(RecvTimeoutError::Timeout) if stops() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let error = Error::Panicked { thread: OPENER.to_owned() };
                return join(opener).and(Err(error));
            }
        }
    };
    let durable = Durable::new(opened, (directory, run), cache, config.threads(), shares)?;
    if run.ring.is_none() {
        let large_bytes = usize::try_from(budget.large_bytes).unwrap_or(usize::MAX);
        durable.store.set_large_bytes(large_bytes);
    }
    Ok(Some(Backing::Log(durable)))
}

impl Running {
    /// Starts the threads of logs, and has others know of the tables.
    pub(super) fn start_keepers(&mut self, peers: &Peers, number: usize) -> Result<(), Error> {
        let tables = Arc::clone(&self.tables);
        for served in &*tables {
            self.stats.add_table(TableStats {
                name: served.name.clone(),
                prefix: served.prefix.clone(),
                cache: served.cache.clone(),
                memory_bytes: served.config.memory.0,
                report: Arc::clone(served.gauges()) as _,
            });
            let keeper = served.log().map(|durable| self.start_keeper(durable, peers, number));
            self.keepers.push(keeper.transpose()?);
        }
        let with_modes = tables.iter().filter_map(|it| Some((it.name.clone(), it.log()?.clone())));
        let with_modes = with_modes.filter(|(_, durable)| durable.has_modes());
        self.write_modes = WriteModes::new(with_modes, peers.clone());
        Ok(())
    }

    fn start_keeper(
        &self,
        durable: &Durable,
        peers: &Peers,
        number: usize,
    ) -> Result<Keeper, Error> {
        let (errands, inbox) = mpsc::sync_channel(keeper::ERRANDS_MAX);
        let (durable, peers) = (durable.clone(), peers.clone());
        let ends: Arc<AtomicBool> = Arc::default();
        let is_told = Arc::clone(&ends);
        let run = move |ready| keeper::run(&durable, number, &peers, (&inbox, is_told), ready);
        let handle = self.spawn(keeper::NAME, run)?;
        Ok(Keeper { errands, ends, handle })
    }

    /// The caches of the server, each with what has the index of its log take memory from records,
    /// where memory is for everything.
    pub(super) fn caches(
        &self,
        default: &Cache,
    ) -> Result<Vec<(Cache, Option<IndexShare>)>, Error> {
        let share = |(at, served): (usize, &Served)| {
            let config = &served.config;
            let is_counted = config.memory_use == MemoryUse::Everything && served.log().is_some();
            let gauges = Arc::clone(served.gauges());
            let share = match at {
                _ if !is_counted => None,
                0 => Some(IndexShare::new(gauges, Arc::clone(&self.stats))),
                _ => {
                    let budget = Budget::of_table(config, config.threads())?;
                    let least_bytes = Budget::record_bytes_least(config, config.threads());
                    Some(IndexShare::of_table(gauges, budget.record_bytes, least_bytes))
                }
            };
            Ok((served.cache.clone(), share))
        };
        match self.tables.is_empty() {
            true => Ok(vec![(default.clone(), None)]),
            false => self.tables.iter().enumerate().map(share).collect(),
        }
    }

    /// What a data thread needs to serve tables that are not one in memory alone.
    pub(super) fn seat(&self, number: usize, peers: &Peers) -> Option<Seat> {
        if self.tables.is_empty() {
            return None;
        }
        let errands = self.keepers.iter().map(|it| it.as_ref().map(|it| it.errands.clone()));
        Some(Seat {
            number,
            tables: Arc::clone(&self.tables),
            errands: errands.collect(),
            flush_time: Arc::clone(&self.flush_time),
            peers: peers.clone(),
        })
    }

    /// Ends the logs' threads, when nobody has errands for them any more, and stops the logs.
    pub(super) fn close_tables(&mut self) -> Result<(), Error> {
        let keepers: Vec<Keeper> = self.keepers.drain(..).flatten().collect();
        keepers.iter().for_each(|keeper| keeper.ends.store(true, Ordering::Relaxed));
        let mut outcome = Ok(());
        for Keeper { errands, handle, .. } in keepers {
            drop(errands);
            outcome = outcome.and(join(handle));
        }
        outcome.and(close_all(&self.tables))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::time::Instant;

    use log::Files;

    use super::*;
    use crate::{config::ListenAddress, durable::scratch::Scratch};

    #[test]
    fn a_server_that_opens_its_log_can_be_stopped() {
        let scratch = Scratch::new();
        // It waits for this as long as for a large log that is read.
        let had = Files::lock(std::slice::from_ref(&scratch.0), false).expect("nobody has it");
        let listen = ListenAddress::Address(([127, 0, 0, 1], 0).into());
        let config =
            Config { listen: vec![listen], data_dir: Some(scratch.0.clone()), ..Config::default() };
        let (begun, mut looks) = (Instant::now(), 0);
        let stops = || {
            looks += 1;
            looks > 2
        };
        let started =
            Running::start_unless(&config, &Clock::system(), stops).expect("it is no error");
        assert!(started.is_none(), "it serves a log that it does not have");
        assert!(begun.elapsed() < Duration::from_secs(3), "it does not look while it waits");
        // What waits in this process finds nothing to open then.
        drop(scratch);
        drop(had);
    }
}
