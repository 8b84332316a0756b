//! How a thread says that it has all it needs.

use std::sync::mpsc::{self, Receiver, SyncSender};

/// What a thread is given to say so. A thread that ends instead drops it.
#[derive(Debug)]
pub(crate) struct Ready(SyncSender<()>);

impl Ready {
    /// The end for the thread, and the one for whoever waits for it.
    pub(crate) fn channel() -> (Self, Receiver<()>) {
        let (sender, receiver) = mpsc::sync_channel(1);
        (Self(sender), receiver)
    }

    /// Says it.
    pub(crate) fn tell(self) {
        // There is room for one, and it is told once.
        let _ = self.0.try_send(());
    }
}
