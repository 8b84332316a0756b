//! How connections begin and end, and what time does to them.

use std::{io, os::fd::OwnedFd};

use super::{
    ACCEPT_PAUSE_MS, CONNECTIONS_MAX, LINGER_BYTES_MAX, LINGER_MS, Life, Loop, REFUSED_MAX_MS,
    STARVED_MAX_MS, Slot,
};
use crate::{
    connection::{ConnId, Connection, Next, Phase},
    driver::{Direction, Driver},
    handler::{CloseReason, Handler},
};

impl<D: Driver<H::External>, H: Handler> Loop<D, H> {
    pub(super) fn adopt(&mut self, socket: OwnedFd, session: H::Session) {
        if self.life == Life::Stopped {
            return self.handler.closed(session, CloseReason::Stopped);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < CONNECTIONS_MAX => {
                self.slots.push(Slot { generation: 0, connection: None });
                u32::try_from(self.slots.len() - 1).expect("invariant: CONNECTIONS_MAX fits")
            }
            None => {
                let error = io::Error::other("the loop has no place for another connection");
                return self.handler.closed(session, CloseReason::Failed(error));
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let id = ConnId { index, generation: slot.generation };
        if let Err(error) = self.driver.open(id, socket) {
            self.free.push(index);
            return self.handler.closed(session, CloseReason::Failed(error));
        }
        slot.connection = Some(Box::new(Connection::new(session, id, &self.pool, self.now_ms)));
        self.connections += 1;
        if self.config.idle_timeout_ms > 0 {
            self.wheel.set(index, self.now_ms + self.config.idle_timeout_ms);
        }
        self.receive(id);
        if self.draining() {
            self.driver.shutdown(id, Direction::Receive);
        }
    }

    /// Closes a connection that is in its place.
    pub(super) fn close(&mut self, id: ConnId, reason: CloseReason) {
        if let Some(connection) = self.take(id) {
            self.end(*connection, reason);
        }
    }

    /// Closes a connection that has been taken out of its place.
    pub(super) fn end(
        &mut self,
        connection: Connection<H::Session, H::External>,
        reason: CloseReason,
    ) {
        let id = connection.id;
        self.driver.close(id);
        self.wheel.cancel(id.index);
        self.free.push(id.index);
        self.connections -= 1;
        self.handler.closed(connection.session, reason);
    }

    /// Tells the peer why, sends what is queued, and closes.
    pub(super) fn refuse(&mut self, id: ConnId, reason: CloseReason) {
        let Some(mut connection) = self.take(id) else { return };
        self.handler.refused(&mut connection, &reason);
        // Others may be waiting for just that memory.
        connection.input.clear();
        connection.next = Next::Finish;
        connection.state.phase = Phase::Finishing;
        connection.state.starved_since_ms = None;
        connection.state.refused_ms = Some(self.now_ms);
        self.wheel.set(id.index, self.now_ms + REFUSED_MAX_MS);
        self.go_on(connection);
    }

    /// Everything is sent: ends a connection whose peer has ended, or else waits for that.
    pub(super) fn linger(&mut self, id: ConnId) {
        let until_ms = self.now_ms + LINGER_MS;
        let Some(connection) = self.connection(id) else { return };
        if connection.input.ended() {
            return self.close(id, CloseReason::Finished);
        }
        connection.state.phase = Phase::Lingering { until_ms, bytes_left: LINGER_BYTES_MAX };
        connection.input.clear();
        self.driver.shutdown(id, Direction::Send);
        self.wheel.set(id.index, until_ms);
        self.receive(id);
    }

    /// Looks at a connection whose deadline may have come.
    pub(super) fn come_due(&mut self, index: u32) {
        let Some(connection) = &self.slots[index as usize].connection else { return };
        let (id, state) = (connection.id, &connection.state);
        let idle_timeout_ms = self.config.idle_timeout_ms;
        let (deadline_ms, reason) = match (state.phase, state.starved_since_ms, state.refused_ms) {
            (Phase::Lingering { until_ms, .. }, ..) => (until_ms, CloseReason::Finished),
            (Phase::Open, Some(since_ms), _) => (since_ms + STARVED_MAX_MS, CloseReason::Starved),
            (Phase::Finishing, _, Some(at_ms)) => (at_ms + REFUSED_MAX_MS, CloseReason::Finished),
            _ if idle_timeout_ms > 0 => (state.active_ms + idle_timeout_ms, CloseReason::Idle),
            _ => return,
        };
        if self.now_ms < deadline_ms {
            self.wheel.set(index, deadline_ms);
        } else if matches!(reason, CloseReason::Starved) {
            // Others that gave up a moment ago may have left enough.
            if !self.feed(id) {
                self.refuse(id, reason);
            }
        } else {
            self.close(id, reason);
        }
    }

    pub(super) fn pause_accepting(&mut self, error: io::Error) {
        self.accept_again_at_ms = Some(self.now_ms + ACCEPT_PAUSE_MS);
        // If it cannot be paused it fails again next turn, which costs time and nothing else.
        let _ = self.driver.set_accepting(false);
        self.handler.accept_paused(Some(&error));
    }

    /// Ends what is read from every connection with what has arrived by now.
    pub(super) fn drain(&mut self) {
        if self.life != Life::Running {
            return;
        }
        self.life = Life::Draining;
        self.driver.close_listeners();
        for index in 0..self.slots.len() {
            if let Some(connection) = &self.slots[index].connection {
                self.driver.shutdown(connection.id, Direction::Receive);
            }
        }
    }

    /// Closes all connections as they are, and ends when nothing is under way on files, or
    /// left.
    pub(super) fn cut(&mut self) {
        if base::mutant!("cut_hears_of_nothing") {
            self.stop();
        } else if self.life != Life::Stopped {
            self.drain();
            self.close_all();
        }
    }

    pub(super) fn stop(&mut self) {
        self.life = Life::Stopped;
        self.close_all();
    }

    fn close_all(&mut self) {
        for index in 0..self.slots.len() {
            if let Some(connection) = self.slots[index].connection.take() {
                self.end(*connection, CloseReason::Stopped);
            }
        }
    }
}
