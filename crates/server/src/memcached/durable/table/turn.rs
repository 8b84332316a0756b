//! What a data thread asks of its tables from turn to turn: what is to be done, and when.

use std::{mem, rc::Rc};

use log::plan::{Outcome, Plan, Token};
use reactor::ConnId;

use super::Table;
use crate::memcached::durable::{member::Member, unsent::Unsent};

impl Table {
    /// Runs what blocks while no other thread waits for this one.
    pub(crate) fn offline<R>(&mut self, blocking: impl FnOnce() -> R) -> R {
        self.members[self.current].offline(blocking)
    }

    /// The next thing that a table wants to be done.
    pub(crate) fn poll(&mut self, table: usize) -> Option<Plan> {
        self.at(table).poll()
    }

    /// Whether the last poll of a table gave nothing though there is more to do: see
    /// [`store::Worker::goes_on`].
    #[must_use]
    pub(crate) fn goes_on(&self, table: usize) -> bool {
        self.members[table].goes_on()
    }

    /// The next read for those who wait for records of a table.
    pub(crate) fn poll_reads(&mut self, table: usize) -> Option<Plan> {
        self.at(table).poll_reads()
    }

    /// Whether reads are to be handed out, of whoever waits for them.
    #[must_use]
    pub(crate) fn has_reads(&self) -> bool {
        self.members.iter().any(Member::has_reads)
    }

    /// Whether anything was asked or reported since the last call.
    pub(crate) fn take_stirred(&mut self) -> bool {
        let stirred = self.members.iter_mut().fold(false, |any, it| it.take_stirred() | any);
        stirred | mem::take(&mut self.is_stirred)
    }

    /// Takes what came of it.
    pub(crate) fn complete(&mut self, table: usize, token: Token, outcome: Outcome) {
        self.at(table).complete(token, outcome);
    }

    /// When it is to be polled at the latest.
    #[must_use]
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        let watched_ms = self.watched.iter().map(|(at_ms, _)| *at_ms);
        let others_ms = self.members.iter().filter_map(Member::wake_at_ms);
        watched_ms.chain(others_ms).chain(self.flush_time.due_ms()).min()
    }

    /// When a table is to be polled at the latest.
    #[must_use]
    pub(crate) fn due_at_ms(&self, table: usize) -> Option<u64> {
        let due_ms = self.members[table].wake_at_ms();
        due_ms.into_iter().chain(self.flush_time.due_ms()).min()
    }

    /// Has a connection be served at a time.
    pub(in crate::memcached::durable) fn watch(&mut self, unsent: &Rc<Unsent>, at_ms: u64) {
        if !unsent.is_watched.replace(true) {
            self.watched.push((at_ms, Rc::clone(unsent)));
            self.is_stirred = true;
        }
    }

    pub(super) fn rouse_watched(&mut self) {
        let now_ms = self.desk.now_ms;
        for (_, unsent) in self.watched.extract_if(.., |(at_ms, _)| now_ms >= *at_ms) {
            unsent.is_watched.set(false);
            unsent.rouse();
        }
    }

    /// Whether anybody waits for an answer.
    #[must_use]
    pub(crate) fn is_waited_for(&self) -> bool {
        let has_callers = !self.callers.is_empty() || !self.flushing.is_empty();
        has_callers || !self.transfers.is_empty()
    }

    /// Which other threads have got answers of a table.
    pub(crate) fn take_wakes(&mut self, table: usize) -> impl Iterator<Item = usize> + use<> {
        self.members[table].take_wakes()
    }

    /// Whether connections are to be served.
    #[must_use]
    pub(crate) fn has_roused(&self) -> bool {
        self.unsent.has_roused() || self.members.iter().any(|it| !it.home.is_empty())
    }

    /// Connections that are to be served, since they have got replies or sent what they had.
    pub(crate) fn take_roused(&mut self, rouse: impl FnMut(ConnId)) {
        self.unsent.take_roused(rouse);
    }
}
