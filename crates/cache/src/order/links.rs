//! Chains of slots: an order in which a hit moves a record at once.
//!
//! Every taken slot is in the chain of one partition, from the moment it is allocated to the moment
//! it is given back; a writer on its way has its slot there, too, and is passed over. The links are
//! numbers of slots in a word behind each record, so they are part of the slot and of the budget.
//!
//! Invariants: a slot is in one chain exactly while it is taken; a chain's length is its slots.

use super::{Eviction, Order, Runs, STEPS_MAX, Slots, Walk};
use crate::policy::{Partition, Policy, Sizes, Verdict};

/// Bits of a slot's number.
const NUMBER_BITS: u32 = 31;
/// No slot.
const NONE: u32 = (1 << NUMBER_BITS) - 1;
/// Slots that a sub-table with links may have.
pub(crate) const SLOTS_MAX: u64 = NONE as u64;

/// Records in blocks that are being given back already, which are passed over in search of the next
/// block to give.
const LOOKS_MAX: usize = 64;

const PARTITIONS: [Partition; 3] = [Partition::Temporary, Partition::Hot, Partition::Recycle];

/// The neighbours of a slot and the partition it is in.
#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
    partition: Partition,
}

impl Link {
    fn pack(self) -> u64 {
        u64::from(self.older)
            | u64::from(self.newer) << NUMBER_BITS
            | (self.partition as u64) << (2 * NUMBER_BITS)
    }

    fn unpack(word: u64) -> Self {
        let number = |shift: u32| (word >> shift) as u32 & NONE;
        let partition = PARTITIONS[(word >> (2 * NUMBER_BITS)) as usize % PARTITIONS.len()];
        Self { older: number(0), newer: number(NUMBER_BITS), partition }
    }
}

/// The slots of one partition.
#[derive(Debug)]
struct Chain {
    oldest: u32,
    newest: u32,
    len: usize,
}

/// A policy, and a chain for each of its partitions.
#[derive(Debug)]
pub(crate) struct Links<P> {
    policy: P,
    chains: [Chain; 3],
}

impl<S: Slots> Walk<'_, S> {
    fn number(&self, slot: usize) -> u32 {
        self.runs.number_of(self.slots.run_of(self.runs, slot), slot)
    }

    fn link(&self, number: u32) -> Link {
        Link::unpack(self.slots.link(self.runs.slot_at(number)))
    }

    fn set_link(&mut self, number: u32, link: Link) {
        self.slots.set_link(self.runs.slot_at(number), link.pack());
    }
}

impl<P: Policy> Links<P> {
    pub(crate) fn new(policy: P) -> Self {
        let chain = || Chain { oldest: NONE, newest: NONE, len: 0 };
        Self { policy, chains: [chain(), chain(), chain()] }
    }

    fn sizes(&self, runs: &Runs) -> Sizes {
        let [temporary, hot, recycle] = &self.chains;
        Sizes { of: [temporary.len, hot.len, recycle.len], all: runs.slots_of_all() }
    }

    /// Makes a slot that is in no chain the newest of a partition.
    fn chain<S: Slots>(&mut self, walk: &mut Walk<'_, S>, number: u32, partition: Partition) {
        let chain = &mut self.chains[partition as usize];
        walk.set_link(number, Link { older: chain.newest, newer: NONE, partition });
        if chain.newest == NONE {
            chain.oldest = number;
        } else {
            let older = walk.link(chain.newest);
            walk.set_link(chain.newest, Link { newer: number, ..older });
        }
        chain.newest = number;
        chain.len += 1;
    }

    fn unchain<S: Slots>(&mut self, walk: &mut Walk<'_, S>, number: u32) {
        let Link { older, newer, partition } = walk.link(number);
        let chain = &mut self.chains[partition as usize];
        chain.len -= 1;
        if older == NONE {
            chain.oldest = newer;
        } else {
            let link = walk.link(older);
            walk.set_link(older, Link { newer, ..link });
        }
        if newer == NONE {
            chain.newest = older;
        } else {
            let link = walk.link(newer);
            walk.set_link(newer, Link { older, ..link });
        }
    }

    /// Puts a slot that is in no chain into the place of another one, which is in none then.
    fn replace<S: Slots>(&mut self, walk: &mut Walk<'_, S>, from: u32, to: u32) {
        let link = walk.link(from);
        let chain = &mut self.chains[link.partition as usize];
        walk.set_link(to, link);
        if link.older == NONE {
            chain.oldest = to;
        } else {
            let older = walk.link(link.older);
            walk.set_link(link.older, Link { newer: to, ..older });
        }
        if link.newer == NONE {
            chain.newest = to;
        } else {
            let newer = walk.link(link.newer);
            walk.set_link(link.newer, Link { older: to, ..newer });
        }
    }

