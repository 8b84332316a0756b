//! What logs want to be read, written and flushed, as operations of a thread's driver.
//!
//! Logs are told apart by their numbers. None can have more under way than its share, so that one
//! whose disk hangs leaves the others theirs.
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
    logs: Vec<Log>,
    /// By what the driver knows them as: each log has tokens of its own.
    under_way: Numbered<u64, UnderWay>,
    next: u64,
}

/// What a thread has of one log.
#[derive(Debug)]
struct Log {
    log_files: Arc<LogFiles>,
    kept: Kept<(Arc<OwnedFd>, FileId)>,
    kept_max: usize,
    /// Operations that are under way.
    started: usize,
    /// What waits for a descriptor.
    aside: VecDeque<Plan>,
    /// That has been said since the last look at what was removed.
    is_lack_said: bool,
    /// What the log had removed by then.
    removals: u64,
}

#[derive(Debug)]
struct UnderWay {
    log: usize,
    token: Token,
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
    /// Operations on files of logs, of each of which up to so many are kept at hand: at least one,
    /// at most [`FILES_KEPT_MAX`].
    pub(crate) fn new(
        files: Files,
        logs: impl IntoIterator<Item = (Arc<LogFiles>, usize)>,
    ) -> Self {
        let logs = logs.into_iter().map(|(log_files, kept_max)| Log::new(log_files, kept_max));
        Self { files, logs: logs.collect(), under_way: Numbered::default(), next: 0 }
    }

    /// Whether an operation of a log may be started. What is put aside has its room.
    pub(crate) fn has_room(&self, log: usize) -> bool {
        let aside: usize = self.logs.iter().map(|log| log.aside.len()).sum();
        let share = (self.files.depth() / self.logs.len()).max(1);
        let has_share = self.logs[log].started < share || base::mutant!("carriage_without_shares");
        has_share && self.files.room() > aside
    }

    /// Whether something waits for a descriptor.
    pub(crate) fn has_aside(&self) -> bool {
        self.logs.iter().any(|log| !log.aside.is_empty())
    }

    /// What a log has put aside first, to be started now.
    pub(crate) fn take_aside(&mut self, log: usize) -> Option<Plan> {
        self.logs[log].aside.pop_front()
    }

    /// Gives up what waits for a descriptor: no log is ever told what became of it.
    pub(crate) fn leave_aside(&mut self) {
        let left: usize = self.logs.iter_mut().map(|log| mem::take(&mut log.aside).len()).sum();
        if left > 0 {
            tracing::error!(left, "no file descriptor is left: what a log waits for is given up");
        }
    }

    /// Starts an action of a log, for which there is room.
    pub(crate) fn start(&mut self, number: usize, plan: Plan) -> Started {
        let Plan { token, action } = plan;
        let (kind, name) = match &action {
            Action::Read { file, .. } => (Kind::Read, *file),
            Action::Write { file, .. } => (Kind::Write, *file),
            Action::Flush { file } => (Kind::Flush, *file),
            _ => return Started::Foreign(Plan { token, action }),
        };
        let Self { files, logs, under_way, next } = self;
        let log = &mut logs[number];
        let (fd, file) = match log.open(files, name) {
            Ok(open) => open,
            Err(failure) if lacks_descriptor(&failure) && !base::mutant!("carriage_tells_lack") => {
                self.put_aside(number, Plan { token, action });
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
        match files.start(*next, operation) {
            Ok(()) => {
                under_way.insert(*next, UnderWay { log: number, token, kind, fd });
                *next += 1;
                log.started += 1;
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

    /// Has an action of a log wait for a descriptor.
    pub(super) fn put_aside(&mut self, log: usize, plan: Plan) {
        self.logs[log].put_aside(plan);
    }

    /// Closes files that have been removed, so that their blocks are free, if any was since the
    /// last look.
    pub(crate) fn close_removed(&mut self) {
        let Self { files, logs, .. } = self;
        logs.iter_mut().for_each(|log| log.close_removed(files));
    }

    /// The same, and of those that logs keep open no more. For once in a while.
    pub(crate) fn close_stale(&mut self) {
        let Self { files, logs, .. } = self;
        logs.iter_mut().for_each(|log| log.close_stale(files));
    }

    /// Whether something has ended that was not taken.
    pub(crate) fn has_left(&self) -> bool {
        self.files.has_done()
    }

    /// What came of the next operation that has ended, and of which log it is.
    pub(crate) fn take_done(&mut self) -> Option<(usize, Token, Outcome)> {
        let Done { token, result, buffer } = self.files.take_done()?;
        let UnderWay { log, token, kind, fd } =
            self.under_way.remove(&token).expect("invariant: each operation ends once");
        self.logs[log].started -= 1;
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
        Some((log, token, outcome))
    }
}

impl Log {
    fn new(log_files: Arc<LogFiles>, kept_max: usize) -> Self {
        Self {
            log_files,
            kept: Kept::default(),
            kept_max: kept_max.clamp(1, FILES_KEPT_MAX),
            started: 0,
            aside: VecDeque::new(),
            is_lack_said: false,
            removals: 0,
        }
    }

    fn put_aside(&mut self, plan: Plan) {
        if !mem::replace(&mut self.is_lack_said, true) {
            tracing::warn!("no file descriptor is left: the log waits for one");
        }
        // Behind the others, should it be tried in vain again: each has its turn.
        self.aside.push_back(plan);
    }

    /// The file that has the name now, as the driver knows it.
    fn open(&mut self, files: &Files, name: File) -> Result<(Arc<OwnedFd>, FileId), Failure> {
        // Nothing was removed since all that is kept was looked through: it is as it was.
        if self.log_files.removals() == self.removals
            && let Some((fd, file)) = self.kept.get(name)
        {
            return Ok((Arc::clone(fd), *file));
        }
        let fd = loop {
            match self.log_files.descriptor(name) {
                // If nothing is under way on it the log closes what is let go, one after the other.
                Err(failure) if lacks_descriptor(&failure) && self.close_next(files) => {}
                other => break other?,
            }
        };
        if let Some((kept, file)) = self.kept.get(name) {
            if Arc::ptr_eq(kept, &fd) || base::mutant!("carriage_keeps_the_removed") {
                return Ok((fd, *file));
            }
            self.close(files, name);
        }
        if self.kept.count() >= self.kept_max {
            self.close_next(files);
        }
        let too_many = |_| Failure::Io { code: 0, text: "too many files are open".to_owned() };
        let file = files.open(Arc::clone(&fd)).map_err(too_many)?;
        self.kept.insert(name, (Arc::clone(&fd), file));
        Ok((fd, file))
    }

    /// Lets the next file go. False if there is none.
    fn close_next(&mut self, files: &Files) -> bool {
        let next = self.kept.take_next(|_| true);
        next.map(|(_, file)| files.close(file)).is_some()
    }

    fn close(&mut self, files: &Files, name: File) {
        if let Some((_, file)) = self.kept.remove(name) {
            files.close(file);
        }
    }

    fn close_removed(&mut self, files: &Files) {
        if self.log_files.removals() != self.removals {
            self.close_stale(files);
        }
    }

    fn close_stale(&mut self, files: &Files) {
        (self.removals, self.is_lack_said) = (self.log_files.removals(), false);
        let is_gone = |(name, (fd, _)): (File, &(Arc<OwnedFd>, FileId))| {
            (!self.log_files.is_current(name, fd)).then_some(name)
        };
        let gone: Vec<File> = self.kept.iter().filter_map(is_gone).collect();
        gone.into_iter().for_each(|name| self.close(files, name));
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
