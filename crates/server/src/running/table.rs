//! A durable table in the life of a server: opened before its threads start, closed after they have
//! ended.

use std::sync::mpsc;

use base::clock::Clock;
use cache::Cache;
use log::engine::Mode;

use super::{Running, join};
use crate::{
    Error,
    config::{Config, WriteMode},
    durable::{self, Durable, keeper, peers::Peers, thread::Seat},
};

/// The durable table that the configuration asks for, if it does.
pub(super) fn open(
    config: &Config,
    cache: &Cache,
    threads: usize,
    clock: &Clock,
) -> Result<Option<Durable>, Error> {
    let Some(directory) = &config.data_dir else { return Ok(None) };
    let mode = match config.write_mode {
        WriteMode::Safe => Mode::Safe,
        WriteMode::Async => Mode::Async,
    };
    let opened = durable::open(directory, mode, clock)?;
    Ok(Some(Durable::new(opened, directory.clone(), cache, threads)))
}

impl Running {
    /// Starts the thread of the log, if there is one.
    pub(super) fn start_keeper(&mut self, peers: &Peers, number: usize) -> Result<(), Error> {
        let Some(durable) = self.durable.clone() else { return Ok(()) };
        let (errands, inbox) = mpsc::sync_channel(keeper::ERRANDS_MAX);
        let peers = peers.clone();
        let run = move |ready| keeper::run(&durable, number, &peers, &inbox, ready);
        self.keeper = Some((errands, self.spawn(keeper::NAME, run)?));
        Ok(())
    }

    /// What a data thread needs to serve the durable table, if there is one.
    pub(super) fn seat(&self, number: usize, peers: &Peers) -> Option<Seat> {
        let (durable, (errands, _)) = self.durable.as_ref().zip(self.keeper.as_ref())?;
        let (durable, errands) = (durable.clone(), errands.clone());
        Some(Seat { number, durable, peers: peers.clone(), errands })
    }

    /// Ends the log's thread, when nobody has errands for it any more, and stops the log.
    pub(super) fn close_table(&mut self) -> Result<(), Error> {
        let mut outcome = Ok(());
        if let Some((errands, handle)) = self.keeper.take() {
            drop(errands);
            outcome = join(handle);
        }
        match self.durable.take() {
            Some(durable) => outcome.and(durable.close()),
            None => outcome,
        }
    }
}
