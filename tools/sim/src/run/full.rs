//! Full disks: removes go on, and values are taken again when there is room.

use log::{
    engine::{Removed, Wrote},
    error::Error,
};

use super::{Log, Run, TURNS_MAX, client};
use crate::{
    disk::DirectoryId,
    fault::Rates,
    promise::{Version, value},
};

/// Segments that each directory gets beside those that it has, when there is room again.
const SEGMENTS_AGAIN: usize = 16;

/// Milliseconds for which a log may go by what it has found before there was room again.
pub(crate) const REFUSED_MS: u64 = 100;

/// Blocks for another manifest.
const MANIFEST_BLOCKS: usize = 8;

/// Flushes on a full disk of which one may fail.
const FAILING_FLUSH_BELOW: u32 = 60;

/// Keys of what fills it up, beside those that clients use.
pub(super) const FILLING_KEYS: u64 = 300;

/// What removes are counted as that a full disk has taken, and those that it has not.
pub(super) const REMOVES: &str = "removes on a full disk";
pub(super) const REMOVES_REFUSED: &str = "removes refused on a full disk";

/// What crashes between these removes are counted as.
pub(super) const CRASHES: &str = "crashes between removes on a full disk";

/// What came of a write that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    Done,
    /// There is no such key, or it cannot be had.
    Absent,
}

impl Run {
    /// A device fills up or is given room.
    pub(super) fn change_capacity(&mut self) {
        let segments = 2 + self.random.below(24) as usize;
        let directory = self.random.below(self.scenario.directories.into()) as usize;
        let directory = DirectoryId(directory);
        let used = self.machine.disk().used_bytes(directory);
        let capacity = (segments * self.segment_bytes()).max(used) + self.scenario.slack_bytes();
        self.machine.disk().set_capacity(directory, capacity);
    }

    /// Has the disk be full, removes what was put, and then gives it room.
    pub(super) fn fill_up(&mut self) -> Result<(), String> {
        self.machine.disk().set_rates(Rates::none());
        let keys = u64::from(self.scenario.keys);
        let filling = keys..keys + FILLING_KEYS;
        if !self.grow_for(filling.end - 1)? {
            return Ok(());
        }
        self.set_room(0);
        let mut filled = filling.clone();
        let is_full = loop {
            let Some(key) = filled.next() else { break false };
            match self.write_now(key, Some(self.scenario.part_bytes as usize))? {
                Ok(_) => {}
                Err(Error::NoRoom) => break true,
                Err(error) => return self.refused(&error),
            }
        };
        let keeps_for_moves = self.keeps_for_moves();
        let mut has_removed = false;
        self.fail_a_flush();
        let removed: Vec<u64> = (0..keys).chain(filling.start..filled.start).collect();
        let crash_at = self.random.below(u32::try_from(removed.len()).unwrap_or(1)) as usize;
        for (at, key) in removed.into_iter().enumerate() {
            if at == crash_at && keeps_for_moves {
                self.crash();
                self.recover()?;
                self.machine.disk().set_rates(Rates::none());
                self.count(if is_full { CRASHES } else { "crashes on a disk that has room" });
            }
            match self.write_now(key, None)? {
                Ok(Tried::Absent) => {}
                Ok(Tried::Done) => {
                    has_removed = true;
                    self.count(if is_full { REMOVES } else { "removes on a disk that has room" });
                }
                // What a failed flush has left takes what was for them.
                Err(Error::NoRoom) if self.log_mut().setbacks().1 > 0 => {
                    self.count("removes refused after a failed flush");
                }
                // Without moves they end when their segment is full and none is empty by itself.
                // And where moves are made, when crashes have left one that nothing can move to.
                Err(Error::NoRoom)
                    if has_removed && !keeps_for_moves || self.log_mut().space().free < 2 =>
                {
                    self.count(REMOVES_REFUSED);
                }
                Err(Error::NoRoom) => {
                    let free = self.log_mut().space().free;
                    return Err(format!("a remove on a full disk is refused, {free} are empty"));
                }
                Err(error) => return self.refused(&error),
            }
        }
        self.look_at_what_waits_for_room()?;
        if self.put_with_room_again()? && is_full {
            self.count("puts again after a full disk");
        }
        Ok(())
    }

