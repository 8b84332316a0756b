//! A burst: requests that lie complete in the inputs of connections, seen before the first is
//! executed.

use arrayvec::ArrayVec;
use cache::{INLINE_VALUE_MAX_BYTES, Key, Worker};
use wire::memcached::{
    Get, Limits, Request, Step, Then,
    binary::{self, Frame, HEADER_BYTES, Status},
    body::{self, TERMINATOR_LEN},
    parse, plain_get, plain_meta_get, plain_set,
};

use super::{binary::is_open_to_strangers, command::StoreCommand, dialect::Standing};

/// Most requests of a burst, and most keys of a retrieval that are looked at together. More than
/// the 10 to 16 lines that a core fetches at a time; a request takes about 250 bytes of stack.
pub(super) const BURST_MAX: usize = 32;

/// A request, or what is to be said to a line that is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned<'i> {
    /// What to do.
    pub(super) work: Work<'i>,
    /// Bytes of the input that it takes up, its body included if that is there.
    pub(super) consumed: usize,
    /// Its key, if it has one and that is sent as it is.
    pub(super) key: Option<Key<'i>>,
}

/// What is to be done for a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work<'i> {
    /// A `get` of the key that is planned with it.
    Get,
    /// Another text retrieval.
    Retrieval(Get<'i>),
    /// Another request without a body.
    Request(Request<'i>),
    /// A command that brings a value, and the value.
    Store(StoreCommand<'i>, StoreBody<'i>),
    /// A request of the binary protocol without a value.
    Binary(binary::Request<'i>),
    /// A request of the binary protocol that cannot be.
    Refused(binary::Refusal),
    /// A line that is no request.
    Invalid {
        /// The reply.
        reply: &'static [u8],
        /// What follows it.
        then: Then,
    },
}

impl Work<'_> {
    /// What to answer to a client that would have to log in first, if it has to.
    #[cold]
    pub(super) fn closed_to_strangers(&self) -> Option<Frame> {
        let frame = match self {
            Self::Binary(request) => request.frame,
            Self::Store(StoreCommand::Binary(command), _) => command.frame,
            Self::Refused(refusal) if !refusal.before_login => refusal.frame,
            _ => return None,
        };
        (!is_open_to_strangers(frame.opcode)).then_some(frame)
    }
}

/// What the input has of a body.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoreBody<'i> {
    /// All of it: the value.
    Whole(&'i [u8]),
    /// All of it, with a wrong line end.
    Malformed,
    /// Not all of it, and it is too long to wait for.
    Coming,
}

/// What is to be done, in order, read off the inputs of one or several connections.
#[derive(Debug, Default)]
pub(super) struct Plan<'i>(ArrayVec<Planned<'i>, BURST_MAX>);

/// Why no more was read off an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The plan is full, or what comes next depends on the last request.
    Pause,
    /// The next line or body is not complete.
    Incomplete {
        /// Bytes from the input's start that are needed to go on, if known.
        needed: Option<usize>,
    },
}

impl<'i> Plan<'i> {
    /// Adds what `input` starts with, at most `requests_max` requests.
    #[inline]
    pub(super) fn read(
        &mut self,
        input: &'i [u8],
        limits: &Limits,
        worker: &Worker,
        requests_max: usize,
    ) -> End {
        let mut at = 0;
        let full = BURST_MAX.min(self.0.len() + requests_max);
        while self.0.len() < full && at < input.len() {
            let rest = &input[at..];
            if let Some((key, consumed)) = plain_get(rest) {
                at += consumed;
                self.push(Work::Get, consumed, Some(ahead(worker, key)));
                continue;
            }
            match self.read_other(rest, limits, worker) {
                Ok(Taken { bytes, goes_on: true }) => at += bytes,
                Ok(Taken { .. }) => return End::Pause,
                Err(Partial { needed }) => {
                    return End::Incomplete { needed: needed.map(|needed| at + needed) };
                }
            }
        }
        if at == input.len() { End::Incomplete { needed: None } } else { End::Pause }
    }

