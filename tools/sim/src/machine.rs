//! A machine for a log: it performs the log's actions on a simulated disk, in any order, and stops
//! when it is told to.
//!
//! Owns the disk and the plans that are under way. Invariants: once it has stopped, nothing changes
//! the disk and every action fails; answers that were on their way then never arrive.

use base::random::Random;
use log::plan::{self, Action, Failure, Found, Outcome, Plan, Token};

use crate::{
    disk::{DirectoryId, Disk, FileId, Full, Moment, Refusal},
    fault::Kind,
};

/// Disk, plans under way, and the moment at which it stops.
#[derive(Debug)]
pub struct Machine {
    disk: Disk,
    random: Random,
    flights: Vec<Flight>,
    /// Actions performed so far that touch the disk.
    performed: u64,
    /// How many are performed before it stops.
    stops_after: u64,
    has_stopped: bool,
    /// How its disk fills up.
    fills: Option<Fills>,
    is_full: bool,
}

/// How a disk fills up.
#[derive(Clone, Copy, Debug)]
struct Fills {
    /// Behind so many actions.
    after: u64,
    directories: &'static [usize],
    full: Full,
}

/// A plan under way.
#[derive(Debug)]
struct Flight {
    plan: Plan,
    /// Of a flush: where it began.
    began: Moment,
}

/// How a machine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process alone: the disk keeps what was written, flushed or not, but for pages that a
    /// failed flush has dropped and only a cache still shows. The log reads past that.
    Process,
    /// All of it.
    Machine,
}

impl Machine {
    /// A machine with this disk.
    #[must_use]
    pub fn new(seed: u64, disk: Disk) -> Self {
        Self {
            disk,
            random: Random::new(seed, MACHINE_STREAM),
            flights: Vec::new(),
            performed: 0,
            stops_after: u64::MAX,
            has_stopped: false,
            fills: None,
            is_full: false,
        }
    }

    /// The disk, to look at or to spoil.
    pub fn disk(&mut self) -> &mut Disk {
        &mut self.disk
    }

    /// How many actions it has performed since it was made.
    #[must_use]
    pub fn performed(&self) -> u64 {
        self.performed
    }

    /// It stops when it has performed so many more actions.
    pub fn stop_after(&mut self, actions: u64) {
        self.stops_after = self.performed.saturating_add(actions);
    }

    /// Whether it stands still. What it has answered since then, nobody has heard.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// When it has performed so many more actions, these directories are full.
    pub fn fill_after(&mut self, actions: u64, directories: &'static [usize], full: Full) {
        let after = self.performed.saturating_add(actions);
        self.fills = Some(Fills { after, directories, full });
        self.fill_if_due();
    }

    fn fill_if_due(&mut self) {
        let Some(fills) = self.fills.take_if(|fills| self.performed >= fills.after) else { return };
        for directory in fills.directories {
            self.disk.fill(DirectoryId(*directory), fills.full);
        }
        self.is_full = true;
    }

    /// Whether its disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// From now on each directory has so much room.
    pub fn make_room(&mut self, capacity_bytes: usize) {
        (self.fills, self.is_full) = (None, false);
        for directory in (0..self.disk.directories()).map(DirectoryId) {
            self.disk.empty(directory, capacity_bytes);
        }
    }

    /// How many plans are under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Takes a plan.
    pub fn submit(&mut self, plan: Plan) {
        let began = match &plan.action {
            Action::Flush { file } => self.open(*file).map_or(0, |(_, id)| self.disk.moment(id)),
            _ => 0,
        };
        self.flights.push(Flight { plan, began });
    }

    /// Performs one of the plans under way, whichever comes. Nothing, when there is none.
    pub fn step(&mut self) -> Option<(Token, Outcome)> {
        let count = u32::try_from(self.flights.len()).ok().filter(|count| *count > 0)?;
        let which = self.random.below(count) as usize;
        if which > 0 {
            self.disk.count(Kind::Reordered);
        }
        let Flight { plan, began } = self.flights.remove(which);
        Some((plan.token, self.perform_since(plan.action, began)))
    }

