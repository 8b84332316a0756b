//! Actions of which each begins when the one before is reported.
//!
//! Orders of `docs/formats/log.md` that are not about records: a new segment, a new manifest. The
//! same chain is performed while the log serves, one plan after the other, and while it is opened.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    error::Error,
    plan::{Action, Buffer, DirectoryId, Disk, Failure, File, FileName, Outcome},
};

/// A chain, and how far it is.
#[derive(Debug, Default)]
pub(super) struct Chain {
    steps: VecDeque<Step>,
    issued: Option<Issued>,
    /// What was passed over because it failed, or would have; of a flush of a directory its
    /// manifest. What has failed comes behind what was not tried.
    failed: Vec<File>,
}

#[derive(Debug)]
struct Step {
    action: Action,
    kind: Kind,
}

/// What a failure of a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The end of the chain.
    Plain,
    /// The same, but that not being there is as good as being removed.
    Tolerant,
    /// As of a tolerant one, and any other failure is noted, and passed over. Of a removal: with
    /// those that are left of the directory, because a device may take long to say that.
    PassedOver,
    /// The end: what comes before may be undone; this and what comes after may not.
    Final,
}

#[derive(Debug)]
struct Issued {
    doing: &'static str,
    file: File,
    kind: Kind,
    /// Of a write: what it writes, from which byte, and how many.
    write: Option<(u64, Arc<Buffer>, usize, usize)>,
}

/// Why a chain has ended.
#[derive(Debug)]
pub(super) struct Broken {
    /// What failed.
    pub(super) error: Error,
    /// Whether it is unknown what the chain has changed.
    pub(super) is_unsure: bool,
}

/// How far a chain is after a report.
#[derive(Debug)]
pub(super) enum Progress {
    /// There is more to do.
    More,
    /// Everything is done.
    Finished,
    /// An action failed, and no more are to come.
    Broken(Broken),
}

impl Chain {
    pub(super) fn push(&mut self, action: Action) {
        self.steps.push_back(Step { action, kind: Kind::Plain });
    }

    pub(super) fn push_final(&mut self, action: Action) {
        self.steps.push_back(Step { action, kind: Kind::Final });
    }

    pub(super) fn push_tolerant(&mut self, action: Action) {
        self.steps.push_back(Step { action, kind: Kind::Tolerant });
    }

    /// The others are to be done whatever comes of this one.
    pub(super) fn push_passed_over(&mut self, action: Action) {
        self.steps.push_back(Step { action, kind: Kind::PassedOver });
    }

    /// What has failed and was passed over.
    pub(super) fn take_failed(&mut self) -> Vec<File> {
        std::mem::take(&mut self.failed)
    }

    /// Appends what replaces the manifest by `bytes`.
    pub(super) fn push_manifest(&mut self, bytes: &[u8]) {
        let of = |name| File { directory: DirectoryId(0), name };
        let (file, to) = (of(FileName::ManifestNew), FileName::Manifest);
        let mut buffer = Buffer::new(bytes.len());
        buffer.as_mut_slice().copy_from_slice(bytes);
        let (buffer, bytes) = (Arc::new(buffer), bytes.len());
        self.push_tolerant(Action::Remove { file });
        self.push(Action::Create { file });
        self.push(Action::Write { file, offset: 0, buffer, from: 0, bytes });
        self.push(Action::Flush { file });
        self.push_final(Action::Rename { file, to });
        // What is in a directory may be forgotten until it is flushed.
        if !base::mutant!("log_no_directory_flush") {
            self.push_final(Action::FlushDirectory { directory: DirectoryId(0) });
        }
    }

    /// Whether there is something left of it.
    pub(super) fn is_busy(&self) -> bool {
        self.issued.is_some() || !self.steps.is_empty()
    }

    /// The next action; `None` while one is out, and at the end.
    pub(super) fn next(&mut self) -> Option<Action> {
        if self.issued.is_some() {
            return None;
        }
        let Step { action, kind } = self.steps.pop_front()?;
        let (doing, file) = describe(&action);
        let write = match &action {
            Action::Write { offset, buffer, from, bytes, .. } => {
                Some((*offset, Arc::clone(buffer), *from, *bytes))
            }
            _ => None,
        };
        self.issued = Some(Issued { doing, file, kind, write });
        Some(action)
    }

    /// Takes what came of the action that is out.
    pub(super) fn report(&mut self, outcome: Outcome) -> Progress {
        let issued = self.issued.take().expect("invariant: only what was handed out is reported");
        let (file, kind) = (issued.file, issued.kind);
        match (outcome, issued.write) {
            (Outcome::Failed(Failure::NotFound, _), _)
                if matches!(kind, Kind::Tolerant | Kind::PassedOver) => {}
            (Outcome::Failed(..), _)
                if kind == Kind::PassedOver && !base::mutant!("log_one_file_keeps_others") =>
            {
                if issued.doing == "remove" && !base::mutant!("log_removals_all_tried") {
                    self.pass_over_removals(file.directory);
                }
                self.failed.push(file);
            }
            (Outcome::Failed(failure, _), _) => {
                let error = Error::Disk { doing: issued.doing, file, failure };
                return Progress::Broken(Broken { error, is_unsure: kind == Kind::Final });
            }
            (Outcome::Wrote(written), Some((offset, buffer, from, bytes))) if written < bytes => {
                let (from, bytes) = (from + written, bytes - written);
                let offset = offset + written as u64;
                let action = Action::Write { file, offset, buffer, from, bytes };
                self.steps.push_front(Step { action, kind });
            }
            _ => {}
        }
        if self.steps.is_empty() { Progress::Finished } else { Progress::More }
    }

    /// Leaves the other removals of the directory undone.
    fn pass_over_removals(&mut self, directory: DirectoryId) {
        let failed = &mut self.failed;
        self.steps.retain(|step| match step.action {
            Action::Remove { file }
                if file.directory == directory && step.kind == Kind::PassedOver =>
            {
                failed.push(file);
                false
            }
            _ => true,
        });
    }

    /// Performs all of it.
    pub(super) fn perform(mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        while let Some(action) = self.next() {
            if let Progress::Broken(broken) = self.report(disk.perform(action)) {
                return Err(broken.error);
            }
        }
        Ok(())
    }
}

/// What an action does, and to which file; to a directory is to its manifest.
pub(super) fn describe(action: &Action) -> (&'static str, File) {
    let home = |directory| File { directory, name: FileName::Manifest };
    match action {
        Action::Create { file } => ("create", *file),
        Action::Allocate { file, .. } => ("allocate", *file),
        Action::Truncate { file, .. } => ("truncate", *file),
        Action::Write { file, .. } => ("write", *file),
        Action::Read { file, .. } => ("read", *file),
        Action::Flush { file } => ("flush", *file),
        Action::Rename { file, .. } => ("rename", *file),
        Action::Remove { file } => ("remove", *file),
        Action::FlushDirectory { directory } => ("flush the directory of", home(*directory)),
        Action::List { directory } => ("list the directory of", home(*directory)),
    }
}
