//! The binary protocol as its clients see it.

use super::conn::Conn;

const HEADER_BYTES: usize = 24;
const NOOP: u8 = 0x0a;
/// The mark of the request that ends a conversation.
const LAST: u32 = u32::MAX;

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    pub(crate) opcode: u8,
    pub(crate) opaque: u32,
    pub(crate) token: u64,
    pub(crate) extras: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) opcode: u8,
    pub(crate) status: u16,
    pub(crate) opaque: u32,
    pub(crate) token: u64,
    pub(crate) extras: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Ask {
    /// A request with a key, or without if that is empty.
    pub(crate) fn new(opcode: u8, key: impl AsRef<[u8]>) -> Self {
        let key = key.as_ref().to_vec();
        Self { opcode, opaque: 0x1000_0000 + u32::from(opcode), key, ..Self::default() }
    }

    /// A request with flags, time and value.
    pub(crate) fn store(opcode: u8, key: &str, expiry: u32, value: impl AsRef<[u8]>) -> Self {
        let extras = [7_u32.to_be_bytes(), expiry.to_be_bytes()].concat();
        Self { extras, value: value.as_ref().to_vec(), ..Self::new(opcode, key) }
    }

    /// A request that counts.
    pub(crate) fn count(opcode: u8, key: &str, delta: u64, initial: u64, expiry: u32) -> Self {
        let extras =
            [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &expiry.to_be_bytes()].concat();
        Self { extras, ..Self::new(opcode, key) }
    }

    /// A request with a time.
    pub(crate) fn timed(opcode: u8, key: &str, expiry: u32) -> Self {
        Self { extras: expiry.to_be_bytes().to_vec(), ..Self::new(opcode, key) }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Self { opcode, opaque, token, extras, key, value } = self;
        let body_bytes = extras.len() + key.len() + value.len();
        let mut bytes = vec![0x80, *opcode];
        bytes.extend((key.len() as u16).to_be_bytes());
        bytes.extend([extras.len() as u8, 0, 0, 0]);
        bytes.extend((body_bytes as u32).to_be_bytes());
        bytes.extend(opaque.to_be_bytes());
        bytes.extend(token.to_be_bytes());
        bytes.extend([&extras[..], key, value].concat());
        bytes
    }
}

/// Takes whole replies off the front of `bytes`.
pub(crate) fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some((answer, rest)) = first(bytes) {
        answers.push(answer);
        bytes = rest;
    }
    answers
}

fn first(bytes: &[u8]) -> Option<(Answer, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    assert_eq!(head[0], 0x81, "a reply begins with its magic");
    let number =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (body, rest) = rest.split_at_checked(number(8) as usize)?;
    let (extras, body) = body.split_at(head[4].into());
    let (key, value) = body.split_at(u16::from_be_bytes([head[2], head[3]]).into());
    let answer = Answer {
        opcode: head[1],
        status: u16::from_be_bytes([head[6], head[7]]),
        opaque: number(12),
        token: u64::from(number(16)) << 32 | u64::from(number(20)),
        extras: extras.to_vec(),
        key: key.to_vec(),
        value: value.to_vec(),
    };
    Some((answer, rest))
}

/// Sends `pieces` of requests, and a no-op. Returns the replies to the requests and whether the
/// server closed the connection.
pub(crate) fn exchange(conn: &mut Conn, pieces: &[&[u8]]) -> (Vec<Answer>, bool) {
    let last = Ask { opaque: LAST, ..Ask::new(NOOP, "") }.bytes();
    // Its reply is the same but for the magic: it cannot be part of what else is replied.
    let end = [&[0x81][..], &last[1..]].concat();
    let (bytes, closed) =
        conn.exchange(&[pieces, &[&last[..]]].concat(), |got| got.ends_with(&end));
    let mut answers = answers(&bytes);
    if answers.last().is_some_and(|answer| answer.opaque == LAST) {
        answers.pop();
    }
    (answers, closed)
}

/// Sends requests at once. Returns the replies and whether the server closed the connection.
pub(crate) fn converse(conn: &mut Conn, asks: &[Ask]) -> (Vec<Answer>, bool) {
    let bytes: Vec<u8> = asks.iter().flat_map(Ask::bytes).collect();
    exchange(conn, &[&bytes])
}
