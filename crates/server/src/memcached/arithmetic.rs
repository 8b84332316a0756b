//! Counting: `incr`, `decr` and `ma` on the number that a value is.

use cache::{
    Change, Decision, Digits, INLINE_VALUE_MAX_BYTES, Key, Meta, Put, Token, Value, Worker,
};
use wire::memcached::Direction;

use super::{
    context::Context,
    number::{PREFIX_BYTES, leading_number, step},
};
use crate::stats::Counters;

/// How often a number in a wide value (see [`count`]) is tried before the client is told that
/// there is no memory. Each further try means that another client was faster in between.
const WIDE_ATTEMPTS_MAX: usize = 64;

/// A command that counts, whichever protocol it came by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order<'k> {
    /// Which number.
    pub(super) key: Key<'k>,
    /// How.
    pub(super) terms: Terms,
}

/// What a command that counts asks for, but for the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Up or down.
    pub(super) direction: Direction,
    /// By how much.
    pub(super) delta: u64,
    /// The token that the record must have; 0 for any.
    pub(super) compare: u64,
    /// The token that the record gets.
    pub(super) token: Token,
    /// A new expiry in milliseconds, if it gets one.
    pub(super) expiry_ms: Option<u64>,
    /// What to create if there is no record.
    pub(super) create: Option<Create>,
}

/// A number for a key that has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Create {
    /// The number.
    pub(super) number: u64,
    /// Its expiry in milliseconds; 0 is never.
    pub(super) expiry_ms: u64,
}

/// What became of a command that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The number has changed.
    Changed {
        /// The number now.
        number: u64,
        /// The record's new token.
        token: u64,
        /// The expiry that the record had before, in milliseconds.
        expiry_before_ms: u64,
    },
    /// The number is new.
    Created {
        /// The record's token.
        token: u64,
    },
    /// There is no record.
    Missing,
    /// The record has another token.
    Exists,
    /// The value is no number.
    NotNumeric,
    /// The cache has no room.
    NoMemory,
}

/// A number with the blanks that keep a value at its length, prepared outside of the lock because
/// it is longer than [`Digits`].
pub(super) struct Wide {
    number: u64,
    text: Vec<u8>,
}

/// Does what `order` says.
///
/// A number that gets shorter keeps its length, filled up with blanks, as memcached does it. Where
/// that is more than [`Digits`] holds, the first try finds out number and length, and a further one
/// stores what was prepared if they are still the same.
pub(super) fn count(context: &mut Context, order: &Order<'_>) -> Outcome {
    let outcome = apply(&mut context.worker, order);
    note(&context.counters, order.terms.direction, outcome);
    outcome
}

/// Counts what a command came to.
pub(super) fn note(counters: &Counters, direction: Direction, outcome: Outcome) {
    match (outcome, direction) {
        (Outcome::Changed { .. }, Direction::Up) => counters.incr_hits.add(1),
        (Outcome::Changed { .. }, Direction::Down) => counters.decr_hits.add(1),
        (Outcome::Missing, Direction::Up) => counters.incr_misses.add(1),
        (Outcome::Missing, Direction::Down) => counters.decr_misses.add(1),
        (Outcome::Created { .. }, _) => counters.total_items.add(1),
        (Outcome::Exists | Outcome::NotNumeric | Outcome::NoMemory, _) => {}
    }
}

fn apply(worker: &mut Worker, order: &Order<'_>) -> Outcome {
    let mut wide: Option<Wide> = None;
    for _ in 0..WIDE_ATTEMPTS_MAX {
        let mut verdict = Verdict::Over(Outcome::Missing);
        let result = worker.update(order.key, |view| {
            let found = view.map(|view| (view.meta(), |room: &mut [u8]| view.copy_prefix(room)));
            let (decision, found) = order.terms.decide(found, wide.as_ref());
            verdict = found;
            decision
        });
        match (result, verdict) {
            (Err(_), _) => return Outcome::NoMemory,
            (Ok(token), Verdict::Over(outcome)) => return outcome.with_token(token.unwrap_or(0)),
            (Ok(_), Verdict::Prepare { number, len }) => wide = Some(Wide::new(number, len)),
        }
    }
    Outcome::NoMemory
}

