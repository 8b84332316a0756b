//! What a log takes, and how much of it is live.

use super::{Engine, space::Role};
use crate::{format::segment::HEADER_COPIES, keys::Keys, plan::SegmentId};

/// Segments and bytes of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Segments that have a footer.
    pub sealed: u64,
    /// Segments with records that are being written, or on their way to be sealed.
    pub open: u64,
    /// Segments with records and without a footer: a flush of them has failed, something in them
    /// is damaged, or the log was not stopped in order.
    pub unlisted: u64,
    /// Segments without records.
    pub free: u64,
    /// Segments that the manifest has and nobody can use.
    pub lost: u64,
    /// Files of segments that the log has no more, which could not be removed yet. They are in no
    /// other figure.
    pub unremoved: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes of segments that are not free.
    pub used_bytes: u64,
    /// Bytes of records that are the newest of their keys, tombstones included: of each segment the
    /// share of its records' bytes that lives by size classes.
    pub live_bytes: u64,
}

impl Space {
    /// Bytes of segments in use that are not live.
    #[must_use]
    pub fn dead_bytes(&self) -> u64 {
        self.used_bytes.saturating_sub(self.live_bytes)
    }

    /// What segments in use take, in percent of what lives in them.
    #[must_use]
    pub fn used_percent(&self) -> u64 {
        self.used_bytes.saturating_mul(100) / self.live_bytes.max(1)
    }
}

impl<K: Keys> Engine<K> {
    /// Whether space of what is dead comes back without any call but reports.
    pub fn is_compacting(&self) -> bool {
        let is_moving = self.is_moving() || !self.are_copies_durable();
        is_moving || self.is_freeing() || self.wants_freeing() || self.preparing.is_some()
    }

    /// What the segments are.
    pub fn space(&self) -> Space {
        let shape = &self.manifest.shape;
        let mut space = Space { unremoved: self.unremoved() as u64, ..Space::default() };
        for row in &self.manifest.rows {
            space.bytes += shape.segment_bytes;
            let Some(segment) = self.segment(row.segment) else {
                space.lost += 1;
                continue;
            };
            space.live_bytes += segment.share(segment.live_bytes, shape.segment_bytes);
            let (count, used) = match segment.role {
                Role::Sealed => (&mut space.sealed, shape.segment_bytes),
                Role::Unlisted => (&mut space.unlisted, shape.segment_bytes),
                Role::Free | Role::Freeing => (&mut space.free, 0),
                Role::Open => (&mut space.open, self.open_bytes(row.segment)),
            };
            *count += 1;
            space.used_bytes += used;
        }
        space
    }

    /// How much of a segment that is written to is in use.
    fn open_bytes(&self, segment: SegmentId) -> u64 {
        let begin = HEADER_COPIES * u64::from(self.manifest.shape.block_bytes);
        let tail = self.tails().find(|tail| tail.segment == segment);
        tail.map_or(begin, |tail| tail.end().max(begin))
    }
}
