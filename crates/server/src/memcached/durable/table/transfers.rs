//! Large values that come and go, as the tables hear of them.

use std::{cell::Cell, rc::Rc};

use store::{Asked, Error, ReaderId, Took, What as Heard};

use super::{Caller, Place, Table, Told};
use crate::memcached::durable::{
    asking::Asking,
    board::{Board, LargeBody},
    deed::Deed,
    keys::KEY_ROOM,
    transfer::{Intake, Outgoing, Said},
    unsent::Unsent,
};

impl Table {
    /// What a table says of a large value.
    pub(super) fn hear(&mut self, table: usize, caller: u64, what: Heard) {
        let Some(said) = self.transfers.get(&caller) else {
            if let Heard::Part(part) = what {
                self.at(table).give_back(part);
            }
            return;
        };
        match what {
            Heard::Room => {}
            Heard::Part(part) => said.parts.borrow_mut().push_back(part),
            Heard::Failed(error) => *said.error.borrow_mut() = Some(error),
        }
        said.unsent.rouse();
    }

    /// Tells a table what sessions and outputs have left to be said.
    pub(super) fn tell_store(&mut self, table: usize) {
        let home = Rc::clone(&self.members[table].home);
        if home.is_empty() {
            return;
        }
        for reader in home.advanced.take() {
            self.at(table).note_taken(reader);
        }
        // Who has ended reads no more when his parts are back.
        for (caller, reader) in home.readers.take() {
            self.at(table).end_reading(reader);
            if let Some(said) = self.transfers.remove(&caller) {
                said.parts.take().into_iter().for_each(|part| self.at(table).give_back(part));
            }
        }
        for part in home.parts.take() {
            self.at(table).give_back(part);
        }
        for caller in home.taken.take() {
            // Its connection may end with that.
            if let Some(said) = self.transfers.remove(&caller) {
                said.unsent.rouse();
            }
        }
        for (caller, upload) in home.uploads.take() {
            self.transfers.remove(&caller);
            self.at(table).abort_upload(upload);
        }
    }

    fn begin_transfer(&mut self, unsent: &Rc<Unsent>) -> (u64, Rc<Said>) {
        let (caller, said) = (self.next, Said::new(unsent));
        self.transfers.insert(caller, Rc::clone(&said));
        self.next += 1;
        (caller, said)
    }

    /// Whether a reader more may begin.
    pub(in crate::memcached::durable) fn may_begin_reading(&self, body: &LargeBody) -> bool {
        self.members[body.table].may_begin_reading(&body.large)
    }

    /// Whether all of one is read, or is being read.
    pub(in crate::memcached::durable) fn reads_no_more(&self, outgoing: &Outgoing) -> bool {
        self.members[outgoing.table].reads_no_more(outgoing.reader)
    }

    /// It is the turn of one that was read before. `false` when it has ended.
    pub(in crate::memcached::durable) fn begin_taking(&mut self, outgoing: &Outgoing) -> bool {
        self.at(outgoing.table).begin_taking(outgoing.reader)
    }

    /// Begins to read a large value for the connection of `unsent`.
    pub(in crate::memcached::durable) fn begin_reading(
        &mut self,
        body: &LargeBody,
        unsent: &Rc<Unsent>,
    ) -> Result<Outgoing, Error> {
        let next = self.next;
        let member = self.at(body.table);
        let reader = member.begin_reading(&body.large, next)?;
        Ok(self.outgoing(body, reader, unsent))
    }

    /// Reads one before its turn, if there is memory to spare.
    pub(in crate::memcached::durable) fn read_ahead(
        &mut self,
        body: &LargeBody,
        unsent: &Rc<Unsent>,
    ) -> Option<Outgoing> {
        let next = self.next;
        let reader = self.at(body.table).read_ahead(&body.large, next)?;
        Some(self.outgoing(body, reader, unsent))
    }

    fn outgoing(&mut self, body: &LargeBody, reader: ReaderId, unsent: &Rc<Unsent>) -> Outgoing {
        let home = Rc::clone(&self.members[body.table].home);
        let (caller, said) = self.begin_transfer(unsent);
        let left = Cell::new(body.large.len());
        Outgoing { table: body.table, caller, reader, said, home, left, tail: &[] }
    }

    /// Begins to take a large value.
    pub(in crate::memcached::durable) fn begin_upload(
        &mut self,
        key: &[u8],
        value_bytes: u64,
        unsent: &Rc<Unsent>,
    ) -> Result<Intake, Error> {
        let mut room = [0; KEY_ROOM];
        let Place { table, key } = self.place(key, &mut room);
        let (key, next) = (key.ok_or(Error::ForeignKey)?, self.next);
        let member = self.at(table);
        let upload = member.begin_upload(key, value_bytes, next)?;
        let home = Rc::clone(&member.home);
        let (caller, said) = self.begin_transfer(unsent);
        let upload = Cell::new(Some(upload));
        Ok(Intake { table, caller, upload, said, home })
    }

    /// Takes more of one.
    pub(in crate::memcached::durable) fn push(
        &mut self,
        intake: &Intake,
        bytes: &[u8],
    ) -> Result<Took, Error> {
        let upload = intake.upload.get().ok_or(Error::Ended)?;
        self.at(intake.table).push(upload, bytes)
    }

    /// Carries out the deed that a large value came for.
    pub(in crate::memcached::durable) fn finish_upload(
        &mut self,
        board: &Rc<Board>,
        asking: &Asking<'_>,
        intake: &Intake,
        deed: &Deed<'_>,
    ) -> Told {
        self.transfers.remove(&intake.caller);
        match self.at(intake.table).finish_upload(intake.upload.take(), deed) {
            Asked::Now(answer) => Told::Now(self.form(intake.table, &asking.what, answer)),
            Asked::Later => {
                let (board, slot) = (Rc::clone(board), board.take());
                let caller = Caller { board, slot, saved: asking.save() };
                self.callers.insert(intake.caller, caller);
                Told::Later
            }
            Asked::Busy => Told::Busy,
        }
    }
}
