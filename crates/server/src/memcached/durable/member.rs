//! A thread's access to one of its tables, of whichever kind it is.

use std::rc::Rc;

use cache::{Cache, Output};
use log::{
    index::Keyed,
    plan::{Outcome, Plan, Token},
};
use store::{
    Answer, Answered, Asked, Error, Figures, Got, Large, Notice, Part, ReaderId, Took, UploadId,
    VolatileWorker, Worker,
};

use super::{
    deed::{Deed, Verdict},
    keys::{KEY_ROOM, integer},
    transfer::Home,
};
use crate::{config::KeyRange, memcached::command::StoreCommand};

/// What carries commands out.
#[derive(Debug)]
pub(crate) enum Hands {
    /// Of a table in memory alone.
    Memory(Box<VolatileWorker<Verdict>>),
    /// Of a durable one, or one that spills.
    Log(Box<Worker<Keyed, Deed<'static>>>),
}

/// One table.
#[derive(Debug)]
pub(crate) struct Member {
    hands: Hands,
    /// Longest value that is taken, and longest that lies in one record.
    large_bytes_max: u64,
    value_bytes_max: usize,
    /// Its keys, if they are integers.
    integers: Option<KeyRange>,
    pub(super) home: Rc<Home>,
}

impl Member {
    /// Longer values than `large_bytes_max` are refused, and those longer than `value_bytes_max`
    /// lie in parts.
    pub(crate) fn new(
        hands: Hands,
        cache: &Cache,
        large_bytes_max: u64,
        value_bytes_max: usize,
    ) -> Self {
        let value_bytes_max = value_bytes_max.min(cache.value_size_max());
        Self { hands, large_bytes_max, value_bytes_max, integers: None, home: Rc::default() }
    }

    /// The same with integers of a range for keys.
    pub(crate) fn with_integers(self, integers: Option<KeyRange>) -> Self {
        Self { integers, ..self }
    }

