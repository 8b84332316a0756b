//! What every sub-table works on: the arena, who owns its blocks, the index over it, and ghosts.

use base::{
    hash::TableHasher,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use crate::{
    Dead,
    arena::Arena,
    blocks::{Blocks, Owner},
    evicted::EvictionLog,
    extent::Pieces,
    geometry::BLOCK_WORDS,
    ghosts::Ghosts,
    index::{Contended, Found, Index},
    policy::Partition,
    qsbr::Qsbr,
    record::{EPOCHS, Header, SHORT_BYTES, Slot},
    victims::Victims,
};

/// The parts of a table that have no lock of their own to speak of.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) arena: Arena,
    pub(crate) blocks: Blocks,
    pub(crate) index: Index,
    pub(crate) ghosts: Ghosts,
    pub(crate) qsbr: Qsbr,
    pub(crate) hasher: TableHasher,
    pub(crate) pieces: Pieces,
    pub(crate) counters: Counters,
    /// Slots that are not free. Not touched when a new record takes a victim's slot.
    pub(crate) records: AtomicU64,
    /// Some sub-table may have a block's worth of free slots. A hint.
    pub(crate) has_spare_slots: AtomicBool,
    /// Records go to make room.
    pub(crate) evicts: bool,
    /// Bytes of the arena that hold values in parts, by sub-table.
    pub(crate) value_bytes: Box<[AtomicUsize]>,
    /// Keys of evicted records are remembered.
    pub(crate) remembers: bool,
    /// [`crate::record::HEARD`] or 0.
    pub(crate) heard: u64,
    /// What was evicted, while somebody follows it.
    pub(crate) evicted: EvictionLog,
    /// Records that were evicted and may get another place.
    pub(crate) victims: Victims,
    /// Times the table was flushed. Records carry the lowest bits of it.
    pub(crate) flushes: AtomicU64,
}

/// What happened, since start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) out_of_memory: AtomicU64,
    /// Stores of keys whose record was dead.
    pub(crate) overwritten_dead: AtomicU64,
    /// Bytes of the arena held by uploads, now.
    pub(crate) upload_bytes: AtomicU64,
    /// Bytes of values that somebody sends, now.
    pub(crate) pinned_bytes: AtomicU64,
}

impl Memory {
    /// The slot at a location, and the rest of its block behind it.
    ///
    /// # Panics
    /// Panics outside the arena.
    #[inline]
    pub(crate) fn slot(&self, location: usize) -> Slot<'_> {
        Slot(self.arena.from(location))
    }

    /// Hash of the key at a location; of no meaning when the slot is changed meanwhile.
    #[inline]
    pub(crate) fn hash_at(&self, location: usize) -> Option<u64> {
        let slot = self.slot(location);
        let header = slot.header();
        let len = header.key_len();
        if len == 0 {
            return None;
        }
        if len <= SHORT_BYTES
            && let Some(key) = slot.short(header.key_at())
        {
            return Some(self.hasher.hash(&key[..len]));
        }
        if !slot.holds(header) {
            return None;
        }
        let mut key = [0; 256];
        slot.copy_exactly(header.key_at(), &mut key[..len]);
        Some(self.hasher.hash(&key[..len]))
    }

    /// The entry that leads to a location, if one does.
    pub(crate) fn find(&self, location: usize) -> Option<(u64, Found<'_>)> {
        let hash = self.hash_at(location)?;
        let candidates = self.index.candidates(hash);
        Some((hash, self.index.find_location(&self.arena, candidates, hash, location)?))
    }

    /// The same, where `None` means that none did at some moment meanwhile.
    ///
    /// # Errors
    /// When writers kept interfering.
    pub(crate) fn find_surely(&self, location: usize) -> Result<Option<Found<'_>>, Contended> {
        let Some(hash) = self.hash_at(location) else { return Ok(None) };
        let candidates = self.index.candidates(hash);
        let leads_there = |found: Found<'_>| (found.entry.location() == location).then_some(());
        let found = self.index.read(&self.arena, candidates, hash, leads_there)?;
        Ok(found.map(|(found, ())| found))
    }

    /// Whether the record behind a header is dead: expired, or stored before the last flush.
    #[inline]
    pub(crate) fn is_dead(&self, slot: Slot<'_>, header: Header, now_ms: u64) -> bool {
        let expiry_ms = slot.expiry_ms(header);
        (expiry_ms != 0 && expiry_ms <= now_ms) || header.epoch() != self.epoch()
    }

    /// Whether the record at a location is dead.
    #[inline]
    pub(crate) fn is_dead_at(&self, location: usize, now_ms: u64) -> bool {
        let slot = self.slot(location);
        self.is_dead(slot, slot.header(), now_ms)
    }

    /// Counts a record whose key was stored again, if it was dead.
    #[inline]
    pub(crate) fn note_overwritten(&self, was_dead: bool) {
        if was_dead {
            self.counters.overwritten_dead.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Why a record that is dead is.
    pub(crate) fn why_dead(&self, header: Header) -> Dead {
        if header.epoch() == self.epoch() { Dead::Expired } else { Dead::Flushed }
    }

    /// What a record that is written now carries in its header: the flush generation, and whether
    /// its hits are heard.
    #[inline]
    pub(crate) fn marks(&self) -> u64 {
        self.epoch() | self.heard
    }

    /// The same of a record that is stored as if there had been so many flushes.
    #[cold]
    pub(crate) fn marks_of(&self, flushes: u64) -> u64 {
        (flushes % EPOCHS) | self.heard
    }

    /// What the headers of records that live carry.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.flushes.load(Ordering::Acquire) % EPOCHS
    }

    /// The partition that a key left not long ago, if that is remembered; it is forgotten by this.
    #[inline]
    pub(crate) fn take_ghost(&self, hash: u64) -> Option<Partition> {
        if self.remembers { self.ghosts.take(&self.arena, hash) } else { None }
    }

    /// Notes that the record at a location brought a value in parts, or took it along.
    pub(crate) fn note_value_bytes(&self, location: usize, bytes: usize, gone: bool) {
        let Owner::SubTable { number, .. } = self.blocks.owner(location / BLOCK_WORDS) else {
            unreachable!("a record's block belongs to a sub-table");
        };
        if gone {
            self.value_bytes[number].fetch_sub(bytes, Ordering::Relaxed);
        } else {
            self.value_bytes[number].fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Zeroes a block and gives it to the index or the ghosts.
    pub(crate) fn zero(&self, block: u32) {
        for word in self.arena.slice(block as usize * BLOCK_WORDS, BLOCK_WORDS) {
            word.store(0, Ordering::Relaxed);
        }
    }
}
