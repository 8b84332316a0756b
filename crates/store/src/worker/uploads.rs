//! Large values that arrive: gathered until a part is whole, which the log takes.
//!
//! Thread safety: a plain value of the worker's thread, but for the budget.

use std::collections::BTreeMap;

use cache::KEY_LEN_MAX;
use log::{
    engine::{Upload, Wrote},
    keys::Keys,
};

use super::{Own, Worker};
use crate::{
    Answer, Asked, Command, Error, Notice, Took, UploadId, What,
    limits::{LARGE_IDLE_MS, LARGE_IDLE_WANTED_MS, LARGE_MAX},
    pace::{Pace, gives_way, in_turn},
    store::Shared,
};

/// What an upload waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Its caller.
    Nothing,
    /// Memory for the next part.
    Memory,
    /// The log.
    Log,
}

#[derive(Debug)]
struct Arriving {
    caller: u64,
    key: Box<[u8]>,
    upload: Box<Upload>,
    /// What has come of the next part.
    part: Vec<u8>,
    /// Bytes of memory that it counts for.
    held: usize,
    waits: Waits,
    /// Since when the part at hand is up to its client.
    turn_ms: u64,
    /// When something came last.
    last_ms: u64,
    /// When it was found last that it has to wait.
    tried_ms: u64,
    /// The last part took so long that others who wait have memory before it.
    gives_way: bool,
    pace: Pace,
}

/// All of a worker, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    all: BTreeMap<u64, Arriving>,
    /// Something was reported to the log.
    pub(super) is_stirred: bool,
    /// When they were looked at.
    looked_ms: u64,
}

impl Uploads {
    /// When something is to be looked at, the latest.
    pub(super) fn wake_at_ms<K: Keys, C: Command>(
        &self,
        shared: &Shared<K, C>,
        now_ms: u64,
    ) -> Option<u64> {
        if self.all.is_empty() {
            return None;
        }
        let is_wanted = shared.arriving.is_wanted(now_ms);
        let wake_at_ms = |it: &Arriving| match it.waits {
            Waits::Nothing => it.ends_at_ms(is_wanted),
            Waits::Memory | Waits::Log => now_ms + 1,
        };
        self.all.values().map(wake_at_ms).min()
    }
}

impl Arriving {
    /// When it ends, unless something comes: a byte now and then does not do for a part. Who holds
    /// memory that is wanted has to send more often, too.
    fn ends_at_ms(&self, is_wanted: bool) -> u64 {
        if base::mutant!("store_uploads_never_end") {
            return u64::MAX;
        }
        let idle_ms = if is_wanted && self.held > 0 { LARGE_IDLE_WANTED_MS } else { LARGE_IDLE_MS };
        (self.last_ms + idle_ms).min(self.turn_ms + LARGE_IDLE_MS)
    }

    /// Whether it ends now. `lacks_room`: the log has none, and it keeps some.
    fn is_slow(&self, is_wanted: bool, lacks_room: bool, now_ms: u64) -> bool {
        let is_idle = self.waits == Waits::Nothing && now_ms >= self.ends_at_ms(is_wanted);
        let keeps_room = lacks_room && self.upload.mark().is_some();
        is_idle || keeps_room && self.pace.is_too_slow(now_ms)
    }

    /// From now on its client has to do something.
    fn begin_turn(&mut self, now_ms: u64) {
        (self.waits, self.turn_ms) = (Waits::Nothing, now_ms);
        self.pace.begin(now_ms);
    }

    /// Bytes of the part that is to come next, or has come.
    fn part_bytes<K: Keys, C: Command>(&self, shared: &Shared<K, C>) -> usize {
        let left = usize::try_from(self.upload.left()).unwrap_or(usize::MAX);
        left.min(shared.value_bytes_max)
    }

    fn free<K, C: Command>(&mut self, shared: &Shared<K, C>) {
        shared.arriving.give_back(std::mem::take(&mut self.held));
        self.part = Vec::new();
    }

