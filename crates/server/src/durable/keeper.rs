//! The thread for what no driver can do: making, sizing, naming and removing files.
//!
//! Such a call may take the file system seconds (it makes room, or syncs its journal), and a data
//! thread that made it would serve nobody meanwhile.
//!
//! It has a worker of the store of its own, and reports by that. Afterwards it does what the log
//! wants next, as a data thread does, but one thing at a time and waiting for it: what others wait
//! for behind such a call goes on although the thread that has handed it over has ended.
//!
//! Thread safety: the thread's own; errands come by a bounded channel. It ends when the last sender
//! is dropped, with everything done that was handed over.

use std::{
    sync::mpsc::{Receiver, SyncSender, TryRecvError},
    thread,
    time::Duration,
};

use base::{
    clock::Stopwatch,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use log::{
    Files, lacks_descriptor,
    plan::{Action, Failure, File, Outcome, Plan},
};

use super::{Durable, Kept, carriage::buffer, peers::Peers};
use crate::{Error, ready::Ready};

/// The thread's name.
pub(crate) const NAME: &str = "log";

/// Errands that may wait: the log has one at a time for its segments, one for its manifest and one
/// for moves under way, whoever asks. A thread that has one more waits.
pub(crate) const ERRANDS_MAX: usize = 64;

/// How often it looks whether there is a descriptor again.
const DESCRIPTOR_NAP: Duration = Duration::from_millis(1);

/// How long it waits for one when the server ends: then it is told that there is none.
const END_WAIT_NS: u64 = 10_000_000_000;

/// An action, and the thread that was asked for it.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) from: usize,
    pub(crate) plan: Plan,
}

/// Where errands are handed over.
pub(crate) type Errands = SyncSender<Errand>;

/// How long a descriptor is waited for: as long as it takes while the server serves, since what is
/// tried once has failed for good.
#[derive(Debug)]
struct Patience {
    /// The server ends.
    ends: Arc<AtomicBool>,
    /// Since it was seen to end.
    ending: Option<Stopwatch>,
    limit_ns: u64,
}

impl Patience {
    fn is_over(&mut self) -> bool {
        if !self.ends.load(Ordering::Relaxed) {
            return false;
        }
        self.ending.get_or_insert_with(Stopwatch::start).elapsed_ns() >= self.limit_ns
    }
}

/// Performs errands until nobody can hand any over. Once `ends` is set it does not wait for long
/// where one lacks a descriptor.
pub(crate) fn run(
    durable: &Durable,
    number: usize,
    peers: &Peers,
    (errands, ends): (&Receiver<Errand>, Arc<AtomicBool>),
    ready: Ready,
) -> Result<(), Error> {
    let mut worker = durable.store.worker(number)?;
    let files: Arc<Files> = Arc::clone(&durable.files);
    ready.tell();
    let mut patience = Patience { ends, ending: None, limit_ns: END_WAIT_NS };
    let (mut has_more, mut answers) = (false, Vec::new());
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
        has_more = plan.is_some() || worker.goes_on();
        if let Some(Plan { token, action }) = plan {
            let removes = matches!(action, Action::Remove { .. });
            let outcome = worker.offline(|| perform(&files, action, &mut patience));
            worker.complete(token, outcome);
            if removes {
                // As long as one of them has the file open its blocks are taken.
                peers.call_all();
            }
        }
        worker.take_answers(&mut answers);
        debug_assert!(answers.is_empty(), "nobody asks the keeper");
        worker.take_wakes().for_each(|number| peers.call(number));
        durable.gauges.show(number, worker.figures(), Kept::default());
        // It may have waited for just this.
        from.into_iter().for_each(|number| peers.call(number));
    }
}

/// Performs an action. One that is tried once, and whose failure would be told for good, waits for
/// a descriptor as long as there is none, as those of data threads do.
fn perform(files: &Files, action: Action, patience: &mut Patience) -> Outcome {
    if let Action::Read { file, .. } | Action::Write { file, .. } | Action::Flush { file } = &action
        && let Err(failure) = await_descriptor(files, *file, patience)
    {
        return Outcome::Failed(failure, buffer(action));
    }
    let outcome = files.perform(action);
    if matches!(&outcome, Outcome::Failed(failure, _) if lacks_descriptor(failure)) {
        tracing::warn!("no file descriptor is left: the log cannot make a file");
    }
    outcome
}

/// Waits until a file is open, or cannot be for another reason; not for ever when the server ends.
fn await_descriptor(files: &Files, file: File, patience: &mut Patience) -> Result<(), Failure> {
    while let Err(failure) = files.descriptor(file)
        && lacks_descriptor(&failure)
    {
        if patience.is_over() {
            tracing::error!(%file, "no file descriptor is left: the log is told so");
            return Err(failure);
        }
        thread::sleep(DESCRIPTOR_NAP);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_does_not_wait_for_descriptors_for_ever() {
        let ends: Arc<AtomicBool> = Arc::default();
        let mut patience = Patience { ends: Arc::clone(&ends), ending: None, limit_ns: 0 };
        assert!(!patience.is_over(), "a server that serves waits");
        ends.store(true, Ordering::Relaxed);
        assert!(patience.is_over(), "a server that ends waits for ever");
        let mut patience = Patience { ends, ending: None, limit_ns: u64::MAX };
        assert!(!patience.is_over(), "it does not wait at all");
    }
}