    /// A key as the table has it: all of it, or the integer behind its prefix. `None` if that is no
    /// key of the table.
    pub(super) fn own_key<'k>(
        &self,
        key: &'k [u8],
        prefix_len: usize,
        room: &'k mut [u8; KEY_ROOM],
    ) -> Option<&'k [u8]> {
        let Some(range) = self.integers else { return Some(key) };
        let number = integer(&key[prefix_len..])?;
        if !(range.first..range.end).contains(&number) {
            return None;
        }
        *room = number.to_le_bytes();
        Some(room)
    }

    /// Whether the value of a command is to lie in parts. What is joined with another one never is.
    pub(super) fn takes_in_parts(&self, command: &StoreCommand<'_>) -> bool {
        let len = command.value_len() as usize;
        len > self.value_bytes_max && len as u64 <= self.large_bytes_max && !command.joins()
    }

    /// Longest value that lies in one record.
    pub(super) fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    pub(super) fn quiesce(&mut self) {
        match &mut self.hands {
            Hands::Log(worker) => worker.quiesce(),
            Hands::Memory(worker) => worker.quiesce(),
        }
    }

    pub(super) fn rest(&mut self) {
        match &mut self.hands {
            Hands::Log(worker) => worker.rest(),
            Hands::Memory(worker) => worker.rest(),
        }
    }

    pub(super) fn resume_at(&mut self, now_ms: u64) {
        match &mut self.hands {
            Hands::Log(worker) => worker.resume_at(now_ms),
            Hands::Memory(worker) => worker.resume_at(now_ms),
        }
    }

    pub(super) fn offline<R>(&mut self, blocking: impl FnOnce() -> R) -> R {
        match &mut self.hands {
            Hands::Log(worker) => worker.offline(blocking),
            Hands::Memory(worker) => worker.offline(blocking),
        }
    }

    /// Bounds what is shown from now on in memory of its own: see [`Worker::limit_shown`]. A table
    /// in memory alone copies what a command shows, and counts it afterwards.
    pub(super) fn limit_shown(&mut self, bytes: usize) {
        if let Some(worker) = self.log_mut() {
            worker.limit_shown(bytes);
        }
    }

    pub(super) fn execute(&mut self, key: &[u8], caller: u64, deed: &Deed<'_>) -> Asked<Verdict> {
        match &mut self.hands {
            Hands::Log(worker) => worker.execute(key, caller, deed, || deed.to_owned()),
            Hands::Memory(worker) => Asked::Now(worker.execute(key, deed)),
        }
    }

    pub(super) fn get(&mut self, key: &[u8], caller: u64, out: &mut impl Output) -> Got {
        match &mut self.hands {
            Hands::Log(worker) => worker.get(key, caller, out),
            Hands::Memory(worker) => worker.get(key, out),
        }
    }

    pub(super) fn get_at_once(&mut self, key: &[u8], out: &mut impl Output) -> Option<Got> {
        match &mut self.hands {
            Hands::Log(worker) => worker.get_at_once(key, out),
            // Under its lock it is copied.
            Hands::Memory(worker) => {
                Some(worker.get(key, out)).filter(|got| !matches!(got, Got::Busy))
            }
        }
    }

    pub(super) fn flush(&mut self, caller: u64) -> Asked<Verdict> {
        match &mut self.hands {
            Hands::Log(worker) => worker.flush(caller),
            Hands::Memory(worker) => {
                worker.flush();
                Asked::Now(Answer::Flushed)
            }
        }
    }

    /// What the thread's part of the table has counted.
    pub(crate) fn figures(&self) -> Figures {
        match &self.hands {
            Hands::Log(worker) => worker.figures(),
            Hands::Memory(worker) => worker.figures(),
        }
    }

    fn log(&self) -> Option<&Worker<Keyed, Deed<'static>>> {
        match &self.hands {
            Hands::Log(worker) => Some(worker),
            Hands::Memory(_) => None,
        }
    }

    fn log_mut(&mut self) -> Option<&mut Worker<Keyed, Deed<'static>>> {
        match &mut self.hands {
            Hands::Log(worker) => Some(worker),
            Hands::Memory(_) => None,
        }
    }

    pub(super) fn poll(&mut self) -> Option<Plan> {
        self.log_mut()?.poll()
    }

    pub(super) fn goes_on(&self) -> bool {
        self.log().is_some_and(Worker::goes_on)
    }

    pub(super) fn poll_reads(&mut self) -> Option<Plan> {
        self.log_mut()?.poll_reads()
    }

    pub(super) fn has_reads(&self) -> bool {
        self.log().is_some_and(Worker::has_reads)
    }

    pub(super) fn take_stirred(&mut self) -> bool {
        self.log_mut().is_some_and(Worker::take_stirred)
    }

    pub(super) fn complete(&mut self, token: Token, outcome: Outcome) {
        let log = self.log_mut().expect("invariant: a table in memory hands nothing out");
        log.complete(token, outcome);
    }

    pub(super) fn wake_at_ms(&self) -> Option<u64> {
        self.log()?.wake_at_ms()
    }

    pub(super) fn take_answers(&mut self, into: &mut Vec<Answered<Verdict>>) {
        if let Some(worker) = self.log_mut() {
            worker.take_answers(into);
        }
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        self.log_mut().map_or_else(Vec::new, Worker::take_notices)
    }

    /// Which other threads have got answers.
    pub(super) fn take_wakes(&mut self) -> impl Iterator<Item = usize> + use<> {
        self.log_mut().map(Worker::take_wakes).into_iter().flatten()
    }

    #[cfg(test)]
    pub(super) fn take_values_of(&mut self, bytes_max: u64) {
        self.large_bytes_max = bytes_max;
    }

    #[cfg(test)]
    pub(super) fn large_bytes(&self) -> (usize, usize) {
        self.log().map_or((0, 0), Worker::large_bytes)
    }

    pub(super) fn note_taken(&mut self, reader: ReaderId) {
        self.parts().note_taken(reader);
    }

    pub(super) fn give_back(&mut self, part: Part) {
        self.parts().give_back(part);
    }

    pub(super) fn end_reading(&mut self, reader: ReaderId) {
        self.parts().end_reading(reader);
    }

    pub(super) fn may_begin_reading(&self, large: &Large) -> bool {
        self.log().is_none_or(|worker| worker.may_begin_reading(large))
    }

    pub(super) fn begin_reading(&mut self, large: &Large, caller: u64) -> Result<ReaderId, Error> {
        self.parts().begin_reading(large, caller)
    }

    pub(super) fn read_ahead(&mut self, large: &Large, caller: u64) -> Option<ReaderId> {
        self.parts().read_ahead(large, caller)
    }

    pub(super) fn reads_no_more(&self, reader: ReaderId) -> bool {
        self.log().is_none_or(|worker| worker.reads_no_more(reader))
    }

    pub(super) fn begin_taking(&mut self, reader: ReaderId) -> bool {
        self.parts().begin_taking(reader)
    }

    pub(super) fn begin_upload(
        &mut self,
        key: &[u8],
        value_bytes: u64,
        caller: u64,
    ) -> Result<UploadId, Error> {
        self.parts().begin_upload(key, value_bytes, caller)
    }

    pub(super) fn push(&mut self, upload: UploadId, bytes: &[u8]) -> Result<Took, Error> {
        self.parts().push(upload, bytes)
    }

    pub(super) fn abort_upload(&mut self, upload: UploadId) {
        self.parts().abort_upload(upload);
    }

    pub(super) fn finish_upload(
        &mut self,
        upload: Option<UploadId>,
        deed: &Deed<'_>,
    ) -> Asked<Verdict> {
        match upload {
            Some(upload) => self.parts().finish_upload(upload, deed, || deed.to_owned()),
            None => Asked::Now(Answer::Failed(Error::Ended)),
        }
    }

    /// What has values in parts: only a log has.
    fn parts(&mut self) -> &mut Worker<Keyed, Deed<'static>> {
        self.log_mut().expect("invariant: no value in memory lies in parts")
    }
}
