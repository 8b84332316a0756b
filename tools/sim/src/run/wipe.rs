//! Wipes: everything that is stored is dead at once, or nothing is.

use std::collections::BTreeSet;

use log::engine::Settled;

use super::{Run, TURNS_MAX};
use crate::{promise::Promises, scenario::Class};

/// Wipes, and what one that a crash has met was to make dead.
#[derive(Debug, Default)]
pub(super) struct Wipes {
    /// How many the log that is open has done, as far as is known.
    done: u64,
    /// One was asked for, and nobody knows whether it was done.
    is_pending: bool,
    /// What was promised when the last crash met one.
    before: Option<Promises>,
    /// What the keys show since: one is gone that was there, one is there that was.
    is_gone: bool,
    is_there: bool,
}

impl Run {
    /// Has everything be dead, and waits for that.
    pub(super) fn wipe(&mut self) -> Result<(), String> {
        // One that lies may take the manifest back.
        if self.scenario.class == Class::Lying {
            return Ok(());
        }
        let wipe = match self.log_mut().wipe() {
            Ok(wipe) => wipe,
            Err(error) => return self.refused(&error),
        };
        self.wipes.is_pending = true;
        for _ in 0..TURNS_MAX {
            match self.log_mut().wiped(wipe) {
                Ok(Settled::Done) if self.wipes.is_pending => {
                    return Err("a wipe is done, and nobody has seen it".to_owned());
                }
                Ok(Settled::Done) => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    self.count("wipes that failed");
                    // Where it is not known whether the manifest is there, an open will tell.
                    self.wipes.is_pending = self.log_mut().is_read_only();
                    return self.refused(&error);
                }
            }
            self.turn()?;
            if self.machine.has_stopped() {
                return Ok(());
            }
        }
        Err("a wipe is never done".to_owned())
    }

    /// The log has reported something: everything may be dead since.
    pub(super) fn note_wipe(&mut self) {
        let done = self.log.as_ref().map_or(0, super::Log::wipes);
        if done == self.wipes.done || self.machine.has_stopped() {
            return;
        }
        self.wipes.done = done;
        self.wipes.is_pending = false;
        self.tell(|_| "wiped".to_owned());
        for key in self.known_keys() {
            let version = self.version(None);
            self.publish(key, version);
            self.promises.promise(key, version.number);
        }
        self.count("wipes");
    }

    /// The log is there no more: the next one tells whether a wipe that was asked for was done.
    pub(super) fn note_end_of_wipes(&mut self) {
        self.wipes.done = 0;
        if !std::mem::take(&mut self.wipes.is_pending) {
            return;
        }
        self.wipes.before.get_or_insert_with(|| self.promises.clone());
        (self.wipes.is_gone, self.wipes.is_there) = (false, false);
        for key in self.known_keys() {
            let version = self.version(None);
            self.unread.overwritten(key, version.number);
            self.promises.publish(key, version);
            self.ever.entry(key).or_default().push(version);
        }
    }

    /// What a key shows after a crash that may have met a wipe.
    pub(super) fn note_wiped(&mut self, key: u64, seen: Option<&[u8]>, times: (u64, u64)) {
        let Some(before) = &self.wipes.before else { return };
        let is_gone = seen.is_none() && !before.allows(key, None, times);
        self.tell(|_| format!("key {key}: there {}, gone {is_gone}", seen.is_some()));
        self.wipes.is_there |= seen.is_some();
        self.wipes.is_gone |= is_gone;
    }

    /// Every key was looked at after a crash.
    pub(super) fn check_wiped(&mut self) -> Result<(), String> {
        let is_known = self.wipes.before.take().is_some() && !self.unread.is_any();
        match (self.wipes.is_gone, self.wipes.is_there) {
            (true, true) if is_known => Err("a wipe is there in part".to_owned()),
            (true, false) if is_known => {
                self.count("wipes that a crash has met, and that were done");
                Ok(())
            }
            (false, true) if is_known => {
                self.count("wipes that a crash has met, and that were not");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn known_keys(&self) -> BTreeSet<u64> {
        let all = 0..u64::from(self.scenario.keys);
        all.chain(self.promises.keys()).collect()
    }
}
