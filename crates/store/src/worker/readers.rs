//! Large values that leave: a part is read when one before it was given back.
//!
//! Thread safety: a plain value of the worker's thread, but for the budget.

mod ahead;

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use log::{
    engine::{Fetched, Reading},
    keys::Keys,
    plan::{Buffer, Failure},
};

use super::{Own, Worker};
use crate::{
    Command, Error, Large, Notice, Part, ReaderId, What,
    budget::Rank,
    limits::{AHEAD_MAX, LARGE_IDLE_MS, LARGE_MAX, LARGE_UNTAKEN_NEEDED_MS},
    pace::{Pace, gives_way},
    reads::{Reads, Whom},
    store::Shared,
};

#[derive(Debug)]
struct Leaving {
    caller: u64,
    large: Large,
    /// Parts that are read or were, those that the caller was given, and those that are back.
    asked: usize,
    given: usize,
    back: usize,
    /// What was read before something in front of it.
    early: BTreeMap<usize, Part>,
    /// Bytes of memory that its parts count for.
    held: usize,
    /// When one was given, or came back.
    last_ms: u64,
    /// When something of those in the caller's hands was taken, or the first came into them.
    taken_ms: u64,
    /// It had the last one for so long that others who wait have memory before it.
    gives_way: bool,
    /// Its client cannot take it yet: it is read with memory that nobody else waits for.
    is_ahead: bool,
    pace: Pace,
}

/// All of a worker, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Readers {
    all: BTreeMap<u64, Leaving>,
    /// When they were looked at.
    looked_ms: u64,
}

impl Leaving {
    fn new(large: &Large, caller: u64, now_ms: u64) -> Self {
        Self {
            caller,
            large: large.clone(),
            asked: 0,
            given: 0,
            back: 0,
            early: BTreeMap::new(),
            held: 0,
            last_ms: now_ms,
            taken_ms: now_ms,
            gives_way: false,
            is_ahead: false,
            pace: Pace::default(),
        }
    }

    fn parts(&self) -> usize {
        self.large.0.parts()
    }

    fn wants_more(&self) -> bool {
        !self.is_ahead && self.asked < self.parts() && self.asked - self.back < AHEAD_MAX
    }

    /// Where it stands among those who want memory.
    fn rank(&self) -> Rank {
        match (self.gives_way, self.held, self.asked) {
            (true, ..) => Rank::Slow,
            (false, 0, 0) => Rank::New,
            (false, 0, _) => Rank::Again,
            (false, ..) => Rank::More,
        }
    }

    /// Whether it is the caller's turn.
    fn is_callers(&self) -> bool {
        self.given > self.back && !self.is_ahead
    }

    /// Whether it ends now. `lacks_room`: the log has none, and it keeps some.
    fn is_slow(&self, lacks_room: bool, now_ms: u64) -> bool {
        let is_idle = self.is_callers() && now_ms >= self.last_ms + LARGE_IDLE_MS;
        let is_idle = is_idle && !base::mutant!("store_readers_never_end");
        is_idle || lacks_room && self.pace.is_too_slow(now_ms)
    }

    /// Reads as far ahead as it may.
    fn read_on<K: Keys, C: Command>(
        &mut self,
        number: u64,
        reads: &mut Reads,
        shared: &Shared<K, C>,
        now_ms: u64,
    ) {
        while self.wants_more() {
            let bytes = self.large.0.read_bytes(self.asked);
            let rank = self.rank();
            if !shared.leaving.take_in_turn(number, self.held, bytes, now_ms, rank) {
                return;
            }
            self.read_part(number, bytes, reads, shared);
        }
    }

    /// Reads the next part, for which so many bytes were taken.
    fn read_part<K: Keys, C: Command>(
        &mut self,
        number: u64,
        bytes: usize,
        reads: &mut Reads,
        shared: &Shared<K, C>,
    ) {
        let reading = Arc::new(shared.core().engine.part(&self.large.0, self.asked));
        let whom = Whom::Reader { id: number, part: self.asked };
        match self.is_ahead {
            true => reads.begin_ahead(whom, reading),
            false => reads.begin(whom, reading),
        }
        self.held += bytes;
        self.asked += 1;
    }
}

