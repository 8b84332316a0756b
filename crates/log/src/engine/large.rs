//! Values that are longer than a part.
//!
//! The parts are appended first, and found by nobody. The head, which names them, is appended when
//! all of them are durable. A value that is never finished is dead bytes.

use std::collections::BTreeMap;

use super::{
    Engine, Mark, Pin, Settled, Spread,
    room::{Needed, Purpose, Room},
    write::{Put, Wrote},
};
use crate::{
    error::Error,
    format::{
        KeyHash, PARTS_MAX, VALUE_BYTES_MAX,
        record::{Kind, Parts, Record},
    },
    keys::Keys,
    plan::SegmentId,
    position::{Position, SizeClass},
};

/// A large value on its way.
#[derive(Debug)]
pub struct Upload {
    hash: KeyHash,
    number: u64,
    value_bytes: u64,
    left: u64,
    parts: Vec<(Position, SizeClass)>,
    /// Of the segments that parts lie in: a part without a head is not live.
    pins: BTreeMap<SegmentId, Pin>,
    /// The first part's, and the last one's.
    marks: Option<(Mark, Mark)>,
}

impl Upload {
    /// Bytes of the whole value.
    pub(super) fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// Bytes of the part that is to come next; 0 when all have.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The value of the head.
    pub(super) fn encode(&self) -> Vec<u8> {
        let positions: Vec<Position> = self.parts.iter().map(|(position, _)| *position).collect();
        Parts::encode(self.value_bytes, self.number, &positions)
    }

    /// What the head waits for.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        self.marks.map(|(_, last)| last)
    }
}

impl<K: Keys> Engine<K> {
    /// Begins a value of `value_bytes` bytes, more than a part.
    ///
    /// # Errors
    /// When there can be no such value.
    pub fn begin_large(&mut self, key: &[u8], value_bytes: u64) -> Result<Upload, Error> {
        let hash = self.check(&Put { key, ..Put::default() })?;
        let part_bytes = u64::from(self.manifest.shape.part_bytes);
        let max = VALUE_BYTES_MAX.min(part_bytes * PARTS_MAX as u64);
        // Those of a ring would have parts in segments of which one goes first.
        let max = if self.settings.ring.is_some() { part_bytes } else { max };
        if !(part_bytes + 1..=max).contains(&value_bytes) {
            return Err(Error::ValueBytes { got: value_bytes, max });
        }
        let number = self.draw()?;
        Ok(Upload {
            hash,
            number,
            value_bytes,
            left: value_bytes,
            parts: Vec::new(),
            pins: BTreeMap::new(),
            marks: None,
        })
    }

    /// Appends the next part: as long as parts are, and the last one the rest. `Wait` as of a put.
    ///
    /// # Errors
    /// When it is not as long, or cannot be stored.
    pub fn put_part(
        &mut self,
        upload: &mut Upload,
        part: &[u8],
        now_ms: u64,
    ) -> Result<Wrote, Error> {
        self.begin_write(now_ms);
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let bytes = upload.left.min(u64::from(self.manifest.shape.part_bytes));
        if bytes == 0 || part.len() as u64 != bytes {
            return Err(Error::Upload);
        }
        let key = upload.hash.0.to_le_bytes();
        let number = u16::try_from(upload.parts.len()).map_err(|_| Error::Upload)?;
        let record = Record::new(Kind::Part, upload.number, &key, part);
        let record = Record { part: number, ..record };
        self.check_bytes(record.bytes())?;
        if self.make_room(Needed::one(record.bytes()), Purpose::Put)? == Room::Wait {
            return Ok(Wrote::Wait);
        }
        let mark = Mark(self.next_ticket);
        let place = self.append_hidden(&record, upload.hash);
        upload.parts.push(place);
        let (segment, _) = self.place(place.0);
        if let Some(segment) = self.segment_mut(segment) {
            segment.headless_bytes += u64::from(place.1.bytes());
        }
        if let Some(pin) = self.pin(segment).filter(|_| !base::mutant!("log_upload_unpinned")) {
            upload.pins.insert(segment, pin);
        }
        upload.left -= bytes;
        upload.marks = Some((upload.marks.map_or(mark, |(first, _)| first), mark));
        Ok(Wrote::Done { sequence: upload.number, mark })
    }

    /// Appends the head, which makes the value the key's. The value of `put` is empty. `Wait` also
    /// while parts are not durable.
    ///
    /// # Errors
    /// When parts are missing or were lost, or the head cannot be stored.
    pub fn put_head(
        &mut self,
        upload: &Upload,
        put: &Put<'_>,
        now_ms: u64,
    ) -> Result<Wrote, Error> {
        self.begin_write(now_ms);
        let (hash, parts) = self.check_upload(upload, put)?;
        if parts == Settled::Pending || !self.makes_room_at_risk(upload.value_bytes) {
            return Ok(Wrote::Wait);
        }
        let value = upload.encode();
        let wrote = self.put_record(hash, &put.record(Kind::Head, &value), now_ms)?;
        if matches!(wrote, Wrote::Done { .. }) {
            self.keep_parts(upload, hash);
        }
        Ok(wrote)
    }

