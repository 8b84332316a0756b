//! The binary protocol.

use cache::CacheConfig;
use reactor::Next;
use wire::memcached::binary::Status;

use super::{Client, Server, Settings};

mod frames;
mod login;
mod retrieval;
mod storage;

/// A request.
#[derive(Clone, Copy, Debug, Default)]
struct Ask<'a> {
    opcode: u8,
    token: u64,
    extras: &'a [u8],
    key: &'a str,
    value: &'a [u8],
}

impl<'a> Ask<'a> {
    fn new(opcode: u8, key: &'a str) -> Self {
        Self { opcode, key, ..Self::default() }
    }

    /// Set, and what else brings flags, time and value: flags 7, no time.
    fn store(opcode: u8, key: &'a str, value: &'a [u8]) -> Self {
        Self { extras: &[0, 0, 0, 7, 0, 0, 0, 0], value, ..Self::new(opcode, key) }
    }

    fn bytes(self) -> Vec<u8> {
        let Self { opcode, token, extras, key, value } = self;
        let mut bytes = vec![0x80, opcode];
        bytes.extend((key.len() as u16).to_be_bytes());
        bytes.extend([extras.len() as u8, 0, 0, 0]);
        bytes.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
        bytes.extend([0xca, 0xfe, 0xba, opcode]);
        bytes.extend(token.to_be_bytes());
        bytes.extend([extras, key.as_bytes(), value].concat());
        bytes
    }
}

/// A reply. Its opaque has been compared with that of a request of its opcode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    opcode: u8,
    status: u16,
    token: u64,
    extras: Vec<u8>,
    key: String,
    value: Vec<u8>,
}

impl Answer {
    fn text(&self) -> &str {
        str::from_utf8(&self.value).expect("text")
    }

    /// What most tests look at.
    fn short(&self) -> (u8, u16, &str) {
        (self.opcode, self.status, self.text())
    }
}

fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<24>() {
        assert_eq!(head[0], 0x81);
        assert_eq!(head[12..16], [0xca, 0xfe, 0xba, head[1]]);
        let key_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let body_len = u32::from_be_bytes(head[8..12].try_into().expect("four bytes"));
        let (body, others) = rest.split_at(body_len as usize);
        let (extras, body) = body.split_at(head[4].into());
        let (key, value) = body.split_at(key_len);
        answers.push(Answer {
            opcode: head[1],
            status: u16::from_be_bytes([head[6], head[7]]),
            token: u64::from_be_bytes(head[16..].try_into().expect("eight bytes")),
            extras: extras.to_vec(),
            key: String::from_utf8(key.to_vec()).expect("text"),
            value: value.to_vec(),
        });
        bytes = others;
    }
    assert_eq!(bytes, b"", "half a reply");
    answers
}

/// Sends all of `asks` at once.
fn converse(server: &mut Server, client: &mut Client, asks: &[Ask<'_>]) -> (Vec<Answer>, Next) {
    let bytes: Vec<u8> = asks.iter().flat_map(|ask| ask.bytes()).collect();
    let (replies, next) = server.send_until(client, &bytes);
    (answers(&replies), next)
}

/// The same on a connection of its own that stays open.
fn ask(server: &mut Server, asks: &[Ask<'_>]) -> Vec<Answer> {
    let mut client = server.client();
    let (answers, next) = converse(server, &mut client, asks);
    assert_eq!(next, Next::Read);
    answers
}

/// The one answer to one request.
fn one(server: &mut Server, ask_: Ask<'_>) -> Answer {
    let mut answers = ask(server, &[ask_]);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

fn status(status: Status) -> (u16, &'static str) {
    (status as u16, str::from_utf8(status.text()).expect("text"))
}

/// A failure in its usual words.
fn failed(opcode: u8, why: Status) -> (u8, u16, &'static str) {
    let (number, text) = status(why);
    (opcode, number, text)
}