    /// Ends what runs, in that way, and makes the machine ready for what is started next.
    pub fn crash(&mut self, how: Crash) {
        // What has stopped it already has also stopped what was under way.
        for Flight { plan, began } in std::mem::take(&mut self.flights) {
            let is_done = !self.has_stopped && self.random.below(2) == 0;
            self.disk.count(if is_done { Kind::FlightDone } else { Kind::FlightLost });
            if is_done {
                let _ = self.act(plan.action, began);
            }
        }
        match how {
            Crash::Process => {
                self.disk.count(Kind::ProcessCrash);
                self.disk.evict();
            }
            Crash::Machine => self.disk.crash(),
        }
        self.stops_after = u64::MAX;
        self.has_stopped = false;
    }

    fn perform_since(&mut self, action: Action, began: Moment) -> Outcome {
        if self.performed >= self.stops_after {
            self.has_stopped = true;
        }
        if self.has_stopped {
            let buffer = match action {
                Action::Read { buffer, .. } => Some(buffer),
                _ => None,
            };
            let text = "the machine has stopped".to_owned();
            return Outcome::Failed(Failure::Io { code: EIO, text }, buffer);
        }
        self.fill_if_due();
        self.performed += 1;
        self.act(action, began)
    }

    fn act(&mut self, action: Action, began: Moment) -> Outcome {
        match action {
            Action::Read { file, offset, mut buffer, bytes } => {
                let found = self.open(file).and_then(|(_, id)| {
                    self.disk.read(id, at(offset), &mut buffer.as_mut_slice()[..bytes])
                });
                match found {
                    Ok(count) => Outcome::Read(buffer, count),
                    Err(refusal) => Outcome::Failed(failure(refusal), Some(buffer)),
                }
            }
            Action::Write { file, offset, buffer, from, bytes } => {
                let written = self.open(file).and_then(|(_, id)| {
                    self.disk.write(id, at(offset), &buffer.as_slice()[from..from + bytes])
                });
                written.map_or_else(failed, Outcome::Wrote)
            }
            Action::List { directory } => {
                let names = self.disk.list(here(directory));
                let found = |(name, id)| Found { name, bytes: self.disk.len(id) as u64 };
                Outcome::Listed(names.into_iter().map(found).collect())
            }
            other => self.change(&other, began).map_or_else(failed, |()| Outcome::Done),
        }
    }

    fn change(&mut self, action: &Action, began: Moment) -> Result<(), Refusal> {
        match action {
            Action::Create { file } => {
                self.disk.create(here(file.directory), &file.name.to_string()).map(drop)
            }
            Action::Allocate { file, bytes } => {
                let (_, id) = self.open(*file)?;
                self.disk.allocate(id, at(*bytes))
            }
            Action::Truncate { file, bytes } => {
                let (_, id) = self.open(*file)?;
                self.disk.set_len(id, at(*bytes))
            }
            Action::Flush { file } => {
                let (_, id) = self.open(*file)?;
                self.disk.flush_since(id, began)
            }
            Action::Rename { file, to } => {
                let names = (file.name.to_string(), to.to_string());
                self.disk.rename(here(file.directory), &names.0, &names.1)
            }
            Action::Remove { file } => {
                self.disk.remove(here(file.directory), &file.name.to_string())
            }
            Action::FlushDirectory { directory } => self.disk.flush_directory(here(*directory)),
            Action::Write { .. } | Action::Read { .. } | Action::List { .. } => {
                unreachable!("carried out by the caller")
            }
        }
    }

    fn open(&self, file: plan::File) -> Result<(DirectoryId, FileId), Refusal> {
        let directory = here(file.directory);
        Ok((directory, self.disk.open(directory, &file.name.to_string())?))
    }
}

impl plan::Disk for Machine {
    fn perform(&mut self, action: Action) -> Outcome {
        self.perform_since(action, Moment::MAX)
    }
}

/// The stream of random numbers that decides the order of plans.
const MACHINE_STREAM: u64 = 2;

/// The system's number for an error of a device.
const EIO: i32 = 5;

