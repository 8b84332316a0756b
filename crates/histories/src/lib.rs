//! What a key does when commands come one after the other, and whether a history of commands that
//! came at once can be put into such an order.
//!
//! An operation takes effect at one moment between its call and its answer (Herlihy, Wing 1990),
//! and those of one connection in the order in which they were sent, although several are under
//! way. The checker is a library's (Wing and Gong's search with Lowe's memory of where it was); a
//! key's history alone has to pass, because whole histories do when each object's does.
//!
//! A package of its own, which is optimised where the tests that ask it are not.

#![forbid(unsafe_code)]

use std::{fmt, rc::Rc};

use todc_utils::{
    Specification, WGLChecker,
    linearizability::history::{Action, History},
};

/// Clients whose commands have an order: eight, and the one that looks at the end of a round.
pub const CLIENTS: usize = 9;

/// A value as the checker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// What was hashed, so that an append to it is known without it.
    Text(u64),
    /// What `incr` adds to.
    Number(u64),
}

impl Value {
    /// A value that is no number.
    #[must_use]
    pub fn text(bytes: &[u8]) -> Self {
        Self::Text(hashed(FNV_BASIS, bytes))
    }

    /// What was received: what reads as a number is one.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        number.map_or_else(|| Self::text(bytes), Self::Number)
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Fowler, Noll and Vo's hash (1a), gone on with from another one.
fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The token of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Token {
    Known(u64),
    /// Nobody was told it yet; it is greater than this one.
    Above(u64),
}

/// What is asked of a key.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Asks for the record.
    Get,
    /// Stores a value.
    Set(Value),
    /// Stores a value if there is no record.
    Add(Value),
    /// Stores a value if the record has this token.
    Cas(u64, Value),
    /// Adds bytes to the value's end.
    Append(Vec<u8>),
    /// Adds to the number.
    Incr(u64),
    /// Removes the record.
    Delete,
    /// Removes every key.
    Flush,
}

/// What was answered; tokens where they were told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value.
    Record(Value, Option<u64>),
    /// There is no record.
    Miss,
    /// It was.
    Stored(Option<u64>),
    /// There is a record, or none where one was needed.
    NotStored,
    /// The record has another token.
    Exists,
    /// There is no record to change.
    NotFound,
    /// What the number is now.
    Number(u64, Option<u64>),
    /// The record was removed.
    Deleted,
    /// Every key was removed.
    Flushed,
    /// Nothing was stored.
    Failed,
}

/// A command and its answer.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Whose it is, below [`CLIENTS`].
    pub client: usize,
    /// How many of this client's commands for the key came before it.
    pub place: u8,
    /// What was asked.
    pub deed: Deed,
    /// What was answered to it.
    pub answer: Answer,
    /// When it was asked, by a clock that never shows a time twice: it took effect later.
    pub called: u64,
    /// When it was answered, later by the same clock: it took effect before.
    pub answered: u64,
}

/// A key between two operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    record: Option<(Value, Token)>,
    /// The greatest token that was told.
    floor: u64,
    /// The place of each client's next operation.
    next: [u8; CLIENTS],
    /// The table may lose the record at any time, or not find it for a while. What was overwritten
    /// or removed is gone all the same, and tokens are told apart, but do not grow.
    loses: bool,
}

