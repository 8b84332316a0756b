//! What the log wants to be read, written and flushed, as operations of a thread's driver.
//!
//! Thread safety: a plain value of the data thread.
//!
//! Invariant: an operation is about the file that has the name now. Files are removed and made anew
//! under the same name, by any thread: once any was, each use asks the log's table of open files,
//! and what this thread keeps counts only if it is the same.
//!
//! What finds no descriptor is put aside and started when there is one: told that a write or a
//! flush has failed, the log would not try it again, and a second one would make it read-only.

use std::{collections::VecDeque, io, mem, os::fd::OwnedFd};

use base::{hash::Numbered, sync::Arc};
use log::{
    Files as LogFiles, Kept, failure, forget_unflushed, lacks_descriptor,
    plan::{Action, Buffer, Failure, File, Outcome, Plan, Token},
};
use reactor::{Done, FileId, Files, Operation};
use rustix::io::Errno;

/// Most files that a thread keeps: 16 GiB of segments of 64 MiB. One more, and one of them is let
/// go, each in its turn. They take no descriptors but for those that the log has let go.
pub(crate) const FILES_KEPT_MAX: usize = 256;

/// The operations of a thread.
#[derive(Debug)]
pub(crate) struct Carriage {
    files: Files,
    log_files: Arc<LogFiles>,
    kept: Kept<(Arc<OwnedFd>, FileId)>,
    kept_max: usize,
    under_way: Numbered<Token, UnderWay>,
    /// What waits for a descriptor.
    aside: VecDeque<Plan>,
    /// That has been said since the last look at what was removed.
    is_lack_said: bool,
    /// What the log had removed by then.
    removals: u64,
}

#[derive(Debug)]
struct UnderWay {
    kind: Kind,
    fd: Arc<OwnedFd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Flush,
}

/// What became of an action that was to be started.
#[derive(Debug)]
pub(crate) enum Started {
    /// It is under way.
    Yes,
    /// It has failed at once.
    Failed(Token, Outcome),
    /// There is no descriptor for its file: it is put aside.
    Aside,
    /// It is none for a driver.
    Foreign(Plan),
}

impl Carriage {
    /// Operations on files of a log, of which up to so many are kept at hand: at least one, at most
    /// [`FILES_KEPT_MAX`].
    pub(crate) fn new(files: Files, log_files: Arc<LogFiles>, kept_max: usize) -> Self {
        Self {
            files,
            log_files,
            kept: Kept::default(),
            kept_max: kept_max.clamp(1, FILES_KEPT_MAX),
            under_way: Numbered::default(),
            aside: VecDeque::new(),
            is_lack_said: false,
            removals: 0,
        }
    }

    /// Whether an operation may be started. What is put aside has its room.
    pub(crate) fn has_room(&self) -> bool {
        self.files.room() > self.aside.len()
    }

    /// Whether something waits for a descriptor.
    pub(crate) fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// What has been put aside first, to be started now.
    pub(crate) fn take_aside(&mut self) -> Option<Plan> {
        self.aside.pop_front()
    }

    /// Gives up what waits for a descriptor: the log is never told what became of it.
    pub(crate) fn leave_aside(&mut self) {
        let left = mem::take(&mut self.aside).len();
        if left > 0 {
            tracing::error!(left, "no file descriptor is left: what the log waits for is given up");
        }
    }

    /// Starts an action, for which there is room.
    pub(crate) fn start(&mut self, plan: Plan) -> Started {
        let Plan { token, action } = plan;
        let (kind, name) = match &action {
            Action::Read { file, .. } => (Kind::Read, *file),
            Action::Write { file, .. } => (Kind::Write, *file),
            Action::Flush { file } => (Kind::Flush, *file),
            _ => return Started::Foreign(Plan { token, action }),
        };
        let (fd, file) = match self.open(name) {
            Ok(open) => open,
            Err(failure) if lacks_descriptor(&failure) && !base::mutant!("carriage_tells_lack") => {
                self.put_aside(Plan { token, action });
                return Started::Aside;
            }
            Err(failure) => {
                return Started::Failed(token, Outcome::Failed(failure, buffer(action)));
            }
        };
        let operation = match action {
            Action::Read { offset, buffer, bytes, .. } => {
                Operation::Read { file, offset, buffer, bytes }
            }
            Action::Write { offset, buffer, from, bytes, .. } => {
                Operation::Write { file, offset, buffer, from, bytes }
            }
            _ if base::mutant!("carriage_flushes_nothing") => {
                return Started::Failed(token, Outcome::Done);
            }
            _ => Operation::Flush { file },
        };
        match self.files.start(token.0, operation) {
            Ok(()) => {
                self.under_way.insert(token, UnderWay { kind, fd });
                Started::Yes
            }
            Err(refused) => {
                let failure = Failure::Io { code: 0, text: refused.why.to_string() };
                let buffer = match refused.operation {
                    Operation::Read { buffer, .. } => Some(buffer),
                    Operation::Write { .. } | Operation::Flush { .. } => None,
                };
                Started::Failed(token, Outcome::Failed(failure, buffer))
            }
        }
    }

