//! Memory for parts of large values that go one way, for all workers.
//!
//! Who comes has a number; the smallest that is there is the oldest. Invariant: nobody who has no
//! part and is the oldest is refused one when it is his turn, or nobody has any, so some value
//! always gets on, or is idle and ends. Who does not need his yet is not there, and gives it up.
//!
//! Those who take it in turn have it in this order: who has had nothing yet, as they came; who has
//! nothing, as they came to that; who has some; who gives way.

use std::collections::{BTreeMap, BTreeSet};

use base::sync::{Mutex, lock};

use crate::limits::{LARGE_PLACES_DIVISOR, LARGE_QUICK_MS, LARGE_WANTED_MS};

/// Where somebody stands who takes memory in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// He has had none.
    New,
    /// He has had some, and has none.
    Again,
    /// He has some.
    More,
    /// He was slow with what he has had.
    Slow,
}

/// A place in the line: the rank, the number of the turn, and whose it is.
type Turn = (Rank, u64, u64);

#[derive(Debug)]
struct Held {
    bytes: usize,
    /// Of these, what tells where parts lie.
    places_bytes: usize,
    max: usize,
    next: u64,
    there: BTreeSet<u64>,
    /// When somebody was refused last, and when somebody who does not give way was.
    wanted_ms: Option<u64>,
    quick_ms: Option<u64>,
    /// When somebody who has nothing was refused last, unless there may be enough since.
    needed_ms: Option<u64>,
    /// Those of the first ranks who wait, and when they have asked last.
    line: BTreeMap<Turn, u64>,
    /// Their turns.
    turns: BTreeMap<u64, Turn>,
    next_turn: u64,
    /// Bytes of those who do not need them yet, and of those who have ended, which are still in
    /// somebody's hands.
    spare_bytes: usize,
    owed_bytes: usize,
    /// The oldest who takes it in turn, and since when he asks in vain.
    oldest_asked: Option<(u64, u64)>,
}

impl Held {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn is_lacking(&self, now_ms: u64) -> bool {
        let lately = [self.wanted_ms, self.needed_ms];
        lately.into_iter().flatten().any(|at| now_ms < at + LARGE_WANTED_MS)
    }

    fn take(&mut self, number: u64, ask: &Ask, now_ms: u64) -> bool {
        let Ask { has, bytes, gives_way, is_early } = *ask;
        let is_oldest = has == 0 && self.there.first() == Some(&number);
        let is_oldest = is_oldest && !base::mutant!("store_oldest_waits");
        // Who is before it may need more than there ever is.
        let is_oldest = is_oldest && (!is_early || self.bytes == self.places_bytes);
        let is_ignored = base::mutant!("store_budget_ignored");
        let is_behind = gives_way && self.quick_ms.is_some_and(|at| now_ms < at + LARGE_QUICK_MS);
        let is_behind = is_behind || is_early;
        if (self.bytes + bytes > self.max || is_behind) && !is_oldest && !is_ignored {
            self.wanted_ms = Some(now_ms);
            if !gives_way {
                self.quick_ms = Some(now_ms);
            }
            if has == 0 && !is_early {
                self.needed_ms = Some(now_ms);
            }
            return false;
        }
        if has == 0 {
            // Others who need some will say so again.
            self.needed_ms = None;
        }
        self.bytes += bytes;
        true
    }

    /// Whether it is the turn of others, who still ask.
    fn is_others_turn(&self, turn: Turn, now_ms: u64) -> bool {
        let mut before = self.line.range(..turn);
        before.any(|(_, asked_ms)| now_ms < asked_ms + LARGE_QUICK_MS)
            && !base::mutant!("store_readers_out_of_turn")
    }

    /// Whether the oldest, who has none, has asked in vain for so long that nobody goes before him:
    /// so one value always gets on, whoever comes or is quicker.
    fn oldest_is_due(&mut self, number: u64, now_ms: u64) -> bool {
        let asked = self.oldest_asked.filter(|(oldest, _)| *oldest == number);
        let (_, since_ms) = *self.oldest_asked.insert(asked.unwrap_or((number, now_ms)));
        now_ms >= since_ms + LARGE_WANTED_MS && !base::mutant!("store_oldest_reader_in_line")
    }