    /// Stores other fields with the large value that the key has, which is the one of `spread`, and
    /// whose parts stay where they are: the head is written anew. The value of `put` is empty.
    ///
    /// # Errors
    /// When the key has no value in parts, or the head cannot be stored.
    pub fn put_head_anew(
        &mut self,
        put: &Put<'_>,
        spread: &Spread,
        now_ms: u64,
    ) -> Result<Wrote, Error> {
        self.begin_write(now_ms);
        let hash = self.check(put)?;
        if self.parts_of(hash).is_none() || !put.value.is_empty() {
            return Err(Error::Upload);
        }
        let bytes_max = put.record(Kind::Head, &[]).bytes() + spread.head_bytes();
        self.index.prepare(hash)?;
        self.check_bytes(bytes_max)?;
        if self.make_room(Needed::one(bytes_max), Purpose::Put)? == Room::Wait {
            return Ok(Wrote::Wait);
        }
        // Not before: to make room may have moved them.
        let parts = self.parts_of(hash).cloned().ok_or(Error::Upload)?;
        let positions: Vec<Position> = parts.iter().map(|(position, _)| *position).collect();
        let value = Parts::encode(spread.value_bytes(), spread.upload(), &positions);
        let sequence = self.draw()?;
        let record = put.record(Kind::Head, &value);
        let token = if record.token == 0 { sequence } else { record.token };
        // Before the old head dies, and takes its parts along.
        for (position, class) in &parts {
            if !base::mutant!("log_parts_die_by_a_touch") {
                self.add_live(*position, *class);
            }
        }
        let mark = self.append(&Record { sequence, token, ..record }, hash);
        // They did not die with the old head.
        let bytes = parts.iter().map(|(_, class)| u64::from(class.bytes())).sum();
        self.compaction.note_moved(bytes);
        if let Some(entry) = self.index.get(hash) {
            self.larges.insert(entry.position, parts);
        }
        Ok(Wrote::Done { sequence, mark })
    }

    /// Where the parts of a key's value lie.
    fn parts_of(&self, hash: KeyHash) -> Option<&Vec<(Position, SizeClass)>> {
        self.larges.get(&self.index.get(hash)?.position)
    }

    /// The key of a head, and whether its parts are durable, which they have to be before it is
    /// written.
    pub(super) fn check_upload(
        &mut self,
        upload: &Upload,
        put: &Put<'_>,
    ) -> Result<(KeyHash, Settled), Error> {
        let hash = self.check(put)?;
        if upload.left != 0 || hash != upload.hash || !put.value.is_empty() {
            return Err(Error::Upload);
        }
        let parts =
            upload.marks.map_or(Settled::Done, |(first, last)| self.all_durable(first, last));
        match parts {
            Settled::Pending if !base::mutant!("log_head_before_parts") => {
                self.drain_below = self.drain_below.max(self.next_ticket);
                Ok((hash, Settled::Pending))
            }
            Settled::Failed => Err(Error::Unflushed),
            Settled::Done | Settled::Pending => Ok((hash, Settled::Done)),
        }
    }

    /// Whether what is at risk leaves room for large values of so many bytes together. If not, it
    /// is on its way, and what comes meanwhile waits: else one that is more than may be lost
    /// beside others would wait for as long as others come.
    pub(super) fn makes_room_at_risk(&mut self, value_bytes: u64) -> bool {
        let is_too_much = value_bytes > 0 && self.is_at_risk(value_bytes);
        if is_too_much {
            self.drain_below = self.drain_below.max(self.next_ticket);
            self.held_below = self.next_ticket;
        }
        !is_too_much
    }

    /// The head of the upload, which is the last record, is the key's: its parts live as long as
    /// it, and whoever loses it loses the value.
    pub(super) fn keep_parts(&mut self, upload: &Upload, hash: KeyHash) {
        let Some(entry) = self.index.get(hash) else { return };
        for (position, class) in &upload.parts {
            self.add_live(*position, *class);
            let (segment, _) = self.place(*position);
            if let Some(segment) = self.segment_mut(segment) {
                let bytes = u64::from(class.bytes());
                segment.headless_bytes = segment.headless_bytes.saturating_sub(bytes);
            }
        }
        self.larges.insert(entry.position, upload.parts.clone());
        self.note_head(upload.value_bytes);
    }

    /// Notes that the last record is the head of a value of so many bytes.
    pub(super) fn note_head(&mut self, value_bytes: u64) {
        let below = self.durable_below();
        self.heads.retain(|(ticket, _)| *ticket >= below);
        self.heads.push((self.next_ticket - 1, value_bytes));
        // Much may be lost at once now: the next put is to look.
        self.take_back_allowance();
    }

    /// Bytes of the large values whose heads are not flushed.
    pub(super) fn large_bytes_at_risk(&self) -> u64 {
        if self.heads.is_empty() {
            return 0;
        }
        let below = self.durable_below();
        let unflushed = self.heads.iter().filter(|(ticket, _)| *ticket >= below);
        unflushed.map(|(_, bytes)| bytes).sum()
    }
}