    /// Makes a taken slot the newest of a partition.
    fn renew<S: Slots>(&mut self, walk: &mut Walk<'_, S>, number: u32, to: Partition) {
        self.unchain(walk, number);
        self.make_room(walk, to);
        self.chain(walk, number, to);
    }

    /// Keeps a partition within its limit when it gets one more.
    fn make_room<S: Slots>(&mut self, walk: &mut Walk<'_, S>, partition: Partition) {
        let limit = self.policy.limit(partition, &self.sizes(walk.runs));
        while self.chains[partition as usize].len >= limit && walk.steps > 0 {
            match self.pass(walk, partition, true) {
                Passed::Freed(slot) => walk.give(slot),
                Passed::Moved => {}
                Passed::Gone | Passed::Stuck => return,
            }
        }
    }

    /// The partition that gives a slot: see [`Policy::target`].
    fn giver(&mut self, runs: &Runs) -> Option<Partition> {
        let sizes = self.sizes(runs);
        let over =
            |&partition: &Partition| sizes.of(partition) > self.policy.target(partition, &sizes);
        let last = PARTITIONS.into_iter().rfind(|&partition| sizes.of(partition) > 0);
        PARTITIONS.iter().copied().find(over).or(last)
    }

    /// A slot by turning somebody out, in no chain any more. Stops without one when a record is
    /// gone whose slot is still held, unless it `insists`.
    fn make_slot<S: Slots>(&mut self, walk: &mut Walk<'_, S>, insists: bool) -> Option<usize> {
        while walk.steps > 0 {
            let giver = self.giver(walk.runs)?;
            let mut passed = self.pass(walk, giver, insists);
            for other in PARTITIONS {
                if matches!(passed, Passed::Stuck) && other != giver {
                    passed = self.pass(walk, other, insists);
                }
            }
            match passed {
                Passed::Freed(slot) => return Some(slot),
                Passed::Moved => {}
                Passed::Gone | Passed::Stuck => return None,
            }
        }
        None
    }

    /// Has the policy judge the records of a partition, oldest first, until one is gone or moved;
    /// if it `insists`, one whose slot is still held is not enough.
    fn pass<S: Slots>(
        &mut self,
        walk: &mut Walk<'_, S>,
        partition: Partition,
        insists: bool,
    ) -> Passed {
        let before = walk.slots.evictions();
        let mut at = self.chains[partition as usize].oldest;
        while at != NONE && walk.steps > 0 {
            walk.steps -= 1;
            let (number, slot) = (at, walk.runs.slot_at(at));
            at = walk.link(number).newer;
            let Some(record) = walk.slots.find(slot) else { continue };
            let mut verdict = self.policy.judge(partition, walk.slots.counter(&record));
            if walk.steps < STEPS_MAX / 4 {
                verdict = Verdict::Evict;
            }
            match verdict {
                Verdict::Evict => {
                    if let Some(slot) = self.evict(walk, slot, &record, partition) {
                        return Passed::Freed(slot);
                    }
                    if !insists && walk.slots.evictions() > before {
                        return Passed::Gone;
                    }
                }
                Verdict::Keep { counter } => {
                    walk.slots.set_counter(&record, counter);
                    self.renew(walk, number, partition);
                }
                Verdict::Move(to) => {
                    walk.slots.set_counter(&record, 0);
                    self.renew(walk, number, to);
                    return Passed::Moved;
                }
            }
        }
        Passed::Stuck
    }

    /// Evicts a record. Returns its slot if that can be used again at once.
    fn evict<S: Slots>(
        &mut self,
        walk: &mut Walk<'_, S>,
        slot: usize,
        record: &S::Record,
        partition: Partition,
    ) -> Option<usize> {
        let eviction = walk.slots.evict(record, partition);
        if eviction != Eviction::Refused {
            self.policy.evicted(partition, &self.sizes(walk.runs));
        }
        if eviction != Eviction::Freed {
            return None;
        }
        let number = walk.number(slot);
        self.unchain(walk, number);
        if walk.runs.run(walk.slots.run_of(walk.runs, slot)).draining {
            walk.give(slot);
            return None;
        }
        Some(slot)
    }
}

