//! Gets: what memory has is answered at once, the rest by one read.

use std::sync::Arc;

use super::{Engine, Mark, Pin, Spread, failure::Seen};
use crate::{
    error::Error,
    format::{
        KeyHash, Seed,
        manifest::Shape,
        record::{Kind, PART_KEY_BYTES, Parts, Record},
    },
    keys::Keys,
    plan::{Action, Buffer, File},
    position::{Position, SizeClass},
};

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The value; of a large one nothing.
    pub value: Vec<u8>,
    /// The sequence of the record.
    pub sequence: u64,
    /// The CAS token.
    pub token: u64,
    /// When it expires; 0 is never.
    pub expiry_ms: u64,
    /// Client flags.
    pub flags: u32,
    /// Whether the value is marked stale.
    pub is_stale: bool,
    /// Whether a client was told that it recaches the value.
    pub is_recached: bool,
    /// Tags, eight bytes each.
    pub tags: Vec<u8>,
    /// Of a large value: where its parts lie.
    pub parts: Option<Spread>,
}

/// What came of a get.
#[derive(Debug)]
pub enum Get {
    /// The key is not there, or has expired.
    Absent {
        /// What the answer waits for: it saw a tombstone or a record that is not flushed.
        wait: Option<Mark>,
    },
    /// It is in memory.
    Memory {
        /// What is stored.
        stored: Stored,
        /// What the answer waits for.
        wait: Option<Mark>,
    },
    /// It is on the disk, and durable.
    Read(Reading),
    /// What is stored is to be written again after a failed flush: ask again when that is done.
    Wait,
}

/// A read that fetches a record. As long as it is kept, what it leads to stays where it is, the
/// parts of a large value included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    file: File,
    seed: Seed,
    /// Where the record begins, in the log and in the segment.
    position: Position,
    offset: u64,
    /// Where to read from, on a block.
    from: u64,
    bytes: usize,
    wanted: Wanted,
    /// Of the segment.
    pin: Pin,
    /// Of the segments that parts of the value lie in.
    part_pins: Vec<Pin>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Shared by the copies of a reading, with its hash in the index.
    Key(Arc<[u8]>, KeyHash),
    /// The head of a large value, whatever its key.
    Head,
    Part(PartOf),
}

/// A part of an upload: which, of which key, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartOf {
    pub(super) hash: KeyHash,
    pub(super) upload: u64,
    pub(super) number: u16,
    pub(super) bytes: usize,
}

