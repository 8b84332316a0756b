//! What clients ask, and what they hear.

use store::{Answer, Asked, Error, Found, Got};

use super::{
    DEPTH_MAX, Heard, Run,
    deed::{Deed, Verdict},
    model::{Id, Reply},
    name, short,
};
use crate::scenario::Class;

/// Milliseconds that a value is there at most which is not there for ever.
const LIFE_MS_MAX: u32 = 40;

/// Deeds for each that stores a large value.
const LARGE_EVERY: u32 = 12;

impl Run {
    /// Some client asks something, if it may.
    pub(super) fn ask(&mut self) -> Result<(), String> {
        let client = self.random.below(self.clients.len() as u32) as usize;
        let is_sending = self.clients[client].sending.is_some();
        if self.clients[client].asked.len() >= DEPTH_MAX || is_sending {
            return Ok(());
        }
        let key = self.random.below(self.models.len() as u32) as usize;
        let deed = self.deed(client, key);
        self.ask_of(client, key, deed)
    }

    fn deed(&mut self, client: usize, key: usize) -> Deed {
        let token = self.clients[client].tokens.get(&key).copied().unwrap_or(1);
        let until_ms = self.clock.now_ms() + 1 + u64::from(self.random.below(LIFE_MS_MAX));
        // A ring has no values in parts.
        if self.spilling.is_none() && self.random.below(LARGE_EVERY) == 0 {
            let value = self.large_value();
            return Deed::Large(Box::new(match self.random.below(8) {
                0 => Deed::Add(value),
                1 => Deed::Replace(value),
                2 => Deed::Compare(token, value),
                3 => Deed::SetUntil(value, until_ms),
                _ => Deed::Set(value),
            }));
        }
        match self.random.below(18) {
            0..=4 => Deed::Get,
            5 | 6 => Deed::Set(self.value()),
            16 => Deed::SetUntil(self.value(), until_ms),
            17 => Deed::Touch(until_ms),
            7 => Deed::Set(self.random.below(100).to_string().into_bytes()),
            8 => Deed::Add(self.value()),
            9 => Deed::Replace(self.value()),
            10 => Deed::Append(self.short_value()),
            11 => Deed::Prepend(self.short_value()),
            12 => Deed::Compare(token, self.value()),
            13 => Deed::Count(1 + u64::from(self.random.below(5))),
            14 => Deed::Touch(0),
            _ => Deed::Delete,
        }
    }

    fn short_value(&mut self) -> Vec<u8> {
        format!("[{}]", self.next_id).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let mut value = self.short_value();
        let most = self.scenario.part_bytes.min(4000);
        // Some that memory hands out pinned instead of copied.
        let len = match self.random.below(12) {
            0 => self.scenario.part_bytes,
            _ => [0, 30, most / 2, most][self.random.below(4) as usize],
        } as usize;
        value.resize(value.len().max(len), b'.');
        value
    }

    pub(super) fn ask_of(&mut self, client: usize, key: usize, deed: Deed) -> Result<(), String> {
        let Some(slot) = self.clients[client].slots.take() else {
            return Err("a client has no slot".to_owned());
        };
        let id = self.next_id;
        self.next_id += 1;
        self.summary.add("commands", 1);
        if !self.flushing.is_empty() {
            self.summary.add("commands during a flush of all", 1);
        }
        self.clients[client].asked.push_back((id, deed.clone(), key));
        self.models[key].tell_ms(self.clock.now_ms());
        self.models[key].ask(id, client, deed.plain());
        self.waiting.insert(id, (client, slot, self.failures()));
        self.tell(|| format!("client {client}, key {key}: {id} {}", short(&deed)));
        if self.is_read_only() {
            self.read_only_from.get_or_insert(id);
        }
        if matches!(deed, Deed::Large(_)) {
            return self.send_large(client, id, deed);
        }
        let name = name(key);
        // A connection is its thread's.
        let at = client % self.workers.len();
        self.quiesce();
        let worker = &mut self.workers[at];
        let heard = if deed == Deed::Get {
            let mut out = Vec::new();
            match worker.get(&name, id, &mut out) {
                Got::Hit(meta) => Some(Heard::Reply(Reply::Value(Some((out, meta.token))))),
                Got::Large(pinned) => {
                    self.summary.add("large hits", 1);
                    let value: Vec<u8> = pinned.slices().flatten().copied().collect();
                    Some(Heard::Reply(Reply::Value(Some((value, pinned.meta().token)))))
                }
                Got::Miss => Some(Heard::Reply(Reply::Value(None))),
                Got::Later => None,
                Got::Busy => Some(self.refuse_busy(key, id)?),
                Got::Failed(error) => Some(refused(&error)),
            }
        } else {
            match worker.execute(&name, id, &deed, || deed.clone()) {
                Asked::Now(answer) => {
                    self.hear(at, id, answer)?;
                    None
                }
                Asked::Later => None,
                Asked::Busy => Some(self.refuse_busy(key, id)?),
            }
        };
        self.turns.call(at);
        match heard {
            Some(heard) => self.fill(id, heard),
            None => Ok(()),
        }
    }

    /// Too much waits: the command is as if it had not been asked.
    pub(super) fn refuse_busy(&mut self, key: usize, id: Id) -> Result<Heard, String> {
        self.summary.add("refused as busy", 1);
        self.models[key].withdraw(id).map_err(|what| format!("key {key}, busy {id}: {what}"))?;
        Ok(Heard::Busy)
    }

