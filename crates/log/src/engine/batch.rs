//! Changes that take effect together, also through a crash.
//!
//! Their records lie side by side in one chunk, behind one that says how many they are. A recovery
//! takes all of them or none, and readers see them in one step.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Engine, Mark, Mode, Settled, Upload,
    failure::{Seen, TOKEN_BYTES_MAX},
    room::{Needed, Purpose, Room},
    write::Put,
};
use crate::{
    error::Error,
    format::{
        KeyHash,
        record::{BATCH_BYTES, BATCH_RECORDS_MAX, Kind, Record},
    },
    keys::Keys,
};

/// A change of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Store a value that is at most a part long.
    Put(Put<'a>),
    /// Store a large value whose parts were put; the value of the put is empty.
    Head(&'a Upload, Put<'a>),
    /// Remove a key.
    Remove(&'a [u8]),
}

/// What came of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Every change was made.
    Done {
        /// How many of the keys to be removed were there.
        removed: usize,
        /// The first and the last of what the answer waits for.
        marks: Option<(Mark, Mark)>,
    },
    /// As of a put.
    Wait,
}

/// What a batch comes to before anything is written.
#[derive(Debug, Default)]
struct Planned<'a> {
    records: Vec<(KeyHash, Record<'a>, Option<&'a Upload>)>,
    removed: usize,
    marks: Option<(Mark, Mark)>,
}

impl Planned<'_> {
    fn wait_for(&mut self, mark: Mark) {
        let (first, last) = self.marks.unwrap_or((mark, mark));
        self.marks = Some((first.min(mark), last.max(mark)));
    }

    /// Bytes of all large values.
    fn large_bytes(&self) -> u64 {
        self.records.iter().filter_map(|(.., upload)| *upload).map(Upload::value_bytes).sum()
    }

    fn bytes(&self) -> usize {
        let records = self.records.iter().map(|(_, record, _)| record.bytes()).sum::<usize>();
        records + BATCH_BYTES
    }
}