/// What a read has fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched<'a> {
    /// A value with what belongs to it.
    Value(Record<'a>),
    /// The head of a large value.
    Head(Record<'a>, Parts<'a>),
    /// A part of a large value.
    Part(&'a [u8]),
}

impl<K: Keys> Engine<K> {
    /// Looks a key up; `now_ms` is on the axis of expiries. A read that comes of it is one of the
    /// whole record.
    ///
    /// # Errors
    /// When the key is none of the log's, or its newest record is damaged, could not be written, or
    /// has no room to be written again.
    pub fn get(&mut self, key: &[u8], now_ms: u64) -> Result<Get, Error> {
        let hash = self.index.hash(key)?;
        let Some(entry) = self.index.get(hash) else { return Ok(Get::Absent { wait: None }) };
        let Seen::Until(wait) = self.wait_for(entry.position)? else {
            // For as long as nobody makes room for it: whoever waited would not know for what.
            let has_room = self.check_rewriting().is_ok();
            let waits = has_room || base::mutant!("log_stranded_awaited_without_room");
            return if waits { Ok(Get::Wait) } else { Err(Error::Unflushed) };
        };
        if entry.class.is_tombstone() {
            let is_early = base::mutant!("log_tombstone_read_before_flush");
            return Ok(Get::Absent { wait: wait.filter(|_| !is_early) });
        }
        let found = self.find_in_memory(entry.position, key);
        self.counts.collisions += u64::from(matches!(found, Err(Error::OtherKey { .. })));
        if let Some(stored) = found? {
            let has_expired = stored.expiry_ms != 0 && stored.expiry_ms <= now_ms;
            let is_early = has_expired && base::mutant!("log_expired_read_before_flush");
            let wait = wait.filter(|_| !is_early);
            return Ok(if has_expired {
                Get::Absent { wait }
            } else {
                Get::Memory { stored, wait }
            });
        }
        let wanted = Wanted::Key(key.into(), hash);
        self.counts.reads += 1;
        self.reading(entry.position, entry.class, wanted).map(Get::Read)
    }

    /// What stands for a key in [`Engine::seen`].
    ///
    /// # Errors
    /// When it is none of the log's.
    pub fn hash(&self, key: &[u8]) -> Result<KeyHash, Error> {
        Ok(self.index.hash(key)?)
    }

    /// What a reply waits for that saw a copy of a key's newest record, which the caller has: what
    /// [`Engine::get`] would say, without a read. The mark shares its fate with the record.
    ///
    /// # Errors
    /// When the key's newest record could not be written.
    pub fn seen(&self, hash: KeyHash) -> Result<Seen, Error> {
        let entry = self.index.get(hash);
        entry.map_or(Ok(Seen::Until(None)), |entry| self.wait_for(entry.position))
    }

    /// Asks the processor for what the index has of these keys, so that it comes side by side.
    pub fn ask_for(&self, keys: &[&[u8]]) {
        let hashes = keys.iter().filter_map(|key| self.index.hash(key).ok());
        hashes.for_each(|hash| self.index.ask_for(hash));
    }

    /// Before [`Engine::leads_to`]: asks the processor for what the index has of the key.
    pub fn ask_for_again(&self, reading: &Reading) {
        if let Wanted::Key(_, hash) = reading.wanted {
            self.index.ask_for(hash);
        }
    }

    /// Whether the key's newest record is still where this reads it. As long as the reading is kept
    /// no other record can come to lie there.
    pub fn leads_to(&self, reading: &Reading) -> bool {
        let Wanted::Key(_, hash) = reading.wanted else { return false };
        self.index.get(hash).is_some_and(|entry| entry.position == reading.position)
    }

    /// What a read has fetched that came of a get. Counts one that fetched another key's record.
    ///
    /// # Errors
    /// When it is not what was looked for.
    pub fn fetched<'a>(
        &mut self,
        reading: &Reading,
        bytes: &'a [u8],
    ) -> Result<Fetched<'a>, Error> {
        reading.finish(bytes).inspect_err(|error| {
            self.counts.collisions += u64::from(reading.met_other_key(error));
        })
    }

    /// Counts a get that met another key's record, as [`Reading::met_other_key`] says.
    pub fn count_collision(&mut self) {
        self.counts.collisions += 1;
    }

    /// The read of a head, which may have so many bytes.
    pub(super) fn head_reading(
        &self,
        position: Position,
        class: SizeClass,
    ) -> Result<Reading, Error> {
        self.reading(position, class, Wanted::Head)
    }

    /// The size class of each part of a value.
    pub(super) fn part_classes(
        &self,
        parts: &Parts<'_>,
    ) -> impl Iterator<Item = SizeClass> + use<K> {
        let part_bytes = u64::from(self.manifest.shape.part_bytes);
        let mut left = parts.value_bytes;
        std::iter::from_fn(move || {
            let bytes = left.min(part_bytes);
            left -= bytes;
            Some(part_class(usize::try_from(bytes).unwrap_or(usize::MAX)))
        })
    }

    fn find_in_memory(&self, position: Position, key: &[u8]) -> Result<Option<Stored>, Error> {
        let (segment, offset) = self.place(position);
        let found = match self.tails().find(|tail| tail.segment == segment) {
            Some(tail) => tail.in_memory(offset, self.next_ticket),
            None => self.stranded_with(segment, offset).and_then(|it| it.in_memory(offset)),
        };
        let Some(found) = found else { return Ok(None) };
        let held = self.segment(segment).ok_or(Error::Unreachable { segment })?;
        let (file, seed) = (held.file(segment), held.seed);
        let (record, _) = Record::decode(found.bytes, seed, offset)
            .map_err(|flaw| Error::Damaged { file, offset, flaw })?;
        if record.key != key {
            return Err(Error::OtherKey { file, offset });
        }
        let mut stored = Stored::new(&record);
        if let Some(parts) = Parts::parse(record.value).filter(|_| record.kind == Kind::Head) {
            let hash = self.index.hash(key)?;
            stored.parts = Some(self.spread(hash, &parts)?);
        }
        Ok(Some(stored))
    }

    /// Of the segments that the parts of the value lie in whose head is there.
    fn part_pins(&self, head: Position) -> Vec<Pin> {
        if self.larges.is_empty() || base::mutant!("log_parts_unpinned") {
            return Vec::new();
        }
        let parts = self.larges.get(&head).map_or(&[][..], Vec::as_slice);
        let mut segments: Vec<_> = parts.iter().map(|(part, _)| self.place(*part).0).collect();
        segments.dedup();
        segments.into_iter().filter_map(|segment| self.pin(segment)).collect()
    }

    pub(super) fn reading(
        &self,
        position: Position,
        class: SizeClass,
        wanted: Wanted,
    ) -> Result<Reading, Error> {
        let (id, offset) = self.place(position);
        let segment = self.segment(id).ok_or(Error::Unreachable { segment: id })?;
        let is_pinned = !base::mutant!("log_freed_under_readers");
        let pin = if is_pinned { segment.pin.clone() } else { Pin::default() };
        let lies = Lies { file: segment.file(id), seed: segment.seed, position, offset, pin };
        let part_pins = self.part_pins(position);
        let reading = Reading::new(lies, &self.manifest.shape, class.bytes(), wanted);
        Ok(Reading { part_pins, ..reading })
    }
}

/// Where a record lies, and what keeps it there.
pub(super) struct Lies {
    pub(super) file: File,
    pub(super) seed: Seed,
    pub(super) position: Position,
    /// In the segment.
    pub(super) offset: u64,
    pub(super) pin: Pin,
}