    /// Adds what `input` starts with, which is no plain `get`.
    fn read_other(
        &mut self,
        input: &'i [u8],
        limits: &Limits,
        worker: &Worker,
    ) -> Result<Taken, Partial> {
        // To move a request costs as much as to read it: the frequent ones are read where they go.
        if let Some((store, line_bytes)) = plain_set(input) {
            let (body, bytes) = body_of(input, line_bytes, store.value_len, worker)?;
            let key = ahead_of_store(worker, store.key);
            self.push(Work::Store(StoreCommand::Text(store), body), bytes, Some(key));
            return Ok(Taken { bytes, goes_on: !matches!(body, StoreBody::Coming) });
        }
        if let Some((meta, bytes)) = plain_meta_get(input) {
            let key = meta.key.plain_bytes().map(|key| ahead(worker, key));
            self.push(Work::Request(Request::MetaGet(meta)), bytes, key);
            return Ok(Taken { bytes, goes_on: true });
        }
        let (request, bytes) = match parse(input, limits) {
            Step::Incomplete => return Err(Partial { needed: None }),
            Step::Invalid { reply, consumed, then } => {
                self.push(Work::Invalid { reply, then }, consumed, None);
                return Ok(Taken { bytes: consumed, goes_on: then == Then::Continue });
            }
            Step::Request { request, consumed } => (request, consumed),
        };
        if let Some(command) = StoreCommand::of(&request) {
            let (body, bytes) = body_of(input, bytes, command.value_len(), worker)?;
            let key = command.plain_key().map(|key| ahead_of_store(worker, key));
            self.push(Work::Store(command, body), bytes, key);
            return Ok(Taken { bytes, goes_on: !matches!(body, StoreBody::Coming) });
        }
        if let Request::Get(get) = request {
            self.push(Work::Retrieval(get), bytes, only_key(&get).map(|key| ahead(worker, key)));
            return Ok(Taken { bytes, goes_on: get.complete });
        }
        let key = plain_key(&request).map(|key| ahead(worker, key));
        self.push(Work::Request(request), bytes, key);
        Ok(Taken { bytes, goes_on: goes_on_after(&request) })
    }

    /// Adds what `input`, of the binary protocol, starts with, at most `requests_max` requests.
    pub(super) fn read_binary(
        &mut self,
        input: &'i [u8],
        worker: &Worker,
        requests_max: usize,
        standing: Standing,
    ) -> End {
        let mut at = 0;
        let full = BURST_MAX.min(self.0.len() + requests_max);
        while self.0.len() < full && at < input.len() {
            if standing != Standing::Known
                && let Some(refusal) = refusal_of_stranger(&input[at..])
            {
                self.push(Work::Refused(refusal), HEADER_BYTES, None);
                return End::Pause;
            }
            let (request, consumed) = match binary::parse(&input[at..]) {
                binary::Step::Request { request, consumed } => (request, consumed),
                binary::Step::Incomplete { needed } => {
                    return End::Incomplete { needed: Some(at + needed) };
                }
                binary::Step::Refused { refusal, consumed } => {
                    self.push(Work::Refused(refusal), consumed, None);
                    return End::Pause;
                }
                binary::Step::Foreign => {
                    let work = Work::Invalid { reply: &[], then: Then::Close };
                    self.push(work, input.len() - at, None);
                    return End::Pause;
                }
            };
            let goes_on = if let Some(command) = StoreCommand::of_binary(&request) {
                let len = command.value_len() as usize;
                let (body, body_bytes) = match input[at + consumed..].get(..len) {
                    Some(value) => (StoreBody::Whole(value), len),
                    None if is_waited_for(len, worker) => {
                        return End::Incomplete { needed: Some(at + consumed + len) };
                    }
                    None => (StoreBody::Coming, 0),
                };
                let key = command.plain_key().map(|key| ahead_of_store(worker, key));
                self.push(Work::Store(command, body), consumed + body_bytes, key);
                at += body_bytes;
                !matches!(body, StoreBody::Coming)
            } else {
                let key = binary_key(&request).map(|key| ahead(worker, key));
                self.push(Work::Binary(request), consumed, key);
                !matches!(
                    request.command,
                    binary::Command::Quit
                        | binary::Command::Stat { .. }
                        | binary::Command::Login { .. }
                        | binary::Command::Mechanisms
                )
            };
            at += consumed;
            if !goes_on {
                return End::Pause;
            }
        }
        if at == input.len() { End::Incomplete { needed: None } } else { End::Pause }
    }

    #[inline]
    fn push(&mut self, work: Work<'i>, consumed: usize, key: Option<Key<'i>>) {
        self.0.push(Planned { work, consumed, key });
    }

    /// Asks memory for the records that it will touch; for their buckets it was asked as they were
    /// read. A request alone gains nothing more.
    pub(super) fn prefetch(&self, worker: &Worker) {
        if self.0.len() < 2 {
            return;
        }
        worker.prefetch_records(self.0.iter().filter_map(|planned| planned.key.as_ref()));
    }

