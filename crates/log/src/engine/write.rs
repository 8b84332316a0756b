//! Puts and removes: room, sequence, record, entry.

use super::{
    Engine, Mark, Mode, REWRITE_CHUNKS, Settings,
    failure::{Seen, TOKEN_BYTES_MAX},
    space::Taken,
};
use crate::{
    error::Error,
    format::{
        KEY_BYTES_MAX, KeyHash, TAGS_MAX, VALUE_BYTES_MAX,
        manifest::RUN_SEQUENCES,
        record::{HEADER_BYTES, Kind, Record},
        segment::{HEADER_COPIES, Listed, footer_blocks},
    },
    keys::Keys,
    position::{Entry, Position, SizeClass, UNIT_BYTES},
};

/// What to store under a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Put<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// When it expires, in milliseconds on the axis of the caller's clock; 0 is never.
    pub expiry_ms: u64,
    /// Client flags.
    pub flags: u32,
    /// The CAS token; the sequence when there is none.
    pub token: Option<u64>,
    /// Tags, eight bytes each.
    pub tags: &'a [u8],
    /// Whether the value is marked stale.
    pub is_stale: bool,
    /// Whether a client was told that it recaches the value.
    pub is_recached: bool,
}

/// What came of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    /// The value is the key's.
    Done {
        /// The sequence of the record.
        sequence: u64,
        /// What the answer waits for.
        mark: Mark,
    },
    /// There is no room in memory, or a segment is on its way: ask again after I/O was reported.
    Wait,
}

/// What came of a remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The key was there, or had expired, and is removed.
    Done {
        /// The sequence of the tombstone.
        sequence: u64,
        /// What the answer waits for.
        mark: Mark,
    },
    /// The key was not there.
    Absent {
        /// What the answer waits for: it saw a tombstone that is not flushed.
        wait: Option<Mark>,
    },
    /// As of a put.
    Wait,
}

/// What a record is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Put,
    Remove,
    Rewrite,
}

/// Bytes of the smallest record that decides: the header, and a key of a byte.
pub(super) const RECORD_BYTES_MIN: usize = (HEADER_BYTES + 1).next_multiple_of(UNIT_BYTES as usize);

/// What room is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) bytes: usize,
    pub(super) records: usize,
}

impl Needed {
    pub(super) fn one(bytes: usize) -> Self {
        Self { bytes, records: 1 }
    }

    /// All that chunks can hold, in the smallest records.
    pub(super) fn most(settings: &Settings) -> Self {
        let chunks = usize::from(settings.chunks) - REWRITE_CHUNKS;
        let bytes = chunks * settings.chunk_bytes as usize;
        Self { bytes, records: bytes / RECORD_BYTES_MIN }
    }
}

/// Whether a record can be appended now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Ready,
    Wait,
}

impl<K: Keys> Engine<K> {
    /// Stores a value that is at most a part long.
    ///
    /// # Errors
    /// When it cannot be stored; nothing has changed then.
    pub fn put(&mut self, put: &Put<'_>, now_ms: u64) -> Result<Wrote, Error> {
        let hash = self.check_put(put)?;
        self.put_checked(hash, put, now_ms)
    }

    /// The hash of a key under which a value may be put. Its entry is asked for, and comes while
    /// the caller looks what time it is.
    pub(crate) fn check_put(&self, put: &Put<'_>) -> Result<KeyHash, Error> {
        self.check_value(put)?;
        self.check(put)
    }