    /// Takes what it can of what has come.
    fn take<K: Keys, C: Command>(
        &mut self,
        shared: &Shared<K, C>,
        number: u64,
        mut bytes: &[u8],
        now_ms: u64,
    ) -> Result<Took, Error> {
        let all = bytes.len();
        // How long it took to arrive was seen before.
        let mut is_seen = self.waits == Waits::Log;
        if self.waits != Waits::Nothing {
            self.begin_turn(now_ms);
        }
        loop {
            let part_bytes = self.part_bytes(shared);
            if part_bytes == 0 {
                let got = bytes.len();
                return if got == 0 {
                    Ok(Took::Whole)
                } else {
                    Err(Error::ValueBytes { got, max: 0 })
                };
            }
            let is_whole = self.part.is_empty() && bytes.len() >= part_bytes;
            if !is_whole && self.part.len() < part_bytes {
                if bytes.is_empty() {
                    return Ok(Took::All);
                }
                let has_way = !self.gives_way || !shared.arriving.is_wanted(now_ms);
                if self.held == 0
                    && !(has_way && self.take_memory(shared, number, part_bytes, now_ms))
                {
                    self.wait_for_memory(now_ms);
                    return Ok(Took::Wait(all - bytes.len()));
                }
                let (front, rest) = bytes.split_at(bytes.len().min(part_bytes - self.part.len()));
                self.part.extend_from_slice(front);
                bytes = rest;
                continue;
            }
            if !std::mem::take(&mut is_seen) {
                self.gives_way = gives_way(self.turn_ms, now_ms);
            }
            // What is there as a whole needs no memory of its own.
            let part = if is_whole { &bytes[..part_bytes] } else { &self.part[..] };
            let put = shared.core().engine.put_part(&mut self.upload, part, now_ms)?;
            if put == Wrote::Wait {
                (self.waits, self.tried_ms) = (Waits::Log, now_ms);
                self.pace.end(now_ms);
                return Ok(Took::Wait(all - bytes.len()));
            }
            self.turn_ms = now_ms;
            if is_whole {
                bytes = &bytes[part_bytes..];
            } else {
                self.free(shared);
            }
        }
    }

    fn take_memory<K: Keys, C: Command>(
        &mut self,
        shared: &Shared<K, C>,
        number: u64,
        bytes: usize,
        now_ms: u64,
    ) -> bool {
        if !shared.arriving.take(number, self.held, bytes, now_ms, self.gives_way) {
            return false;
        }
        self.held = bytes;
        self.part.reserve_exact(bytes);
        true
    }

    fn wait_for_memory(&mut self, now_ms: u64) {
        self.waits = Waits::Memory;
        self.pace.end(now_ms);
    }

    /// Goes on with what it waits for. Says whether it need not wait any more.
    fn go_on<K: Keys, C: Command>(
        &mut self,
        shared: &Shared<K, C>,
        number: u64,
        now_ms: u64,
    ) -> Result<bool, Error> {
        match self.waits {
            Waits::Nothing => return Ok(false),
            Waits::Memory => {
                let bytes = self.part_bytes(shared);
                if !self.take_memory(shared, number, bytes, now_ms) {
                    return Ok(false);
                }
                self.begin_turn(now_ms);
            }
            // What came in one piece is with the caller, who tries again himself.
            Waits::Log if self.part.is_empty() => self.begin_turn(now_ms),
            Waits::Log => {
                if let Took::Wait(_) = self.take(shared, number, &[], now_ms)? {
                    return Ok(false);
                }
            }
        }
        self.last_ms = now_ms;
        Ok(true)
    }
}

impl<K: Keys, C: Command> Worker<K, C> {
    /// Begins a value of so many bytes, more than a part, which [`Worker::push`] brings. `caller`
    /// is under which number is told what came of it.
    ///
    /// # Errors
    /// When there can be no such value, or too many arrive.
    pub fn begin_upload(
        &mut self,
        key: &[u8],
        value_bytes: u64,
        caller: u64,
    ) -> Result<UploadId, Error> {
        let Self { shared, own } = self;
        if !(1..=KEY_LEN_MAX).contains(&key.len()) {
            return Err(Error::KeyBytes { got: key.len() });
        }
        own.is_stirred = true;
        let now_ms = own.cache.now_ms();
        if own.uploads.all.len() >= LARGE_MAX && !own.make_way(shared, now_ms) {
            shared.arriving.want(now_ms);
            return Err(Error::TooMany { max: LARGE_MAX });
        }
        let upload = Box::new(shared.core().engine.begin_large(key, value_bytes)?);
        let mut arriving = Arriving {
            caller,
            key: key.into(),
            upload,
            part: Vec::new(),
            held: 0,
            waits: Waits::Nothing,
            turn_ms: now_ms,
            last_ms: now_ms,
            tried_ms: 0,
            gives_way: false,
            pace: Pace::default(),
        };
        arriving.begin_turn(now_ms);
        let number = shared.arriving.enter();
        own.uploads.all.insert(number, arriving);
        Ok(UploadId(number))
    }

    /// Brings what has arrived of a value.
    ///
    /// # Errors
    /// When it cannot be stored: the upload has ended.
    pub fn push(&mut self, upload: UploadId, bytes: &[u8]) -> Result<Took, Error> {
        let Self { shared, own } = self;
        own.is_stirred = true;
        let now_ms = own.cache.now_ms();
        let arriving = own.uploads.all.get_mut(&upload.0).ok_or(Error::Ended)?;
        let took = arriving.take(shared, upload.0, bytes, now_ms);
        if !bytes.is_empty() && !matches!(took, Ok(Took::Wait(0))) {
            arriving.last_ms = now_ms;
        }
        arriving.pace.add(match took {
            Ok(Took::Wait(bytes)) => bytes,
            _ => bytes.len(),
        });
        if took.is_err() {
            own.end_upload(shared, upload.0);
        }
        took
    }