impl State {
    /// What it is afterwards, if the operation can have been answered as it was.
    fn after(&self, operation: &Operation) -> Option<Self> {
        let mut after = self.clone();
        let next = &mut after.next[operation.client];
        if *next != operation.place {
            return None;
        }
        *next += 1;
        let is_fine = match (&operation.deed, &operation.answer) {
            (Deed::Get, Answer::Miss) => self.may_miss(),
            (Deed::Get, Answer::Record(value, token)) => after.shows(*value, *token),
            (Deed::Set(value), Answer::Stored(token)) => after.takes(*value, *token),
            (Deed::Add(value), Answer::Stored(token)) => {
                self.may_miss() && after.takes(*value, *token)
            }
            (Deed::Add(_), Answer::NotStored) => self.record.is_some(),
            (Deed::Cas(with, value), Answer::Stored(token)) => {
                self.has_token(*with) && after.takes(*value, *token)
            }
            (Deed::Cas(with, _), Answer::Exists) => self.record.is_some() && !self.has_token(*with),
            (Deed::Append(piece), Answer::Stored(token)) => match self.record {
                Some((Value::Text(hash), _)) => {
                    after.takes(Value::Text(hashed(hash, piece)), *token)
                }
                _ => false,
            },
            (Deed::Append(_), Answer::NotStored) => self.may_miss(),
            (Deed::Incr(by), Answer::Number(told, token)) => match self.record {
                Some((Value::Number(had), _)) if had.wrapping_add(*by) == *told => {
                    after.takes(Value::Number(*told), *token)
                }
                _ => false,
            },
            (Deed::Delete, Answer::Deleted) => after.record.take().is_some(),
            (Deed::Flush, Answer::Flushed) => {
                after.record = None;
                true
            }
            (Deed::Cas(..) | Deed::Incr(_), Answer::NotFound) => self.may_miss(),
            // There was no memory for it, and what there was may be lost.
            (Deed::Get | Deed::Delete | Deed::Flush, Answer::Failed) => false,
            (_, Answer::Failed) => self.loses,
            // Whatever there was must not come back.
            (Deed::Delete, Answer::NotFound) => {
                after.record = None;
                self.may_miss()
            }
            _ => false,
        };
        is_fine.then_some(after)
    }

    /// Whether there may be no record.
    fn may_miss(&self) -> bool {
        self.record.is_none() || self.loses
    }

    /// Whether the record may be this one. From then on its token is known.
    fn shows(&mut self, value: Value, told: Option<u64>) -> bool {
        let Some((has, token)) = &mut self.record else { return false };
        let Some(told) = told else { return *has == value };
        let may_be = match *token {
            Token::Known(token) => token == told,
            Token::Above(floor) => told > floor || self.loses,
        };
        *token = Token::Known(told);
        self.floor = self.floor.max(told);
        *has == value && may_be
    }

    /// Gets a new record. Its token is greater than all before it.
    fn takes(&mut self, value: Value, told: Option<u64>) -> bool {
        let is_greater = told.is_none_or(|told| told > self.floor || self.loses);
        let token = told.map_or(Token::Above(self.floor), Token::Known);
        self.floor = self.floor.max(told.unwrap_or(0));
        self.record = Some((value, token));
        is_greater
    }

    /// Who knows a token was told it before, so one that nobody knows is another one.
    fn has_token(&self, token: u64) -> bool {
        self.record.is_some_and(|(_, has)| has == Token::Known(token))
    }
}

/// A key, as the checker wants it.
struct Key;

/// What makes one state of another.
#[derive(Clone, Debug)]
enum Step {
    /// Before anything else.
    Begin(Known),
    Operation(Rc<Operation>),
}

impl Specification for Key {
    type State = State;
    type Operation = Step;

    fn init() -> State {
        Known::default().state()
    }

    fn apply(step: &Step, state: &State) -> (bool, State) {
        let after = match step {
            Step::Begin(known) => Some(known.state()),
            Step::Operation(operation) => state.after(operation),
        };
        match after {
            Some(after) => (true, after),
            None => (false, state.clone()),
        }
    }
}

/// What a key had when nothing was under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    record: Option<(Value, u64)>,
    floor: u64,
    loses: bool,
}

impl Known {
    /// Nothing of a key of a table that may lose it.
    #[must_use]
    pub fn of_what_may_go() -> Self {
        Self { loses: true, ..Self::default() }
    }

    /// What it is after a look to which this was answered.
    #[must_use]
    pub fn after(self, answer: &Answer) -> Self {
        match *answer {
            Answer::Record(value, Some(token)) => {
                Self { record: Some((value, token)), floor: self.floor.max(token), ..self }
            }
            _ => Self { record: None, ..self },
        }
    }

    fn state(self) -> State {
        let record = self.record.map(|(value, token)| (value, Token::Known(token)));
        State { record, floor: self.floor, next: [0; CLIENTS], loses: self.loses }
    }
}

/// The operations, if no order of them explains all answers.
#[derive(Debug)]
pub struct NoOrder {
    known: Known,
    operations: Vec<Rc<Operation>>,
}

impl std::error::Error for NoOrder {}

impl fmt::Display for NoOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no order explains what was answered\nbegin: {:x?}", self.known)?;
        for it in &self.operations {
            let Operation { client, called, answered, deed, answer, .. } = &**it;
            writeln!(f, "{called:8} to {answered:8} client {client}: {deed:x?} -> {answer:x?}")?;
        }
        Ok(())
    }
}

