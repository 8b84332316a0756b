//! Disks that are full from any action of a script on.
//!
//! Puts wait then or are refused, removes go on, what was promised stays, and when there is room
//! puts go on, without a new open, and space comes back.

mod writes;

use log::{
    engine::{Mode, Settled},
    error::Error,
    plan::Failure,
};

use self::writes::Tried;
use super::{KEYS, Player, Problem, ROUNDS, SPACE_TARGET_PERCENT, scenario, writes_of};
use crate::{disk::Full, machine::Crash, run, scenario::Scenario};

/// What kind of log, and how its disk fills up.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// When writes are answered.
    pub mode: Mode,
    /// Directories of the log.
    pub directories: u16,
    /// Those of them that fill up.
    pub filled: &'static [usize],
    /// How full they are.
    pub full: Full,
    /// Whether there are large values.
    pub has_large: bool,
}

/// What the disk was like, and what came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    /// Puts that were done on a full disk.
    pub puts: u64,
    /// Puts that were refused there.
    pub puts_refused: u64,
    /// Removes that were done there.
    pub removes: u64,
    /// Removes that were refused there.
    pub removes_refused: u64,
    /// Puts that were done there because others were removed.
    pub puts_after_removes: u64,
    /// Logs that could be opened there.
    pub opened: u64,
    /// And that could not.
    pub not_opened: u64,
    /// Logs that took no writes any more.
    pub read_only: u64,
    /// Segments out of which what lives was moved there.
    pub segments_moved: u64,
}

impl Met {
    /// All of `other` as well.
    pub fn merge(&mut self, other: &Self) {
        self.puts += other.puts;
        self.puts_refused += other.puts_refused;
        self.removes += other.removes;
        self.removes_refused += other.removes_refused;
        self.puts_after_removes += other.puts_after_removes;
        self.opened += other.opened;
        self.not_opened += other.not_opened;
        self.read_only += other.read_only;
        self.segments_moved += other.segments_moved;
    }
}

/// Turns that are enough for anything that can end at all.
const TURNS_MAX: u32 = 5000;

/// How much time passes when nothing is under way.
const IDLE_MS: u64 = 10;

/// Segments in use beside those that what lives may take: the open one and the survivors', and of
/// so few segments the rest of one.
const SEGMENTS_BESIDE: u64 = 4;

/// The keys of the script.
const ALL_KEYS: u64 = KEYS + ROUNDS / 4;

/// A log whose disk fills up.
struct Trial {
    player: Player,
    variant: Variant,
    met: Met,
    /// The disk is full, and there was a remove since.
    has_removed: bool,
    /// When there was room again.
    room_ms: u64,
    /// Segments that had been moved when it was seen to be full.
    moved_before: Option<u64>,
}

/// How many actions the script takes when the disk does not fill up.
///
/// # Errors
/// When something goes wrong all the same.
pub fn actions_of(variant: Variant, seed: u64) -> Result<u64, Problem> {
    let mut trial = Trial::new(variant, seed);
    trial.play()?;
    Ok(trial.player.machine.performed())
}

/// Plays the script on a disk that is full behind so many actions.
///
/// # Errors
/// When a value is wrong or lost, a write waits for ever or is refused for no reason, or space does
/// not come back.
pub fn every_full(variant: Variant, seed: u64, actions: u64) -> Result<Met, Problem> {
    let mut trial = Trial::new(variant, seed);
    trial.player.machine.fill_after(actions, variant.filled, variant.full);
    trial.play()?;
    trial.fill_now();
    trial.remove_some(actions)?;
    trial.look()?;
    // What cannot be written is tried twice, and then the log has to be opened anew.
    if variant.full == Full::Writes || !actions.is_multiple_of(2) {
        trial.crash(actions)?;
        trial.open_and_check()?;
    }
    trial.make_room();
    if trial.player.log.is_none() {
        trial.open_and_check()?;
    }
    trial.go_on()?;
    trial.crash(actions + 1)?;
    trial.open_and_check()?;
    Ok(trial.met)
}

impl Trial {
    fn new(variant: Variant, seed: u64) -> Self {
        let base = scenario(seed);
        let mut settings = base.settings;
        (settings.mode, settings.space_target_percent) = (variant.mode, SPACE_TARGET_PERCENT);
        let directories = variant.directories;
        let player =
            Player::with(Scenario { keys: ALL_KEYS as u32, directories, settings, ..base });
        Self {
            player,
            variant,
            met: Met::default(),
            has_removed: false,
            room_ms: 0,
            moved_before: None,
        }
    }

    fn is_full(&self) -> bool {
        self.player.machine.is_full()
    }

    /// Whether writes fail that need no room.
    fn may_fail(&self) -> bool {
        self.is_full() && self.variant.full == Full::Writes
    }

    /// Whether the log has the room of a directory that is not full.
    fn has_room(&self) -> bool {
        let has_home = match self.variant.full {
            Full::Below(_) => true,
            Full::Growth => !self.variant.filled.contains(&0),
            Full::Writes => false,
        };
        has_home && self.variant.filled.len() < usize::from(self.variant.directories)
    }

    fn fill_now(&mut self) {
        if !self.is_full() {
            self.player.machine.fill_after(0, self.variant.filled, self.variant.full);
        }
    }

