//! What moves a connection on: events, service, and what follows from them.

use std::mem;

use super::{Life, Loop, STARVED_CHECKS_PER_TURN, STARVED_MAX_MS};
use crate::{
    connection::{ConnId, Connection, Next, Phase},
    driver::{Driver, Event, Sending},
    handler::{CloseReason, Handler},
    output::Chain,
    pool::Buffer,
};

impl<D: Driver<H::External>, H: Handler> Loop<D, H> {
    pub(super) fn take_in(&mut self, event: Event<H::External>) {
        match event {
            Event::Accepted(accepted) => {
                self.consult(|handler, control| handler.accepted(accepted, control));
            }
            Event::AcceptFailed(error) => self.pause_accepting(error),
            Event::Received { conn, buffer, count } => self.received(conn, buffer, count),
            Event::Ended { conn, held } => self.ended(conn, held),
            Event::NoMemory { conn, request } => {
                if let Some(connection) = self.connection(conn) {
                    connection.state.receiving = false;
                    connection.input.restore(request.into_held());
                    self.starve(conn);
                }
            }
            Event::Progress { conn } => {
                let now_ms = self.now_ms;
                if let Some(connection) = self.connection(conn) {
                    connection.state.active_ms = now_ms;
                    connection.output.note_moved();
                }
            }
            Event::Sent { conn, chain } => self.sent(conn, chain),
            Event::Failed { conn, error } => self.close(conn, CloseReason::Failed(error)),
            Event::Woken => self.read_mail(),
            Event::FilesDone => self.consult(H::files_done),
        }
    }

    fn received(&mut self, conn: ConnId, buffer: Buffer, count: usize) {
        let now_ms = self.now_ms;
        let Some(connection) = self.connection(conn) else { return };
        connection.state.receiving = false;
        connection.state.active_ms = now_ms;
        match &mut connection.state.phase {
            Phase::Open => {
                connection.input.received(buffer, count);
                self.queue(conn);
            }
            Phase::Finishing => {}
            Phase::Lingering { bytes_left, .. } => {
                *bytes_left = bytes_left.saturating_sub(count);
                if *bytes_left == 0 {
                    self.close(conn, CloseReason::Finished);
                } else {
                    drop(buffer);
                    self.receive(conn);
                }
            }
        }
    }

    fn ended(&mut self, conn: ConnId, held: Option<Buffer>) {
        let Some(connection) = self.connection(conn) else { return };
        connection.state.receiving = false;
        connection.input.restore(held);
        connection.input.end();
        match connection.state.phase {
            // Once more with what is left, so that the session knows that this is all.
            Phase::Open => self.queue(conn),
            Phase::Finishing => {}
            Phase::Lingering { .. } => self.close(conn, CloseReason::Finished),
        }
    }

    fn sent(&mut self, conn: ConnId, chain: Chain<H::External>) {
        let Some(connection) = self.connection(conn) else { return };
        connection.state.sending = false;
        connection.output.landed(chain);
        if connection.is_at_rest() {
            return;
        }
        if let Some(connection) = self.take(conn) {
            self.go_on(connection);
        }
    }

    /// Takes a connection back from the handler.
    pub(super) fn served(&mut self, mut connection: Box<Connection<H::Session, H::External>>) {
        connection.input.settle(&self.pool);
        match connection.next {
            Next::Abort => return self.end(*connection, CloseReason::Aborted),
            Next::Finish => connection.state.phase = Phase::Finishing,
            Next::Read if connection.input.ended() => connection.state.phase = Phase::Finishing,
            _ => {}
        }
        self.go_on(connection);
    }