/// Looks for an order of the operations of a key, from what was known of it.
///
/// # Errors
/// [`NoOrder`] if no order explains all answers.
///
/// # Panics
/// Panics when there are more clients than [`CLIENTS`].
pub fn check(known: Known, operations: Vec<Operation>) -> Result<(), NoOrder> {
    let mut operations: Vec<Rc<Operation>> = operations.into_iter().map(Rc::new).collect();
    operations.sort_by_key(|it| it.called);
    let mut actions = Vec::new();
    for (number, it) in operations.iter().enumerate() {
        // Each is a process of its own: those of one client overlap.
        let step = Step::Operation(Rc::clone(it));
        actions.push((it.called, (number + 1, Action::Call(step.clone()))));
        actions.push((it.answered, (number + 1, Action::Response(step))));
    }
    actions.sort_by_key(|(time, _)| *time);
    let begin = Step::Begin(known);
    let first = [Action::Call(begin.clone()), Action::Response(begin)];
    let first = first.into_iter().map(|action| (0, action));
    let actions = first.chain(actions.into_iter().map(|(_, action)| action)).collect();
    if WGLChecker::<Key>::is_linearizable(History::from_actions(actions)) {
        return Ok(());
    }
    Err(NoOrder { known, operations })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Value = Value::Text(1);
    const B: Value = Value::Text(2);

    /// Operations of one client after the other, each with its client and times.
    fn has_order(known: Known, all: &[(usize, u64, u64, Deed, Answer)]) -> bool {
        let mut places = [0; CLIENTS];
        let all = all.iter().map(|(client, called, answered, deed, answer)| {
            let (deed, answer) = (deed.clone(), answer.clone());
            places[*client] += 1;
            let place = places[*client] - 1;
            Operation { client: *client, place, deed, answer, called: *called, answered: *answered }
        });
        check(known, all.collect()).is_ok()
    }

    fn known(value: Value, token: u64) -> Known {
        Known { record: Some((value, token)), floor: token, loses: false }
    }

    #[test]
    fn a_stale_read_has_no_order() {
        let set = || (0, 1, 2, Deed::Set(B), Answer::Stored(None));
        let get = |called, value| (1, called, 9, Deed::Get, Answer::Record(value, None));
        assert!(has_order(known(A, 5), &[set(), get(3, B)]));
        assert!(!has_order(known(A, 5), &[set(), get(3, A)]));
        let during = (0, 1, 4, Deed::Set(B), Answer::Stored(None));
        assert!(has_order(known(A, 5), &[during, get(3, A)]));
        assert!(!has_order(known(A, 5), &[set(), (1, 3, 4, Deed::Get, Answer::Miss)]));
    }

    #[test]
    fn what_was_flushed_is_gone() {
        let get = |called, answer| (1, called, 9, Deed::Get, answer);
        let flush = (0, 1, 2, Deed::Flush, Answer::Flushed);
        assert!(has_order(known(A, 5), &[flush.clone(), get(3, Answer::Miss)]));
        assert!(!has_order(known(A, 5), &[flush.clone(), get(3, Answer::Record(A, None))]));
        assert!(has_order(known(A, 5), &[flush, get(1, Answer::Record(A, None))]));
        let during = (0, 1, 4, Deed::Flush, Answer::Flushed);
        let append = (1, 2, 3, Deed::Append(vec![1]), Answer::Stored(None));
        assert!(has_order(known(A, 5), &[during.clone(), append.clone(), get(5, Answer::Miss)]));
        let old = Answer::Record(A, None);
        assert!(!has_order(known(A, 5), &[during, append, get(5, old)]));
    }

    #[test]
    fn a_lost_change_has_no_order() {
        let ten = known(Value::Number(10), 5);
        let add = |client, told| (client, 1, 2, Deed::Incr(1), Answer::Number(told, None));
        assert!(has_order(ten, &[add(0, 12), add(1, 11)]));
        assert!(!has_order(ten, &[add(0, 11), add(1, 11)]));
        let append =
            |client, piece: &str| (client, 1, 2, Deed::Append(piece.into()), Answer::Stored(None));
        let get =
            |text: &str| (2, 3, 4, Deed::Get, Answer::Record(Value::text(text.as_bytes()), None));
        let text = known(Value::text(b"t"), 5);
        assert!(has_order(text, &[append(0, "a"), append(1, "b"), get("tba")]));
        assert!(!has_order(text, &[append(0, "a"), append(1, "b"), get("ta")]));
    }

    #[test]
    fn commands_of_a_client_keep_their_order() {
        let set = |value| (0, 1, 2, Deed::Set(value), Answer::Stored(None));
        let get = |value| (1, 3, 4, Deed::Get, Answer::Record(value, None));
        assert!(has_order(known(A, 5), &[set(A), set(B), get(B)]));
        assert!(!has_order(known(A, 5), &[set(A), set(B), get(A)]));
    }

    #[test]
    fn tokens_grow_and_compare() {
        let set = |client, token| (client, 1, 2, Deed::Set(B), Answer::Stored(token));
        assert!(has_order(known(A, 5), &[set(0, Some(6))]));
        assert!(!has_order(known(A, 5), &[set(0, Some(5))]));
        let get = |token| (1, 3, 4, Deed::Get, Answer::Record(B, Some(token)));
        assert!(has_order(known(A, 5), &[set(0, None), get(6)]));
        assert!(!has_order(known(A, 5), &[set(0, None), get(5)]));
        assert!(!has_order(known(A, 5), &[set(0, Some(7)), get(8)]));
        let cas = |client, answer| (client, 1, 2, Deed::Cas(5, B), answer);
        let stored = Answer::Stored(None);
        assert!(has_order(known(A, 5), &[cas(0, stored.clone()), cas(1, Answer::Exists)]));
        assert!(!has_order(known(A, 5), &[cas(0, stored.clone()), cas(1, stored)]));
        assert!(!has_order(known(A, 5), &[cas(0, Answer::Exists)]));
    }

    #[test]
    fn what_is_absent_is_so_for_all() {
        let absent = Known::default();
        let add = |client, answer| (client, 1, 2, Deed::Add(A), answer);
        let stored = Answer::Stored(None);
        assert!(has_order(absent, &[add(0, stored.clone()), add(1, Answer::NotStored)]));
        assert!(!has_order(absent, &[add(0, stored.clone()), add(1, stored.clone())]));
        assert!(!has_order(absent, &[add(0, Answer::NotStored)]));
        let delete = |client, answer| (client, 1, 2, Deed::Delete, answer);
        let once = [delete(0, Answer::Deleted), delete(1, Answer::NotFound)];
        assert!(has_order(known(A, 5), &once));
        assert!(!has_order(known(A, 5), &[delete(0, Answer::Deleted), delete(1, Answer::Deleted)]));
        assert!(!has_order(absent, &[(0, 1, 2, Deed::Append(vec![]), stored)]));
    }

    #[test]
    fn what_may_be_lost_is_not_told_of_when_it_is_old() {
        let known = |value| Known { loses: true, ..known(value, 5) };
        let get = |client, called, answer| (client, called, called + 1, Deed::Get, answer);
        let shown = |value| Answer::Record(value, None);
        let set = (0, 1, 2, Deed::Set(B), Answer::Stored(Some(3)));
        assert!(has_order(known(A), &[get(1, 3, Answer::Miss), get(2, 5, shown(A))]));
        assert!(has_order(known(A), &[set.clone(), get(1, 3, Answer::Miss), get(2, 5, shown(B))]));
        assert!(!has_order(known(A), &[set, get(1, 3, Answer::Miss), get(2, 5, shown(A))]));
        for answer in [Answer::NotFound, Answer::Deleted] {
            let delete = (0, 1, 2, Deed::Delete, answer);
            assert!(has_order(known(A), &[delete.clone(), get(1, 3, Answer::Miss)]));
            assert!(!has_order(known(A), &[delete, get(1, 3, shown(A))]));
        }
        let add = (0, 1, 2, Deed::Add(B), Answer::Stored(None));
        assert!(has_order(known(A), &[add.clone(), get(1, 3, shown(B))]));
        assert!(!has_order(known(A), &[add, get(1, 3, shown(A))]));
        assert!(!has_order(known(A), &[(0, 1, 2, Deed::Incr(1), Answer::Number(1, None))]));
    }
}