fn here(directory: plan::DirectoryId) -> DirectoryId {
    DirectoryId(usize::from(directory.0))
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).expect("invariant: a simulated disk is small")
}

fn failure(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Io => Failure::Io { code: EIO, text: "the device failed".to_owned() },
        Refusal::NoSpace => Failure::Full,
        Refusal::NotFound => Failure::NotFound,
        Refusal::Exists => Failure::Exists,
    }
}

fn failed(refusal: Refusal) -> Outcome {
    Outcome::Failed(failure(refusal), None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use log::plan::{Action, Buffer, Disk as _, File, FileName, Outcome, Plan, SegmentId, Token};

    use super::{Crash, Machine};
    use crate::{disk::Disk, fault::Kind};

    const FILE: File =
        File { directory: log::plan::DirectoryId(0), name: FileName::Segment(SegmentId(1)) };

    fn write(block: u64, byte: u8) -> Action {
        let mut buffer = Buffer::new(512);
        buffer.as_mut_slice().fill(byte);
        let (buffer, offset) = (Arc::new(buffer), block * 512);
        Action::Write { file: FILE, offset, buffer, from: 0, bytes: 512 }
    }

    fn machine(seed: u64) -> Machine {
        let mut machine = Machine::new(seed, Disk::new(seed, 1, 1 << 20));
        for action in [
            Action::Create { file: FILE },
            Action::Allocate { file: FILE, bytes: 8 * 512 },
            Action::Flush { file: FILE },
            Action::FlushDirectory { directory: FILE.directory },
        ] {
            assert!(matches!(machine.perform(action), Outcome::Done));
        }
        machine
    }

    fn bytes(machine: &mut Machine) -> Vec<u8> {
        let action = Action::Read { file: FILE, offset: 0, buffer: Buffer::new(8192), bytes: 8192 };
        let Outcome::Read(buffer, count) = machine.perform(action) else { panic!("no read") };
        assert_eq!(count, 8 * 512, "the file ends there");
        buffer.as_slice().iter().copied().step_by(512).take(8).collect()
    }

    #[test]
    fn plans_are_performed_once_each_in_any_order() {
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let mut machine = machine(seed);
            for number in 0..3 {
                machine.submit(Plan { token: Token(number), action: write(number, 7) });
            }
            let mut order = Vec::new();
            while let Some((token, outcome)) = machine.step() {
                assert!(matches!(outcome, Outcome::Wrote(512)));
                order.push(token.0);
            }
            assert_eq!(bytes(&mut machine), [7, 7, 7, 0, 0, 0, 0, 0]);
            orders.insert(order);
        }
        assert_eq!(orders.len(), 6, "{orders:?}");
    }

    #[test]
    fn a_stopped_machine_changes_nothing_until_it_starts() {
        let mut machine = machine(1);
        machine.stop_after(1);
        assert!(matches!(machine.perform(write(0, 7)), Outcome::Wrote(512)));
        assert!(!machine.has_stopped());
        assert!(matches!(machine.perform(write(1, 7)), Outcome::Failed(..)));
        assert!(machine.has_stopped());
        machine.submit(Plan { token: Token(1), action: write(2, 7) });
        machine.crash(Crash::Process);
        assert!(!machine.has_stopped());
        assert_eq!(bytes(&mut machine), [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(machine.disk().counts().of(Kind::FlightLost), 1);
    }

    #[test]
    fn a_process_that_ends_leaves_what_a_machine_that_stops_may_lose() {
        let (mut both, mut after_both) = (0, 0);
        for seed in 0..100 {
            let mut machine = machine(seed);
            assert!(matches!(machine.perform(write(0, 7)), Outcome::Wrote(512)));
            machine.submit(Plan { token: Token(1), action: write(1, 7) });
            machine.crash(Crash::Process);
            let written = bytes(&mut machine);
            assert_eq!(written[0], 7, "seed {seed}");
            both += u32::from(written[1] == 7);
            machine.crash(Crash::Machine);
            after_both += u32::from(bytes(&mut machine)[0] == 7);
        }
        assert!((20..80).contains(&both), "{both}");
        assert!((20..80).contains(&after_both), "{after_both}");
    }
}
