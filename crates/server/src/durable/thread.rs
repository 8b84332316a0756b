//! The handler of a data thread's loop that serves tables with logs, or several tables.
//!
//! A turn: what has ended is reported to the store, of reads as much as is for one turn; sessions
//! are served; what the store wants is started; answers go to their connections. Both ends of that
//! are here: whatever asks the store something, or tells it, calls [`TableServer::go_on`] before
//! the loop waits. A turn of hits in memory asks the store nothing, and takes no lock of all
//! threads.
//!
//! A server that ends has the log do what somebody waits for or what is due; each thread goes on
//! until it has handed out the reads that it has, since they may be of a command of another one,
//! and has heard of all that it has begun. Cut off, it only hears of that. So nothing is under way
//! when the log is stopped.

use base::sync::Arc;
use log::plan::{Outcome, Plan, Token};
use reactor::{Burst, CloseReason, Connection, Control, Handler, Next};

use super::{
    Kept,
    carriage::{Carriage, Started},
    keeper::{Errand, Errands},
    peers::Peers,
    tables::Served,
};
use crate::{
    memcached::{
        LargeValue,
        durable::{FlushTime, Session, Table},
    },
    stats::BufferGauges,
    thread::{Load, Order},
};

/// Milliseconds until a thread looks again at what is late: what it waits for is under way, and
/// whoever reports that goes on with it.
const LATE_MS: u64 = 1;

/// Bytes of reads that a thread takes in one turn, and what the last of them has beyond: to check
/// and copy values of as much takes it some 20 us. With more, replies, and the reads of those who
/// get them, wait for it while the device waits for them.
const TURN_READ_BYTES: usize = 64 << 10;

/// How long a thread that is cut off waits for a descriptor.
const CUT_WAIT_MS: u64 = 10_000;

/// What a data thread is given that serves tables with logs, or several tables.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) number: usize,
    /// The default one first.
    pub(crate) tables: Arc<[Served]>,
    /// Where errands of each are handed over, if it has a log.
    pub(crate) errands: Vec<Option<Errands>>,
    pub(crate) flush_time: Arc<FlushTime>,
    pub(crate) peers: Peers,
}

/// The handler.
#[derive(Debug)]
pub(crate) struct TableServer {
    table: Table,
    carriage: Carriage,
    /// The table of each log, as the carriage numbers them.
    of_log: Vec<usize>,
    /// The table that has its turn first the next time.
    first: usize,
    seat: Seat,
    load: Arc<Load>,
    buffers: Arc<BufferGauges>,
    end: End,
    /// When it was cut off.
    cut_ms: u64,
    /// It has looked by now, and need not before then.
    looked_ms: u64,
    /// When it is to look at the latest, as of then.
    wake_at_ms: Option<u64>,
    /// There is more to be moved in the log, as of then: it looks again in the loop's next turn.
    goes_on: bool,
}

/// How a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Not yet.
    Open,
    /// When what was received is answered.
    Drain,
    /// When what is under way has ended.
    Cut,
}

impl TableServer {
    pub(crate) fn new(
        table: Table,
        carriage: Carriage,
        seat: Seat,
        load: Arc<Load>,
        buffers: Arc<BufferGauges>,
    ) -> Self {
        let tables = seat.tables.iter().enumerate();
        let of_log =
            tables.filter(|(_, served)| served.log().is_some()).map(|(at, _)| at).collect();
        let (end, cut_ms, looked_ms, wake_at_ms, goes_on) = (End::Open, 0, 0, None, false);
        let first = 0;
        Self {
            table,
            carriage,
            of_log,
            first,
            seat,
            load,
            buffers,
            end,
            cut_ms,
            looked_ms,
            wake_at_ms,
            goes_on,
        }
    }

    /// Goes on if anything was asked or reported.
    fn go_on_if_stirred(&mut self) {
        if self.table.take_stirred() || self.end != End::Open {
            self.go_on();
        }
    }

    /// Starts what the store wants, and puts answers where they belong.
    fn go_on(&mut self) {
        self.carriage.close_removed();
        self.start_all();
        self.table.deliver();
        let peers = &self.seat.peers;
        for table in &self.of_log {
            self.table.take_wakes(*table).for_each(|number| peers.call(number));
        }
        self.looked_ms = self.table.desk().now_ms();
        self.wake_at_ms = self.table.wake_at_ms();
        let goes_on = |table: &usize| self.table.goes_on(*table) && self.may_poll_log(*table);
        self.goes_on = self.of_log.iter().any(goes_on) && !base::mutant!("server_moves_wait");
        // What was asked meanwhile has been looked at.
        self.table.take_stirred();
    }

    fn start_all(&mut self) {
        if self.end == End::Cut && self.table.desk().now_ms() >= self.cut_ms + CUT_WAIT_MS {
            // A lack of descriptors may last. Something is left then, and is told as that.
            self.carriage.leave_aside();
        }
        // Where not all can be begun, each log has its turn to be the first.
        let logs = self.of_log.len();
        self.first = (self.first + 1) % logs.max(1);
        for turn in 0..logs {
            self.start_all_of((self.first + turn) % logs);
        }
    }

