//! What the log wants to be read, written and flushed, as operations of a thread's driver.
//!
//! Thread safety: a plain value of the data thread.
//!
//! Invariant: an operation is about the file that has the name now. Files are removed and made anew
//! under the same name, by any thread: each use asks the log's table of open files, and what this
//! thread keeps counts only if it is the same.

use std::{collections::HashMap, io, os::fd::OwnedFd};

use base::sync::Arc;
use log::{
    Files as LogFiles, failure, forget_unflushed,
    plan::{Action, Buffer, Failure, File, Outcome, Plan, Token},
};
use reactor::{Done, FileId, Files, Operation};
use rustix::io::Errno;

/// Most files that a thread keeps open: 16 GiB of segments of 64 MiB. One more, and any of them is
/// closed.
pub(crate) const FILES_KEPT_MAX: usize = 256;

/// The operations of a thread.
#[derive(Debug)]
pub(crate) struct Carriage {
    files: Files,
    log_files: Arc<LogFiles>,
    kept: HashMap<File, (Arc<OwnedFd>, FileId)>,
    under_way: HashMap<Token, UnderWay>,
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
    /// It is none for a driver.
    Foreign(Plan),
}

impl Carriage {
    pub(crate) fn new(files: Files, log_files: Arc<LogFiles>) -> Self {
        Self { files, log_files, kept: HashMap::new(), under_way: HashMap::new() }
    }

    /// Whether an operation may be started.
    pub(crate) fn has_room(&self) -> bool {
        self.files.room() > 0
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

    /// The file that has the name now, as the driver knows it.
    fn open(&mut self, name: File) -> Result<(Arc<OwnedFd>, FileId), Failure> {
        let fd = self.log_files.descriptor(name)?;
        if let Some((kept, file)) = self.kept.get(&name) {
            if Arc::ptr_eq(kept, &fd) {
                return Ok((fd, *file));
            }
            self.close(name);
        }
        if self.kept.len() >= FILES_KEPT_MAX
            && let Some(any) = self.kept.keys().next().copied()
        {
            self.close(any);
        }
        let own = fd.try_clone().map_err(|error| failure_of(&error))?;
        let too_many = |_| Failure::Io { code: 0, text: "too many files are open".to_owned() };
        let file = self.files.open(own).map_err(too_many)?;
        self.kept.insert(name, (Arc::clone(&fd), file));
        Ok((fd, file))
    }

    fn close(&mut self, name: File) {
        if let Some((_, file)) = self.kept.remove(&name) {
            self.files.close(file);
        }
    }

    /// Closes files that have been removed, so that their blocks are free.
    pub(crate) fn close_removed(&mut self) {
        let is_gone = |(name, (fd, _)): (&File, &(Arc<OwnedFd>, FileId))| {
            (!self.log_files.is_current(*name, fd)).then_some(*name)
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

fn buffer(action: Action) -> Option<Buffer> {
    match action {
        Action::Read { buffer, .. } => Some(buffer),
        _ => None,
    }
}

fn failure_of(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(code) => failure(Errno::from_raw_os_error(code)),
        None => Failure::Io { code: 0, text: error.to_string() },
    }
}
