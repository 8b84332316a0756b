//! How far a move has come.
//!
//! Each record that the footer lists counts as one of average length, whatever order they are
//! listed in. What is dead counts with the copies that are made next, in equal parts: a footer that
//! lists few records is looked up at once, and all that is dead in the segment would be won before
//! anything is copied.

/// Bytes of a segment that a move has come past. They never become less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    passed_bytes: u64,
    /// What is dead and counts with the next copies.
    dead_bytes: u64,
}

impl Progress {
    pub(super) fn passed_bytes(self) -> u64 {
        self.passed_bytes
    }

    /// So many bytes were looked up and are not to be copied.
    pub(super) fn note_dead(&mut self, bytes: u64) {
        self.dead_bytes += bytes;
        if base::mutant!("log_dead_won_before_copies") {
            self.release();
        }
    }

    /// One of `left` records that are to be moved was, with so many bytes.
    pub(super) fn note_moved(&mut self, bytes: u64, left: usize) {
        let part = self.dead_bytes / (left as u64).max(1);
        self.dead_bytes -= part;
        self.passed_bytes += bytes + part;
    }

    /// Nothing of what was looked up is left to be moved.
    pub(super) fn release(&mut self) {
        self.passed_bytes += std::mem::take(&mut self.dead_bytes);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_dead_counts_in_equal_parts_with_the_copies() {
        let mut progress = Progress::default();
        progress.note_dead(6000);
        assert_eq!(progress.passed_bytes(), 0);
        let passed: Vec<u64> = (1..=3)
            .rev()
            .map(|left| {
                progress.note_moved(1000, left);
                progress.passed_bytes()
            })
            .collect();
        assert_eq!(passed, [3000, 6000, 9000]);
    }

    #[test]
    fn what_is_dead_behind_the_last_copy_counts_when_all_is_looked_up() {
        let mut progress = Progress::default();
        progress.note_moved(1000, 1);
        progress.note_dead(500);
        assert_eq!(progress.passed_bytes(), 1000);
        progress.release();
        assert_eq!(progress.passed_bytes(), 1500);
    }
}
