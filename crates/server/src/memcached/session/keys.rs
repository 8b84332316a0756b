//! Text retrievals, of which a line may be longer than the input.

use cache::Key;
use reactor::Next;
use wire::memcached::{Get, Keys, KeysStep, lines, parse_keys};

use super::{Advance, Flow, Phase, Session, Turn};
use crate::memcached::retrieval::{Progress, Retrieval, answer_get, send, send_all};

impl Session {
    /// A `get` of one key.
    #[inline]
    pub(super) fn get(turn: &mut Turn<'_>, key: &Key<'_>) -> Flow {
        if !answer_get(turn.context, key, turn.replies) {
            return Flow::Stop(Next::Retry);
        }
        turn.commands_left = turn.commands_left.saturating_sub(1);
        Flow::On
    }

    /// Another retrieval; `only` is its key if there is just one.
    pub(super) fn retrieve(
        &mut self,
        turn: &mut Turn<'_>,
        get: &Get<'_>,
        only: Option<&Key<'_>>,
    ) -> Flow {
        let retrieval = Retrieval {
            with_token: get.with_token,
            touch_ms: get.touch.map(|expiry| turn.context.deadline_ms(expiry)),
        };
        let Some(key) = only else {
            return self.send_keys(turn, retrieval, get.keys, get.complete);
        };
        if !send(turn.context, retrieval, key, true, turn.replies) {
            return Flow::Stop(Next::Retry);
        }
        turn.commands_left = turn.commands_left.saturating_sub(1);
        Flow::On
    }

    /// More keys of a long line.
    pub(super) fn keys(
        &mut self,
        turn: &mut Turn<'_>,
        retrieval: Retrieval,
        input: &[u8],
    ) -> Advance {
        let (keys, consumed, complete) = match parse_keys(input, &turn.context.limits) {
            KeysStep::Part { keys, consumed, complete } => (keys, consumed, complete),
            KeysStep::Incomplete => {
                self.phase = Phase::Keys(retrieval);
                return Advance::stop(0, Next::Read);
            }
            KeysStep::TooLong => {
                turn.replies.put(lines::BAD_FORMAT);
                self.phase = Phase::Finished;
                return Advance::on(0);
            }
        };
        match self.send_keys(turn, retrieval, keys, complete) {
            Flow::On => Advance::on(consumed),
            Flow::Stop(next) => {
                self.phase = Phase::Keys(retrieval);
                Advance::stop(0, next)
            }
        }
    }

    /// Sends records, from where it stopped the last time. Behind the last keys of a line comes
    /// the end of the reply, behind others come more keys.
    fn send_keys(
        &mut self,
        turn: &mut Turn<'_>,
        retrieval: Retrieval,
        keys: Keys<'_>,
        complete: bool,
    ) -> Flow {
        let Turn { context, replies, commands_left } = turn;
        let done = &mut self.keys_done;
        match send_all(context, retrieval, keys, done, commands_left, replies) {
            Progress::Complete => {}
            Progress::NoRoom => return Flow::Stop(Next::Blocked),
            Progress::TurnOver => return Flow::Stop(Next::Yield),
            Progress::Busy => return Flow::Stop(Next::Retry),
        }
        self.keys_done = 0;
        if complete {
            replies.put(lines::END);
        } else {
            self.phase = Phase::Keys(retrieval);
        }
        Flow::On
    }
}
