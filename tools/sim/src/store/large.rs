//! Large values: clients that send them piece by piece, and take them part by part when they like.

use store::{Answer, Asked, Found, Large, Notice, Part, Took, UploadId, What};

use super::{
    Heard, Run,
    client::{heard, refused},
    deed::{Deed, Verdict},
    model::{Id, Reply},
    name, short,
};

/// A value that a client sends.
#[derive(Debug)]
pub(super) struct Sending {
    id: Id,
    deed: Deed,
    value: Vec<u8>,
    sent: usize,
    /// `None`: there is no room.
    upload: Option<UploadId>,
    waits: bool,
}

/// A value that a client takes.
#[derive(Debug)]
pub(super) struct Taking {
    id: Id,
    at: usize,
    /// What it has yet to begin with: others are read, and there is no room for one more.
    begins: Option<Large>,
    /// Those that it was given and has not taken.
    parts: Vec<Part>,
    value: Vec<u8>,
    value_bytes: u64,
    token: u64,
    is_touch: bool,
}

impl Run {
    /// A value of several parts, which differ.
    pub(super) fn large_value(&mut self) -> Vec<u8> {
        let part_bytes = self.scenario.part_bytes;
        let len = (part_bytes + 1 + self.random.below(part_bytes * 3)) as usize;
        let mut value = Vec::new();
        while value.len() < len {
            value.extend_from_slice(format!("[{}+{}]", self.next_id, value.len()).as_bytes());
        }
        value
    }

    /// A client begins to send. It asks nothing else until it has sent all.
    pub(super) fn send_large(&mut self, client: usize, id: Id, deed: Deed) -> Result<(), String> {
        let (_, key) = self.asked_of(id)?;
        let value = deed.value().to_vec();
        let at = client % self.workers.len();
        match self.workers[at].begin_upload(&name(key), value.len() as u64, id) {
            Ok(upload) => {
                let (upload, sent, waits) = (Some(upload), 0, false);
                let sending = Sending { id, deed, value, sent, upload, waits };
                self.clients[client].sending = Some(sending);
                Ok(())
            }
            Err(error) => self.fill(id, refused(&error)),
        }
    }

    /// Whether a client has something to do by himself.
    pub(super) fn has_transfers(&self) -> bool {
        let sends = |sending: &Option<Sending>| sending.as_ref().is_some_and(|it| !it.waits);
        let begins = |it: &Taking| {
            it.begins.as_ref().is_some_and(|large| self.workers[it.at].may_begin_reading(large))
        };
        self.clients.iter().any(|it| sends(&it.sending))
            || self.taking.iter().any(|it| !it.parts.is_empty() || begins(it))
    }

    /// Some client sends a piece, or takes a part.
    pub(super) fn transfer(&mut self) -> Result<(), String> {
        let client = self.random.below(self.clients.len() as u32) as usize;
        if self.clients[client].sending.as_ref().is_some_and(|it| !it.waits) {
            self.send_piece(client)?;
        }
        if !self.taking.is_empty() {
            let which = self.random.below(self.taking.len() as u32) as usize;
            self.begin_taking(which)?;
            self.take_part(which)?;
        }
        Ok(())
    }

    fn send_piece(&mut self, client: usize) -> Result<(), String> {
        let at = client % self.workers.len();
        let piece_bytes = 1 + self.random.below(self.scenario.part_bytes * 2) as usize;
        let Some(sending) = &mut self.clients[client].sending else { return Ok(()) };
        let Some(upload) = sending.upload else { return Ok(()) };
        let end = sending.value.len().min(sending.sent + piece_bytes);
        let took = self.workers[at].push(upload, &sending.value[sending.sent..end]);
        self.turns.call(at);
        match took {
            Ok(Took::All) => sending.sent = end,
            Ok(Took::Wait(bytes)) => {
                sending.sent += bytes;
                sending.waits = true;
                self.summary.add("waits of uploads", 1);
            }
            Ok(Took::Whole) => return self.finish(client),
            Err(error) => {
                let id = sending.id;
                self.clients[client].sending = None;
                return self.fill(id, refused(&error));
            }
        }
        Ok(())
    }

