//! How a server ends: its threads in order, then what is kept for the next start.

use std::{path::Path, sync::mpsc::RecvTimeoutError, time::Duration};

use base::sync::atomic::Ordering;

use super::{Running, Stop, join};
use crate::{
    Error,
    acceptor::End,
    datagrams,
    restart::{self, Claim},
    thread::Order,
};

/// How often the end of the data threads is looked for while they drain.
const DRAIN_POLL: Duration = Duration::from_millis(20);

impl Running {
    /// Ends what has been started, because of an error.
    pub(super) fn give_up(mut self, error: Error) -> Result<Option<Self>, Error> {
        // What was read is not in the file any more.
        let keeps = self.keeps.take();
        let ended = self.end(Stop::Now);
        if let Some((path, cache)) = keeps {
            restart::save(&path, &cache, claim(&path)?)?;
        }
        ended.and(Err(error))
    }

    pub(super) fn end(mut self, how: Stop) -> Result<(), Error> {
        // Before another server can listen there, so that it waits for the records.
        let keeps = self.keeps.take().filter(|_| how == Stop::Graceful);
        let claim = keeps.as_ref().map(|(path, _)| claim(path));
        let mut outcome = Ok(());
        if let Some((end, handle)) = self.acceptor.take() {
            self.ends.store(true, Ordering::Relaxed);
            // It fails if the acceptor has ended.
            let _ = end.send(End);
            outcome = outcome.and(join(handle));
        }
        if let Some((end, handle)) = self.datagrams.take() {
            // As above.
            let _ = end.send(datagrams::End);
            outcome = outcome.and(join(handle));
        }
        if how == Stop::Graceful {
            tracing::info!(timeout = ?self.drain_timeout, "stopping when clients are answered");
            self.order_all(|| Order::Drain);
            self.await_drain();
        }
        self.order_all(|| Order::Stop);
        for (_, handle) in self.data.drain(..) {
            outcome = outcome.and(join(handle));
        }
        for (stop, handle) in self.housekeeping.drain(..) {
            drop(stop);
            outcome = outcome.and(join(handle));
        }
        outcome = outcome.and(self.close_tables());
        if let Some(((path, cache), claim)) = keeps.zip(claim) {
            let saved = claim.and_then(|claim| restart::save(&path, &cache, claim));
            outcome = outcome.and(saved);
        }
        tracing::info!("stopped");
        outcome
    }

    fn order_all(&self, order: impl Fn() -> Order) {
        for (orders, _) in &self.data {
            // It fails if the thread has ended.
            let _ = orders.send(order());
        }
    }

    /// Waits until all data threads have drained, at most as long as configured, or until asked
    /// again.
    fn await_drain(&self) {
        let deadline_ms = self.stats.clock().now_ms().saturating_add(millis(self.drain_timeout));
        while !self.data.iter().all(|(_, handle)| handle.is_finished()) {
            match self.stops.recv_timeout(DRAIN_POLL) {
                Ok(Stop::ThreadEnded) => {}
                Ok(Stop::Graceful | Stop::Now) | Err(RecvTimeoutError::Disconnected) => {
                    tracing::warn!("asked again: not waiting for clients any longer");
                    return;
                }
                Err(RecvTimeoutError::Timeout) if self.stats.clock().now_ms() < deadline_ms => {}
                Err(RecvTimeoutError::Timeout) => {
                    let (open, _, _) = self.stats.connection_counts();
                    tracing::warn!(
                        connections = open,
                        "clients did not take their replies in time"
                    );
                    return;
                }
            }
        }
    }
}

/// The right to write the restart file.
fn claim(path: &Path) -> Result<Claim, Error> {
    let failed = |source| Error::Restart { path: path.to_owned(), what: "writing", source };
    Claim::new(path).map_err(failed)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
