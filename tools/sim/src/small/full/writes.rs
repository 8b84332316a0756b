//! What is written to a log whose disk fills up, and what comes of it.

use log::{
    engine::{Mark, Mode, Settled, Wrote},
    error::Error,
    plan::Failure,
};

use super::{super::Problem, IDLE_MS, TURNS_MAX, Trial};
use crate::{promise::Version, run::REFUSED_MS};

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    Done,
    /// There was no room.
    Refused,
    /// What was to be removed is not there.
    Absent,
}

impl Trial {
    /// Writes where there is room; the log may go by what it has found before, but not for long.
    pub(super) fn write_in_the_end(
        &mut self,
        key: u64,
        len: Option<usize>,
        lives_ms: u64,
    ) -> Result<(), Problem> {
        for _ in 0..TURNS_MAX {
            if self.write(key, len, lives_ms)? != Tried::Refused {
                return Ok(());
            }
            if self.player.now_ms >= self.room_ms + REFUSED_MS {
                break;
            }
            self.turn();
        }
        Err(format!("there is room, and a write of key {key} is refused"))
    }

    /// Writes, and counts what comes of it on a full disk.
    pub(super) fn try_write(
        &mut self,
        key: u64,
        len: Option<usize>,
        lives_ms: u64,
    ) -> Result<Tried, Problem> {
        let len = len.map(|len| self.len(len));
        let tried = self.write(key, len, lives_ms)?;
        if tried == Tried::Refused && (!self.is_full() || self.has_room()) {
            return Err(format!("a write of key {key} is refused, and there is room"));
        }
        if !self.is_full() {
            return Ok(tried);
        }
        let segments_moved = self.player.log_mut()?.counts().segments_moved;
        self.moved_before.get_or_insert(segments_moved);
        // Where nothing can be written nobody asks what was refused.
        let is_refused = tried == Tried::Refused && !self.may_fail();
        let (done, refused) = match len {
            Some(_) => (&mut self.met.puts, &mut self.met.puts_refused),
            None => (&mut self.met.removes, &mut self.met.removes_refused),
        };
        *done += u64::from(tried == Tried::Done);
        *refused += u64::from(is_refused);
        if len.is_none() && tried != Tried::Absent {
            if is_refused && !self.has_removed {
                return Err("the first remove on a full disk is refused".to_owned());
            }
            self.has_removed = true;
        }
        Ok(tried)
    }

    /// How long a value is that may be large.
    pub(super) fn len(&self, len: usize) -> usize {
        if self.variant.has_large { len } else { len.min(self.player.scenario.part_bytes as usize) }
    }

    fn write(&mut self, key: u64, len: Option<usize>, lives_ms: u64) -> Result<Tried, Problem> {
        let expires_ms = if lives_ms > 0 { self.player.now_ms + lives_ms } else { 0 };
        let version = self.player.version(len, expires_ms);
        let mut upload = None;
        for _ in 0..TURNS_MAX {
            match self.player.ask(key, version, &mut upload) {
                Ok(Some(Wrote::Wait)) => self.turn(),
                Ok(Some(Wrote::Done { mark, .. })) => {
                    self.player.publish(key, version);
                    return self.wait(key, version, mark);
                }
                Ok(None) if self.player.promises.newest(key).is_absent(self.player.now_ms) => {
                    return Ok(Tried::Absent);
                }
                Ok(None) => return Err(format!("key {key} is not there")),
                Err(Error::NoRoom | Error::Disk { failure: Failure::Full, .. }) => {
                    return Ok(Tried::Refused);
                }
                Err(Error::ReadOnly | Error::Unflushed) if self.may_fail() => {
                    return Ok(Tried::Refused);
                }
                Err(error) => return Err(format!("a write of key {key} is refused: {error}")),
            }
        }
        Err(format!("a write of key {key} waits for ever"))
    }

    fn wait(&mut self, key: u64, version: Version, mark: Mark) -> Result<Tried, Problem> {
        for _ in 0..TURNS_MAX {
            match self.player.log_mut()?.may_answer(mark) {
                Settled::Pending => self.turn(),
                Settled::Failed if self.may_fail() => return Ok(Tried::Done),
                Settled::Failed => return Err(format!("a write of key {key} has failed")),
                Settled::Done if self.variant.mode == Mode::Safe => {
                    self.player.promises.promise(key, version.number);
                    return Ok(Tried::Done);
                }
                Settled::Done => {
                    let now_ms = self.player.now_ms;
                    self.player.promises.acknowledge(key, version.number, now_ms);
                    return Ok(Tried::Done);
                }
            }
        }
        Err(format!("an answer to a write of key {key} never comes"))
    }

    pub(super) fn turn(&mut self) {
        self.player.turn();
        if self.player.machine.in_flight() == 0 {
            self.player.now_ms += IDLE_MS;
        }
    }

    /// Until there is nothing to be done.
    pub(super) fn idle(&mut self) -> Result<(), Problem> {
        for _ in 0..TURNS_MAX {
            self.turn();
            if self.player.is_idle() {
                return Ok(());
            }
        }
        Err("there is always something to be done".to_owned())
    }
}
