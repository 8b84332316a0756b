//! A whole table looked over while nothing moves: does everything have exactly one owner?

use std::collections::{BTreeMap, BTreeSet};

use base::sync::atomic::Ordering;

use crate::{
    blocks::Owner,
    extent::checks::parts_of,
    geometry::{BLOCK_BYTES, BLOCK_WORDS, piece_bytes, pieces_per_block},
    table::Table,
};

impl Table {
    /// Panics unless every entry leads to a taken slot with a key of its own, every taken slot has
    /// an entry, and every block and piece has exactly one owner. No worker may be at work, no
    /// value pinned, no upload open. Returns the number of records.
    pub(crate) fn validate(&self) -> usize {
        let memory = &self.memory;
        let mut blocks = Claims::default();
        blocks.claim(0, "nobody");
        blocks.claim_all(memory.blocks.all_free(), "free");
        blocks.claim_all(memory.index.blocks(), "index");
        blocks.claim_all(memory.ghosts.all_blocks(), "ghosts");
        let mut taken = BTreeMap::new();
        for (number, sub_table) in self.sub_tables().iter().enumerate() {
            let holdings = sub_table.holdings(memory);
            for &block in &holdings.blocks {
                let owner = memory.blocks.owner(block);
                assert!(
                    matches!(owner, Owner::SubTable { number: its, .. } if its == number),
                    "block {block} of sub-table {number} belongs to {owner:?}"
                );
            }
            blocks.claim_all(holdings.blocks, "sub-table");
            taken.extend(holdings.taken.into_iter().map(|location| (location, number)));
        }
        let records = self.validate_records(&taken, &mut blocks);
        let unowned: Vec<usize> =
            (0..memory.blocks.len()).filter(|block| !blocks.0.contains_key(block)).collect();
        assert!(unowned.is_empty(), "blocks {unowned:?} belong to nobody");
        let counters = &memory.counters;
        assert_eq!(counters.pinned_bytes.load(Ordering::Relaxed), 0, "pinned bytes");
        assert_eq!(counters.upload_bytes.load(Ordering::Relaxed), 0, "upload bytes");
        records
    }

    fn validate_records(&self, taken: &BTreeMap<usize, usize>, blocks: &mut Claims) -> usize {
        let memory = &self.memory;
        let entries = memory.index.entries(&memory.arena, |location| {
            memory.hash_at(location).expect("slot shared: an entry leads to a free one")
        });
        let (mut keys, mut locations) = (BTreeSet::new(), BTreeSet::new());
        let mut pieces = Claims::default();
        let mut value_bytes = vec![0; self.sub_tables().len()];
        for (class, location) in memory.pieces.all_free() {
            pieces.claim_piece(class, location);
        }
        for entry in &entries {
            let location = entry.location();
            assert!(locations.insert(location), "slot shared by two entries: {location}");
            let number = taken.get(&location);
            let number = *number.unwrap_or_else(|| panic!("slot shared: {location} is free, too"));
            let slot = memory.slot(location);
            let mut key = vec![0; slot.header().key_len()];
            slot.copy_exactly(slot.header().key_at(), &mut key);
            assert!(keys.insert(key.clone()), "key {key:?} has two entries");
            if let Some(parts) = parts_of(memory, location) {
                blocks.claim_all(parts.blocks, "value");
                for &(class, at) in &parts.pieces {
                    pieces.claim_piece(class, at);
                    assert_eq!(memory.pieces.head_of(memory, class, at), Some(location), "home");
                }
                value_bytes[number] += parts.bytes;
            }
        }
        let lost: Vec<usize> = taken.keys().filter(|at| !locations.contains(at)).copied().collect();
        assert!(lost.is_empty(), "slots {lost:?} are taken and hold no record");
        assert_eq!(memory.records.load(Ordering::Relaxed), entries.len() as u64, "records");
        for (bytes, counted) in value_bytes.iter().zip(&memory.value_bytes) {
            assert_eq!(*bytes, counted.load(Ordering::Relaxed), "bytes of values in parts");
        }
        let whole: BTreeMap<usize, usize> = pieces.0.keys().fold(BTreeMap::new(), |mut sum, at| {
            *sum.entry(at / BLOCK_WORDS).or_default() += 1;
            sum
        });
        for (block, count) in whole {
            let Owner::Pieces { class, .. } = memory.blocks.owner(block) else {
                panic!("pieces in block {block}, which has no pieces");
            };
            assert_eq!(count, pieces_per_block(class), "pieces of block {block}");
            blocks.claim(block, "pieces");
        }
        entries.len()
    }
}

/// Who claims what; nobody may claim what somebody has.
#[derive(Debug, Default)]
struct Claims(BTreeMap<usize, &'static str>);

impl Claims {
    fn claim(&mut self, what: usize, who: &'static str) {
        if let Some(other) = self.0.insert(what, who) {
            panic!("block or piece {what} belongs to {other} and to {who}");
        }
    }

    fn claim_all(&mut self, what: impl IntoIterator<Item = usize>, who: &'static str) {
        what.into_iter().for_each(|one| self.claim(one, who));
    }

    fn claim_piece(&mut self, class: usize, location: usize) {
        assert_eq!(location * 8 % BLOCK_BYTES % piece_bytes(class), 0, "a piece's place");
        self.claim(location, "a piece");
    }
}