/// Bytes of a part's record.
fn part_record_bytes(bytes: usize) -> u32 {
    let record = crate::format::record::HEADER_BYTES + PART_KEY_BYTES + bytes;
    u32::try_from(record).unwrap_or(u32::MAX)
}

/// Its size class.
fn part_class(bytes: usize) -> SizeClass {
    SizeClass::of_bytes(part_record_bytes(bytes)).unwrap_or(SizeClass::LARGEST)
}

impl Reading {
    /// The read of a part, which tells how long it is.
    pub(super) fn of_part(lies: Lies, shape: &Shape, wanted: PartOf) -> Self {
        Self::new(lies, shape, part_record_bytes(wanted.bytes), Wanted::Part(wanted))
    }

    /// The read of a record that has so many bytes at most.
    fn new(lies: Lies, shape: &Shape, record_bytes: u32, wanted: Wanted) -> Self {
        let Lies { file, seed, position, offset, pin } = lies;
        let block = u64::from(shape.block_bytes);
        let from = offset - offset % block;
        let end = (offset + u64::from(record_bytes)).next_multiple_of(block);
        let bytes = end.min(shape.segment_bytes).saturating_sub(from);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self { file, seed, position, offset, from, bytes, wanted, pin, part_pins: Vec::new() }
    }

    /// The key that it was made for; nothing where it was for none.
    pub(super) fn key(&self) -> &[u8] {
        match &self.wanted {
            Wanted::Key(key, _) => key,
            Wanted::Head | Wanted::Part(_) => &[],
        }
    }

    /// The same, for who needs it longer.
    #[must_use]
    pub fn shared_key(&self) -> Option<Arc<[u8]>> {
        match &self.wanted {
            Wanted::Key(key, _) => Some(Arc::clone(key)),
            Wanted::Head | Wanted::Part(_) => None,
        }
    }

    pub(super) fn file(&self) -> File {
        self.file
    }

    pub(super) fn first_byte(&self) -> u64 {
        self.from
    }

    /// How many bytes the buffer must have that it is read into.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The action. What of it is missing after a short read is read again as a whole.
    #[must_use]
    pub fn action(&self, buffer: Buffer) -> Action {
        Action::Read { file: self.file, offset: self.from, buffer, bytes: self.bytes }
    }

    /// Whether what [`Reading::finish`] says is that another key has the record of this one.
    #[must_use]
    pub fn met_other_key(&self, error: &Error) -> bool {
        matches!((&self.wanted, error), (Wanted::Key(..), Error::OtherKey { .. }))
    }

    /// What was read: the first bytes of the buffer, as many as the disk gave.
    ///
    /// # Errors
    /// When it is not what was looked for.
    pub fn finish<'a>(&self, bytes: &'a [u8]) -> Result<Fetched<'a>, Error> {
        let at = usize::try_from(self.offset - self.from).unwrap_or(usize::MAX);
        let (file, offset) = (self.file, self.offset);
        let bytes = bytes.get(at..).unwrap_or_default();
        let (record, _) = Record::decode(bytes, self.seed, offset)
            .map_err(|flaw| Error::Damaged { file, offset, flaw })?;
        match &self.wanted {
            Wanted::Key(key, _) => {
                if record.key != &**key && !base::mutant!("log_key_not_compared") {
                    return Err(Error::OtherKey { file, offset });
                }
                match record.kind {
                    Kind::Value => Ok(Fetched::Value(record)),
                    Kind::Head => {
                        let parts = Parts::parse(record.value);
                        let parts = parts.ok_or(Error::OtherKey { file, offset })?;
                        Ok(Fetched::Head(record, parts))
                    }
                    _ => Err(Error::OtherKey { file, offset }),
                }
            }
            Wanted::Head => match Parts::parse(record.value) {
                Some(parts) if record.kind == Kind::Head => Ok(Fetched::Head(record, parts)),
                _ => Err(Error::OtherKey { file, offset }),
            },
            Wanted::Part(part) => {
                let is_its = record.sequence == part.upload;
                let is_it = record.kind == Kind::Part
                    && record.key == part.hash.0.to_le_bytes()
                    && (is_its || base::mutant!("log_part_of_any_upload"))
                    && record.part == part.number
                    && record.value.len() == part.bytes;
                if is_it {
                    Ok(Fetched::Part(record.value))
                } else {
                    Err(Error::OtherKey { file, offset })
                }
            }
        }
    }

    /// An error of the disk as one of the log.
    #[must_use]
    pub fn failed(&self, failure: crate::plan::Failure) -> Error {
        Error::Disk { doing: "read", file: self.file, failure }
    }
}

impl Stored {
    /// What a record stores, its value copied; that of a head is left out.
    #[must_use]
    pub fn new(record: &Record<'_>) -> Self {
        let value = if record.kind == Kind::Head { &[][..] } else { record.value };
        Self {
            value: value.to_vec(),
            sequence: record.sequence,
            token: record.token,
            expiry_ms: record.expiry_ms,
            flags: record.flags,
            is_stale: record.is_stale,
            is_recached: record.is_recached,
            tags: record.tags.to_vec(),
            parts: None,
        }
    }
}
