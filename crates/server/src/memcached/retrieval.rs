//! `get`, `gets`, `gat`, `gats`.

use arrayvec::ArrayVec;
use cache::{Change, Decision, Edit, Get, Key, Meta};
use wire::memcached::{
    Keys,
    lines::{END, LAST_VALUE_END, LINE_END},
    reply::Writer,
    watch,
};

use super::{
    burst::BURST_MAX,
    context::Context,
    record::{Head, Record, Replies},
};

/// How the records of a retrieval are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retrieval {
    /// With their tokens.
    pub(super) with_token: bool,
    /// With this new expiry in milliseconds, 0 for never.
    pub(super) touch_ms: Option<u64>,
}

/// `VALUE` and what follows it on its line. No closure: this one is to be written where it is used.
pub(super) struct ValueLine<'k> {
    pub(super) key: &'k [u8],
    pub(super) with_token: bool,
}

impl Head for ValueLine<'_> {
    #[inline(always)]
    fn write(&self, meta: &Meta, writer: &mut Writer<'_>) -> bool {
        let token = self.with_token.then_some(meta.token);
        writer.value_header(self.key, meta.client_flags, meta.value_len, token);
        true
    }
}

/// How far the keys of a retrieval have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// To their end.
    Complete,
    /// There is no room for more replies.
    NoRoom,
    /// The work of a turn is done.
    TurnOver,
    /// A large value cannot be pinned now.
    Busy,
}

/// Sends the records of those `keys` that `done` bytes of the line are not yet past. Notes in
/// `done` how far it came.
pub(super) fn send_all(
    context: &mut Context,
    retrieval: Retrieval,
    mut keys: Keys<'_>,
    done: &mut usize,
    commands_left: &mut usize,
    replies: &mut Replies,
) -> Progress {
    let total = keys.rest_len();
    keys.skip_to(total - *done);
    loop {
        let mut chunk: ArrayVec<(Key<'_>, usize), BURST_MAX> = ArrayVec::new();
        while !chunk.is_full()
            && let Some(key) = keys.next()
        {
            let key = context.key(key);
            context.worker.prefetch_index(&key);
            chunk.push((key, total - keys.rest_len()));
        }
        if chunk.is_empty() {
            return Progress::Complete;
        }
        context.worker.prefetch_records(chunk.iter().map(|(key, _)| key));
        for (key, done_then) in &chunk {
            if !replies.has_room() {
                return Progress::NoRoom;
            }
            if *commands_left == 0 {
                return Progress::TurnOver;
            }
            if !send(context, retrieval, key, false, replies) {
                return Progress::Busy;
            }
            *commands_left -= 1;
            *done = *done_then;
        }
    }
}

/// Answers a `get` of one key. False if its record is there but cannot be sent now.
pub(super) fn answer_get(context: &mut Context, key: &Key<'_>, replies: &mut Replies) -> bool {
    let plain = Retrieval { with_token: false, touch_ms: None };
    send_as(context, plain, key, true, replies)
}

/// Sends the record of `key`, if there is one, and behind the last one the end of the reply. False
/// if it is there but cannot be sent now.
pub(super) fn send(
    context: &mut Context,
    retrieval: Retrieval,
    key: &Key<'_>,
    is_last: bool,
    replies: &mut Replies,
) -> bool {
    send_as(context, retrieval, key, is_last, replies)
}

/// The same, made anew for each of its two callers, of which one knows the most frequent retrieval.
#[inline(always)]
fn send_as(
    context: &mut Context,
    retrieval: Retrieval,
    key: &Key<'_>,
    is_last: bool,
    replies: &mut Replies,
) -> bool {
    let head = ValueLine { key: key.bytes(), with_token: retrieval.with_token };
    let mut record = Record::new(replies, head);
    let get = match retrieval.touch_ms {
        None => context.worker.get(*key, &mut record),
        Some(expiry_ms) => get_and_touch(context, *key, expiry_ms, &mut record),
    };
    let tail = if is_last { LAST_VALUE_END } else { LINE_END };
    let found = match get {
        Get::Hit(meta) => {
            record.finish(tail);
            Some(meta.value_len)
        }
        Get::Busy if context.waits_for_pins => return false,
        Get::Busy | Get::Miss => {
            if is_last {
                replies.put(END);
            }
            None
        }
        Get::Large(pinned) => {
            let len = pinned.meta().value_len;
            record.finish_large(pinned, tail);
            Some(len)
        }
    };
    if context.watched & watch::FETCHERS != 0 {
        context.log_fetch(key.bytes(), found);
    }
    let hit = found.is_some();
    count_retrieval(context, key, retrieval.touch_ms.is_some(), hit);
    true
}

/// Counts a retrieval, or a touch.
#[inline]
pub(super) fn count_retrieval(context: &Context, key: &Key<'_>, touches: bool, hit: bool) {
    if !hit {
        context.count_dead();
    }
    let counters = &context.counters;
    let (commands, hits, misses) = if touches {
        (&counters.cmd_touch, &counters.touch_hits, &counters.touch_misses)
    } else {
        (&counters.cmd_get, &counters.get_hits, &counters.get_misses)
    };
    commands.add(1);
    if hit {
        hits.add(1)
    } else {
        misses.add(1)
    }
    context.server.prefixes().count(key.bytes(), |counts| {
        counts.gets += 1;
        counts.hits += u64::from(hit);
    });
}

/// Reads the record of `key` into `record`, and gives it another time in milliseconds.
pub(super) fn get_and_touch(
    context: &mut Context,
    key: Key<'_>,
    expiry_ms: u64,
    record: &mut impl cache::Output,
) -> Get {
    let mut get = Get::Miss;
    let touch = Edit { expiry_ms: Some(expiry_ms), ..Edit::default() };
    let edited = context.worker.update(key, |view| {
        get = view.map_or(Get::Miss, |view| view.read(record));
        match get {
            Get::Hit(_) | Get::Large(_) => Decision { change: Change::Edit(touch), hit: true },
            Get::Miss | Get::Busy => Change::Keep.into(),
        }
    });
    match edited {
        Ok(_) => get,
        // No memory for a time that the record did not have before: as `gat` cannot say so, it
        // misses.
        Err(_) => Get::Miss,
    }
}
