//! Segments that stay as they are because somebody reads them.
//!
//! A pinned segment is neither freed nor used anew, and nothing is moved out of it.

use std::collections::BTreeMap;

use crate::plan::SegmentId;

/// How many read each segment.
#[derive(Debug, Default)]
pub(super) struct Pins {
    counts: BTreeMap<SegmentId, u32>,
}

impl Pins {
    pub(super) fn pin(&mut self, segment: SegmentId) {
        *self.counts.entry(segment).or_default() += 1;
    }

    pub(super) fn unpin(&mut self, segment: SegmentId) {
        let Some(count) = self.counts.get_mut(&segment) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&segment);
        }
    }

    /// Whether nobody reads any.
    pub(super) fn are_none(&self) -> bool {
        self.counts.is_empty()
    }

    pub(super) fn has(&self, segment: SegmentId) -> bool {
        self.counts.contains_key(&segment)
    }
}