/// What a try came to.
pub(super) enum Verdict {
    /// The command is over.
    Over(Outcome),
    /// This number has to be prepared at this length first.
    Prepare {
        /// The number.
        number: u64,
        /// Bytes of the value.
        len: usize,
    },
}

impl Wide {
    fn new(number: u64, len: usize) -> Self {
        let mut text = Digits::new(number, 0).bytes().to_vec();
        text.resize(len, b' ');
        Self { number, text }
    }
}

impl Outcome {
    /// The same with the token that the record has got.
    pub(super) fn with_token(self, token: u64) -> Self {
        match self {
            Self::Changed { number, expiry_before_ms, .. } => {
                Self::Changed { number, token, expiry_before_ms }
            }
            Self::Created { .. } => Self::Created { token },
            other => other,
        }
    }
}

impl Terms {
    /// What becomes of a record with these fields, the start of whose value can be copied, or of
    /// none.
    #[inline]
    pub(super) fn decide<'w>(
        &self,
        found: Option<(Meta, impl FnOnce(&mut [u8]) -> usize)>,
        wide: Option<&'w Wide>,
    ) -> (Decision<'w>, Verdict) {
        let over = |change, outcome| (Decision::from(change), Verdict::Over(outcome));
        let Some((meta, copy_prefix)) = found else {
            let (change, outcome) = self.decide_missing();
            return over(change, outcome);
        };
        let len = meta.value_len as usize;
        if len == 0 {
            return over(Change::Keep, Outcome::NotNumeric);
        }
        if self.compare != 0 && self.compare != meta.token {
            return over(Change::Keep, Outcome::Exists);
        }
        if len > INLINE_VALUE_MAX_BYTES {
            return over(Change::Keep, Outcome::NotNumeric);
        }
        let mut prefix = [0; PREFIX_BYTES];
        let copied = copy_prefix(&mut prefix);
        let Some(number) = leading_number(&prefix[..copied], len) else {
            return over(Change::Keep, Outcome::NotNumeric);
        };
        let number = step(number, self.direction, self.delta);
        let value = match wide {
            _ if len <= Digits::LEN_MAX => Value::Digits(Digits::new(number, len)),
            Some(wide) if wide.number == number && wide.text.len() == len => {
                Value::Bytes(&wide.text)
            }
            _ => return (Change::Keep.into(), Verdict::Prepare { number, len }),
        };
        let (put, in_place) = self.put(&meta, number, value);
        let decision = Decision { change: Change::Put(put), hit: meta.fetched && in_place };
        (decision, Verdict::Over(changed(&meta, number)))
    }

    /// The record with `number` in place of the one it has, and whether it fits where that was: one
    /// that outgrows its room is a new record in memcached, without marks.
    pub(super) fn put<'w>(&self, meta: &Meta, number: u64, value: Value<'w>) -> (Put<'w>, bool) {
        let in_place = Digits::new(number, 0).bytes().len() <= meta.value_len as usize;
        let put = Put {
            value,
            client_flags: meta.client_flags,
            expiry_ms: self.expiry_ms.unwrap_or(meta.expiry_ms),
            token: self.token,
            stale: meta.stale && in_place,
            win_sent: meta.win_sent && in_place,
        };
        (put, in_place)
    }

    fn decide_missing(&self) -> (Change<'static>, Outcome) {
        let Some(Create { number, expiry_ms }) = self.create else {
            return (Change::Keep, Outcome::Missing);
        };
        let put =
            Put { expiry_ms, token: self.token, ..Put::new(Value::Digits(Digits::new(number, 0))) };
        (Change::Put(put), Outcome::Created { token: 0 })
    }
}

/// That the number of a record with these fields has changed; its token is not known yet.
pub(super) fn changed(meta: &Meta, number: u64) -> Outcome {
    Outcome::Changed { number, token: 0, expiry_before_ms: meta.expiry_ms }
}