    fn make_room(&mut self) {
        let capacity_bytes = self.player.scenario.capacity_bytes;
        self.player.machine.make_room(capacity_bytes);
        self.room_ms = self.player.now_ms;
        self.has_removed = false;
    }

    /// Opens the log. `false`, when the disk is too full for that.
    fn open(&mut self) -> Result<bool, Problem> {
        let Player { scenario, machine, now_ms, .. } = &mut self.player;
        match run::open(scenario, machine, *now_ms) {
            Ok((log, report)) if report.damages.is_empty() => {
                self.player.log = Some(log);
                Ok(true)
            }
            Ok((_, report)) => Err(format!("damage where there is none: {:?}", report.damages)),
            Err(Error::Disk { failure: Failure::Full, .. }) if machine.is_full() => Ok(false),
            Err(error) => Err(format!("not opened: {error}")),
        }
    }

    /// Opens the log if there is room, and looks at every key.
    fn open_and_check(&mut self) -> Result<(), Problem> {
        if !self.open()? {
            self.met.not_opened += 1;
            return Ok(());
        }
        self.met.opened += u64::from(self.is_full());
        self.player.check()
    }

    fn play(&mut self) -> Result<(), Problem> {
        if !self.open()? {
            // There is no log yet.
            self.met.not_opened += 1;
            self.make_room();
            self.open()?;
            self.fill_now();
        }
        for round in 0..ROUNDS {
            for (key, len, lives_ms) in writes_of(round) {
                self.try_write(key, len, lives_ms)?;
            }
            self.player.now_ms += 1;
        }
        Ok(())
    }

    /// Removes half of the keys, and puts them again, for which there may be room then.
    fn remove_some(&mut self, actions: u64) -> Result<(), Problem> {
        let is_removed = |key: &u64| (key + actions).is_multiple_of(2);
        for key in (0..ALL_KEYS).filter(is_removed) {
            self.try_write(key, None, 0)?;
        }
        self.idle()?;
        for key in (0..ALL_KEYS).filter(is_removed) {
            let tried = self.try_write(key, Some(20), 0)?;
            self.met.puts_after_removes += u64::from(tried == Tried::Done);
        }
        let log = self.player.log_mut()?;
        let (moved, is_read_only) = (log.counts().segments_moved, log.is_read_only());
        self.met.segments_moved += moved - self.moved_before.unwrap_or(moved);
        self.met.read_only += u64::from(is_read_only);
        Ok(())
    }

    /// Writes again and again where there is room, and has the log do all that there is to be done.
    fn go_on(&mut self) -> Result<(), Problem> {
        for key in 0..ALL_KEYS {
            self.write_in_the_end(key, Some(if key == 2 { self.len(1300) } else { 200 }), 0)?;
        }
        for (key, len, lives_ms) in (0..ROUNDS).flat_map(writes_of) {
            self.write_in_the_end(key, len.map(|len| self.len(len)), lives_ms)?;
        }
        self.look()?;
        // In `async` what has replaced the rest of a segment may not be flushed for some time.
        self.idle()?;
        self.drain()?;
        self.idle()?;
        let space = self.player.log_mut()?.space();
        let used = space.sealed + space.open + space.unlisted + space.lost;
        let target = space.live_bytes * u64::from(SPACE_TARGET_PERCENT) / 100;
        let allowed = target.div_ceil(self.player.scenario.segment_bytes) + SEGMENTS_BESIDE;
        if used > allowed {
            return Err(format!("{used} segments are used, and {allowed} are enough: {space:?}"));
        }
        Ok(())
    }

    /// Every key shows its newest version, if the log can show any.
    fn look(&mut self) -> Result<(), Problem> {
        let may_fail = self.may_fail();
        for key in 0..ALL_KEYS {
            let newest = self.player.promises.newest(key);
            match self.player.get(key) {
                Ok(seen) if newest.looks_like(seen.as_deref(), self.player.now_ms) => {}
                // It is to be written again, or cannot be.
                Ok(None) | Err(Error::Unflushed) if may_fail => {}
                other => return Err(format!("key {key} is {newest:?} and shows {other:?}")),
            }
        }
        Ok(())
    }

    /// The process ends, or the machine stops. In `async`, every other time all is flushed before.
    fn crash(&mut self, actions: u64) -> Result<(), Problem> {
        if self.variant.mode == Mode::Async && actions % 4 < 2 {
            self.drain()?;
        }
        self.player.end();
        let is_process = actions.is_multiple_of(3);
        self.player.machine.crash(if is_process { Crash::Process } else { Crash::Machine });
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Problem> {
        let mut drain = self.player.log_mut()?.drain();
        for _ in 0..TURNS_MAX {
            match self.player.log_mut()?.drained(&mut drain) {
                Settled::Pending => self.turn(),
                Settled::Failed if self.may_fail() => return Ok(()),
                Settled::Failed => return Err("a drain has failed".to_owned()),
                Settled::Done => {
                    for key in 0..ALL_KEYS {
                        let newest = self.player.promises.newest(key).number;
                        self.player.promises.promise(key, newest);
                    }
                    return Ok(());
                }
            }
        }
        Err("a drain never ends".to_owned())
    }
}