    /// All was sent: the command is carried out, and what the client asks from now on comes behind.
    fn finish(&mut self, client: usize) -> Result<(), String> {
        let at = client % self.workers.len();
        let Some(sending) = self.clients[client].sending.take() else { return Ok(()) };
        let Sending { id, deed, upload: Some(upload), .. } = sending else { return Ok(()) };
        self.summary.add("large values sent", 1);
        self.tell(|| format!("client {client}: {id} has sent all"));
        match self.workers[at].finish_upload(upload, &deed, || deed.clone()) {
            Asked::Now(answer) => self.fill(id, heard(&deed, answer)),
            Asked::Later => Ok(()),
            Asked::Busy => {
                let (_, key) = self.asked_of(id)?;
                let busy = self.refuse_busy(key, id)?;
                self.fill(id, busy)
            }
        }
    }

    /// An answer has come, whose value may have to be taken in parts.
    pub(super) fn hear(
        &mut self,
        at: usize,
        id: Id,
        answer: Answer<Verdict>,
    ) -> Result<(), String> {
        let deed = self.deed_of(id)?;
        let found = match &answer {
            Answer::Value(found) | Answer::Done { found: Some(found), .. } => Some(found),
            _ => None,
        };
        let Some(Found { meta, large: Some(large), .. }) = found else {
            return self.fill(id, heard(&deed, answer));
        };
        self.taking.push(Taking {
            id,
            at,
            begins: Some(large.clone()),
            parts: Vec::new(),
            value: Vec::new(),
            value_bytes: large.len(),
            token: meta.token,
            is_touch: deed != Deed::Get,
        });
        Ok(())
    }

    /// A client's turn has come to be sent its value, if so many may be.
    fn begin_taking(&mut self, which: usize) -> Result<(), String> {
        let taking = &mut self.taking[which];
        let (id, at) = (taking.id, taking.at);
        let worker = &mut self.workers[at];
        let Some(large) = taking.begins.take_if(|large| worker.may_begin_reading(large)) else {
            let waits = u64::from(taking.begins.is_some());
            self.summary.add("looks of readers for room", waits);
            return Ok(());
        };
        worker.begin_reading(&large, id).map_err(|error| format!("{id} may begin: {error}"))?;
        self.turns.call(at);
        Ok(())
    }

    /// A client has one more part.
    fn take_part(&mut self, which: usize) -> Result<(), String> {
        let taking = &mut self.taking[which];
        if taking.parts.is_empty() {
            return Ok(());
        }
        let part = taking.parts.remove(0);
        taking.value.extend_from_slice(part.bytes());
        let at = taking.at;
        self.workers[at].give_back(part);
        self.turns.call(at);
        if (taking.value.len() as u64) < taking.value_bytes {
            return Ok(());
        }
        let Taking { id, value, token, is_touch, .. } = self.taking.swap_remove(which);
        self.summary.add("large values taken", 1);
        self.fill(
            id,
            Heard::Reply(match is_touch {
                true => Reply::Touched(value, token),
                false => Reply::Value(Some((value, token))),
            }),
        )
    }

    /// What a worker says of uploads and readers.
    pub(super) fn note(&mut self, notice: Notice) -> Result<(), String> {
        let Notice { caller, what } = notice;
        let is_sent = |it: &Option<Sending>| it.as_ref().is_some_and(|it| it.id == caller);
        let client = self.clients.iter().position(|it| is_sent(&it.sending));
        let which = self.taking.iter().position(|it| it.id == caller);
        match (what, client, which) {
            (What::Room, Some(client), _) => {
                self.clients[client].sending.iter_mut().for_each(|it| it.waits = false);
                Ok(())
            }
            (What::Part(part), _, Some(which)) => {
                self.taking[which].parts.push(part);
                Ok(())
            }
            (What::Failed(error), Some(client), _) => {
                self.clients[client].sending = None;
                self.fill(caller, refused(&error))
            }
            (What::Failed(error), _, Some(which)) => {
                let taking = self.taking.swap_remove(which);
                let give_back = |part| self.workers[taking.at].give_back(part);
                taking.parts.into_iter().for_each(give_back);
                self.tell(|| format!("{caller} is not read to its end: {error}"));
                self.fill(caller, Heard::Broken)
            }
            (what, ..) => Err(format!("{caller} is told what is none of its: {}", short(&what))),
        }
    }
}