    /// Sends what waits and starts what comes next. Puts the connection back into its place.
    pub(super) fn go_on(&mut self, mut connection: Box<Connection<H::Session, H::External>>) {
        let id = connection.id;
        if !connection.state.sending && !connection.output.is_empty() {
            connection.state.active_ms = self.now_ms;
            match self.driver.send(id, connection.output.launch()) {
                Sending::Done(chain) => connection.output.landed(chain),
                Sending::Pending => connection.state.sending = true,
                Sending::Failed(error) => {
                    return self.end(*connection, CloseReason::Failed(error));
                }
            }
        }
        connection.output.settle();
        let (phase, next) = (connection.state.phase, connection.next);
        let idle = connection.output.is_idle();
        let below_bound = connection.output.below_bound();
        let has_room = next == Next::Blocked && connection.output.has_room();
        let full = connection.input.is_full();
        let queued = connection.state.queued;
        if (phase, next, queued, full) == (Phase::Open, Next::Read, false, false) {
            // What nearly every one goes on with.
            let request = if below_bound { connection.request() } else { None };
            self.slots[id.index as usize].connection = Some(connection);
            if let Some(request) = request {
                self.driver.receive(id, request);
            }
            return;
        }
        self.slots[id.index as usize].connection = Some(connection);
        match (phase, next) {
            // Bytes have come since the session spoke: it speaks again first.
            (Phase::Open, _) if queued => {}
            (Phase::Finishing, _) if idle => self.linger(id),
            (Phase::Finishing | Phase::Lingering { .. }, _) => {}
            // It has no room for what it would read.
            (Phase::Open, Next::Read) => self.refuse(id, CloseReason::InputFull),
            (Phase::Open, Next::Yield) => self.queue(id),
            (Phase::Open, Next::Retry) => self.retry.push(id),
            (Phase::Open, Next::Blocked) if has_room => self.queue(id),
            (Phase::Open, Next::Behind) if idle => self.queue(id),
            // What is on its way brings it on.
            (Phase::Open, Next::Blocked | Next::Behind | Next::Wait) if !idle => {
                self.driver.expect_sent(id);
            }
            (Phase::Open, Next::Blocked | Next::Behind | Next::Wait) => {}
            (Phase::Open, Next::Finish | Next::Abort) => {
                unreachable!("invariant: the phase follows from these")
            }
        }
    }

    /// Puts a connection into the queue to be served.
    pub(super) fn queue(&mut self, id: ConnId) {
        if let Some(connection) = self.connection(id)
            && connection.state.phase == Phase::Open
            && !mem::replace(&mut connection.state.queued, true)
        {
            self.ready.push_back(id);
        }
    }

    pub(super) fn ready_retries(&mut self) {
        let mut retry = mem::take(&mut self.retry);
        retry.drain(..).for_each(|id| self.queue(id));
        self.retry = retry;
    }

    /// Asks the driver for bytes, unless it has been asked.
    pub(super) fn receive(&mut self, id: ConnId) {
        if let Some(connection) = self.connection(id)
            && let Some(request) = connection.request()
        {
            self.driver.receive(id, request);
        }
    }

    /// Puts a connection into the queue for memory.
    fn starve(&mut self, id: ConnId) {
        let now_ms = self.now_ms;
        let Some(connection) = self.connection(id) else { return };
        let state = &mut connection.state;
        if state.starved_since_ms.is_some() {
            return;
        }
        state.starved_since_ms = Some(now_ms);
        if !mem::replace(&mut state.hungry, true) {
            self.starved.push_back(id);
        }
        self.wheel.set(id.index, now_ms + STARVED_MAX_MS);
    }

    /// Lets connections go on for which there is memory now.
    pub(super) fn feed_starved(&mut self) {
        for _ in 0..self.starved.len().min(STARVED_CHECKS_PER_TURN) {
            let id = self.starved.pop_front().expect("invariant: counted");
            let Some(connection) = self.connection(id) else { continue };
            connection.state.hungry = connection.state.starved_since_ms.is_some();
            if !connection.state.hungry {
                continue;
            }
            if self.feed(id) {
                self.connection(id).expect("invariant: it was fed").state.hungry = false;
            } else {
                self.starved.push_back(id);
            }
        }
    }

    /// Lets a connection go on if there is memory for it.
    pub(super) fn feed(&mut self, id: ConnId) -> bool {
        let pool = self.pool.clone();
        let Some(connection) = self.connection(id) else { return false };
        if !connection.input.can_receive(&pool) {
            return false;
        }
        connection.state.starved_since_ms = None;
        self.receive(id);
        true
    }

    pub(super) fn draining(&self) -> bool {
        self.life == Life::Draining
    }
}
