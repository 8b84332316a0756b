//! The thread for what no driver can do: making, sizing, naming and removing files.
//!
//! It has a worker of the store of its own, and reports by that. Afterwards it does what the log
//! wants next, as a data thread does, but one thing at a time and waiting for it; so what others
//! wait for goes on although the thread that has handed it over has ended.
//!
//! Thread safety: the thread's own; errands come by a bounded channel. It ends when the last sender
//! is dropped, with everything done that was handed over.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use base::sync::Arc;
use log::{Files, plan::Plan};

use super::{Durable, peers::Peers};
use crate::{Error, ready::Ready};

/// The thread's name.
pub(crate) const NAME: &str = "log";

/// Errands that may wait: the log has one at a time for its segments, one for its manifest and one
/// for moves under way, whoever asks. A thread that has one more waits.
pub(crate) const ERRANDS_MAX: usize = 64;

/// An action, and the thread that was asked for it.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) from: usize,
    pub(crate) plan: Plan,
}

/// Where errands are handed over.
pub(crate) type Errands = SyncSender<Errand>;

/// Performs errands until nobody can hand any over.
pub(crate) fn run(
    durable: &Durable,
    number: usize,
    peers: &Peers,
    errands: &Receiver<Errand>,
    ready: Ready,
) -> Result<(), Error> {
    let mut worker = durable.store.worker(number)?;
    let files: Arc<Files> = Arc::clone(&durable.files);
    ready.tell();
    let mut has_more = false;
    loop {
        let errand = if has_more {
            match errands.try_recv() {
                Ok(errand) => Some(errand),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        } else {
            match worker.offline(|| errands.recv()) {
                Ok(errand) => Some(errand),
                Err(_) => return Ok(()),
            }
        };
        let from = errand.as_ref().map(|errand| errand.from);
        let plan = match errand {
            Some(Errand { plan, .. }) => Some(plan),
            None => worker.poll(),
        };
        has_more = plan.is_some();
        if let Some(Plan { token, action }) = plan {
            let outcome = worker.offline(|| files.perform(action));
            worker.complete(token, outcome);
        }
        debug_assert!(worker.take_answers().is_empty(), "nobody asks the keeper");
        worker.take_wakes().for_each(|number| peers.call(number));
        durable.gauges.show(number, worker.figures());
        // It may have waited for just this.
        from.into_iter().for_each(|number| peers.call(number));
    }
}
