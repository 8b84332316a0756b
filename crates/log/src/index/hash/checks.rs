//! A whole index looked at, and single steps of it, for those who check it.

use super::{
    BUCKET_LINES, Bucket, HashIndex, Identity, KeyHash, Size,
    identity::BASE_BITS,
    slot::{self, LINE_SLOTS},
};
use crate::index::blocks::BLOCK_LINES;

#[cfg_attr(loom, expect(dead_code, reason = "loom looks at single keys only"))]
impl HashIndex {
    /// Panics unless every slot is in a bucket of its key, there are as many as are counted, and
    /// the full buckets are those that are known to be.
    pub(in crate::index) fn validate(&self) {
        let mut count = 0;
        for number in (0..self.buckets_max()).filter(|number| self.full.has(*number)) {
            let pair = self.blocks().pair(number).expect("loaded").expect("made");
            assert_eq!(Bucket(pair).free(), None, "bucket {number} is not full");
        }
        assert_eq!(self.unknown_full(), 0, "full buckets that are not known to be");
        for (block, lines) in self.blocks().all() {
            let numbered = lines.zip(u64::from(block) * BLOCK_LINES as u64..);
            for (line, number) in numbered {
                let number = number / BUCKET_LINES as u64;
                for slot in (0..LINE_SLOTS).filter_map(|place| slot::slot(line, place)) {
                    let homes = Identity::of_bucket(slot.fingerprint, number).buckets(self.size());
                    assert!(homes.contains(&number), "a slot in bucket {number}, not in {homes:?}");
                    count += 1;
                }
            }
        }
        assert_eq!(count, self.len(), "slots and entries differ");
    }

    /// Full buckets that are not known to be, of what is loaded.
    fn unknown_full(&self) -> usize {
        let is_full = |number: &u64| {
            let pair = self.blocks().pair_here(*number);
            pair.is_some_and(|pair| Bucket(pair).free().is_none())
        };
        (0..self.buckets()).filter(is_full).filter(|number| !self.full.has(*number)).count()
    }
}

#[cfg_attr(not(loom), expect(dead_code, reason = "for loom"))]
impl HashIndex {
    /// Moves a key's slot to its other bucket.
    pub(in crate::index) fn displace(&self, key: KeyHash) {
        let identity = Identity::of(key);
        let [one, other] = identity.buckets(self.size());
        let place_in = |bucket| {
            let pair = self.blocks().pair(bucket).expect("loaded")?;
            Bucket(pair).find(identity.fingerprint).map(|(place, _)| place)
        };
        let (from, to) = if place_in(one).is_some() { (one, other) } else { (other, one) };
        let place = place_in(from).expect("a slot");
        assert_eq!(self.move_slot(from, place, to), Ok(true));
    }

    /// Whether the first split of an index moves the key, if it is the only one.
    pub(in crate::index) fn is_moved_by_first_split(key: KeyHash) -> bool {
        let (identity, size) = (Identity::of(key), Size(1 << BASE_BITS));
        let from = size.next_split();
        identity.buckets(size).into_iter().min() == Some(from)
            && !identity.buckets(size.grown()).contains(&from)
    }
}
