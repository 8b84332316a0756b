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

    /// Has all threads look.
    pub(crate) fn call_all(&self) {
        (0..self.0.len()).for_each(|number| self.call(number));
    }

    /// A thread is about to look.
    pub(crate) fn looks(&self, number: usize) {
        if base::mutant!("peers_are_called_once") {
            return;
        }
        self.0[number].is_called.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use reactor::mailbox;

    use super::{Order, Peers, Sender};

    const PLACES: usize = 10;

    /// Places of a mailbox that were free, and are not any more.
    fn fill(orders: &Sender<Order>) -> usize {
        (0..=PLACES).take_while(|_| orders.send(Order::Drain).is_ok()).count()
    }

    #[test]
    fn a_thread_that_has_looked_is_called_again() {
        let boxes: Vec<_> = (0..2).map(|_| mailbox(PLACES).expect("an eventfd")).collect();
        let peers = Peers::new(boxes.iter().map(|(orders, _)| orders.clone()));
        for _ in 0..3 {
            // Until it looks, one call is enough.
            (0..2).for_each(|_| peers.call(1));
            peers.looks(1);
        }
        peers.call_all();
        // The keeper has this number, and looks by itself.
        peers.call(2);
        let free = boxes.iter().map(|(orders, _)| fill(orders));
        assert!(free.eq([PLACES - 1, PLACES - 4]), "not called, or more than once");
    }
}
