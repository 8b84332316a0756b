//! One connection without its socket: requests to bytes, bytes to replies.
//!
//! Owns the requests under way, in order, and the bytes that are not sent yet. Values are checked
//! while they pass and never stored, so a connection needs no more memory for values of a megabyte
//! than for values of a byte.
//!
//! Thread safety: belongs to one thread. Performs no I/O and reads no clock.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    ledger::{Ledger, Ticket},
    protocol::{GetLine, LINE_BYTES_MAX, Protocol, SetLine},
    sizes::KeyNames,
    span::Span,
    tally::{Kind, Tally},
    value::{Check, Values, Verdict},
};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Get {
        key: u32,
    },
    Set {
        key: u32,
    },
    /// What the key has, if it is there no more.
    Add {
        key: u32,
    },
}

impl Ask {
    pub(crate) fn key(self) -> u32 {
        match self {
            Self::Get { key } | Self::Set { key } | Self::Add { key } => key,
        }
    }
}

/// What all connections to one server have in common.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) protocol: Protocol,
    pub(crate) names: Arc<KeyNames>,
    pub(crate) values: Arc<Values>,
    pub(crate) ledger: Ledger,
    /// Whether values that are read are compared with those written.
    pub(crate) verifies: bool,
    /// Whether replies are made up: values are compared all the same, and no fault is found.
    pub(crate) is_null: bool,
}

/// A reply that ends the conversation, since what follows it cannot be understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Garbled {
    /// What came, as far as it fits a message.
    pub(crate) got: String,
    /// What it should answer.
    pub(crate) expected: &'static str,
}

/// Bytes of a garbled reply that are shown.
const SHOWN_BYTES_MAX: usize = 120;

#[derive(Clone, Copy, Debug)]
struct Request {
    due_ns: u64,
    key: u32,
    kind: RequestKind,
}

#[derive(Clone, Copy, Debug)]
enum RequestKind {
    Get { floor: u32 },
    Set(Ticket),
    Add,
}

/// What comes next.
#[derive(Debug)]
enum Awaited {
    Line,
    Value { check: Check, left: usize },
    Tail(Check),
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    asked: VecDeque<Request>,
    awaited: Awaited,
    out: Vec<u8>,
    sent: usize,
    name: Vec<u8>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self {
            asked: VecDeque::new(),
            awaited: Awaited::Line,
            out: Vec::new(),
            sent: 0,
            name: Vec::new(),
        }
    }

    /// Requests that are not answered.
    pub(crate) fn under_way(&self) -> usize {
        self.asked.len()
    }

    /// Appends a request that is due at `due_ns`; `floor` is the ledger's for its key.
    pub(crate) fn ask(&mut self, ask: Ask, floor: u32, due_ns: u64, subject: &Subject) {
        let Subject { protocol, names, values, ledger, .. } = subject;
        let (key, kind) = match ask {
            Ask::Get { key } => {
                protocol.put_get(names, key, &mut self.out);
                (key, RequestKind::Get { floor })
            }
            Ask::Set { key } => {
                let ticket = ledger.begin(key);
                protocol.put_set(names, values, key, ticket.version, &mut self.out);
                (key, RequestKind::Set(ticket))
            }
            Ask::Add { key } => {
                // A version that was set before: the ledger knows of it.
                protocol.put_add(names, values, key, floor.max(1), &mut self.out);
                (key, RequestKind::Add)
            }
        };
        self.asked.push_back(Request { due_ns, key, kind });
    }

    /// Says that the last `count` requests are sent now, which is when they are due where the next
    /// request waits for a reply.
    pub(crate) fn stamp(&mut self, count: usize, now_ns: u64) {
        for request in self.asked.iter_mut().rev().take(count) {
            request.due_ns = now_ns;
        }
    }

    /// Bytes to send.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// Notes that `count` bytes are sent.
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
    }

    /// Takes bytes that were received at `now_ns`; returns how many of them it has used up. The
    /// rest, at most [`LINE_BYTES_MAX`], must come again in front of those that follow.
    ///
    /// # Errors
    /// [`Garbled`] when a reply is none.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        span: Span,
        subject: &Subject,
        tally: &mut Tally,
    ) -> Result<usize, Garbled> {
        let mut at = 0;
        loop {
            match &mut self.awaited {
                Awaited::Line => {
                    let rest = &bytes[at..];
                    let Some(end) = memchr::memchr(b'\n', rest) else {
                        if rest.len() > LINE_BYTES_MAX {
                            return Err(garbled(rest, "the end of a line"));
                        }
                        return Ok(at);
                    };
                    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
                    let Some(request) = self.asked.front().copied() else {
                        return Err(garbled(line, "nothing: all is answered"));
                    };
                    at += end + 1;
                    match request.kind {
                        RequestKind::Get { .. } => {
                            self.get_line(line, request, now_ns, span, subject, tally)?;
                            continue;
                        }
                        RequestKind::Set(ticket) => {
                            set_line(line, request.key, ticket, subject, tally)?;
                        }
                        RequestKind::Add => add_line(line, subject, tally)?,
                    }
                    self.done(Kind::Set, request, now_ns, span, tally);
                }
                Awaited::Value { check, left } => {
                    let Some(key) = self.asked.front().map(|request| request.key) else {
                        unreachable!("invariant: a value comes for a get under way");
                    };
                    let count = (*left).min(bytes.len() - at);
                    if subject.verifies {
                        check.feed(&subject.values, key, &bytes[at..at + count]);
                    }
                    at += count;
                    *left -= count;
                    if *left > 0 {
                        return Ok(at);
                    }
                    self.awaited = Awaited::Tail(check.clone());
                }
                Awaited::Tail(check) => {
                    let tail = subject.protocol.tail();
                    let rest = &bytes[at..];
                    if rest.len() < tail.len() {
                        return Ok(at);
                    }
                    if !rest.starts_with(tail) {
                        return Err(garbled(rest, "the end of a value"));
                    }
                    at += tail.len();
                    let check = check.clone();
                    let request = *self.asked.front().expect("invariant: a get is under way");
                    judge(&check, request, subject, tally);
                    self.awaited = Awaited::Line;
                    self.done(Kind::Get, request, now_ns, span, tally);
                }
            }
        }
    }

    fn done(&mut self, kind: Kind, request: Request, now_ns: u64, span: Span, tally: &mut Tally) {
        self.asked.pop_front();
        tally.answered(kind, request.due_ns, now_ns, span);
    }

    fn get_line(
        &mut self,
        line: &[u8],
        request: Request,
        now_ns: u64,
        span: Span,
        subject: &Subject,
        tally: &mut Tally,
    ) -> Result<(), Garbled> {
        match subject.protocol.read_get(line) {
            GetLine::Value { key, size } => {
                if let Some(key) = key.filter(|_| subject.verifies) {
                    self.name.clear();
                    subject.names.append(request.key, &mut self.name);
                    if key != self.name && !subject.is_null {
                        // Replies have lost their order: none can be told from another any more.
                        return Err(garbled(line, "a value of another key"));
                    }
                }
                self.awaited = Awaited::Value { check: Check::new(size), left: size };
            }
            GetLine::Miss => {
                tally.counts.misses += 1;
                self.done(Kind::Get, request, now_ns, span, tally);
            }
            GetLine::Refused => {
                refuse(line, tally);
                self.done(Kind::Get, request, now_ns, span, tally);
            }
            GetLine::Unknown => return Err(garbled(line, "the reply to a get")),
        }
        Ok(())
    }
}