impl Readers {
    /// When something is to be looked at, the latest.
    pub(super) fn wake_at_ms<K: Keys, C: Command>(
        &self,
        shared: &Shared<K, C>,
        now_ms: u64,
    ) -> Option<u64> {
        if self.all.is_empty() {
            return None;
        }
        let is_needed = shared.leaving.is_needed(now_ms);
        let wake_at_ms = |it: &Leaving| {
            let idle_ms = it.last_ms + LARGE_IDLE_MS;
            let untaken_ms = (it.taken_ms + LARGE_UNTAKEN_NEEDED_MS).max(now_ms + 1);
            let ends_ms = if is_needed { idle_ms.min(untaken_ms) } else { idle_ms };
            let is_due = it.wants_more() || it.is_ahead && shared.leaving.is_lacking(now_ms);
            let waits_ms = is_due.then_some(now_ms + 1);
            waits_ms.into_iter().chain(it.is_callers().then_some(ends_ms)).min()
        };
        self.all.values().filter_map(wake_at_ms).min()
    }

    /// The one of which nothing was taken for longest, if that is so long that it gives way to
    /// somebody who has no memory.
    fn untaken(&self, now_ms: u64) -> Option<(u64, u64)> {
        if base::mutant!("store_untaken_keep_memory") {
            return None;
        }
        let is_untaken = |it: &Leaving| now_ms >= it.taken_ms + LARGE_UNTAKEN_NEEDED_MS;
        let untaken = self.all.iter().filter(|(_, it)| it.is_callers() && is_untaken(it));
        let longest = untaken.min_by_key(|(_, it)| it.taken_ms);
        longest.map(|(number, it)| (*number, it.caller))
    }
}

impl<K: Keys, C: Command> Worker<K, C> {
    /// Whether a reader more should begin. If not, one may when another one has ended. Others may
    /// begin at the same time: then there is one more for each worker.
    #[must_use]
    pub fn may_begin_reading(&self, large: &Large) -> bool {
        let has_room = self.own.readers.all.len() < LARGE_MAX;
        has_room && self.shared.leaving.has_place(large.bytes(), self.own.cache.now_ms())
    }

    /// Begins to read a large value: [`Worker::take_notices`] has its parts, in their order, as
    /// long as those before are given back. When the last one is, it has ended.
    ///
    /// # Errors
    /// When this worker has too many: [`Worker::may_begin_reading`] says so before.
    pub fn begin_reading(&mut self, large: &Large, caller: u64) -> Result<ReaderId, Error> {
        if self.own.readers.all.len() >= LARGE_MAX {
            return Err(Error::TooMany { max: LARGE_MAX });
        }
        let Self { shared, own } = self;
        own.is_stirred = true;
        let now_ms = own.cache.now_ms();
        let mut leaving = Leaving::new(large, caller, now_ms);
        let number = shared.leaving.enter();
        shared.leaving.take_place(large.bytes());
        leaving.read_on(number, &mut own.reads, shared, now_ms);
        own.readers.all.insert(number, leaving);
        Ok(ReaderId(number))
    }

    /// Whether all of a value is read, or is being read.
    #[must_use]
    pub fn reads_no_more(&self, reader: ReaderId) -> bool {
        let leaving = self.own.readers.all.get(&reader.0);
        leaving.is_none_or(|leaving| leaving.asked == leaving.parts())
    }

    /// Some bytes of a part that is not given back yet were sent.
    pub fn note_taken(&mut self, reader: ReaderId) {
        let now_ms = self.own.cache.now_ms();
        if let Some(leaving) = self.own.readers.all.get_mut(&reader.0) {
            leaving.taken_ms = now_ms;
        }
    }

    /// Gives a part back that was sent, or will not be.
    pub fn give_back(&mut self, part: Part) {
        let Self { shared, own } = self;
        let Part { reader, held, range, buffer } = part;
        own.is_stirred = true;
        own.reads.shelf().give_back(buffer);
        let Some(leaving) = own.readers.all.get_mut(&reader) else {
            return shared.leaving.pay_back(held);
        };
        shared.leaving.give_back(held);
        if leaving.is_ahead {
            shared.leaving.end_spare(held);
        }
        let now_ms = own.cache.now_ms();
        leaving.held -= held;
        leaving.back += 1;
        leaving.gives_way = gives_way(leaving.last_ms, now_ms);
        (leaving.last_ms, leaving.taken_ms) = (now_ms, now_ms);
        leaving.pace.add(range.len());
        if !leaving.is_callers() {
            leaving.pace.end(now_ms);
        }
        if leaving.back == leaving.parts() {
            own.end_reader(shared, reader);
        } else if !leaving.gives_way || !shared.leaving.is_wanted(now_ms) {
            leaving.read_on(reader, &mut own.reads, shared, now_ms);
        }
    }

    /// Reads no more of a value.
    pub fn end_reading(&mut self, reader: ReaderId) {
        self.own.end_reader(&self.shared, reader.0);
    }
}

