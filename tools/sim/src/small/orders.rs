//! Deeds in every order: what was removed, or has expired, never returns.
//!
//! One key is written and removed, others fill segments, what is dead is freed, what lives is
//! moved, the machine stops, and the log goes on as a copy that was made of it; after each deed
//! every key is as it was left.

use log::engine::{Settings, Settled};

use super::{Moved, Player, Problem, REQUESTS_MAX, scenario};
use crate::{
    disk::Disk,
    machine::{Crash, Machine},
    promise::Promises,
    scenario::Scenario,
};

/// The key that is removed.
const REMOVED: u64 = 0;

/// The key of which there is dead weight.
const WEIGHT: u64 = 1;

/// The first one that is written once and lives.
const FIRST_LIVING: u64 = 2;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The key is written.
    Put,
    /// It is taken away.
    Remove,
    /// Others are written until the segment is full. Every other time one of them lives on.
    Fill,
    /// The log does what there is to be done.
    Compact,
    /// The machine stops and starts, in some variants behind a stop of the log in order.
    Crash,
    /// A copy of the log is made.
    Copy,
    /// The log goes on as it was when it was copied last.
    Restore,
}

impl Deed {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Put,
        Self::Remove,
        Self::Fill,
        Self::Compact,
        Self::Crash,
        Self::Copy,
        Self::Restore,
    ];
}

/// In what kind of log, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Bytes of an entry of a flat index; 0 of a hash index.
    pub entry_bytes: u8,
    /// Bytes of the values that are removed.
    pub value_bytes: usize,
    /// Whether it is taken away by a value that expires at once.
    pub expires: bool,
    /// Whether the log is stopped in order before the machine stops.
    pub stops: bool,
}

/// A copy of a log, and what it promises.
struct Copied {
    disk: Disk,
    promises: Promises,
}

/// A log under way.
struct Orders {
    player: Player,
    copied: Option<Copied>,
    variant: Variant,
    fills: u64,
}

/// Whether anything comes of a deed behind these that would not without it.
fn is_of_use(before: &[Deed], deed: Deed) -> bool {
    let last = before.last().copied();
    match deed {
        Deed::Put => true,
        _ if before.is_empty() => false,
        Deed::Fill => true,
        Deed::Remove | Deed::Compact | Deed::Crash | Deed::Copy => last != Some(deed),
        Deed::Restore => {
            before.contains(&Deed::Copy) && !matches!(last, Some(Deed::Copy | Deed::Restore))
        }
    }
}

/// All orders of so many deeds.
#[must_use]
pub fn orders(length: usize) -> Vec<Vec<Deed>> {
    let mut all = vec![Vec::new()];
    for _ in 0..length {
        let longer = all.iter().flat_map(|before| {
            let next = Deed::ALL.into_iter().filter(|deed| is_of_use(before, *deed));
            next.map(|deed| [&before[..], &[deed]].concat())
        });
        all = longer.collect();
    }
    all
}

/// Does all of that in a new log, looks at every key after each deed that may show something, and
/// stops the machine in the end. Says what was moved.
///
/// # Errors
/// When a key is not what it was left as.
pub fn every_deed(variant: Variant, deeds: &[Deed]) -> Result<Moved, Problem> {
    let seed = deeds.iter().fold(1, |seed, deed| seed * 7 + *deed as u64);
    let base = scenario(seed);
    let small = Scenario {
        entry_bytes: variant.entry_bytes,
        keys: FIRST_LIVING as u32 + deeds.len() as u32,
        kmax: 1,
        settings: Settings { space_target_percent: 110, ..base.settings },
        ..base
    };
    let mut orders = Orders { player: Player::with(small), copied: None, variant, fills: 0 };
    orders.player.open()?;
    for deed in deeds {
        orders.perform(*deed).map_err(|what| format!("{deed:?}: {what}"))?;
    }
    orders.crash()?;
    Ok(orders.player.moved)
}

impl Orders {
    fn perform(&mut self, deed: Deed) -> Result<(), Problem> {
        match deed {
            Deed::Put => self.player.write(REMOVED, Some(self.variant.value_bytes)),
            Deed::Remove => self.remove(),
            Deed::Fill => self.fill(),
            Deed::Compact => self.player.idle(),
            Deed::Crash => self.crash(),
            Deed::Copy => self.copy(),
            Deed::Restore => self.restore(),
        }
    }

    fn remove(&mut self) -> Result<(), Problem> {
        if self.player.promises.newest(REMOVED).is_absent(self.player.now_ms) {
            return Ok(());
        }
        if !self.variant.expires {
            return self.player.write(REMOVED, None);
        }
        self.player.write_until(REMOVED, Some(8), self.player.now_ms + 1)?;
        self.player.now_ms += 2;
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Problem> {
        if self.fills.is_multiple_of(2) {
            self.player.write(FIRST_LIVING + self.fills / 2, Some(100))?;
        }
        self.fills += 1;
        let shape = &self.player.scenario;
        let weight = shape.part_bytes as usize;
        for _ in 0..shape.segment_bytes / u64::from(2 * shape.block_bytes) {
            self.player.write(WEIGHT, Some(weight))?;
        }
        Ok(())
    }

    fn crash(&mut self) -> Result<(), Problem> {
        if self.variant.stops {
            self.player.close()?;
        }
        self.player.end();
        self.player.machine.crash(Crash::Machine);
        if self.open()? == self.variant.stops {
            Ok(())
        } else {
            Err(format!("stopped in order: {}, and opened otherwise", self.variant.stops))
        }
    }

    /// Says whether the log had been stopped in order.
    fn open(&mut self) -> Result<bool, Problem> {
        match self.player.open()? {
            Some(report) if report.damages.is_empty() => {
                self.player.check().map(|()| report.is_clean)
            }
            report => Err(format!("it is opened with {report:?}")),
        }
    }

    fn copy(&mut self) -> Result<(), Problem> {
        let mut drain = self.player.log_mut()?.drain();
        let mut cut = None;
        for _ in 0..REQUESTS_MAX {
            let log = self.player.log_mut()?;
            if log.drained(&mut drain) == Settled::Done {
                cut = log.begin_backup();
            }
            if cut.is_some() {
                break;
            }
            self.player.turn();
        }
        let cut = cut.ok_or("a copy waits for ever")?;
        let Player { scenario, machine, promises, .. } = &mut self.player;
        let mut copy =
            Machine::new(scenario.seed, Disk::new(scenario.seed, 1, scenario.capacity_bytes));
        let mut damages = 0;
        let copied = cut.copy(machine, &mut copy, &mut |_| {}, &mut |_| damages += 1);
        copied.map_err(|error| error.to_string())?;
        let promises = promises.clone();
        self.player.log_mut()?.end_backup(&cut);
        self.copied = Some(Copied { disk: copy.disk().clone(), promises });
        if damages == 0 { Ok(()) } else { Err(format!("{damages} places are damaged")) }
    }

    fn restore(&mut self) -> Result<(), Problem> {
        let Some(Copied { disk, promises }) = &self.copied else { return Ok(()) };
        self.player.end();
        self.player.machine = Machine::new(self.player.scenario.seed, disk.clone());
        self.player.promises = promises.clone();
        self.open().map(|_| ())
    }
}
