//! What came of operations, until it is taken: writes and flushes before reads.

use std::collections::VecDeque;

use super::{Done, Errand, Failure, Work};

#[derive(Default)]
pub(super) struct Ended {
    reads: VecDeque<Done>,
    others: VecDeque<Done>,
}

impl Ended {
    pub(super) fn push(&mut self, errand: Errand, result: Result<usize, Failure>) {
        let is_read = matches!(errand.work, Work::Read(_));
        let of_its_kind = if is_read || base::mutant!("files_writes_behind_reads") {
            &mut self.reads
        } else {
            &mut self.others
        };
        of_its_kind.push_back(errand.end(result));
    }

    pub(super) fn pop(&mut self) -> Option<Done> {
        self.others.pop_front().or_else(|| self.reads.pop_front())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.reads.is_empty()
    }
}