    pub(super) fn put_aside(&mut self, plan: Plan) {
        if !mem::replace(&mut self.is_lack_said, true) {
            tracing::warn!("no file descriptor is left: the log waits for one");
        }
        // Behind the others, should it be tried in vain again: each has its turn.
        self.aside.push_back(plan);
    }

    /// The file that has the name now, as the driver knows it.
    fn open(&mut self, name: File) -> Result<(Arc<OwnedFd>, FileId), Failure> {
        // Nothing was removed since all that is kept was looked through: it is as it was.
        if self.log_files.removals() == self.removals
            && let Some((fd, file)) = self.kept.get(name)
        {
            return Ok((Arc::clone(fd), *file));
        }
        let fd = loop {
            match self.log_files.descriptor(name) {
                // If nothing is under way on it the log closes what is let go, one after the other.
                Err(failure) if lacks_descriptor(&failure) && self.close_next() => {}
                other => break other?,
            }
        };
        if let Some((kept, file)) = self.kept.get(name) {
            if Arc::ptr_eq(kept, &fd) || base::mutant!("carriage_keeps_the_removed") {
                return Ok((fd, *file));
            }
            self.close(name);
        }
        if self.kept.count() >= self.kept_max {
            self.close_next();
        }
        let too_many = |_| Failure::Io { code: 0, text: "too many files are open".to_owned() };
        let file = self.files.open(Arc::clone(&fd)).map_err(too_many)?;
        self.kept.insert(name, (Arc::clone(&fd), file));
        Ok((fd, file))
    }

    /// Lets the next file go. False if there is none.
    fn close_next(&mut self) -> bool {
        let next = self.kept.take_next(|_| true);
        next.map(|(_, file)| self.files.close(file)).is_some()
    }

    fn close(&mut self, name: File) {
        if let Some((_, file)) = self.kept.remove(name) {
            self.files.close(file);
        }
    }

    /// Closes files that have been removed, so that their blocks are free, if any was since the
    /// last look.
    pub(crate) fn close_removed(&mut self) {
        if self.log_files.removals() != self.removals {
            self.close_stale();
        }
    }

    /// The same, and of those that the log keeps open no more. For once in a while.
    pub(crate) fn close_stale(&mut self) {
        (self.removals, self.is_lack_said) = (self.log_files.removals(), false);
        let is_gone = |(name, (fd, _)): (File, &(Arc<OwnedFd>, FileId))| {
            (!self.log_files.is_current(name, fd)).then_some(name)
        };
        let gone: Vec<File> = self.kept.iter().filter_map(is_gone).collect();
        gone.into_iter().for_each(|name| self.close(name));
    }

    /// What came of the next operation that has ended.
    pub(crate) fn take_done(&mut self) -> Option<(Token, Outcome)> {
        let Done { token, result, buffer } = self.files.take_done()?;
        let token = Token(token);
        let UnderWay { kind, fd } =
            self.under_way.remove(&token).expect("invariant: each operation ends once");
        let outcome = match (kind, result, buffer) {
            (Kind::Read, Ok(bytes), Some(buffer)) => Outcome::Read(buffer, bytes),
            (Kind::Write, Ok(bytes), _) => Outcome::Wrote(bytes),
            (Kind::Flush, Ok(_), _) => Outcome::Done,
            (Kind::Read, Ok(_), None) => unreachable!("invariant: what is read into comes back"),
            (kind, Err(failure), buffer) => {
                if kind == Kind::Flush {
                    forget_unflushed(&fd);
                }
                Outcome::Failed(failure_of(&failure.into()), buffer)
            }
        };
        Some((token, outcome))
    }
}

/// What an action reads into.
pub(crate) fn buffer(action: Action) -> Option<Buffer> {
    match action {
        Action::Read { buffer, .. } => Some(buffer),
        _ => None,
    }
}

pub(super) fn failure_of(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(code) => failure(Errno::from_raw_os_error(code)),
        None => Failure::Io { code: 0, text: error.to_string() },
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