    /// His place in the line, which he keeps until he has some.
    fn turn_of(&mut self, number: u64, rank: Rank) -> Turn {
        if let Some(turn) = self.turns.get(&number).filter(|turn| turn.0 == rank) {
            return *turn;
        }
        self.leave_line(number);
        let place = match rank {
            Rank::New => number,
            Rank::Again | Rank::More | Rank::Slow => self.next_turn,
        };
        (rank, place, number)
    }

    fn wait_in_line(&mut self, turn: Turn, now_ms: u64) {
        if turn.0 <= Rank::Again {
            self.next_turn += u64::from(self.turns.insert(turn.2, turn).is_none());
            self.line.insert(turn, now_ms);
        }
    }

    fn leave_line(&mut self, number: u64) {
        if let Some(turn) = self.turns.remove(&number) {
            self.line.remove(&turn);
        }
    }
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug)]
struct Ask {
    has: usize,
    bytes: usize,
    gives_way: bool,
    /// It is the turn of others.
    is_early: bool,
}

/// How much there is, and who has how much of it.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<Held>);

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        Self(Mutex::new(Held {
            bytes: 0,
            places_bytes: 0,
            max,
            next: 0,
            there: BTreeSet::new(),
            wanted_ms: None,
            quick_ms: None,
            needed_ms: None,
            line: BTreeMap::new(),
            turns: BTreeMap::new(),
            next_turn: 0,
            spare_bytes: 0,
            owed_bytes: 0,
            oldest_asked: None,
        }))
    }

    pub(crate) fn set_max(&self, max: usize) {
        lock(&self.0).max = max;
    }

    pub(crate) fn bytes(&self) -> usize {
        lock(&self.0).bytes
    }

    /// Somebody comes, and gets a number.
    pub(crate) fn enter(&self) -> u64 {
        let mut held = lock(&self.0);
        let number = held.number();
        held.there.insert(number);
        number
    }

    /// He goes. What he has of the memory is given back apart from that.
    pub(crate) fn leave(&self, number: u64) {
        let mut held = lock(&self.0);
        held.there.remove(&number);
        held.leave_line(number);
    }

    /// Takes so many bytes for who has this number, and has this much already. Who gives way has
    /// none while another one waits.
    pub(crate) fn take(
        &self,
        number: u64,
        has: usize,
        bytes: usize,
        now_ms: u64,
        gives_way: bool,
    ) -> bool {
        let ask = Ask { has, bytes, gives_way, is_early: false };
        lock(&self.0).take(number, &ask, now_ms)
    }

    /// The same for those who take it in turn.
    pub(crate) fn take_in_turn(
        &self,
        number: u64,
        has: usize,
        bytes: usize,
        now_ms: u64,
        rank: Rank,
    ) -> bool {
        let mut held = lock(&self.0);
        let is_oldest = has == 0 && held.there.first() == Some(&number);
        let rank = if is_oldest && held.oldest_is_due(number, now_ms) { Rank::New } else { rank };
        let turn = held.turn_of(number, rank);
        let is_early = held.is_others_turn(turn, now_ms);
        let ask = Ask { has, bytes, gives_way: rank == Rank::Slow, is_early };
        let has_taken = held.take(number, &ask, now_ms);
        if has_taken {
            held.leave_line(number);
            held.oldest_asked = held.oldest_asked.filter(|(oldest, _)| *oldest != number);
        } else {
            held.wait_in_line(turn, now_ms);
        }
        has_taken
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        lock(&self.0).bytes -= bytes;
    }

    /// Whether there is room for so many bytes that tell where parts lie. Who is alone has it, and
    /// who has it not needs it.
    pub(crate) fn has_place(&self, bytes: usize, now_ms: u64) -> bool {
        let mut held = lock(&self.0);
        let has_place =
            held.places_bytes == 0 || held.places_bytes + bytes <= held.max / LARGE_PLACES_DIVISOR;
        if !has_place {
            held.needed_ms = Some(now_ms);
        }
        has_place
    }

    /// Takes so many bytes for somebody who does not need them yet, if with that and with the bytes
    /// of `places`, which tell where parts lie, half of the memory is left, and nobody waits for
    /// it. His number: until he uses them he stands in no line, and is not the oldest.
    pub(crate) fn take_spare(&self, bytes: usize, places: usize, now_ms: u64) -> Option<u64> {
        let mut held = lock(&self.0);
        let all_bytes = held.bytes + bytes + places;
        let is_left = all_bytes <= held.max / 2 || base::mutant!("store_ahead_takes_all");
        if !is_left || held.is_lacking(now_ms) {
            return None;
        }
        held.bytes = all_bytes;
        held.places_bytes += places;
        held.spare_bytes += bytes;
        Some(held.number())
    }

    /// He uses them from now on, as others do.
    pub(crate) fn use_spare(&self, number: u64, bytes: usize) {
        let mut held = lock(&self.0);
        held.spare_bytes -= bytes;
        held.there.insert(number);
    }

    /// He has ended before.
    pub(crate) fn end_spare(&self, bytes: usize) {
        lock(&self.0).spare_bytes -= bytes;
    }

    /// Somebody has ended: so many of his bytes come back now, and `owed_bytes` will. Who needs
    /// memory says so again if it is not enough.
    pub(crate) fn end(&self, bytes: usize, owed_bytes: usize) {
        let mut held = lock(&self.0);
        held.bytes -= bytes;
        held.owed_bytes += owed_bytes;
        if bytes > 0 {
            held.needed_ms = None;
        }
    }

    /// What was owed comes back, as in [`Self::end`].
    pub(crate) fn pay_back(&self, bytes: usize) {
        let mut held = lock(&self.0);
        held.bytes -= bytes;
        held.owed_bytes -= bytes;
        if held.owed_bytes == 0 {
            held.needed_ms = None;
        }
    }

    /// Whether nothing comes back without anybody being cut off for it.
    pub(crate) fn is_all_in_use(&self) -> bool {
        let held = lock(&self.0);
        let has_spare = held.spare_bytes > 0 && !base::mutant!("store_cut_off_for_spare");
        !has_spare && held.owed_bytes == 0
    }

    /// Whether somebody waits for memory, with some or without.
    pub(crate) fn is_lacking(&self, now_ms: u64) -> bool {
        lock(&self.0).is_lacking(now_ms)
    }

    /// Takes them: parts have that much less.
    pub(crate) fn take_place(&self, bytes: usize) {
        let mut held = lock(&self.0);
        held.bytes += bytes;
        held.places_bytes += bytes;
    }

    pub(crate) fn give_place_back(&self, bytes: usize) {
        let mut held = lock(&self.0);
        held.bytes -= bytes;
        held.places_bytes -= bytes;
    }

    /// Somebody waits for what others have.
    pub(crate) fn want(&self, now_ms: u64) {
        lock(&self.0).wanted_ms = Some(now_ms);
    }

    /// How many are there.
    pub(crate) fn there(&self) -> usize {
        lock(&self.0).there.len()
    }

    /// Whether somebody waits for memory.
    pub(crate) fn is_wanted(&self, now_ms: u64) -> bool {
        lock(&self.0).wanted_ms.is_some_and(|at| now_ms < at + LARGE_WANTED_MS)
    }

    /// Whether somebody waits for memory who has none.
    pub(crate) fn is_needed(&self, now_ms: u64) -> bool {
        lock(&self.0).needed_ms.is_some_and(|at| now_ms < at + LARGE_WANTED_MS)
    }

    /// Whether nobody has any, and nothing is owed.
    #[cfg(test)]
    pub(crate) fn is_at_rest(&self) -> bool {
        let held = lock(&self.0);
        (held.bytes, held.places_bytes, held.spare_bytes, held.owed_bytes) == (0, 0, 0, 0)
    }
}

#[cfg(test)]
mod tests;
