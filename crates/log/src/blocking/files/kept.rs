//! Files that are kept open, and which of them is let go next.
//!
//! A hand goes round over them, in the order of their names: where there are more than can be kept,
//! or descriptors lack, each has its turn, and none is let go again and again that is used all the
//! time.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use crate::plan::File;

/// What is kept of files, by their names.
#[derive(Debug)]
pub struct Kept<T> {
    files: BTreeMap<File, T>,
    /// What was let go last to make room.
    hand: Option<File>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), hand: None }
    }
}

impl<T> Kept<T> {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// What is kept of a file.
    #[must_use]
    pub fn get(&self, file: File) -> Option<&T> {
        self.files.get(&file)
    }

    /// Keeps a file, and returns what was kept of it.
    pub fn insert(&mut self, file: File, kept: T) -> Option<T> {
        self.files.insert(file, kept)
    }

    /// Lets a file go.
    pub fn remove(&mut self, file: File) -> Option<T> {
        self.files.remove(&file)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (File, &T)> {
        self.files.iter().map(|(file, kept)| (*file, kept))
    }

    /// Lets the next one go that may be.
    pub fn take_next(&mut self, may_go: impl Fn(&T) -> bool) -> Option<T> {
        let after = self.hand.map_or(Unbounded, Excluded);
        let found = self
            .files
            .range((after, Unbounded))
            .chain(&self.files)
            .find(|(_, kept)| may_go(kept))
            .map(|(file, _)| *file)?;
        self.hand = Some(found);
        self.files.remove(&found)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::plan::{DirectoryId, FileName, SegmentId};

    fn segment(number: u32) -> File {
        File { directory: DirectoryId(0), name: FileName::Segment(SegmentId(number)) }
    }

    #[test]
    fn each_has_its_turn_to_be_let_go() {
        let mut kept = Kept::default();
        (0..4).for_each(|number| assert_eq!(kept.insert(segment(number), number), None));
        let mut gone = Vec::new();
        for next in 4..12 {
            let number = kept.take_next(|number| *number != 2).expect("one that may go");
            gone.push(number);
            // It is wanted again at once, or another one is.
            let number = if next % 2 == 0 { number } else { next };
            kept.insert(segment(number), number);
        }
        assert_eq!(gone, [0, 1, 3, 5, 7, 0, 3, 7]);
        assert_eq!(kept.count(), 4);
        assert!(kept.get(segment(2)).is_some(), "it may not go");
        assert_eq!(kept.take_next(|_| false), None);
    }
}
