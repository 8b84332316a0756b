//! Calls from thread to thread: that there are answers for another one, or something to do.
//!
//! Thread safety: any thread calls any. A thread that was called and has not looked yet is not
//! called again, so calls take one place of its mailbox.

use base::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use reactor::Sender;

use crate::thread::Order;

/// The data threads of a server.
#[derive(Clone, Debug)]
pub(crate) struct Peers(Arc<[Peer]>);

#[derive(Debug)]
struct Peer {
    orders: Sender<Order>,
    /// It was called, and has not looked yet.
    is_called: AtomicBool,
}

impl Peers {
    pub(crate) fn new(orders: impl IntoIterator<Item = Sender<Order>>) -> Self {
        let peer = |orders| Peer { orders, is_called: AtomicBool::new(false) };
        Self(orders.into_iter().map(peer).collect())
    }

    /// Has a thread look what there is for it. One that has ended is left alone; the keeper, which
    /// has the number behind theirs, looks by itself.
    pub(crate) fn call(&self, number: usize) {
        let Some(peer) = self.0.get(number) else { return };
        if !peer.is_called.swap(true, Ordering::AcqRel) {
            // Full cannot be: there is a place for the one call.
            let _ = peer.orders.send(Order::Look);
        }
    }

    /// A thread is about to look.
    pub(crate) fn looks(&self, number: usize) {
        self.0[number].is_called.store(false, Ordering::Release);
    }
}
