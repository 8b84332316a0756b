//! Puts and removes: sequence, record, entry.

use super::{
    Engine, Mark,
    failure::{Seen, TOKEN_BYTES_MAX},
    room::{Needed, Purpose, Room},
    space::Role,
};
use crate::{
    error::Error,
    format::{
        KEY_BYTES_MAX, KeyHash, TAGS_MAX, VALUE_BYTES_MAX,
        manifest::RUN_SEQUENCES,
        record::{Kind, Record},
        segment::{ENTRY_BYTES, Listed},
    },
    keys::Keys,
    position::{Entry, Position, SizeClass},
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
    /// There is no room in memory, a segment is on its way, or a bound is near: ask again after I/O
    /// was reported, or at [`Engine::retry_at_ms`] if that says when.
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
    /// There is no room in memory, or a segment is on its way: ask again after I/O was reported.
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
        self.begin_write(now_ms);
        let hash = self.check_shape(&Put { key, ..Put::default() })?;
        if base::mutant!("log_removed_refused") {
            self.check_writable()?;
        }
        match self.index.get(hash) {
            // The disk has what was dropped, until its segment is freed.
            None if self.is_dropping() && !base::mutant!("log_dropped_without_tombstone") => {
                self.check_writable()?;
                self.index.prepare(hash)?;
            }
            None => return Ok(Removed::Absent { wait: None }),
            Some(entry) if entry.class.is_tombstone() => {
                let is_early = base::mutant!("log_condition_before_flush");
                return match self.wait_for(entry.position)? {
                    Seen::Until(wait) => Ok(Removed::Absent { wait: wait.filter(|_| !is_early) }),
                    Seen::Stranded => self.check_rewriting().map(|()| Removed::Wait),
                };
            }
            Some(_) => self.check_writable()?,
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
        self.begin_write(now_ms);
        self.index.prepare(hash)?;
        self.check_bytes(record.bytes())?;
        if base::mutant!("log_index_before_append") {
            self.publish_early(hash);
        }
        if let Some(wrote) = self.overwrite(hash, record)? {
            return Ok(wrote);
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
        self.check_writable()?;
        self.check_shape(put)
    }

    fn check_writable(&self) -> Result<(), Error> {
        if self.is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    fn check_shape(&self, put: &Put<'_>) -> Result<KeyHash, Error> {
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
    pub(super) fn sequence_end(&self) -> u64 {
        (self.manifest.run + 1).saturating_mul(RUN_SEQUENCES)
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
        let (position, class, _) = self.append_listed(record, hash);
        (position, class)
    }

    /// Room was made: appends a record that is not the newest of its key, and keeps its sequence.
    pub(super) fn append_old(&mut self, record: &Record<'_>, hash: KeyHash) {
        let (_, _, listed) = self.append_listed(record, hash);
        self.open.iter_mut().for_each(|tail| tail.listed.note_old(&listed));
        self.compaction.survey.forget_floor();
    }

    #[inline]
    fn append_listed(
        &mut self,
        record: &Record<'_>,
        hash: KeyHash,
    ) -> (Position, SizeClass, Listed) {
        let tail = self.open.as_mut().expect("invariant: room was made");
        let (listed, class) = tail.append_listed(record, hash, &mut self.spare);
        let segment = tail.segment;
        self.next_ticket += 1;
        self.counts.records += 1;
        self.counts.record_bytes += record.bytes() as u64;
        let position = self.position(segment, listed.offset());
        self.add_record(position, class, &listed);
        (position, class, listed)
    }

    /// There is one more record in a segment.
    pub(super) fn add_record(&mut self, position: Position, class: SizeClass, listed: &Listed) {
        let packed_bytes = u64::from(class.bytes()) + ENTRY_BYTES as u64;
        let class = match listed.kind {
            Kind::Tombstone => SizeClass::TOMBSTONE,
            Kind::Value | Kind::Head => self.index.kept(Entry { position, class }).class,
            _ => class,
        };
        let (segment, _) = self.place(position);
        if let Some(segment) = self.segment_mut(segment) {
            segment.all_bytes += u64::from(class.bytes());
            segment.packed_bytes += packed_bytes;
            if class.is_tombstone() {
                segment.greatest_tombstone = segment.greatest_tombstone.max(listed.sequence);
            }
        }
    }

    pub(super) fn add_live(&mut self, position: Position, class: SizeClass) {
        let (id, _) = self.place(position);
        let Some(segment) = self.segment_mut(id) else { return };
        segment.live_bytes += u64::from(class.bytes());
        if class.is_tombstone() {
            segment.tombstone_bytes += u64::from(class.bytes());
        } else if segment.role == Role::Sealed && !base::mutant!("log_parts_live_unnoticed") {
            // A part of a large value: of the others none lives anew.
            self.compaction.survey.note_living(id, class.bytes().into());
        }
    }

    /// What dies with the record of an entry.
    pub(super) fn live_bytes_of(&self, entry: Entry) -> u64 {
        let parts = self.larges.get(&entry.position).into_iter().flatten();
        let classes = parts.map(|(_, class)| *class).chain([entry.class]);
        classes.map(|class| u64::from(class.bytes())).sum()
    }

    /// The record of an old entry is dead, and the parts of its value with it.
    pub(super) fn take_live(&mut self, old: Entry) {
        self.forget_unread(old.position);
        let parts = self.larges.remove(&old.position).unwrap_or_default();
        for (position, class) in parts.into_iter().chain([(old.position, old.class)]) {
            let (segment, _) = self.place(position);
            let Some(found) = self.segment_mut(segment) else { continue };
            let bytes = u64::from(class.bytes());
            found.live_bytes = found.live_bytes.saturating_sub(bytes);
            let (is_empty, is_sealed) = (found.live_bytes == 0, found.role == Role::Sealed);
            if class.is_tombstone() {
                found.tombstone_bytes = found.tombstone_bytes.saturating_sub(bytes);
            } else if is_sealed {
                self.compaction.survey.note_living(segment, -i64::from(class.bytes()));
            }
            if is_empty {
                self.note_if_empty(segment);
            }
            self.compaction.note_dead(bytes);
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
