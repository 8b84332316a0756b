//! Flushes of a durable table, while clients go on. Each is a deed of every key.

use store::{Answer, Asked};

use super::{
    Run,
    deed::{Deed, Verdict},
    model::{Id, Reply},
};

/// Operations for each flush of all.
const FLUSH_EVERY: u32 = 40;

impl Run {
    /// Now and then somebody who is none of the clients has everything be dead.
    pub(super) fn flush_all(&mut self) -> Result<(), String> {
        if self.spilling.is_some() || self.random.below(FLUSH_EVERY) != 0 {
            return Ok(());
        }
        let id = self.next_id;
        self.next_id += 1;
        self.tell(|| format!("{id}: all is to be flushed"));
        let (client, now_ms) = (self.clients.len(), self.clock.now_ms());
        for model in &mut self.models {
            model.tell_ms(now_ms);
            model.ask(id, client, Deed::Flush);
        }
        self.quiesce();
        let at = self.random.below(self.workers.len() as u32) as usize;
        self.flushing.insert(id);
        self.turns.call(at);
        match self.workers[at].flush(id) {
            Asked::Now(answer) => self.hear_of_flush(id, &answer),
            Asked::Later => Ok(()),
            Asked::Busy => {
                self.flushing.remove(&id);
                self.summary.add("flushes refused as busy", 1);
                self.models.iter_mut().try_for_each(|model| model.withdraw(id))
            }
        }
    }

    /// A flush is answered.
    pub(super) fn hear_of_flush(&mut self, id: Id, answer: &Answer<Verdict>) -> Result<(), String> {
        self.tell(|| format!("{id}: {answer:?}"));
        match answer {
            Answer::Flushed => {
                self.flushing.remove(&id);
                self.summary.add("flushes of all", 1);
                self.answer_flush(id, &Reply::Flushed)
            }
            Answer::Failed(_) if self.may_fail() => self.refuse_flush(id),
            other => Err(format!("a flush has come to {other:?}")),
        }
    }

    fn refuse_flush(&mut self, id: Id) -> Result<(), String> {
        self.flushing.remove(&id);
        self.summary.add("flushes refused", 1);
        if self.with_store(|store| store.with_log(|log| log.is_read_only())) {
            // The manifest may be there: the next open will tell.
            return Ok(());
        }
        self.answer_flush(id, &Reply::Refused)
    }

    fn answer_flush(&mut self, id: Id, reply: &Reply) -> Result<(), String> {
        let now_ms = self.clock.now_ms();
        for (key, model) in self.models.iter_mut().enumerate() {
            model.tell_ms(now_ms);
            model.answer(id, reply).map_err(|what| format!("key {key}, flush {id}: {what}"))?;
        }
        Ok(())
    }
}