    /// Gives the disk room, and puts all keys again. False if the log was lost meanwhile.
    fn put_with_room_again(&mut self) -> Result<bool, String> {
        self.set_room(SEGMENTS_AGAIN);
        let until_ms = self.now_ms + REFUSED_MS;
        for key in 0..u64::from(self.scenario.keys) {
            loop {
                match self.write_now(key, Some(20))? {
                    Ok(_) => break,
                    // It does not know yet.
                    Err(Error::NoRoom) if self.now_ms < until_ms => self.turn()?,
                    Err(error) => {
                        self.refused(&error)?;
                        let is_over = self.log.as_ref().is_none_or(Log::is_read_only);
                        let what = format!("there is room, and a put is refused: {error}");
                        return if is_over { Ok(false) } else { Err(what) };
                    }
                }
            }
        }
        Ok(true)
    }

    /// Half of the times one of the next flushes fails, if that is the first one.
    fn fail_a_flush(&mut self) {
        let after = self.random.below(FAILING_FLUSH_BELOW);
        let fails = self.random.below(2) == 0 && self.log_mut().setbacks().1 == 0;
        self.machine.disk().fail_flush_after(fails.then_some(after));
    }

    /// What a failed flush has left may be there until there is room: everything can be read.
    fn look_at_what_waits_for_room(&mut self) -> Result<(), String> {
        self.machine.disk().fail_flush_after(None);
        self.settle()?;
        if self.log_mut().setbacks().0 == 0 {
            return Ok(());
        }
        self.count("copies that wait for room");
        for key in self.promises.keys().collect::<Vec<_>>() {
            self.look_up(key, false)?;
        }
        self.settle()
    }

    /// Whether a crash leaves removes a segment. Where nothing moves it takes theirs.
    fn keeps_for_moves(&self) -> bool {
        self.scenario.settings.space_target_percent > 0
    }

    /// Gives each directory room for so many segments beside what it has.
    fn set_room(&mut self, segments: usize) {
        let bytes =
            segments * self.segment_bytes() + MANIFEST_BLOCKS * self.scenario.block_bytes as usize;
        for directory in (0..usize::from(self.scenario.directories)).map(DirectoryId) {
            let used = self.machine.disk().used_bytes(directory);
            self.machine.disk().set_capacity(directory, used + bytes);
        }
    }

    fn segment_bytes(&self) -> usize {
        usize::try_from(self.scenario.segment_bytes).unwrap_or(usize::MAX)
    }

    /// Puts a value or removes it, as soon as that is not to wait any more.
    fn write_now(&mut self, key: u64, len: Option<usize>) -> Result<Result<Tried, Error>, String> {
        if len.is_some() && !self.grow_for(key)? {
            return Ok(Ok(Tried::Absent));
        }
        let version = Version { expires_ms: 0, ..self.version(len) };
        let bytes = value(version.number, len.unwrap_or(0));
        let name = client::name(key);
        for _ in 0..TURNS_MAX {
            let now_ms = self.now_ms;
            let log = self.log_mut();
            let wrote = if len.is_some() {
                log.put(&client::put_of(&name, &bytes, version), now_ms)
            } else {
                match log.remove(&name, now_ms) {
                    Ok(Removed::Absent { .. }) | Err(Error::Key(_)) => {
                        return Ok(Ok(Tried::Absent));
                    }
                    Ok(Removed::Wait) => Ok(Wrote::Wait),
                    Ok(Removed::Done { sequence, mark }) => Ok(Wrote::Done { sequence, mark }),
                    Err(error) => Err(error),
                }
            };
            match wrote {
                Ok(Wrote::Wait) => self.turn()?,
                Ok(done) => {
                    self.wrote(key, version, done);
                    return Ok(Ok(Tried::Done));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Err("a write waits for ever".to_owned())
    }
}