    /// Stores a value, as [`Engine::check_put`] has allowed, now or after a wait.
    pub(crate) fn put_checked(
        &mut self,
        hash: KeyHash,
        put: &Put<'_>,
        now_ms: u64,
    ) -> Result<Wrote, Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.put_record(hash, &put.record(Kind::Value, put.value), now_ms)
    }

    /// Removes a key. Reads nothing, so that an expired value counts as there.
    ///
    /// # Errors
    /// When it cannot be removed; nothing has changed then.
    pub fn remove(&mut self, key: &[u8], now_ms: u64) -> Result<Removed, Error> {
        self.now_ms = now_ms;
        let hash = self.check(&Put { key, ..Put::default() })?;
        match self.index.get(hash) {
            None => return Ok(Removed::Absent { wait: None }),
            Some(entry) if entry.class.is_tombstone() => {
                return Ok(match self.wait_for(entry.position)? {
                    Seen::Until(wait) => Removed::Absent { wait },
                    Seen::Stranded => Removed::Wait,
                });
            }
            Some(_) => {}
        }
        let tombstone = Record::new(Kind::Tombstone, 0, key, &[]);
        self.check_bytes(tombstone.bytes())?;
        if self.make_room(Needed::one(tombstone.bytes()), Purpose::Remove)? == Room::Wait {
            return Ok(Removed::Wait);
        }
        let sequence = self.draw()?;
        let tombstone = Record { sequence, token: sequence, ..tombstone };
        Ok(Removed::Done { sequence, mark: self.append(&tombstone, hash) })
    }

    /// Whether there can be such a record; one that is longer than a part is large.
    ///
    /// # Errors
    /// When there cannot.
    pub fn validate(&self, put: &Put<'_>) -> Result<(), Error> {
        let got = put.value.len() as u64;
        if got > VALUE_BYTES_MAX {
            return Err(Error::ValueBytes { got, max: VALUE_BYTES_MAX });
        }
        self.check(put).map(|_| ())
    }

    pub(super) fn put_record(
        &mut self,
        hash: KeyHash,
        record: &Record<'_>,
        now_ms: u64,
    ) -> Result<Wrote, Error> {
        self.now_ms = now_ms;
        self.index.prepare(hash)?;
        self.check_bytes(record.bytes())?;
        if base::mutant!("log_index_before_append") {
            self.publish_early(hash);
        }
        if self.make_room(Needed::one(record.bytes()), Purpose::Put)? == Room::Wait {
            return Ok(Wrote::Wait);
        }
        let sequence = self.draw()?;
        // A token of 0 stands for the sequence: none is set to 0.
        let token = if record.token == 0 { sequence } else { record.token };
        let record = Record { sequence, token, ..*record };
        Ok(Wrote::Done { sequence, mark: self.append(&record, hash) })
    }

    /// Leads to where the next chunk begins, whether a record will be there or not; only a mutant
    /// does that.
    fn publish_early(&mut self, hash: KeyHash) {
        let Some(tail) = &self.open else { return };
        let position = self.position(tail.segment, tail.end());
        let class = SizeClass::LARGEST;
        self.index.publish(hash, self.index.kept(Entry { position, class }));
    }

    /// Refuses what does not fit into one record.
    pub(super) fn check_value(&self, put: &Put<'_>) -> Result<(), Error> {
        let (got, max) = (put.value.len() as u64, u64::from(self.manifest.shape.part_bytes));
        if got > max { Err(Error::ValueBytes { got, max }) } else { Ok(()) }
    }

    /// Refuses a record of `bytes` bytes that is larger than any, or would be if it had to be
    /// written again: it may be longer by its token then.
    pub(super) fn check_bytes(&self, bytes: usize) -> Result<(), Error> {
        let max = self.records_bytes_max().min(SizeClass::LARGEST.bytes() as usize);
        let max = max - TOKEN_BYTES_MAX;
        if bytes > max {
            return Err(Error::ValueBytes { got: bytes as u64, max: max as u64 });
        }
        Ok(())
    }

    /// Refuses what the format has no place for. The key's entry is asked for.
    pub(super) fn check(&self, put: &Put<'_>) -> Result<KeyHash, Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let (got, tags) = (put.key.len(), put.tags.len());
        if !(1..=KEY_BYTES_MAX).contains(&got) {
            return Err(Error::KeyBytes { got, max: KEY_BYTES_MAX });
        }
        if tags > TAGS_MAX * 8 || !tags.is_multiple_of(8) {
            return Err(Error::TagBytes { got: tags, max: TAGS_MAX * 8 });
        }
        if put.expiry_ms >> 48 != 0 {
            return Err(Error::Expiry);
        }
        let hash = self.index.hash(put.key)?;
        self.index.ask_for(hash);
        Ok(hash)
    }

    pub(super) fn draw(&mut self) -> Result<u64, Error> {
        self.draw_many(1)
    }

    /// Draws so many sequences. Says the first.
    pub(super) fn draw_many(&mut self, count: usize) -> Result<u64, Error> {
        let first = self.next_sequence;
        let next = first + count as u64;
        if next > self.sequence_end() {
            return Err(Error::SequencesUsedUp);
        }
        self.next_sequence = next;
        Ok(first)
    }

    /// The first sequence that is none of this run's.
    fn sequence_end(&self) -> u64 {
        (self.manifest.run + 1).saturating_mul(RUN_SEQUENCES)
    }

    /// Sees to it that records can be appended side by side.
    pub(super) fn make_room(&mut self, needed: Needed, purpose: Purpose) -> Result<Room, Error> {
        let is_rewrite = purpose == Purpose::Rewrite;
        if self.next_sequence + needed.records as u64 > self.sequence_end() {
            return Err(Error::SequencesUsedUp);
        }
        if purpose == Purpose::Put && self.is_ready(needed.bytes) {
            return Ok(Room::Ready);
        }
        if !is_rewrite {
            if !self.stranded.is_empty() {
                return Ok(Room::Wait);
            }
            let is_held = self.durable_below() < self.held_below;
            if is_held
                || self.is_at_risk(needed.bytes as u64)
                || self.is_too_much_to_rewrite(needed)
            {
                // Whatever the bounds are, what is in the way is on its way.
                self.drain_below = self.drain_below.max(self.next_ticket);
                if needed.bytes as u64 > self.settings.at_risk_bytes_max {
                    self.held_below = self.next_ticket;
                }
                return Ok(Room::Wait);
            }
        }
        if self.open.as_ref().is_some_and(|tail| !tail.has_room(needed)) && !self.close_tail() {
            return Ok(Room::Wait);
        }
        if self.open.is_none() {
            match self.take_segment(purpose)? {
                Taken::Taken => {}
                Taken::Wait => return Ok(Room::Wait),
            }
        }
        if purpose == Purpose::Put && !self.is_open_for_puts()? {
            return Ok(Room::Wait);
        }
        let next_ticket = self.next_ticket;
        let Some(tail) = &mut self.open else { return Ok(Room::Wait) };
        match tail.chunk_takes(needed.bytes) {
            Some(true) => return Ok(Room::Ready),
            Some(false) => self.close_chunk(),
            None => {}
        }
        self.reclaim();
        let kept = if is_rewrite { 0 } else { REWRITE_CHUNKS };
        if self.buffers.len() <= kept {
            return Ok(Room::Wait);
        }
        // The chunk that was closed may have taken the segment's last block.
        if self.open.as_ref().is_some_and(|tail| !tail.has_room(needed)) {
            return self.make_room(needed, purpose);
        }
        let now_ms = self.now_ms;
        if let (Some(tail), Some(buffer)) = (&mut self.open, self.buffers.pop()) {
            tail.fill(buffer, next_ticket, now_ms);
        }
        Ok(Room::Ready)
    }

    /// Whether records of so many bytes can be put, and nothing is to be done before: what nearly
    /// every put finds, by a short look at what [`Engine::make_room`] looks at in full.
    #[inline]
    pub(super) fn is_ready(&self, bytes: usize) -> bool {
        let Some(tail) = self.open.as_ref().filter(|tail| tail.is_for_puts && tail.takes(bytes))
        else {
            return false;
        };
        // What is being sealed is flushed.
        let durable_below = tail.first_unflushed().unwrap_or(self.next_ticket);
        let has_heads = self.heads.last().is_some_and(|(ticket, _)| *ticket >= durable_below);
        let is_alone = self.closing.is_empty() && self.stranded.is_empty() && !has_heads;
        let is_held = durable_below < self.held_below;
        let settings = &self.settings;
        let is_within = settings.mode == Mode::Safe || base::mutant!("log_ready_at_risk") || {
            let unflushed = tail.unflushed_bytes();
            let since_ms = tail.waits_since_ms().unwrap_or(self.now_ms);
            unflushed == 0
                || unflushed + bytes as u64 <= settings.at_risk_bytes_max
                    && self.now_ms.saturating_sub(since_ms) < settings.at_risk_ms_max
        };
        is_alone && !is_held && is_within && !self.may_outgrow_segment
    }

    /// The most bytes of what lies side by side: it fits into a chunk, and into an empty segment.
    pub(super) fn records_bytes_max(&self) -> usize {
        let shape = &self.manifest.shape;
        // Two blocks of header, one of footer, the trailer.
        let segment = shape.segment_bytes - 4 * u64::from(shape.block_bytes);
        let chunk = u64::from(self.settings.chunk_bytes);
        usize::try_from(segment.min(chunk)).unwrap_or(usize::MAX)
    }

    /// Whether records, written again with their new tokens, fit into one empty segment with their
    /// footer: on a full disk one is kept for that. Of two chunks that follow one another the
    /// second is begun because what comes next does not fit into the first, so there are fewer
    /// than twice as many as bytes for them and two, and each may end with a block that is not
    /// full.
    pub(super) fn fits_a_segment(&self, needed: Needed) -> bool {
        let shape = &self.manifest.shape;
        let block = u64::from(shape.block_bytes);
        let bytes = (needed.bytes + needed.records * TOKEN_BYTES_MAX) as u64;
        let chunks = 2 * (bytes / u64::from(self.settings.chunk_bytes)) + 2;
        let footer = footer_blocks(needed.records, shape.block_bytes);
        bytes + (HEADER_COPIES + chunks + footer + 1) * block <= shape.segment_bytes
    }

    /// Whether more would wait for its flush than can be written again if that fails.
    fn is_too_much_to_rewrite(&self, needed: Needed) -> bool {
        if !self.may_outgrow_segment || base::mutant!("log_rewrite_unbounded") {
            return false;
        }
        let bytes: u64 = self.tails().map(|tail| tail.unflushed_bytes()).sum();
        let records = self.next_ticket - self.durable_below();
        let all = Needed {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX / 2) + needed.bytes,
            records: usize::try_from(records).unwrap_or(usize::MAX / 2) + needed.records,
        };
        bytes > 0 && !self.fits_a_segment(all)
    }

    /// Whether a record more would be more than may be lost.
    pub(super) fn is_at_risk(&self, bytes: u64) -> bool {
        if self.settings.mode == Mode::Safe {
            return false;
        }
        let (mut unflushed, mut oldest_ms) = (0, u64::MAX);
        for tail in self.tails() {
            unflushed += tail.unflushed_bytes();
            oldest_ms = oldest_ms.min(tail.waits_since_ms().unwrap_or(u64::MAX));
        }
        let at_risk = unflushed + self.large_bytes_at_risk();
        let is_too_much = at_risk + bytes > self.settings.at_risk_bytes_max;
        let is_too_old = self.now_ms.saturating_sub(oldest_ms) >= self.settings.at_risk_ms_max;
        unflushed > 0 && (is_too_much || is_too_old)
    }

    pub(super) fn close_chunk(&mut self) {
        let next_ticket = self.next_ticket;
        if let Some(tail) = self.open.as_mut().filter(|tail| tail.is_filling()) {
            let before = tail.end();
            tail.close_chunk(next_ticket);
            self.counts.commits += 1;
            self.counts.commit_bytes += tail.end() - before;
        }
    }

    /// Room was made: appends the record, and shows it to readers when it says what its key is.
    pub(super) fn append(&mut self, record: &Record<'_>, hash: KeyHash) -> Mark {
        let mark = Mark(self.next_ticket);
        let (position, class) = self.append_hidden(record, hash);
        if record.kind.decides() {
            let is_tombstone = record.kind == Kind::Tombstone;
            let class = if is_tombstone { SizeClass::TOMBSTONE } else { class };
            let entry = self.index.kept(Entry { position, class });
            self.add_live(position, entry.class);
            if let Some(old) = self.index.publish(hash, entry) {
                self.take_live(old);
            }
        }
        mark
    }

    /// Room was made: appends a record that no entry leads to.
    pub(super) fn append_hidden(
        &mut self,
        record: &Record<'_>,
        hash: KeyHash,
    ) -> (Position, SizeClass) {
        let bytes = record.bytes();
        let class = u32::try_from(bytes).ok().and_then(SizeClass::of_bytes);
        let class = class.expect("invariant: no record is larger than the largest class");
        let tail = self.open.as_mut().expect("invariant: room was made");
        let offset = tail.append(record);
        let unit = u32::try_from(offset / u64::from(UNIT_BYTES));
        let listed = Listed {
            hash,
            sequence: record.sequence,
            unit: unit.expect("invariant: a segment has at most 2^28 units"),
            kind: record.kind,
            class: class.bits(),
            part: record.part,
        };
        tail.listed.push(listed, &mut self.spare);
        let segment = tail.segment;
        self.next_ticket += 1;
        self.counts.records += 1;
        self.counts.record_bytes += bytes as u64;
        (self.position(segment, offset), class)
    }

    pub(super) fn add_live(&mut self, position: Position, class: SizeClass) {
        let (segment, _) = self.place(position);
        if let Some(segment) = self.segment_mut(segment) {
            segment.live_bytes += u64::from(class.bytes());
        }
    }

    /// The record of an old entry is dead, and the parts of its value with it.
    pub(super) fn take_live(&mut self, old: Entry) {
        let parts = self.larges.remove(&old.position).unwrap_or_default();
        for (position, class) in parts.into_iter().chain([(old.position, old.class)]) {
            let (segment, _) = self.place(position);
            let Some(found) = self.segment_mut(segment) else { continue };
            found.live_bytes = found.live_bytes.saturating_sub(class.bytes().into());
            if found.live_bytes == 0 {
                self.note_if_empty(segment);
            }
        }
    }
}

impl<'a> Put<'a> {
    /// The record of it; the token is 0 when none is set.
    pub(super) fn record(&self, kind: Kind, value: &'a [u8]) -> Record<'a> {
        Record {
            kind,
            sequence: 0,
            token: self.token.unwrap_or(0),
            expiry_ms: self.expiry_ms,
            flags: self.flags,
            is_stale: self.is_stale,
            is_recached: self.is_recached,
            is_member: false,
            part: 0,
            tags: self.tags,
            key: self.key,
            value,
        }
    }
}
