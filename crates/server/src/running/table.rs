//! A table with a log in the life of a server: opened before its threads start, closed after they
//! have ended.

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

use super::{Running, Thread, join};
use crate::{
    Error,
    config::{Budget, Config, MemoryUse},
    descriptors::Shares,
    durable::{
        self, Durable, IndexShare, WriteModes,
        keeper::{self, Errands},
        peers::Peers,
        ring::Run,
        thread::Seat,
    },
};

/// The name of the thread that opens a log.
const OPENER: &str = "opening";

/// How often a server that opens its log looks whether it is to stop.
const STOP_POLL: Duration = Duration::from_millis(50);

/// The log's own thread. It ends when nobody has errands for it.
#[derive(Debug)]
pub(super) struct Keeper {
    errands: Errands,
    /// It is not to wait for long.
    ends: Arc<AtomicBool>,
    handle: Thread,
}

/// What came of opening a table.
pub(super) enum Opened {
    /// There is none, or here it is.
    Table(Option<Durable>),
    /// The server is to stop.
    Stopped,
}

/// The table with a log that the configuration asks for, if it does. To read a large log takes a
/// while: it is left alone when the server is to stop. The thread that reads it then ends with the
/// process, as by a crash, of which a log that is opened makes nothing.
pub(super) fn open(
    config: &Config,
    cache: &Cache,
    clock: &Clock,
    shares: Shares,
    stops: &mut impl FnMut() -> bool,
) -> Result<Opened, Error> {
    let Some(directory) = config.data_dir.clone() else { return Ok(Opened::Table(None)) };
    let run = Run::of(config);
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
            Err(RecvTimeoutError::Timeout) if stops() => return Ok(Opened::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let error = Error::Panicked { thread: OPENER.to_owned() };
                return join(opener).and(Err(error));
            }
        }
    };
    let durable = Durable::new(opened, (directory, run), cache, config.threads(), shares)?;
    if run.ring.is_none() {
        let large_bytes = Budget::new(config, config.threads())?.large_bytes;
        durable.store.set_large_bytes(usize::try_from(large_bytes).unwrap_or(usize::MAX));
    }
    Ok(Opened::Table(Some(durable)))
}

impl Running {
    /// Starts the thread of the log, if there is one, and has others know of the table.
    pub(super) fn start_keeper(&mut self, peers: &Peers, number: usize) -> Result<(), Error> {
        let Some(durable) = self.durable.clone() else { return Ok(()) };
        self.stats.set_table(durable.report());
        if durable.has_modes() {
            self.write_modes = Some(WriteModes::new(durable.clone(), peers.clone()));
        }
        let (errands, inbox) = mpsc::sync_channel(keeper::ERRANDS_MAX);
        let peers = peers.clone();
        let ends: Arc<AtomicBool> = Arc::default();
        let is_told = Arc::clone(&ends);
        let run = move |ready| keeper::run(&durable, number, &peers, (&inbox, is_told), ready);
        let handle = self.spawn(keeper::NAME, run)?;
        self.keeper = Some(Keeper { errands, ends, handle });
        Ok(())
    }

    /// What has the index of the log take memory from records, where memory is for everything.
    pub(super) fn share_of_index(&self, config: &Config) -> Option<IndexShare> {
        let durable = self.durable.as_ref()?;
        let is_counted = config.memory_use == MemoryUse::Everything;
        is_counted.then(|| IndexShare::new(durable.gauges.clone(), self.stats.clone()))
    }

    /// What a data thread needs to serve the durable table, if there is one.
    pub(super) fn seat(&self, number: usize, peers: &Peers) -> Option<Seat> {
        let (durable, keeper) = self.durable.as_ref().zip(self.keeper.as_ref())?;
        let (durable, errands) = (durable.clone(), keeper.errands.clone());
        Some(Seat { number, durable, peers: peers.clone(), errands })
    }

    /// Ends the log's thread, when nobody has errands for it any more, and stops the log.
    pub(super) fn close_table(&mut self) -> Result<(), Error> {
        let mut outcome = Ok(());
        if let Some(Keeper { errands, ends, handle }) = self.keeper.take() {
            ends.store(true, Ordering::Relaxed);
            drop(errands);
            outcome = join(handle);
        }
        match self.durable.take() {
            Some(durable) => outcome.and(durable.close()),
            None => outcome,
        }
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
