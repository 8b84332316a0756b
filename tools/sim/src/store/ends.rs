//! Ends of a store: by a crash, or in order.

use log::engine::{Drain, Settled};
use store::Figures;

use super::{Client, Run, TURNS_MAX, model::Model, turns::Turns};
use crate::{machine::Crash, scenario::Class};

impl Run {
    pub(super) fn crash_and_open(&mut self) -> Result<(), String> {
        self.end();
        let how = if self.random.below(2) == 0 { Crash::Machine } else { Crash::Process };
        self.machine.crash(how);
        self.tell(|| format!("crash of the {how:?}"));
        for model in &mut self.models {
            model.tell_ms(self.clock.now_ms());
            model.crash()?;
        }
        self.summary.add("crashes", 1);
        self.open()
    }

    /// Stops in order, after everything was answered, and opens again.
    pub(super) fn stop_and_open(&mut self) -> Result<(), String> {
        self.settle()?;
        while let Some((token, outcome)) = self.machine.step() {
            let owner = self.owners.remove(&token).ok_or("nobody has handed that out")?;
            self.workers[owner].complete(token, outcome);
        }
        self.end_workers();
        let Some(store) = self.store.take() else { return Ok(()) };
        let closed = store.close(&mut self.machine);
        self.store = Some(store);
        match closed {
            Ok(()) => {
                self.tell(|| "stop in order".to_owned());
                self.summary.add("stops in order", 1);
                self.models.iter_mut().for_each(Model::found);
                self.end();
                self.open()
            }
            Err(error) if self.may_fail() => {
                self.tell(|| format!("no stop in order: {error}"));
                self.crash_and_open()
            }
            Err(error) => Err(format!("not stopped in order: {error}")),
        }
    }

    /// Has everything flushed that was answered, and crashes.
    pub(super) fn drain_and_open(&mut self) -> Result<(), String> {
        self.settle()?;
        let mut drain: Drain = self.with_store(|store| store.with_log(|log| log.drain()));
        for _ in 0..TURNS_MAX {
            match self.with_store(|store| store.with_log(|log| log.drained(&mut drain))) {
                Settled::Pending => {
                    // Who asks the log for something calls the workers.
                    self.turns.call_all();
                    self.turn()?;
                }
                Settled::Failed => return Ok(()),
                Settled::Done => {
                    self.models.iter_mut().for_each(Model::found);
                    self.summary.add("drains", 1);
                    return self.crash_and_open();
                }
            }
        }
        Err("a drain never ends".to_owned())
    }

    pub(super) fn may_fail(&self) -> bool {
        self.scenario.class != Class::Honest
    }

    /// The workers are there no more.
    fn end_workers(&mut self) {
        for worker in self.workers.drain(..) {
            let Figures { fills, fills_refused, reads, reads_shared, .. } = worker.figures();
            let Figures { hits, reads_failed, waits, stalled, busy, .. } = worker.figures();
            let Figures { spills, spills_clean, spills_unseen, .. } = worker.figures();
            let Figures { spills_refused, spills_failed, hits_of_waiting, .. } = worker.figures();
            for (what, count) in [
                ("fills", fills),
                ("fills refused", fills_refused),
                ("reads", reads),
                ("reads shared", reads_shared),
                ("hits", hits),
                ("reads failed", reads_failed),
                ("waits for what was seen", waits),
                ("stalled", stalled),
                ("busy", busy),
                ("spills", spills),
                ("spills of what the ring had", spills_clean),
                ("spills not admitted", spills_unseen),
                ("spills refused", spills_refused),
                ("spills without memory", spills_failed),
                ("hits of what waits", hits_of_waiting),
            ] {
                self.summary.add(what, count);
            }
        }
    }

    /// The store is there no more, and nobody hears what it had to say.
    fn end(&mut self) {
        self.end_workers();
        if let Some(store) = &self.store {
            let counts = store.with_log(|log| log.counts());
            self.summary.add("moved", counts.records_moved);
            self.summary.add("rewritten", counts.rewritten);
            self.summary.add("values dropped", counts.values_dropped);
            self.summary.add("tombstones dropped", counts.tombstones_dropped);
        }
        (self.store, self.evictor) = (None, None);
        self.read_only_from = None;
        self.waiting.clear();
        self.flushing.clear();
        self.owners.clear();
        self.turns = Turns::default();
        self.taking.clear();
        self.switching = None;
        self.clients.iter_mut().for_each(|client| *client = Client::default());
    }
}