    /// Carries out the command that the value came for, when the log has the whole value: it may
    /// store [`cache::Value::Uploaded`]. Whatever comes of it, the upload has ended.
    pub fn finish_upload<D: Command<Verdict = C::Verdict>>(
        &mut self,
        upload: UploadId,
        command: &D,
        own: impl FnOnce() -> C,
    ) -> Asked<C::Verdict> {
        let Some(arriving) = self.own.end_upload(&self.shared, upload.0) else {
            return Asked::Now(Answer::Failed(Error::Ended));
        };
        let Arriving { caller, key, upload, .. } = arriving;
        if upload.left() > 0 {
            return Asked::Now(Answer::Failed(log::error::Error::Upload.into()));
        }
        let name = self.own.cache.key(&key);
        let asked = self.own.execute(&self.shared, name, caller, command, Some(upload), own);
        self.own.let_go();
        asked
    }

    /// Gives up on a value: its parts are dead.
    pub fn abort_upload(&mut self, upload: UploadId) {
        self.own.end_upload(&self.shared, upload.0);
    }

    /// See [`crate::Store::large_bytes`].
    #[must_use]
    pub fn large_bytes(&self) -> (usize, usize) {
        (self.shared.arriving.bytes(), self.shared.leaving.bytes())
    }

    /// What came of uploads and readers.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.own.notices)
    }
}

impl<V: Send> Own<V> {
    fn end_upload<K, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        number: u64,
    ) -> Option<Arriving> {
        let mut arriving = self.uploads.all.remove(&number)?;
        arriving.free(shared);
        shared.arriving.leave(number);
        Some(arriving)
    }

    /// All end.
    pub(super) fn end_uploads<K, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) {
        let numbers: Vec<u64> = self.uploads.all.keys().copied().collect();
        numbers.into_iter().for_each(|number| drop(self.end_upload(shared, number)));
    }

    /// Ends the one that has brought no part for longest, if that is long. Says whether there was
    /// one.
    fn make_way<K, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>, now_ms: u64) -> bool {
        let is_slow = |it: &Arriving| {
            it.waits == Waits::Nothing && now_ms >= it.turn_ms + LARGE_IDLE_WANTED_MS
        };
        let slow = self.uploads.all.iter().filter(|(_, it)| is_slow(it));
        let Some((&number, arriving)) = slow.min_by_key(|(_, it)| it.turn_ms) else {
            return false;
        };
        let caller = arriving.caller;
        self.notices.push(Notice { caller, what: What::Failed(Error::Slow) });
        self.end_upload(shared, number);
        true
    }

    /// Those that nothing comes for end, and those that wait go on. The last that came are first,
    /// and those who were slow last: the oldest has its part in any case, and of those between more
    /// are slow the older they are.
    pub(super) fn tend_uploads<K: Keys, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) {
        let now_ms = self.cache.now_ms();
        let is_stirred = std::mem::take(&mut self.uploads.is_stirred);
        if self.uploads.all.is_empty() || !is_stirred && now_ms == self.uploads.looked_ms {
            return;
        }
        self.uploads.looked_ms = now_ms;
        let is_wanted = shared.arriving.is_wanted(now_ms);
        let lacks_room = shared.core().engine.lacks_room();
        let is_slow = |it: &Arriving| it.is_slow(is_wanted, lacks_room, now_ms);
        let slow = self.uploads.all.iter().filter(|(_, it)| is_slow(it));
        let mut ended: Vec<_> =
            slow.map(|(number, it)| (*number, it.caller, Error::Slow)).collect();
        self.end_failed(shared, &mut ended);
        let waiting = self.uploads.all.iter().filter(|(_, it)| it.waits != Waits::Nothing);
        let since_ms = |it: &Arriving| it.gives_way.then_some(it.last_ms);
        for number in in_turn(waiting.map(|(number, it)| (*number, since_ms(it)))) {
            let Some(arriving) = self.uploads.all.get_mut(&number) else { continue };
            if arriving.waits == Waits::Log && !is_stirred && now_ms <= arriving.tried_ms {
                continue;
            }
            let caller = arriving.caller;
            match arriving.go_on(shared, number, now_ms) {
                Err(error) => ended.push((number, caller, error)),
                Ok(true) => self.notices.push(Notice { caller, what: What::Room }),
                Ok(false) => {}
            }
        }
        self.end_failed(shared, &mut ended);
    }

    fn end_failed<K, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        ended: &mut Vec<(u64, u64, Error)>,
    ) {
        for (number, caller, error) in ended.drain(..) {
            self.end_upload(shared, number);
            self.notices.push(Notice { caller, what: What::Failed(error) });
        }
    }
}