/// How a look at a partition ended.
enum Passed {
    /// This slot is free and in no chain.
    Freed(usize),
    /// A record is gone, and its slot still held.
    Gone,
    /// A record went to another partition.
    Moved,
    /// All records there are held by somebody.
    Stuck,
}

impl<P: Policy, S: Slots> Order<S> for Links<P> {
    fn allocate(
        &mut self,
        runs: &mut Runs,
        slots: &mut S,
        remembered: Option<Partition>,
    ) -> Option<usize> {
        let partition = self.policy.admit(remembered, &self.sizes(runs));
        let mut walk = Walk::new(runs, slots);
        self.make_room(&mut walk, partition);
        let free = walk.take_free(Partition::Temporary);
        let slot = free.or_else(|| self.make_slot(&mut walk, true))?;
        let number = walk.number(slot);
        self.chain(&mut walk, number, partition);
        let most = self.policy.ghosts_max(&self.sizes(walk.runs));
        walk.slots.limit_ghosts(most);
        Some(slot)
    }

    fn is_full(&self, runs: &Runs) -> bool {
        let (sizes, partition) = (self.sizes(runs), Partition::Temporary);
        let limit = self.policy.limit(partition, &sizes);
        !runs.has_free(partition) || sizes.of(partition) >= limit
    }

    fn turn_out(&mut self, runs: &mut Runs, slots: &mut S) -> Option<usize> {
        let mut walk = Walk::new(runs, slots);
        let slot = self.make_slot(&mut walk, false)?;
        let number = walk.number(slot);
        self.chain(&mut walk, number, Partition::Temporary);
        Some(slot)
    }

    fn hit(&mut self, runs: &mut Runs, slots: &mut S, slot: usize) {
        let mut walk = Walk::new(runs, slots);
        let number = walk.number(slot);
        let Some(record) = walk.slots.find(slot) else { return };
        let from = walk.link(number).partition;
        if let Some(to) = self.policy.hit(from, walk.slots.counter(&record)) {
            if to != from {
                walk.slots.set_counter(&record, 0);
            }
            self.renew(&mut walk, number, to);
        }
    }

    fn release(&mut self, runs: &mut Runs, slots: &mut S, slot: usize) {
        let mut walk = Walk::new(runs, slots);
        let number = walk.number(slot);
        self.unchain(&mut walk, number);
    }

    fn next_run(&mut self, runs: &mut Runs, slots: &mut S) -> Option<u32> {
        let walk = Walk::new(runs, slots);
        let giver = self.giver(walk.runs);
        let mut at = giver.map_or(NONE, |giver| self.chains[giver as usize].oldest);
        for _ in 0..LOOKS_MAX {
            if at == NONE {
                break;
            }
            let run = walk.slots.run_of(walk.runs, walk.runs.slot_at(at));
            if !walk.runs.run(run).draining {
                return Some(run);
            }
            at = walk.link(at).newer;
        }
        walk.runs.oldest(Partition::Temporary)
    }

    fn empty_run(&mut self, runs: &mut Runs, slots: &mut S, run: u32) {
        let mut walk = Walk::new(runs, slots);
        for slot in walk.runs.slots(run) {
            let Some(record) = walk.slots.find(slot) else { continue };
            let number = walk.number(slot);
            if let Some(target) = walk.take_free(Partition::Temporary) {
                if walk.slots.relocate(&record, slot, target) {
                    let to = walk.number(target);
                    self.replace(&mut walk, number, to);
                    walk.give(slot);
                    continue;
                }
                walk.give(target);
            }
            let partition = walk.link(number).partition;
            // A slot of a draining block goes back by itself.
            self.evict(&mut walk, slot, &record, partition);
        }
    }

    #[cfg(all(test, not(loom)))]
    fn check(&self, runs: &Runs, slots: &S, taken: &std::collections::BTreeSet<usize>) {
        let mut seen = std::collections::BTreeSet::new();
        for (partition, chain) in PARTITIONS.into_iter().zip(&self.chains) {
            let (mut older, mut at, mut len) = (NONE, chain.oldest, 0);
            while at != NONE {
                let slot = runs.slot_at(at);
                let link = Link::unpack(slots.link(slot));
                assert_eq!((link.older, link.partition), (older, partition), "a slot's links");
                assert!(seen.insert(slot), "a slot twice in chains");
                (older, at, len) = (at, link.newer, len + 1);
            }
            assert_eq!((chain.newest, chain.len), (older, len), "a chain's end and length");
        }
        assert_eq!(&seen, taken, "the slots in chains");
    }
}
