//! Switches between safe and async.

use log::engine::{Mode, Settled};

use super::{Run, model::Model};

impl Run {
    /// To async, or to safe, which is to be confirmed.
    pub(super) fn change_mode(&mut self) {
        let mode = if self.mode == Mode::Safe { Mode::Async } else { Mode::Safe };
        self.tell(|| format!("mode {mode:?}"));
        self.summary.add("mode changes", 1);
        self.mode = mode;
        let woken = self.with_store(|store| store.set_mode(mode));
        woken.for_each(|at| self.turns.call(at));
        if mode == Mode::Async {
            self.switching = None;
            self.models.iter_mut().for_each(|model| model.set_forgets(true));
            return;
        }
        self.switching = Some(self.with_store(|store| store.with_log(|log| log.drain())));
        self.turns.call_all();
    }

    /// When all that was answered in async is durable, nothing is forgotten any more.
    pub(super) fn confirm_mode(&mut self) {
        let Some(mut drain) = self.switching.take() else { return };
        match self.with_store(|store| store.with_log(|log| log.drained(&mut drain))) {
            Settled::Pending => {
                self.switching = Some(drain);
                self.turns.call_all();
            }
            Settled::Failed => {}
            Settled::Done => {
                self.summary.add("switches confirmed", 1);
                self.models.iter_mut().for_each(Model::found);
                self.models.iter_mut().for_each(|model| model.set_forgets(false));
            }
        }
    }
}
