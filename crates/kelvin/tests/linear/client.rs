//! A client: commands for keys that all want at once and for keys that memory does not have, some
//! under way at a time, and what was answered.

use std::sync::atomic::{AtomicU64, Ordering};

use histories::{Answer, Deed, Operation, Value};

use crate::{
    cold::{self, Cold},
    harness::{
        conn::{Conn, Got, REPLY_TIMEOUT},
        repeated,
        rng::Rng,
    },
    words::{Reply, Words},
};

/// Commands that a client sends in a round.
const COMMANDS: usize = 24;
/// Commands that are under way at once, at most.
const DEPTH: usize = 8;

/// What all clients share.
pub(crate) struct Stage<'a> {
    pub(crate) clock: &'a AtomicU64,
    pub(crate) cold: &'a Cold,
    /// The keys of this round. Of some the values are numbers.
    pub(crate) keys: &'a [(String, bool)],
    /// Of a thousand commands so many flush all keys.
    pub(crate) flushes: usize,
}

impl Stage<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

pub(crate) struct Client {
    number: usize,
    words: Words,
    depth: usize,
    conn: Conn,
    rng: Rng,
    values: u64,
    /// The last token that it was told of each key of the round.
    tokens: Vec<u64>,
    received: Vec<u8>,
    taken: usize,
}

/// A command that is under way.
enum Asked {
    /// The key's place in the round, and that of its operation.
    Key(usize, usize),
    Cold((usize, u32)),
    /// It is one of each key, the last by now: of the first key its place. And what it takes of
    /// the keys that memory does not have.
    All(usize, Vec<u32>),
}

/// A key's operations in a round.
pub(crate) type Operations = Vec<Vec<Operation>>;

impl Client {
    pub(crate) fn new(number: usize, conn: Conn, seed: u64) -> Self {
        // Two of eight have one command under way at a time, so that order in time is tight.
        let depth = if number.is_multiple_of(4) { 1 } else { DEPTH };
        let words = if number < 4 { Words::Text } else { Words::Meta };
        let rng = Rng::new(seed * 100 + number as u64);
        Self {
            number,
            words,
            depth,
            conn,
            rng,
            values: seed << 32,
            tokens: Vec::new(),
            received: Vec::new(),
            taken: 0,
        }
    }

    /// Its part of a round: the operations of each key.
    pub(crate) fn play(&mut self, stage: &Stage<'_>) -> Operations {
        let mut all = vec![Vec::new(); stage.keys.len()];
        self.tokens = vec![1; stage.keys.len()];
        let mut left = if self.depth == 1 { COMMANDS / 2 } else { COMMANDS };
        while left > 0 {
            let together = (1 + self.rng.below(self.depth)).min(left);
            left -= together;
            let mut request = Vec::new();
            let mut asked = Vec::new();
            let called = stage.now();
            for _ in 0..together {
                asked.push(if stage.flushes > 0 && self.rng.below(1000) < stage.flushes {
                    self.words.ask("", &Deed::Flush, b"", &mut request);
                    let at = all[0].len();
                    for of_key in &mut all {
                        of_key.push(self.operation(of_key.len(), Deed::Flush, called));
                    }
                    Asked::All(at, stage.cold.told())
                } else if self.rng.chance(40) {
                    let cold = stage.cold.pick(&mut self.rng);
                    self.words.ask(&cold::name(cold.0), &Deed::Get, b"", &mut request);
                    Asked::Cold(cold)
                } else {
                    let key = self.rng.below(stage.keys.len());
                    let at = all[key].len();
                    all[key].push(self.choose(stage, key, at, called, &mut request));
                    Asked::Key(key, at)
                });
            }
            self.conn.send(&request);
            self.hear(stage, &asked, &mut all);
        }
        all
    }

    /// Stores each key of the round, when nobody else does: what they have then.
    pub(crate) fn store(&mut self, stage: &Stage<'_>) -> Vec<Answer> {
        let mut all = vec![Vec::new(); stage.keys.len()];
        self.tokens = vec![1; stage.keys.len()];
        let mut stored = Vec::new();
        for (key, (name, is_number)) in stage.keys.iter().enumerate() {
            let value = self.value(name, *is_number);
            let (of, mut request) = (Value::of(&value), Vec::new());
            self.words.ask(name, &Deed::Set(of), &value, &mut request);
            all[key].push(self.operation(0, Deed::Set(of), stage.now()));
            self.conn.send(&request);
            self.hear(stage, &[Asked::Key(key, 0)], &mut all);
            let Answer::Stored(token) = all[key][0].answer else { panic!("{:?}", all[key][0]) };
            stored.push(Answer::Record(of, token));
        }
        stored
    }

