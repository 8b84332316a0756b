//! Copies of a log that serves, while its clients go on.

use log::{
    engine::{Cut, Settled},
    plan::{Action, Disk as _, Outcome},
};

use super::{Run, TURNS_MAX, reopen, value_of};
use crate::{
    disk::{DirectoryId, Disk},
    machine::Machine,
    promise::Promises,
    scenario::Scenario,
    together::Batches,
};

/// What clients do before each action of a copy, at most.
const OPERATIONS_BETWEEN: u32 = 2;

/// The machine of a log that serves while somebody else uses its disk.
struct Serving<'a> {
    run: &'a mut Run,
    /// What has gone wrong meanwhile.
    wrong: Option<String>,
}

/// What there was when a copy was begun.
struct Then {
    promises: Promises,
    batches: Batches,
    /// Keys whose newest version the log does not know, or could not read.
    hidden: Vec<u64>,
    begun_ms: u64,
}

impl log::plan::Disk for Serving<'_> {
    fn perform(&mut self, action: Action) -> Outcome {
        if self.wrong.is_none() && !self.run.machine.has_stopped() {
            self.wrong = self.run.serve().err();
        }
        self.run.machine.perform(action)
    }
}

impl Run {
    /// Copies the log while it serves, and opens the copy: it has what was durable, and of what
    /// was written together all or nothing.
    pub(super) fn back_up(&mut self) -> Result<(), String> {
        let newest = self.newest();
        if !self.drain_now()? {
            return Ok(());
        }
        for (key, number) in newest {
            self.promises.promise(key, number);
        }
        let Some(cut) = self.cut()? else { return Ok(()) };
        let is_hidden = |key: &u64| self.unread.hides(*key) || !self.promises.is_sure(*key);
        let hidden: Vec<u64> = self.promises.keys().filter(is_hidden).collect();
        let then = Then {
            promises: self.promises.clone(),
            batches: self.batches.clone(),
            hidden,
            begun_ms: self.now_ms,
        };
        let capacity_bytes = self.machine.disk().capacity_bytes(DirectoryId(0));
        let directories = usize::from(self.scenario.directories);
        let disk = Disk::new(self.scenario.seed, 1, capacity_bytes * directories);
        let mut copy = Machine::new(self.scenario.seed, disk);
        let mut damages = 0;
        self.is_walking = true;
        let mut serving = Serving { run: self, wrong: None };
        let copied = cut.copy(&mut serving, &mut copy, &mut |_| {}, &mut |_| damages += 1);
        let wrong = serving.wrong;
        self.is_walking = false;
        self.log_mut().end_backup(&cut);
        if let Some(what) = wrong {
            return Err(what);
        }
        match copied {
            _ if self.machine.has_stopped() => Ok(()),
            // What could not be read is not in it.
            Ok(_) if damages > 0 && self.may_fail() => Ok(()),
            Ok(_) if damages > 0 => Err(format!("{damages} places of a copy are damaged")),
            Ok(_) => self.check_copy(copy, then),
            Err(error) => {
                self.tell(|_| format!("no copy: {error}"));
                self.count("copies that failed");
                if self.may_fail() { Ok(()) } else { Err(format!("no copy: {error}")) }
            }
        }
    }

    /// Has all be flushed that is written. `false`, when it cannot be or the machine has stopped.
    pub(super) fn drain_now(&mut self) -> Result<bool, String> {
        let mut drain = self.log_mut().drain();
        for _ in 0..TURNS_MAX {
            match self.log_mut().drained(&mut drain) {
                Settled::Done => return Ok(true),
                Settled::Failed => return Ok(false),
                Settled::Pending => self.turn()?,
            }
            if self.machine.has_stopped() {
                return Ok(false);
            }
        }
        Err("a drain never ends".to_owned())
    }

    /// Clients go on for a while.
    fn serve(&mut self) -> Result<(), String> {
        for _ in 0..self.random.below(OPERATIONS_BETWEEN + 1) {
            self.operate()?;
            self.turn()?;
        }
        Ok(())
    }

    fn cut(&mut self) -> Result<Option<Cut>, String> {
        for _ in 0..TURNS_MAX {
            if let Some(cut) = self.log_mut().begin_backup() {
                return Ok(Some(cut));
            }
            self.turn()?;
            let is_over = self.log.as_ref().is_none_or(super::Log::is_read_only);
            if self.machine.has_stopped() || is_over {
                return Ok(None);
            }
        }
        Err("a copy waits for ever".to_owned())
    }

    /// Opens a copy, and looks at every key: it is as it may have been when the copy was begun.
    fn check_copy(
        &mut self,
        mut copy: Machine,
        Then { mut promises, mut batches, hidden, begun_ms }: Then,
    ) -> Result<(), String> {
        if self.has_lied() {
            return Ok(());
        }
        // A log that could not read all of itself may leave that out.
        let is_whole = !self.unread.is_any();
        let one = Scenario { directories: 1, ..self.scenario.clone() };
        let opened = reopen::open(&one, &mut copy, self.now_ms);
        let (mut log, report) =
            opened.map_err(|error| format!("a copy cannot be opened: {error}"))?;
        if !report.damages.is_empty() && is_whole {
            return Err(format!("a copy is damaged: {:?}", report.damages));
        }
        let times = (begun_ms, self.now_ms);
        for key in (0..u64::from(self.scenario.keys)).filter(|key| !hidden.contains(key)) {
            let seen = value_of(&mut log, key, self.now_ms, &mut |action| copy.perform(action));
            let seen = seen.map_err(|error| format!("key {key} of a copy: {error}"))?;
            batches.note(&promises, key, seen.as_deref(), times);
            let recovered = promises.recover(key, seen.as_deref(), times);
            recovered.map_err(|wrong| format!("in a copy: {wrong:?}"))?;
        }
        if is_whole {
            batches.check().map_err(|what| format!("in a copy: {what}"))?;
        }
        self.count(if is_whole { "copies" } else { "copies of a part" });
        Ok(())
    }
}
