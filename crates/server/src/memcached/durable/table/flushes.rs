//! A flush of all tables.
//!
//! All of them or none: a server with a table that may not be flushed refuses it before anything is
//! flushed (`flush_refused` of its settings). What comes later is gathered, and answered when the
//! last table has; the first error is the answer.

use std::rc::Rc;

use base::sync::Arc;
use log::error::Error as LogError;
use store::{Answer, Asked, Error};
use wire::memcached::Expiry;

use super::{Table, Told};
use crate::memcached::durable::{asking::Asking, board::Board, deed::Verdict};

/// Milliseconds until one that was due and has failed is tried again.
const RETRY_MS: u64 = 1000;

/// A flush that not all tables have answered.
#[derive(Debug)]
pub(super) struct Flushing {
    /// How many have not.
    left: usize,
    error: Option<Error>,
    /// Its time had come: whoever has asked for it has heard that it will be done.
    is_due: bool,
    /// One that was to come at this time when it was asked for, with which it does away.
    replaces_ms: Option<u64>,
}

impl Flushing {
    fn hear(&mut self, answer: Answer<Verdict>) {
        if let Answer::Failed(error) = answer {
            self.error.get_or_insert(error);
        }
    }

    fn answer(self) -> Answer<Verdict> {
        self.error.map_or(Answer::Flushed, Answer::Failed)
    }
}

impl Table {
    /// Makes all records of all tables dead, now or later.
    pub(in crate::memcached::durable) fn flush_all(
        &mut self,
        board: &Rc<Board>,
        asking: &Asking<'_>,
        at: Expiry,
    ) -> Told {
        let asked = match at {
            _ if self.desk.server.settings().flush_refused => {
                Asked::Now(Answer::Failed(Error::NoFlush))
            }
            Expiry::Never | Expiry::Past => self.flush_tables(false),
            later => {
                self.flush_time.set(self.desk.deadline_ms(later));
                // When this thread wakes may be another time now.
                self.is_stirred = true;
                Asked::Now(Answer::Flushed)
            }
        };
        self.told(0, board, asking, asked)
    }

    /// Makes all records dead, because the time has come.
    #[cold]
    pub(super) fn flush_as_asked(&mut self) {
        let flush_time = Arc::clone(&self.flush_time);
        flush_time.carry_out(self.desk.now_ms, || match self.flush_tables(true) {
            Asked::Now(answer) => {
                tell_of_flush(&answer);
                true
            }
            Asked::Later => true,
            // Then it is still due.
            Asked::Busy => false,
        });
        self.next += 1;
    }

    /// Has each table be flushed, under one number, which is the next one's no more if anything is
    /// to come. One that has no place for that now has all of them be asked again: to be flushed
    /// twice is to be flushed.
    fn flush_tables(&mut self, is_due: bool) -> Asked<Verdict> {
        let caller = self.next;
        let replaces_ms = self.flush_time.due_ms().filter(|_| !is_due);
        let mut flushing = Flushing { left: 0, error: None, is_due, replaces_ms };
        let mut is_busy = false;
        for table in 0..self.members.len() {
            match self.at(table).flush(caller) {
                Asked::Now(answer) => flushing.hear(answer),
                Asked::Later => flushing.left += 1,
                Asked::Busy => is_busy = true,
            }
        }
        let is_over = flushing.left == 0;
        if is_over && !is_busy {
            return Asked::Now(self.end_flush(flushing));
        }
        if is_busy {
            (flushing.is_due, flushing.replaces_ms) = (false, None);
        }
        if !is_over {
            self.flushing.insert(caller, flushing);
        }
        if is_busy {
            // What is to come is nobody's answer.
            self.next += 1;
            return Asked::Busy;
        }
        Asked::Later
    }

    /// All tables have answered. One that was due and has failed is tried again, unless no waiting
    /// mends that, or another table has been flushed, and has had writes since.
    fn end_flush(&mut self, flushing: Flushing) -> Answer<Verdict> {
        match (&flushing.error, flushing.replaces_ms) {
            (None, Some(at_ms)) => self.flush_time.take_back(at_ms),
            (Some(Error::Log(LogError::ReadOnly | LogError::WipeUnsure(_))), _) => {}
            (Some(_), _)
                if flushing.is_due
                    && self.members.len() == 1
                    && !base::mutant!("server_failed_flush_forgotten") =>
            {
                self.flush_time.set_if_none(self.desk.now_ms + RETRY_MS);
            }
            _ => {}
        }
        flushing.answer()
    }

    /// Takes a table's answer. Gives it back unless it is to a flush of which more is to come, or
    /// for which nobody waits.
    pub(super) fn flushed(
        &mut self,
        caller: u64,
        answer: Answer<Verdict>,
    ) -> Option<(u64, Answer<Verdict>)> {
        let Some(flushing) = self.flushing.get_mut(&caller) else { return Some((caller, answer)) };
        flushing.hear(answer);
        flushing.left -= 1;
        if flushing.left > 0 {
            return None;
        }
        let flushing = self.flushing.remove(&caller)?;
        let answer = self.end_flush(flushing);
        if self.callers.contains_key(&caller) {
            return Some((caller, answer));
        }
        tell_of_flush(&answer);
        None
    }
}

/// What a flush has come to that nobody waits for.
fn tell_of_flush(answer: &Answer<Verdict>) {
    if let Answer::Failed(error) = answer {
        tracing::error!(%error, "a flush that was asked for is not done");
    }
}
