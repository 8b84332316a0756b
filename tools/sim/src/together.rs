//! Changes that take effect together: after a crash all of a batch are there, or none.

use crate::promise::{Number, Promises, Version};

/// A value of so many bytes shows which version it is.
const TELLING_BYTES: usize = 8;

/// A batch that was made since the last crash.
#[derive(Clone, Debug)]
struct Made {
    changes: Vec<(u64, Number)>,
    /// A key shows what the batch has made of it.
    is_shown: bool,
    /// A key shows what it was before.
    is_undone: bool,
}

/// The batches that were made since the last crash.
#[derive(Clone, Debug, Default)]
pub struct Batches(Vec<Made>);

impl Batches {
    /// These changes, each a key and the number of its version, are one batch.
    pub fn add(&mut self, changes: Vec<(u64, Number)>) {
        self.0.push(Made { changes, is_shown: false, is_undone: false });
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets what was noted: there is to be another look.
    pub fn look_again(&mut self) {
        for batch in &mut self.0 {
            (batch.is_shown, batch.is_undone) = (false, false);
        }
    }

    /// Notes what a key shows after a crash, of which nothing was promised yet because it shows
    /// that.
    pub fn note(&mut self, promises: &Promises, key: u64, seen: Option<&[u8]>, times: (u64, u64)) {
        let history: Vec<Version> = promises.versions(key).collect();
        for batch in &mut self.0 {
            for (_, number) in batch.changes.iter().filter(|(changed, _)| *changed == key) {
                // Of what is promised, and what came before, nothing can be missing.
                let Some(at) = history.iter().position(|it| it.number == *number) else { continue };
                let tells = seen.is_some_and(|bytes| bytes.len() >= TELLING_BYTES);
                batch.is_shown |= tells && history[at].may_look_like(seen, times);
                batch.is_undone |= !history[at..].iter().any(|it| it.may_look_like(seen, times));
            }
        }
    }

    /// Every key was looked at: says how many batches were lost whole, and forgets all of them. A
    /// version that is newer than a batch says nothing of it.
    ///
    /// # Errors
    /// When one is there in part.
    pub fn check(&mut self) -> Result<u64, String> {
        let mut lost = 0;
        for batch in std::mem::take(&mut self.0) {
            match (batch.is_shown, batch.is_undone) {
                (true, true) => return Err(format!("a batch is there in part: {batch:?}")),
                (false, true) => lost += 1,
                (_, false) => {}
            }
        }
        Ok(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::Batches;
    use crate::promise::{Promises, Version, value};

    /// Two keys with a version each, and a batch that has put both of them again.
    fn batch() -> (Promises, Batches) {
        let (mut promises, mut batches) = (Promises::default(), Batches::default());
        for (key, number) in [(0, 1), (1, 2), (0, 3), (1, 4)] {
            promises.publish(key, Version { number, value_len: Some(20), expires_ms: 0 });
        }
        batches.add(vec![(0, 3), (1, 4)]);
        (promises, batches)
    }

    fn check(first: u64, second: u64) -> Result<u64, String> {
        let (promises, mut batches) = batch();
        for (key, number) in [(0, first), (1, second)] {
            batches.note(&promises, key, Some(&value(number, 20)), (0, 0));
        }
        batches.check()
    }

    #[test]
    fn a_batch_is_there_or_not() {
        assert_eq!(check(3, 4), Ok(0));
        assert_eq!(check(1, 2), Ok(1));
        assert!(check(1, 4).is_err());
        assert!(check(3, 2).is_err());
    }

    #[test]
    fn what_is_newer_or_promised_says_nothing() {
        let (mut promises, mut batches) = batch();
        promises.publish(0, Version { number: 5, value_len: Some(20), expires_ms: 0 });
        promises.promise(0, 5);
        batches.note(&promises, 0, Some(&value(5, 20)), (0, 0));
        batches.note(&promises, 1, Some(&value(2, 20)), (0, 0));
        assert_eq!(batches.check(), Ok(1));
    }
}