    /// Looks at each key of the round, when nobody else does.
    pub(crate) fn look(&mut self, stage: &Stage<'_>) -> Operations {
        let mut all = vec![Vec::new(); stage.keys.len()];
        self.tokens = vec![1; stage.keys.len()];
        for (key, (name, _)) in stage.keys.iter().enumerate() {
            let mut request = Vec::new();
            self.words.ask(name, &Deed::Get, b"", &mut request);
            all[key].push(self.operation(0, Deed::Get, stage.now()));
            self.conn.send(&request);
            self.hear(stage, &[Asked::Key(key, 0)], &mut all);
            if stage.cold.loses && all[key][0].answer == Answer::Miss {
                // It may be there all the same, but from now on.
                request.clear();
                self.words.ask(name, &Deed::Delete, b"", &mut request);
                all[key].push(self.operation(1, Deed::Delete, stage.now()));
                self.conn.send(&request);
                self.hear(stage, &[Asked::Key(key, 1)], &mut all);
            }
        }
        all
    }

    fn operation(&self, place: usize, deed: Deed, called: u64) -> Operation {
        let place = u8::try_from(place).expect("a round is short");
        Operation { client: self.number, place, deed, answer: Answer::Miss, called, answered: 0 }
    }

    /// A command for a key that others want, too.
    fn choose(
        &mut self,
        stage: &Stage<'_>,
        key: usize,
        place: usize,
        called: u64,
        request: &mut Vec<u8>,
    ) -> Operation {
        let (name, is_number) = &stage.keys[key];
        let value = self.value(name, *is_number);
        let of = Value::of(&value);
        let (deed, data) = match self.rng.below(100) {
            0..30 => (Deed::Get, value),
            30..42 => (Deed::Set(of), value),
            42..54 => (Deed::Add(of), value),
            54..68 => (Deed::Cas(self.tokens[key], of), value),
            68..88 if *is_number => (Deed::Incr(1 + self.rng.below(1000) as u64), value),
            68..88 => {
                let piece = format!("+{}.{} ", self.number, self.values).into_bytes();
                (Deed::Append(piece.clone()), piece)
            }
            _ => (Deed::Delete, value),
        };
        self.words.ask(name, &deed, &data, request);
        self.operation(place, deed, called)
    }

    /// A value that nobody has stored before, of some length.
    fn value(&mut self, name: &str, is_number: bool) -> Vec<u8> {
        self.values += 1;
        if is_number {
            let number = self.values * 10 + self.number as u64;
            return number.to_string().into_bytes();
        }
        let text = format!("{name} {}.{} ", self.number, self.values);
        repeated(&text, 100 + self.rng.below(6000))
    }

    /// Waits for the answers to what was asked, in its order.
    fn hear(&mut self, stage: &Stage<'_>, asked: &[Asked], all: &mut Operations) {
        let mut asked = asked.iter();
        let mut next = asked.next();
        while let Some(asking) = next {
            let answered = stage.now();
            let name = match *asking {
                Asked::Key(key, _) => stage.keys[key].0.clone(),
                Asked::Cold((key, _)) => cold::name(key),
                Asked::All(..) => String::new(),
            };
            let deed = match *asking {
                Asked::Key(key, at) => &all[key][at].deed,
                Asked::Cold(_) => &Deed::Get,
                Asked::All(..) => &Deed::Flush,
            };
            let Some(Reply { answer, value, len }) =
                self.words.take(&self.received[self.taken..], &name, deed)
            else {
                let got = self.conn.read_once(&mut self.received, REPLY_TIMEOUT);
                let came = self.received[self.taken..].escape_ascii();
                assert!(got == Got::Bytes, "{got:?} to {deed:x?} of {name}, but for {came}");
                continue;
            };
            match *asking {
                Asked::Key(key, at) => {
                    if let Answer::Record(_, Some(token)) | Answer::Stored(Some(token)) = answer {
                        self.tokens[key] = token;
                    }
                    all[key][at].answer = answer;
                    all[key][at].answered = answered;
                }
                Asked::All(at, ref told) => {
                    stage.cold.flushed(told);
                    let id = all[0][at].called;
                    let is_it = |it: &&mut Operation| {
                        it.called == id && matches!(it.deed, Deed::Flush) && it.answered == 0
                    };
                    for of_key in all.iter_mut() {
                        let flush = of_key.iter_mut().find(is_it).expect("it is one of each key");
                        (flush.answer, flush.answered) = (answer.clone(), answered);
                    }
                }
                Asked::Cold(cold) => {
                    let at = self.taken..self.taken + len;
                    let value = value.map(|value| &self.received[at][value]);
                    stage.cold.check(cold, value);
                }
            }
            self.taken += len;
            next = asked.next();
        }
        assert_eq!(self.taken, self.received.len(), "more was answered than asked");
        self.received.clear();
        self.taken = 0;
    }
}