impl<K: Keys> Engine<K> {
    /// Makes all changes, in their order, or none. A later change of the same key counts.
    ///
    /// # Errors
    /// When one cannot be made, or they are too many; nothing has changed then.
    pub fn write_batch(&mut self, changes: &[Change<'_>], now_ms: u64) -> Result<Batch, Error> {
        self.begin_write(now_ms);
        let values: Vec<Vec<u8>> = changes.iter().map(value_of_head).collect();
        let Some(mut planned) = self.plan(changes, &values)? else { return Ok(Batch::Wait) };
        self.check_batch(&planned)?;
        if !self.makes_room_at_risk(planned.large_bytes()) {
            return Ok(Batch::Wait);
        }
        // A key that is there has its place, also in a full index.
        let hashes = planned.records.iter().map(|(hash, ..)| *hash);
        let new: BTreeSet<KeyHash> =
            hashes.filter(|hash| self.index.get(*hash).is_none()).collect();
        if !new.is_empty() {
            self.index.prepare_all(&Vec::from_iter(new))?;
        }
        let is_put = planned.records.iter().any(|(_, record, _)| record.kind != Kind::Tombstone);
        let purpose = if is_put { Purpose::Put } else { Purpose::Remove };
        let count = planned.records.len();
        let needed = Needed { bytes: planned.bytes(), records: count };
        if count > 0 && self.make_room(needed, purpose)? == Room::Wait {
            return Ok(Batch::Wait);
        }
        let first = self.draw_many(count)?;
        for ((_, record, _), sequence) in planned.records.iter_mut().zip(first..) {
            record.sequence = sequence;
            record.token = if record.token == 0 { sequence } else { record.token };
        }
        let records: Vec<_> = planned.records.iter().map(|(_, record, _)| *record).collect();
        self.begin_batch(&records);
        for (hash, record, upload) in std::mem::take(&mut planned.records) {
            let mark = self.append(&record, hash);
            planned.wait_for(mark);
            if let Some(upload) = upload {
                self.keep_parts(upload, hash);
            }
        }
        Ok(Batch::Done { removed: planned.removed, marks: planned.marks })
    }

    /// Room was made: appends what says that these records, which come next, belong together.
    pub(super) fn begin_batch(&mut self, records: &[Record<'_>]) {
        if !records.first().is_some_and(|record| record.is_member) {
            return;
        }
        let bytes = records.iter().map(|record| record.bytes() as u64).sum();
        let count = u16::try_from(records.len()).expect("invariant: a batch is limited");
        let tail = self.open.as_mut().expect("invariant: room was made");
        tail.append(&Record::batch(count, bytes));
        self.counts.record_bytes += BATCH_BYTES as u64;
    }

    /// The most bytes of a batch, as it is written and as it may be written again.
    fn batch_bytes_max(&self) -> usize {
        let most = self.records_bytes_max();
        match self.settings.mode {
            Mode::Safe => most,
            // No more than that may be lost.
            Mode::Async => {
                most.min(usize::try_from(self.settings.at_risk_bytes_max).unwrap_or(usize::MAX))
            }
        }
    }

    fn check_batch(&self, planned: &Planned<'_>) -> Result<(), Error> {
        let count = planned.records.len();
        if count <= 1 {
            return Ok(());
        }
        if count > BATCH_RECORDS_MAX {
            return Err(Error::BatchRecords { got: count, max: BATCH_RECORDS_MAX });
        }
        let (got, max) = (planned.bytes() + count * TOKEN_BYTES_MAX, self.batch_bytes_max());
        if got > max {
            return Err(Error::BatchBytes { got, max });
        }
        // Several large values are no single record, which alone may be more.
        let large = usize::try_from(planned.large_bytes()).unwrap_or(usize::MAX);
        let bytes = got.saturating_add(large);
        let max = usize::try_from(self.settings.at_risk_bytes_max).unwrap_or(usize::MAX);
        if self.settings.mode == Mode::Async && large > 0 && bytes > max {
            return Err(Error::BatchBytes { got: bytes, max });
        }
        let fits = |records: usize| {
            let bytes = planned.bytes() * records / count;
            self.fits_a_segment(Needed { bytes, records })
        };
        if !fits(count) {
            // It is their footer that does not: of fewer such records it would.
            let max = (1..count).rev().find(|fewer| fits(*fewer)).unwrap_or(1);
            return Err(Error::BatchRecords { got: count, max });
        }
        Ok(())
    }

    /// The records of a batch; `None` when something must be reported before they are known.
    fn plan<'a>(
        &mut self,
        changes: &[Change<'a>],
        values: &'a [Vec<u8>],
    ) -> Result<Option<Planned<'a>>, Error> {
        let mut planned = Planned::default();
        // What the changes before have made of their keys.
        let mut is_there = BTreeMap::new();
        for (change, value) in changes.iter().zip(values) {
            let (hash, record, upload) = match change {
                Change::Put(put) => {
                    self.check_value(put)?;
                    (self.check(put)?, put.record(Kind::Value, put.value), None)
                }
                Change::Head(upload, put) => {
                    let (hash, parts) = self.check_upload(upload, put)?;
                    if parts == Settled::Pending {
                        return Ok(None);
                    }
                    (hash, put.record(Kind::Head, value), Some(*upload))
                }
                Change::Remove(key) => {
                    let hash = self.check(&Put { key, ..Put::default() })?;
                    match self.is_there(hash, is_there.get(&hash).copied())? {
                        Known::There => planned.removed += 1,
                        Known::Removed => {}
                        Known::Absent => continue,
                        Known::Stranded => return Ok(None),
                    }
                    (hash, Record::new(Kind::Tombstone, 0, key, &[]), None)
                }
            };
            is_there.insert(hash, record.kind != Kind::Tombstone);
            planned.records.push((hash, record, upload));
        }
        let are_many = planned.records.len() > 1;
        planned.records.iter_mut().for_each(|(_, record, _)| record.is_member = are_many);
        for (_, record, _) in &planned.records {
            self.check_bytes(record.bytes())?;
        }
        Ok(Some(planned))
    }

    fn is_there(&self, hash: KeyHash, known: Option<bool>) -> Result<Known, Error> {
        match known {
            Some(true) => return Ok(Known::There),
            Some(false) => return Ok(Known::Absent),
            None => {}
        }
        let Some(entry) = self.index.get(hash) else { return Ok(Known::Absent) };
        if !entry.class.is_tombstone() {
            return Ok(Known::There);
        }
        Ok(match self.wait_for(entry.position)? {
            Seen::Until(None) => Known::Absent,
            Seen::Until(Some(_)) => Known::Removed,
            Seen::Stranded => self.check_rewriting().map(|()| Known::Stranded)?,
        })
    }
}

/// Whether there is something to remove.
enum Known {
    There,
    /// It was removed, but a crash may yet bring it back: the batch removes it again.
    Removed,
    Absent,
    /// The tombstone is to be written again.
    Stranded,
}

fn value_of_head(change: &Change<'_>) -> Vec<u8> {
    match change {
        Change::Head(upload, _) => upload.encode(),
        Change::Put(_) | Change::Remove(_) => Vec::new(),
    }
}
