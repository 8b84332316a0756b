//! A small log, to be hurt in every way that there is.
//!
//! [`every_crash`] plays a short script and stops the machine after each of its actions; a
//! [`Specimen`] is what such a script leaves, whose files are cut off at each length, are missing,
//! and have each bit flipped. After each of these the log is opened and every key looked at.
//! [`full`] has the disk be full from any of these actions on. [`orders`] does all that may bring
//! back what was removed, in every order.

pub mod full;
pub mod orders;
mod player;
mod specimen;

use log::{
    engine::{Engine, Mode, Report, Settings},
    index::Keyed,
};

use self::player::Player;
pub use self::specimen::{Left, Specimen, Verdict};
use crate::{
    machine::Crash,
    scenario::{Class, Scenario},
};

/// The log that is hurt.
type Log = Engine<Keyed>;

/// Keys of the script.
const KEYS: u64 = 5;

/// Rounds of the script that has segments be compacted.
const ROUNDS: u64 = 16;

/// How much a log that is compacted may take, in percent of what lives in it.
const SPACE_TARGET_PERCENT: u32 = 110;

/// The time at which all of it happens.
const NOW_MS: u64 = 1_000_000;

/// Requests that are enough for any step of the script.
const REQUESTS_MAX: u32 = 1000;

/// The shape of the small log: segments of 16 blocks of 512 bytes.
fn scenario(seed: u64) -> Scenario {
    let settings = Settings {
        mode: Mode::Safe,
        chunk_bytes: 1024,
        chunks: 4,
        space_target_percent: 0,
        ring: None,
        ..Settings::default()
    };
    Scenario {
        class: Class::Honest,
        keys: KEYS as u32,
        directories: 1,
        block_bytes: 512,
        segment_bytes: 16 * 512,
        part_bytes: 512,
        has_large: true,
        entry_bytes: 5,
        kmax: 3,
        settings,
        capacity_bytes: 8 << 20,
        ..Scenario::new(seed)
    }
}

/// What compaction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Segments out of which what lives was moved.
    pub segments: u64,
    /// Heads of large values that were written anew.
    pub heads: u64,
    /// Tombstones that were moved.
    pub tombstones: u64,
    /// Tombstones that were left away.
    pub tombstones_dropped: u64,
    /// Expired values that were left away.
    pub expired_dropped: u64,
}

impl Moved {
    /// All of `other` as well.
    pub fn merge(&mut self, other: &Self) {
        self.segments += other.segments;
        self.heads += other.heads;
        self.tombstones += other.tombstones;
        self.tombstones_dropped += other.tombstones_dropped;
        self.expired_dropped += other.expired_dropped;
    }
}

/// What went wrong.
pub type Problem = String;

impl Player {
    /// The script for a log that is compacted.
    fn play_moves(&mut self) -> Result<(), Problem> {
        self.open()?;
        for round in 0..ROUNDS {
            for (key, len, lives_ms) in writes_of(round) {
                let expires_ms = if lives_ms > 0 { self.now_ms + lives_ms } else { 0 };
                self.write_until(key, len, expires_ms)?;
            }
            self.now_ms += 1;
        }
        self.idle()
    }

    /// The script: values of several sizes, one removed, some written again, over a stop in order.
    fn play(&mut self) -> Result<(), Problem> {
        self.open()?;
        let large = if self.scenario.has_large { 1300 } else { 400 };
        for (key, len) in [(0, 20), (1, 300), (2, large), (3, 500), (0, 40), (4, 0)] {
            self.write(key, Some(len))?;
        }
        self.write(1, None)?;
        for (key, len) in [(3, 480), (0, 511), (3, 490), (2, large), (3, 470)] {
            self.write(key, Some(len))?;
        }
        self.close()?;
        self.open()?;
        for (key, len) in [(1, 100), (2, large), (0, 60)] {
            self.write(key, Some(len))?;
        }
        self.write(3, None)
    }
}

/// A key, how long its value is or none to remove it, and how many milliseconds it lives, if it
/// expires.
type Write = (u64, Option<usize>, u64);

/// What a log is used for that is compacted: in each segment something lives on beside what is
/// written again and again, among it a large value; keys are removed, and expire.
fn writes_of(round: u64) -> impl Iterator<Item = Write> {
    let removes = !(round / 4).is_multiple_of(2);
    let first = match round % 4 {
        0 => (2, Some(1300), 0),
        // Written once: every second one expires, and is still the key's newest when it moves.
        1 => (KEYS + round / 4, Some(60), 2 * (round / 4 % 2)),
        2 => (0, Some(30), 2),
        _ if removes => (1, None, 0),
        _ => (1, Some(40), 0),
    };
    let again = (KEYS - 1, Some(500), 0);
    [first, again, again, again].into_iter()
}

/// What a small log is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Values of several sizes, one removed, some written again, over a stop in order.
    Short,
    /// Long enough for segments to be compacted.
    Moves,
}

impl Script {
    fn player(self, seed: u64) -> Player {
        let mut scenario = scenario(seed);
        if self == Self::Moves {
            scenario.keys = (KEYS + ROUNDS / 4) as u32;
            scenario.settings.space_target_percent = SPACE_TARGET_PERCENT;
        }
        Player::with(scenario)
    }

    fn play(self, player: &mut Player) -> Result<(), Problem> {
        match self {
            Self::Short => player.play(),
            Self::Moves => player.play_moves(),
        }
    }
}

/// How many actions the script takes on this seed's machine, and what is moved meanwhile.
///
/// # Errors
/// When the script fails on a machine that does nothing wrong.
pub fn actions_of_script(script: Script, seed: u64) -> Result<(u64, Moved), Problem> {
    let mut player = script.player(seed);
    script.play(&mut player)?;
    player.end();
    Ok((player.machine.performed(), player.moved))
}

/// Plays the script, stops the machine after so many actions, then stops recovery after each
/// number of its actions until it is through, and looks at every key each time. `skipped` of
/// recovery's actions are passed over each time.
///
/// # Errors
/// When something that was promised is not there.
pub fn every_crash(script: Script, seed: u64, actions: u64, skipped: usize) -> Result<(), Problem> {
    let mut player = script.player(seed);
    player.machine.stop_after(actions);
    script.play(&mut player)?;
    player.log = None;
    player.machine.crash(if seed.is_multiple_of(3) { Crash::Process } else { Crash::Machine });
    for recovery in (0_u64..).step_by(1 + skipped) {
        player.machine.stop_after(recovery);
        let opened = player.open()?;
        let names_nothing = |report: Report| report.damages.is_empty() && report.foreign.is_empty();
        if opened.is_some_and(names_nothing) {
            player.machine.stop_after(u64::MAX);
            return player.check();
        }
        if !player.machine.has_stopped() {
            return Err("damage, or what is not the log's, is named where there is none".to_owned());
        }
        player.log = None;
        player.machine.crash(Crash::Machine);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
