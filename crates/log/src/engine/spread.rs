//! Where the parts of a large value lie.
//!
//! It takes 8 bytes a part, and once for each segment what tells of that: whoever sends a value to
//! a slow client keeps it for long. The read of a part is made when its turn has come.
//! Thread safety: a plain value; to make a read of it takes no engine.

use std::sync::Arc;

use super::{
    Engine, Pin, Reading,
    read::{Lies, PartOf},
};
use crate::{
    error::Error,
    format::{KeyHash, Seed, manifest::Shape, record::Parts},
    keys::Keys,
    plan::{File, SegmentId},
    position::{Position, UNIT_BYTES},
};

/// A segment that parts lie in, as it was when their head was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    id: SegmentId,
    file: File,
    seed: Seed,
    pin: Pin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    hash: KeyHash,
    value_bytes: u64,
    upload: u64,
    shape: Shape,
    positions: Vec<Position>,
    /// In the order of their numbers.
    hosts: Vec<Host>,
}

/// Where the parts of a large value lie. As long as it is kept they stay there. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread(Arc<Known>);

impl Spread {
    /// Bytes of the value.
    #[must_use]
    pub fn value_bytes(&self) -> u64 {
        self.0.value_bytes
    }

    /// How many parts there are.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.0.positions.len()
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let Known { positions, hosts, .. } = &*self.0;
        size_of::<Known>() + size_of_val(&positions[..]) + size_of_val(&hosts[..])
    }

    /// Bytes of the buffer that a part is read into.
    ///
    /// # Panics
    /// When there is no such part.
    #[must_use]
    pub fn read_bytes(&self, number: usize) -> usize {
        self.reading(number).bytes()
    }

    /// Bytes of a head that names these parts.
    pub(super) fn head_bytes(&self) -> usize {
        Parts::encode(self.0.value_bytes, self.0.upload, &self.0.positions).len()
    }

    /// The upload that wrote the parts.
    pub(super) fn upload(&self) -> u64 {
        self.0.upload
    }

    /// The read of a part.
    ///
    /// # Panics
    /// When there is no such part.
    fn reading(&self, number: usize) -> Reading {
        let Known { hash, value_bytes, upload, shape, positions, hosts } = &*self.0;
        let position = positions[number];
        let units_of_segment = shape.segment_bytes / u64::from(UNIT_BYTES);
        let (segment, unit) =
            (position.units() / units_of_segment, position.units() % units_of_segment);
        let at = hosts.binary_search_by_key(&segment, |host| u64::from(host.id.0));
        let host = &hosts[at.expect("invariant: the segment of each part was looked up")];
        let part_bytes = u64::from(shape.part_bytes);
        let left = value_bytes.saturating_sub(number as u64 * part_bytes);
        let bytes = usize::try_from(left.min(part_bytes)).unwrap_or(usize::MAX);
        let lies = Lies {
            file: host.file,
            seed: host.seed,
            position,
            offset: unit * u64::from(UNIT_BYTES),
            pin: host.pin.clone(),
        };
        let (hash, upload) = (*hash, *upload);
        let number = u16::try_from(number).expect("invariant: a value has no more parts");
        Reading::of_part(lies, shape, PartOf { hash, upload, number, bytes })
    }
}

impl<K: Keys> Engine<K> {
    /// Where the parts lie of a large value whose head was fetched by `reading`, which is one of a
    /// key.
    ///
    /// # Errors
    /// When a part lies in a segment that is not there.
    pub fn parts(&self, reading: &Reading, parts: &Parts<'_>) -> Result<Spread, Error> {
        let hash = self.index.hash(reading.key())?;
        self.spread(hash, parts)
    }

    /// The read of a part, which counts as one.
    ///
    /// # Panics
    /// When there is no such part.
    pub fn part(&mut self, spread: &Spread, number: usize) -> Reading {
        self.counts.reads += 1;
        spread.reading(number)
    }

    /// The reads of all parts.
    pub fn all_parts(&mut self, spread: &Spread) -> Vec<Reading> {
        (0..spread.parts()).map(|number| self.part(spread, number)).collect()
    }

    pub(super) fn spread(&self, hash: KeyHash, parts: &Parts<'_>) -> Result<Spread, Error> {
        let positions: Vec<Position> = parts.positions().collect();
        let mut segments: Vec<_> = positions.iter().map(|part| self.place(*part).0).collect();
        segments.dedup();
        segments.sort_unstable();
        segments.dedup();
        let is_pinned = !base::mutant!("store_reader_unpinned");
        let host = |id: SegmentId| {
            let segment = self.segment(id).ok_or(Error::Unreachable { segment: id })?;
            let pin = if is_pinned { segment.pin.clone() } else { Pin::default() };
            Ok(Host { id, file: segment.file(id), seed: segment.seed, pin })
        };
        let hosts = segments.into_iter().map(host).collect::<Result<_, Error>>()?;
        let (value_bytes, upload) = (parts.value_bytes, parts.upload);
        let shape = self.manifest.shape;
        Ok(Spread(Arc::new(Known { hash, value_bytes, upload, shape, positions, hosts })))
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
impl Spread {
    /// The parts of `self`, taken for those of another upload.
    pub(super) fn taken_for(&self, other: &Self) -> Self {
        Self(Arc::new(Known { upload: other.upload(), ..(*self.0).clone() }))
    }
}
