//! One directory: names as they are seen, names that a flush has made certain, and changes between.

use std::collections::BTreeMap;

use base::random::Random;

use super::FileId;
use crate::fault::{Counts, Kind};

/// A change of names that no flush has made certain.
#[derive(Clone, Debug)]
enum Change {
    Link { name: String, file: FileId },
    Unlink { name: String },
    Rename { from: String, to: String, file: FileId },
}

/// The names of one directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    seen: BTreeMap<String, FileId>,
    certain: BTreeMap<String, FileId>,
    pending: Vec<Change>,
}

impl Directory {
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, FileId)> {
        self.seen.iter().map(|(name, file)| (name.as_str(), *file))
    }

    pub(super) fn find(&self, name: &str) -> Option<FileId> {
        self.seen.get(name).copied()
    }

    /// Whether a crash could still show this file, or it is seen now.
    pub(super) fn refers_to(&self, file: FileId) -> bool {
        let pending = self.pending.iter().any(|change| match change {
            Change::Link { file: it, .. } | Change::Rename { file: it, .. } => *it == file,
            Change::Unlink { .. } => false,
        });
        let named = |names: &BTreeMap<String, FileId>| names.values().any(|it| *it == file);
        pending || named(&self.seen) || named(&self.certain)
    }

    pub(super) fn link(&mut self, name: &str, file: FileId) {
        self.make(Change::Link { name: name.to_owned(), file });
    }

    pub(super) fn unlink(&mut self, name: &str) {
        self.make(Change::Unlink { name: name.to_owned() });
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, file: FileId) {
        self.make(Change::Rename { from: from.to_owned(), to: to.to_owned(), file });
    }

    fn make(&mut self, change: Change) {
        apply(&mut self.seen, &change);
        self.pending.push(change);
    }

    pub(super) fn flush(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.certain, &change);
        }
    }

    /// Keeps each change or loses it; `survives` is how many of 256 are kept.
    pub(super) fn crash(&mut self, survives: u32, random: &mut Random, counts: &mut Counts) {
        for change in self.pending.drain(..) {
            if random.below(256) < survives {
                apply(&mut self.certain, &change);
                counts.add(Kind::NameKept);
            } else {
                counts.add(Kind::NameLost);
            }
        }
        self.seen.clone_from(&self.certain);
    }
}

/// A renaming whose creation was lost still brings the file under its new name: it is one entry.
fn apply(names: &mut BTreeMap<String, FileId>, change: &Change) {
    match change {
        Change::Link { name, file } => {
            names.insert(name.clone(), *file);
        }
        Change::Unlink { name } => {
            names.remove(name);
        }
        Change::Rename { from, to, file } => {
            if names.get(from) == Some(file) {
                names.remove(from);
            }
            names.insert(to.clone(), *file);
        }
    }
}
