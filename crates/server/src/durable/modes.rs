//! Changes when writes are answered, while the table is served.

use std::{thread, time::Duration};

use log::engine::{Mode, Settled};

use super::{Durable, peers::Peers};
use crate::config::WriteMode;

/// The name of the thread that waits until what `async` has acknowledged is on the disk.
const CONFIRMING: &str = "confirming";

/// How often it looks, and for how long it rests between: a minute in all. It takes a second and a
/// flush.
const CONFIRM_LOOKS_MAX: usize = 12_000;
const CONFIRM_REST: Duration = Duration::from_millis(5);

/// Looks for each of which the threads are called: what they have begun ends without that.
const CONFIRM_LOOKS_A_CALL: usize = 20;

/// The write mode of a server that runs.
#[derive(Clone, Debug)]
pub struct WriteModes {
    durable: Durable,
    peers: Peers,
}

impl WriteModes {
    pub(crate) fn new(durable: Durable, peers: Peers) -> Self {
        Self { durable, peers }
    }

    /// Sets the mode, if it is another one, and says so in the server's log. Behind a change to
    /// `safe` a thread says there when what `async` has acknowledged is on the disk.
    pub fn set(&self, wanted: WriteMode) {
        let store = &self.durable.store;
        let mode = mode_of(wanted);
        if store.with_log(|engine| engine.mode()) == mode {
            return;
        }
        let workers = store.set_mode(mode);
        workers.for_each(|number| self.peers.call(number));
        if mode == Mode::Async {
            tracing::info!("writes are answered before they are on the disk from now on");
            return;
        }
        tracing::info!("writes are answered when they are on the disk from now on");
        let modes = self.clone();
        let confirming = thread::Builder::new().name(CONFIRMING.to_owned());
        // It ends by itself, or with the process.
        if let Err(error) = confirming.spawn(move || modes.confirm()) {
            tracing::error!(%error, "nobody says when what was answered before is on the disk");
        }
    }

    fn confirm(&self) {
        match self.drained() {
            Settled::Done => tracing::info!("what was answered before is on the disk"),
            Settled::Pending => {
                tracing::warn!("what was answered a minute ago is not on the disk yet");
            }
            Settled::Failed => tracing::error!("what was answered before may not be on the disk"),
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