    /// What is to be done.
    pub(super) fn requests(&self) -> &[Planned<'i>] {
        &self.0
    }

    /// Whether it takes no more.
    pub(super) fn is_full(&self) -> bool {
        self.0.is_full()
    }
}

/// What was read off an input.
struct Taken {
    /// Bytes of it.
    bytes: usize,
    /// Whether what is behind them can be read before it is executed.
    goes_on: bool,
}

/// A line, or a value that is worth waiting for, is not complete.
struct Partial {
    /// Bytes that are needed to go on, if known.
    needed: Option<usize>,
}

/// The body of `value_len` bytes behind the line of `line_bytes` that `input` starts with, and the
/// bytes of both.
#[inline]
fn body_of<'i>(
    input: &'i [u8],
    line_bytes: usize,
    value_len: u32,
    worker: &Worker,
) -> Result<(StoreBody<'i>, usize), Partial> {
    let len = value_len as usize;
    match body::split(&input[line_bytes..], value_len) {
        body::Body::Whole { value, consumed } => {
            Ok((StoreBody::Whole(value), line_bytes + consumed))
        }
        // What is too large is refused for that, whatever follows it.
        body::Body::Malformed { consumed } if len <= worker.cache().value_size_max() => {
            Ok((StoreBody::Malformed, line_bytes + consumed))
        }
        body::Body::Partial if is_waited_for(len, worker) => {
            Err(Partial { needed: Some(line_bytes + len + TERMINATOR_LEN) })
        }
        body::Body::Malformed { .. } | body::Body::Partial => Ok((StoreBody::Coming, line_bytes)),
    }
}

/// Whether a value of `len` bytes is executed when all of it is there. A longer one goes into the
/// cache as it comes, and one that is too large is refused before.
fn is_waited_for(len: usize, worker: &Worker) -> bool {
    len <= INLINE_VALUE_MAX_BYTES.min(worker.cache().value_size_max())
}

/// Hashes a key, and asks memory for where it may be.
#[inline]
fn ahead<'i>(worker: &Worker, key: &'i [u8]) -> Key<'i> {
    let key = worker.key(key);
    worker.prefetch_index(&key);
    key
}

/// The same for a key that is to be stored.
#[inline]
fn ahead_of_store<'i>(worker: &Worker, key: &'i [u8]) -> Key<'i> {
    let key = ahead(worker, key);
    worker.prefetch_ghosts(&key);
    key
}

/// Whether the line behind `request` can be read before it is executed.
fn goes_on_after(request: &Request<'_>) -> bool {
    !matches!(
        request,
        Request::Quit
            | Request::Shutdown { .. }
            | Request::Stats(_)
            | Request::Dump { .. }
            | Request::Watch { .. }
    )
}

/// The key of a retrieval that has just one.
fn only_key<'i>(get: &Get<'i>) -> Option<&'i [u8]> {
    let mut keys = get.keys;
    let key = keys.next()?;
    (get.complete && keys.rest_len() == 0).then_some(key)
}

/// The key of another request that names one, as it is.
fn plain_key<'i>(request: &Request<'i>) -> Option<&'i [u8]> {
    match request {
        Request::Delete { key, .. }
        | Request::Arithmetic { key, .. }
        | Request::Touch { key, .. } => Some(key),
        Request::MetaGet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic { meta, .. } => meta.key.plain_bytes(),
        _ => None,
    }
}

/// What to say to a client that has not logged in and asks for something else: as soon as its
/// header is there, so that nobody holds memory for a stranger's value.
#[cold]
pub(super) fn refusal_of_stranger(input: &[u8]) -> Option<binary::Refusal> {
    let frame = Frame::of(input).filter(|frame| !is_open_to_strangers(frame.opcode))?;
    match binary::parse(input) {
        binary::Step::Refused { .. } | binary::Step::Foreign => None,
        binary::Step::Request { .. } | binary::Step::Incomplete { .. } => Some(binary::Refusal {
            frame,
            status: Status::Unauthenticated,
            swallow: None,
            before_login: false,
        }),
    }
}

/// The key of a request of the binary protocol without a value.
fn binary_key<'i>(request: &binary::Request<'i>) -> Option<&'i [u8]> {
    match request.command {
        binary::Command::Get(get) => Some(get.key),
        binary::Command::Touch { key, .. }
        | binary::Command::Delete { key, .. }
        | binary::Command::Arithmetic { key, .. } => Some(key),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
