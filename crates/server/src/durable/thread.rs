//! The handler of a data thread's loop that serves a durable table.
//!
//! A turn: what has ended is reported to the store; sessions are served; what the store wants is
//! started; answers go to their connections. Both ends of that are here: whatever asks the store
//! something, or tells it, calls [`TableServer::go_on`] before the loop waits.

use base::sync::Arc;
use log::plan::Token;
use reactor::{Burst, CloseReason, Connection, Control, Handler, Next};

use super::{
    Durable,
    carriage::{Carriage, Started},
    keeper::{Errand, Errands},
    peers::Peers,
};
use crate::{
    memcached::{
        LargeValue,
        durable::{Session, Table},
    },
    stats::BufferGauges,
    thread::{Load, OUT_OF_MEMORY_REQUEST, Order},
};

/// Milliseconds until a thread looks again at what is late: what it waits for is under way, and
/// whoever reports that goes on with it.
const LATE_MS: u64 = 1;

/// What a data thread is given that serves a durable table.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) number: usize,
    pub(crate) durable: Durable,
    pub(crate) peers: Peers,
    pub(crate) errands: Errands,
}

/// The handler.
#[derive(Debug)]
pub(crate) struct TableServer {
    table: Table,
    carriage: Carriage,
    seat: Seat,
    load: Arc<Load>,
    buffers: Arc<BufferGauges>,
    is_draining: bool,
    /// It has looked by now, and need not before then.
    looked_ms: u64,
}

impl TableServer {
    pub(crate) fn new(
        table: Table,
        carriage: Carriage,
        seat: Seat,
        load: Arc<Load>,
        buffers: Arc<BufferGauges>,
    ) -> Self {
        Self { table, carriage, seat, load, buffers, is_draining: false, looked_ms: 0 }
    }

    /// Starts what the store wants, and puts answers where they belong.
    fn go_on(&mut self) {
        self.start_all();
        self.table.deliver();
        let peers = &self.seat.peers;
        self.table.take_wakes().for_each(|number| peers.call(number));
        self.looked_ms = self.table.desk().now_ms();
    }

    fn start_all(&mut self) {
        // A log always finds something to do; a server that ends does what somebody waits for.
        if self.is_draining && !self.table.is_waited_for() {
            let (held, stalled) = self.seat.durable.store.waiting();
            if (held, stalled) == (0, 0) {
                return;
            }
        }
        while self.carriage.has_room()
            && let Some(plan) = self.table.poll()
        {
            match self.carriage.start(plan) {
                Started::Yes => {}
                Started::Failed(token, outcome) => self.table.complete(token, outcome),
                Started::Foreign(plan) => self.hand_over(plan),
            }
        }
    }

    fn hand_over(&mut self, plan: log::plan::Plan) {
        let Token(number) = plan.token;
        let errand = Errand { from: self.seat.number, plan };
        let errands = self.seat.errands.clone();
        // It waits only when the log is full of errands, and nobody must wait for this thread then.
        let sent = self.table.offline(|| errands.send(errand));
        if sent.is_err() {
            tracing::error!(number, "the thread of the log has ended");
        }
    }

    fn rouse(&mut self, control: &mut Control<Session>) {
        self.table.take_roused().into_iter().for_each(|connection| control.rouse(connection));
    }
}

impl Handler for TableServer {
    type Session = Session;
    type External = LargeValue;
    type Message = Order;

    fn serve(&mut self, connection: &mut Connection<Session, LargeValue>) -> Next {
        let id = connection.id();
        let Connection { session, input, output, .. } = connection;
        session.serve(&mut self.table, id, input, output)
    }

    fn serve_all(&mut self, burst: &mut Burst<Session, LargeValue>, _now_ms: u64) {
        self.table.begin();
        for connection in burst {
            connection.next = self.serve(connection);
        }
        self.go_on();
    }

    fn message(&mut self, order: Order, control: &mut Control<Session>) {
        match order {
            Order::Serve(socket, open, protocol) => {
                control.adopt(socket, Session::new(open, protocol, &self.table));
            }
            Order::Rouse(connection) => control.rouse(connection),
            Order::Look => {
                self.seat.peers.looks(self.seat.number);
                self.woken(control);
            }
            Order::Drain => {
                self.is_draining = true;
                control.drain();
            }
            Order::Stop => control.stop(),
        }
    }

    fn files_done(&mut self, control: &mut Control<Session>) {
        self.table.begin();
        while let Some((token, outcome)) = self.carriage.take_done() {
            self.table.complete(token, outcome);
        }
        self.go_on();
        self.rouse(control);
    }

    fn wake_at_ms(&self) -> u64 {
        if self.table.has_roused() {
            return 0;
        }
        self.table.wake_at_ms().map_or(u64::MAX, |at_ms| at_ms.max(self.looked_ms + LATE_MS))
    }

    fn woken(&mut self, control: &mut Control<Session>) {
        self.table.begin();
        self.go_on();
        self.rouse(control);
    }

    fn refused(&mut self, connection: &mut Connection<Session, LargeValue>, reason: &CloseReason) {
        tracing::debug!(?reason, "a connection is refused");
        if !connection.session.speaks_binary() {
            connection.output.put(OUT_OF_MEMORY_REQUEST);
        }
    }

    fn closed(&mut self, session: Session, reason: CloseReason) {
        session.log_end(&reason);
        drop(session);
        self.load.remove();
        if let CloseReason::Idle = reason {
            self.table.desk().counters().idle_kicks.add(1);
        }
        tracing::debug!(?reason, "a connection has ended");
    }

    fn tick(&mut self, control: &mut Control<Session>) {
        self.buffers.show(&control.pool());
        self.carriage.close_removed();
        self.woken(control);
        self.seat.durable.gauges.show(self.seat.number, self.table.figures());
    }

    fn while_waiting<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        self.table.offline(wait)
    }
}
