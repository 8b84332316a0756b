//! Batches: what takes effect together, through crashes too.

use log::engine::{Batch, Change, Mark};

use super::{Run, TURNS_MAX, Waiting, client};
use crate::promise::{Number, Version, value};

/// The most changes of a batch; keys may come more than once.
const CHANGES_MAX: u32 = 5;

/// The longest value in a batch.
const VALUE_BYTES_MAX: u32 = 60;

/// A value of so many bytes shows which version it is.
const TELLING_BYTES: usize = 8;

/// A batch that was made since the last crash.
#[derive(Debug)]
pub(super) struct Made {
    changes: Vec<(u64, Number)>,
    /// A key shows what the batch has made of it.
    is_shown: bool,
    /// A key shows what it was before.
    is_undone: bool,
}

impl Run {
    /// A few puts and removes, all of them or none.
    pub(super) fn batch(&mut self) -> Result<(), String> {
        let count = 2 + self.random.below(CHANGES_MAX - 1);
        let mut made: Vec<(u64, Version, Vec<u8>)> = Vec::new();
        for _ in 0..count {
            let key = self.random.below(self.scenario.keys).into();
            if !self.grow_for(key)? {
                return Ok(());
            }
            let len = self.random.below(VALUE_BYTES_MAX) as usize;
            // A remove of what is not there leaves no record that could be lost.
            let known =
                made.iter().rfind(|(other, ..)| *other == key).map(|(_, version, _)| *version);
            let newest = known.unwrap_or_else(|| self.promises.newest(key));
            let may_remove = !newest.is_absent(self.now_ms) && !self.unread.hides(key);
            let is_put = !may_remove || self.random.below(4) > 0;
            let version = self.version(is_put.then_some(len));
            made.push((key, version, value(version.number, len)));
        }
        let names: Vec<Vec<u8>> = made.iter().map(|(key, ..)| client::name(*key)).collect();
        let changes: Vec<Change<'_>> = made
            .iter()
            .zip(&names)
            .map(|((_, version, value), name)| match version.value_len {
                Some(_) => Change::Put(client::put_of(name, value, *version)),
                None => Change::Remove(name),
            })
            .collect();
        let Some(marks) = self.write_batch(&changes)? else { return Ok(()) };
        let made: Vec<(u64, Version)> = made.iter().map(|(key, it, _)| (*key, *it)).collect();
        self.tell(|_| format!("batch {made:?}, {marks:?}"));
        for (key, version) in &made {
            self.publish(*key, *version);
        }
        let changes: Vec<_> = made.iter().map(|(key, it)| (*key, it.number)).collect();
        self.batches.push(Made { changes: changes.clone(), is_shown: false, is_undone: false });
        self.waiting.push(Waiting::Batch { changes, marks });
        self.count("batches");
        Ok(())
    }

    /// Asks until there is room. Nothing, when it was refused or the machine has stopped.
    fn write_batch(&mut self, changes: &[Change<'_>]) -> Result<Option<(Mark, Mark)>, String> {
        for _ in 0..TURNS_MAX {
            let now_ms = self.now_ms;
            match self.log_mut().write_batch(changes, now_ms) {
                Ok(Batch::Done { marks, .. }) => {
                    return marks.map(Some).ok_or_else(|| "a batch waits for nothing".to_owned());
                }
                Ok(Batch::Wait) => {}
                Err(error) => return self.refused(&error).map(|()| None),
            }
            self.turn()?;
            if self.machine.has_stopped() {
                return Ok(None);
            }
        }
        Err("a batch waits for ever".to_owned())
    }

    /// Notes what a key shows after a crash, for the batches that have changed it.
    pub(super) fn note_shown(&mut self, key: u64, seen: Option<&[u8]>, times: (u64, u64)) {
        let history: Vec<Version> = self.promises.versions(key).collect();
        for batch in &mut self.batches {
            for (_, number) in batch.changes.iter().filter(|(changed, _)| *changed == key) {
                // Of what is promised, and what came before, nothing can be missing.
                let Some(at) = history.iter().position(|it| it.number == *number) else { continue };
                let tells = seen.is_some_and(|bytes| bytes.len() >= TELLING_BYTES);
                batch.is_shown |= tells && history[at].may_look_like(seen, times);
                batch.is_undone |= !history[at..].iter().any(|it| it.may_look_like(seen, times));
            }
        }
    }

    /// After a crash each batch is there or not. A version that is newer than a batch says nothing
    /// of it.
    pub(super) fn check_batches(&mut self) -> Result<(), String> {
        if self.unread.is_any() {
            // Once more when all of it can be read.
            for batch in &mut self.batches {
                (batch.is_shown, batch.is_undone) = (false, false);
            }
            return Ok(());
        }
        let batches = std::mem::take(&mut self.batches);
        if self.has_lied() {
            return Ok(());
        }
        for batch in batches {
            match (batch.is_shown, batch.is_undone) {
                (true, true) => return Err(format!("a batch is there in part: {batch:?}")),
                (false, true) => self.count("batches lost whole"),
                (_, false) => {}
            }
        }
        Ok(())
    }
}