impl<V: Send> Own<V> {
    /// What it has read and not given is freed, and what has not begun; what is under way when it
    /// comes.
    fn end_reader<K, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>, number: u64) {
        let Some(leaving) = self.readers.all.remove(&number) else { return };
        let early_bytes: usize = leaving.early.values().map(|part| part.held).sum();
        let is_all_read = leaving.asked == leaving.given + leaving.early.len();
        let unread_bytes = if is_all_read { 0 } else { self.reads.forget(number) };
        let freed_bytes = early_bytes + unread_bytes;
        shared.leaving.end(freed_bytes, leaving.held - freed_bytes);
        if leaving.is_ahead {
            shared.leaving.end_spare(leaving.held);
        }
        shared.leaving.give_place_back(leaving.large.bytes());
        shared.leaving.leave(number);
    }

    fn end_slow<K, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        number: u64,
        caller: u64,
    ) {
        self.notices.push(Notice { caller, what: What::Failed(Error::Slow) });
        self.end_reader(shared, number);
    }

    /// All end.
    pub(super) fn end_readers<K, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) {
        let numbers: Vec<u64> = self.readers.all.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.end_reader(shared, number));
    }

    /// The read of a part has ended.
    pub(super) fn fetched_part<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        number: u64,
        at: usize,
        reading: &Reading,
        result: Result<(Buffer, usize), Failure>,
    ) {
        let held = reading.bytes();
        let part = result.map_err(|failure| reading.failed(failure).into());
        let part = part.and_then(|(buffer, bytes)| {
            let range = range_of(reading, &buffer.as_slice()[..bytes])?;
            Ok(Part { reader: number, buffer, range, held })
        });
        let Some(leaving) = self.readers.all.get_mut(&number) else {
            return shared.leaving.pay_back(held);
        };
        let caller = leaving.caller;
        match part {
            Ok(part) => {
                leaving.early.insert(at, part);
                let in_order = !base::mutant!("store_parts_unordered");
                while let Some(part) = match in_order {
                    true => leaving.early.remove(&leaving.given),
                    false => leaving.early.pop_first().map(|(_, part)| part),
                } {
                    leaving.last_ms = self.cache.now_ms();
                    if !leaving.is_callers() {
                        leaving.taken_ms = leaving.last_ms;
                    }
                    leaving.given += 1;
                    if !leaving.is_ahead {
                        leaving.pace.begin(leaving.last_ms);
                    }
                    self.notices.push(Notice { caller, what: What::Part(part) });
                }
            }
            Err(error) => {
                self.figures.reads_failed += 1;
                self.notices.push(Notice { caller, what: What::Failed(error) });
                self.end_reader(shared, number);
                shared.leaving.pay_back(held);
            }
        }
    }

    /// Those that nobody takes anything of end, and hold no place in the log any more; those that
    /// wait for memory go on, in their turn. If one has none then, another one gives way.
    pub(super) fn tend_readers<K: Keys, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) {
        let now_ms = self.cache.now_ms();
        if self.readers.all.is_empty() || now_ms == self.readers.looked_ms {
            return;
        }
        self.readers.looked_ms = now_ms;
        if shared.leaving.is_lacking(now_ms) && !base::mutant!("store_ahead_of_others") {
            self.end_ahead(shared);
        }
        let lacks_room = shared.core().engine.lacks_room();
        let slow = self.readers.all.iter().filter(|(_, it)| it.is_slow(lacks_room, now_ms));
        let ended: Vec<(u64, u64)> = slow.map(|(number, it)| (*number, it.caller)).collect();
        for (number, caller) in ended {
            self.end_slow(shared, number, caller);
        }
        let waiting = self.readers.all.iter().filter(|(_, it)| it.wants_more());
        let mut waiting: Vec<_> =
            waiting.map(|(number, it)| (it.rank(), it.last_ms, *number)).collect();
        waiting.sort_unstable();
        for (_, _, number) in waiting {
            if let Some(leaving) = self.readers.all.get_mut(&number) {
                leaving.read_on(number, &mut self.reads, shared, now_ms);
            }
        }
        // What comes back first may be enough.
        if shared.leaving.is_needed(now_ms)
            && shared.leaving.is_all_in_use()
            && let Some((number, caller)) = self.readers.untaken(now_ms)
        {
            self.end_slow(shared, number, caller);
        }
    }
}

/// Where the part is in what was read. Its checksum is right, and it is the one that was looked
/// for.
fn range_of(reading: &Reading, bytes: &[u8]) -> Result<Range<usize>, Error> {
    let Fetched::Part(part) = reading.finish(bytes)? else {
        unreachable!("a reading of a part fetches one");
    };
    Ok(place_of(part, bytes))
}

/// Where a part of some bytes is in them.
pub(super) fn place_of(part: &[u8], bytes: &[u8]) -> Range<usize> {
    let from = part.as_ptr().addr() - bytes.as_ptr().addr();
    from..from + part.len()
}
