//! A client's bytes, taken apart as a server would take them.

use wire::memcached::limits::LINE_PROBE_BYTES;
use wire::memcached::{
    Get, Keys, KeysStep, Limits, MetaStore, Request, Step, Store, Then, body, parse, parse_keys,
    plain_get, plain_meta_get, plain_set,
};

/// Small, so that small inputs have retrievals that come in parts.
pub(crate) const LIMITS: Limits = Limits { retrieval_part_bytes: LINE_PROBE_BYTES };

/// What a line turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    Request(Request<'a>),
    Keys(Keys<'a>),
    Refused { reply: &'static [u8], line_len: usize, then: Then },
}

/// Where a connection stands between two calls of the parser.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Bytes of a body still to come.
    swallow: usize,
    /// Whether a retrieval goes on.
    in_retrieval: bool,
    /// Whether the connection was closed.
    pub(crate) closed: bool,
}

impl Reader {
    /// Takes all that can be taken off `input` and returns how much that is.
    pub(crate) fn take<'a>(&mut self, input: &'a [u8], mut on: impl FnMut(Event<'a>)) -> usize {
        let mut start = 0;
        while !self.closed {
            let rest = &input[start..];
            let skipped = self.swallow.min(rest.len());
            self.swallow -= skipped;
            start += skipped;
            let rest = &rest[skipped..];
            if self.swallow > 0 {
                break;
            }
            let step = if self.in_retrieval { self.go_on(rest) } else { self.next(rest) };
            let Some((event, consumed)) = step else { break };
            assert!(0 < consumed && consumed <= rest.len(), "{event:?}");
            start += consumed;
            on(event);
        }
        start
    }

    fn next<'a>(&mut self, input: &'a [u8]) -> Option<(Event<'a>, usize)> {
        let step = parse(input, &LIMITS);
        check_plain(input, &step);
        match step {
            Step::Incomplete => None,
            Step::Request { request, consumed } => {
                match request {
                    Request::Get(get) => self.in_retrieval = !get.complete,
                    Request::Store(Store { value_len, .. })
                    | Request::MetaStore(MetaStore { value_len, .. }) => {
                        self.swallow = value_len as usize + body::TERMINATOR_LEN;
                    }
                    _ => {}
                }
                Some((Event::Request(request), consumed))
            }
            Step::Invalid { reply, consumed, then } => {
                match then {
                    Then::Swallow { bytes } => self.swallow = bytes as usize,
                    Then::Close => self.closed = true,
                    Then::Continue => {}
                }
                Some((Event::Refused { reply, line_len: consumed, then }, consumed))
            }
        }
    }

    fn go_on<'a>(&mut self, input: &'a [u8]) -> Option<(Event<'a>, usize)> {
        match parse_keys(input, &LIMITS) {
            KeysStep::Incomplete => None,
            KeysStep::Part { keys, consumed, complete } => {
                self.in_retrieval = !complete;
                Some((Event::Keys(keys), consumed))
            }
            KeysStep::TooLong => {
                self.closed = true;
                let (reply, line_len) = (wire::memcached::lines::BAD_FORMAT, input.len());
                Some((Event::Refused { reply, line_len, then: Then::Close }, line_len))
            }
        }
    }
}

/// What is read without the parser is what the parser reads.
fn check_plain(input: &[u8], step: &Step<'_>) {
    if let Some((key, consumed)) = plain_get(input) {
        let Step::Request { request: Request::Get(get), consumed: taken } = *step else {
            panic!("{step:?} is no get of {key:?}");
        };
        let Get { mut keys, complete, with_token, touch } = get;
        assert_eq!((keys.next(), keys.next(), taken), (Some(key), None, consumed));
        assert_eq!((complete, with_token, touch), (true, false, None));
    }
    let set = plain_set(input).map(|(store, consumed)| (Request::Store(store), consumed));
    let meta = plain_meta_get(input).map(|(meta, consumed)| (Request::MetaGet(meta), consumed));
    if let Some((request, consumed)) = set.or(meta) {
        assert_eq!(*step, Step::Request { request, consumed });
    }
}