    fn start_all_of(&mut self, log: usize) {
        while let Some(plan) = self.carriage.take_aside(log) {
            if !self.start(log, plan) {
                // There is still no descriptor.
                break;
            }
        }
        while self.carriage.has_room(log)
            && let Some(plan) = self.next_plan(log)
        {
            self.start(log, plan);
        }
    }

    /// What is to be done next. A log always finds something; a server that ends does what somebody
    /// waits for, and what is due.
    fn next_plan(&mut self, log: usize) -> Option<Plan> {
        let table = self.of_log[log];
        match self.end {
            End::Cut => None,
            _ if self.may_poll_log(table) => self.table.poll(table),
            _ => self.table.poll_reads(table),
        }
    }

    fn may_poll_log(&self, table: usize) -> bool {
        self.end == End::Open || self.end == End::Drain && self.is_log_wanted(table)
    }

    fn is_log_wanted(&self, table: usize) -> bool {
        let is_due = || {
            let now_ms = self.table.desk().now_ms();
            let is_due = self.table.due_at_ms(table).is_some_and(|at_ms| at_ms <= now_ms);
            is_due && !base::mutant!("drain_leaves_what_is_due")
        };
        let waits = || self.seat.tables[table].log().is_some_and(|it| it.store.waiting() != (0, 0));
        self.table.is_waited_for() || waits() || is_due()
    }

    /// Starts an action. False if it was put aside.
    fn start(&mut self, log: usize, plan: Plan) -> bool {
        let table = self.of_log[log];
        match self.carriage.start(log, plan) {
            Started::Yes => {}
            Started::Failed(token, outcome) => self.table.complete(table, token, outcome),
            Started::Foreign(plan) => self.hand_over(table, plan),
            Started::Aside => return false,
        }
        true
    }

    fn hand_over(&mut self, table: usize, plan: Plan) {
        let Token(number) = plan.token;
        let errand = Errand { from: self.seat.number, plan };
        let errands = self.seat.errands[table].clone();
        let errands = errands.expect("invariant: a log has a thread");
        // It waits only when the log is full of errands, and nobody must wait for this thread then.
        let sent = self.table.offline(|| errands.send(errand));
        if sent.is_err() {
            tracing::error!(number, "the thread of the log has ended");
        }
    }

    /// Whatever is under way is heard of, and nothing more begun.
    fn cut_off(&mut self) {
        (self.end, self.cut_ms) = (End::Cut, self.table.desk().now_ms());
    }

    /// Takes what has ended, as much as is for one turn.
    fn take_done(&mut self) {
        let mut read_bytes = 0;
        while (read_bytes < TURN_READ_BYTES || base::mutant!("server_takes_all_reads"))
            && let Some((log, token, outcome)) = self.carriage.take_done()
        {
            if let Outcome::Read(_, bytes) = outcome {
                read_bytes += bytes;
            }
            self.table.complete(self.of_log[log], token, outcome);
        }
    }

    fn rouse(&mut self, control: &mut Control<Session>) {
        self.table.take_roused(|connection| control.rouse(connection));
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
        self.go_on_if_stirred();
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
                self.end = End::Drain;
                control.drain();
            }
            Order::Stop => {
                // Whatever is under way is heard of: a log that has something out is not stopped in
                // order, and has more in memory than was written.
                self.cut_off();
                control.cut();
            }
        }
    }

    fn files_done(&mut self, control: &mut Control<Session>) {
        self.table.begin();
        self.take_done();
        self.go_on();
        self.rouse(control);
    }

    fn wake_at_ms(&self) -> u64 {
        // Where something is left, the next turn goes on with moves, too: not twice.
        let goes_on = self.goes_on && !self.carriage.has_left();
        if self.table.has_roused() || goes_on {
            return 0;
        }
        let aside = self.carriage.has_aside().then_some(0);
        let at_ms = aside.into_iter().chain(self.wake_at_ms).min();
        at_ms.map_or(u64::MAX, |at_ms| at_ms.max(self.looked_ms + LATE_MS))
    }

    fn has_work(&self) -> bool {
        let has_reads = self.end == End::Drain && self.table.has_reads();
        self.carriage.has_aside() || has_reads && !base::mutant!("drain_leaves_reads")
    }

    fn woken(&mut self, control: &mut Control<Session>) {
        self.table.begin();
        self.go_on();
        self.rouse(control);
    }

    fn refused(&mut self, connection: &mut Connection<Session, LargeValue>, reason: &CloseReason) {
        tracing::debug!(?reason, "a connection is refused");
        connection.output.put(connection.session.last_words());
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
        self.carriage.close_stale();
        self.woken(control);
        for (table, served) in self.seat.tables.iter().enumerate() {
            // What sessions keep is of all tables; the default one tells of it.
            let kept = if table == 0 { self.table.kept() } else { Kept::default() };
            served.gauges().show(self.seat.number, self.table.figures(table), kept);
        }
    }

    fn while_waiting<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        self.table.offline(wait)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