fn set_line(
    line: &[u8],
    key: u32,
    ticket: Ticket,
    subject: &Subject,
    tally: &mut Tally,
) -> Result<(), Garbled> {
    let reply = subject.protocol.read_set(line);
    subject.ledger.end(key, ticket, reply == SetLine::Stored);
    match reply {
        SetLine::Stored => tally.counts.stored += 1,
        SetLine::NotStored | SetLine::Refused => refuse(line, tally),
        SetLine::Unknown => return Err(garbled(line, "the reply to a set")),
    }
    Ok(())
}

fn add_line(line: &[u8], subject: &Subject, tally: &mut Tally) -> Result<(), Garbled> {
    match subject.protocol.read_set(line) {
        SetLine::Stored => tally.counts.stored += 1,
        SetLine::NotStored => tally.counts.kept += 1,
        SetLine::Refused => refuse(line, tally),
        SetLine::Unknown => return Err(garbled(line, "the reply to an add")),
    }
    Ok(())
}

fn refuse(line: &[u8], tally: &mut Tally) {
    tally.counts.refused += 1;
    tally.sample(|| format!("refused: {}", shown(line)));
}

fn judge(check: &Check, request: Request, subject: &Subject, tally: &mut Tally) {
    let Request { key, kind: RequestKind::Get { floor }, .. } = request else {
        unreachable!("invariant: a value comes for a get under way");
    };
    if !subject.verifies {
        tally.hit(Verdict::Right, true);
        return;
    }
    let newest = subject.ledger.newest(key);
    let verdict = check.verdict(&subject.values, key, floor, newest);
    if subject.is_null {
        // The work is done as against any server; what it finds says nothing.
        std::hint::black_box(verdict);
        tally.hit(Verdict::Right, true);
        return;
    }
    let is_judged = floor > 0;
    tally.hit(verdict, is_judged);
    if verdict != Verdict::Right && is_judged {
        tally.sample(|| {
            let mut name = Vec::new();
            subject.names.append(key, &mut name);
            format!(
                "{} value: {} of {}, expected a version from {floor} to {newest}",
                if verdict == Verdict::Stale { "stale" } else { "wrong" },
                check.describe(&subject.values, key),
                name.escape_ascii(),
            )
        });
    }
}

fn garbled(got: &[u8], expected: &'static str) -> Garbled {
    Garbled { got: shown(got), expected }
}

fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let more = if cut.len() < bytes.len() { "..." } else { "" };
    format!("`{}`{more}", cut.escape_ascii())
}

#[cfg(test)]
mod tests;