    fn is_read_only(&self) -> bool {
        self.with_store(|store| store.with_log(|log| log.is_read_only()))
    }

    /// Flushes that have failed since the log was opened.
    fn failures(&self) -> u32 {
        self.with_store(|store| store.with_log(|log| log.setbacks().1))
    }

    /// A failed flush is told of where one can fail: to what changes something when one has failed
    /// since it was asked, and to whoever sees what was never flushed where that cannot be mended
    /// any more.
    fn check_lost(&self, id: Id) -> Result<(), String> {
        if self.scenario.class != Class::Failing {
            return Err(format!("command {id} hears of a failed flush where none fails"));
        }
        if self.spilling.is_some() {
            return Ok(());
        }
        let (deed, key) = self.asked_of(id)?;
        let failed_before = self.waiting.get(&id).map_or(0, |(.., failures)| *failures);
        if *deed != Deed::Get && self.failures() > failed_before {
            return Ok(());
        }
        let is_read_only = self.is_read_only();
        // What waited when the last flush failed is told so without a look at each record, and what
        // was written again is not told from what had been a copy.
        let has_waited = self.read_only_from.is_none_or(|first| id < first);
        let counts = self.with_store(|store| store.with_log(|log| log.counts()));
        let is_copy = counts.rewritten > 0 && counts.records_moved > 0;
        if is_read_only && (has_waited || is_copy || self.models[key].may_be_unflushed(id)) {
            return Ok(());
        }
        let all = "all is flushed or will be";
        Err(format!("key {key}: {id} {} hears of a failed flush, and {all}", short(deed)))
    }

    /// An answer has come.
    pub(super) fn fill(&mut self, id: Id, heard: Heard) -> Result<(), String> {
        if matches!(heard, Heard::Lost) {
            self.check_lost(id)?;
        }
        let Some((client, slot, _)) = self.waiting.remove(&id) else {
            return Err(format!("command {id} is answered twice"));
        };
        self.clients[client].slots.fill(slot, heard, 1);
        self.send(client)
    }

    /// What may be sent is heard: by who has asked first.
    fn send(&mut self, client: usize) -> Result<(), String> {
        self.note_losses();
        while let Some((_, heard)) = self.clients[client].slots.send_next() {
            let connection = &mut self.clients[client];
            let asked = connection.asked.pop_front();
            let (id, deed, key) = asked.ok_or("more is answered than was asked")?;
            if self.trace {
                eprintln!("client {client}, key {key}: {id} heard {}", short(&heard));
            }
            let model = &mut self.models[key];
            model.tell_ms(self.clock.now_ms());
            if self.spilling.is_some() && model.has_to_find(id) {
                self.summary.add("looks at what has to be there", 1);
            }
            match heard {
                Heard::Busy => {}
                Heard::Refused(why) => {
                    model.answer(id, &Reply::Refused).map_err(|what| format!("{why}: {what}"))?;
                }
                // A get has no effect that could be lost.
                Heard::Lost | Heard::Broken if deed == Deed::Get => {
                    model.answer(id, &Reply::Refused)?
                }
                Heard::Broken => model.lose(id)?,
                Heard::Lost => {
                    self.summary.add("lost answers", 1);
                    model.lose(id)?;
                }
                Heard::Reply(reply) => {
                    if reply == Reply::Value(None) && model.may_have_expired() {
                        self.summary.add("gets of what has expired", 1);
                    }
                    if let Reply::Value(Some((_, token))) | Reply::Verdict(_, Some(token)) = &reply
                    {
                        connection.tokens.insert(key, *token);
                    }
                    model.answer(id, &reply).map_err(|what| {
                        format!("key {key}, command {id} ({deed:?}) of client {client}: {what}")
                    })?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn deed_of(&self, id: Id) -> Result<Deed, String> {
        self.asked_of(id).map(|(deed, _)| deed.clone())
    }

    /// What was asked under this number, and of which key.
    pub(super) fn asked_of(&self, id: Id) -> Result<(&Deed, usize), String> {
        let asked = self.waiting.get(&id).map(|(client, ..)| &self.clients[*client].asked);
        let found = asked.into_iter().flatten().find(|(asked, ..)| *asked == id);
        found.map(|(_, deed, key)| (deed, *key)).ok_or(format!("command {id} is answered twice"))
    }
}

pub(super) fn refused(error: &Error) -> Heard {
    match error {
        Error::Log(log::error::Error::Unflushed) => Heard::Lost,
        other => Heard::Refused(other.to_string()),
    }
}

pub(super) fn heard(deed: &Deed, answer: Answer<Verdict>) -> Heard {
    let value = |found: Found| (found.value.to_vec(), found.meta.token);
    Heard::Reply(match answer {
        Answer::Value(found) => Reply::Value(Some(value(found))),
        Answer::Miss => Reply::Value(None),
        Answer::Failed(error) => return refused(&error),
        Answer::Flushed => Reply::Flushed,
        Answer::Done { was_there, .. } if *deed == Deed::Delete => Reply::Removed(was_there),
        Answer::Done { found: Some(found), .. } => {
            let (value, token) = value(found);
            Reply::Touched(value, token)
        }
        Answer::Done { verdict, token, .. } => Reply::Verdict(verdict, token),
    })
}
