use std::sync::Arc;

use super::{Ask, Garbled, Session, Subject};
use crate::{
    ledger::Ledger,
    protocol::{LINE_BYTES_MAX, Protocol},
    sizes::{KeyNames, Sizes},
    span::Span,
    tally::{Counts, Tally},
    value::Values,
};

const SPAN: Span = Span { from_ns: 100, until_ns: 1000 };

fn subject(protocol: Protocol, sizes: Sizes) -> Subject {
    Subject {
        protocol,
        names: Arc::new(KeyNames::new("k", Sizes::Fixed(4), 100, 1).expect("they fit")),
        values: Arc::new(Values::new(sizes, 1)),
        ledger: Ledger::new(100),
        verifies: true,
        is_null: false,
    }
}

/// A session with its subject and tally.
struct Talk {
    subject: Subject,
    session: Session,
    tally: Tally,
}

impl Talk {
    fn new(protocol: Protocol, size: u32) -> Self {
        Self {
            subject: subject(protocol, Sizes::Fixed(size)),
            session: Session::new(),
            tally: Tally::new(true),
        }
    }

    fn ask(&mut self, ask: Ask, due_ns: u64) -> String {
        let floor = self.subject.ledger.floor(ask.key());
        self.session.ask(ask, floor, due_ns, &self.subject);
        let bytes = self.session.unsent().to_vec();
        self.session.advance(bytes.len());
        bytes.escape_ascii().to_string()
    }

    fn set(&mut self, key: u32) {
        self.ask(Ask::Set { key }, 0);
    }

    fn get(&mut self, key: u32) {
        self.ask(Ask::Get { key }, 0);
    }

    /// Receives `bytes` in pieces of `piece`, as a link does.
    fn hear_cut(&mut self, bytes: &[u8], piece: usize, now_ns: u64) -> Result<(), Garbled> {
        let mut held: Vec<u8> = Vec::new();
        for bytes in bytes.chunks(piece) {
            held.extend_from_slice(bytes);
            let used = self.session.take(&held, now_ns, SPAN, &self.subject, &mut self.tally)?;
            held.drain(..used);
            assert!(held.len() <= LINE_BYTES_MAX);
        }
        assert!(held.is_empty(), "{}", held.escape_ascii());
        Ok(())
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), Garbled> {
        self.hear_cut(bytes, bytes.len().max(1), 0)
    }

    fn value(&self, key: u32, version: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let size = self.subject.values.size(key, version);
        self.subject.values.append(key, version, size, &mut out);
        out
    }

    /// The reply with a version's value.
    fn reply(&self, key: u32, version: u32) -> Vec<u8> {
        let value = self.value(key, version);
        let line = match self.subject.protocol {
            Protocol::Text => format!("VALUE k{key:03} 0 {}\r\n", value.len()),
            Protocol::Meta => format!("VA {}\r\n", value.len()),
        };
        [line.as_bytes(), &value, self.subject.protocol.tail()].concat()
    }
}

#[test]
fn replies_are_understood_wherever_they_are_cut() {
    for (protocol, stored, miss) in
        [(Protocol::Text, "STORED\r\n", "END\r\n"), (Protocol::Meta, "HD\r\n", "EN\r\n")]
    {
        for piece in 1..200 {
            let mut talk = Talk::new(protocol, 40);
            talk.set(7);
            talk.hear(stored.as_bytes()).expect("a reply");
            for ask in [7, 8, 7] {
                talk.get(ask);
            }
            talk.set(8);
            let all = [
                talk.reply(7, 1),
                miss.into(),
                talk.reply(7, 1),
                b"SERVER_ERROR out of memory\r\n".to_vec(),
            ];
            talk.hear_cut(&all.concat(), piece, 0).expect("replies");
            let expected =
                Counts { hits: 2, misses: 1, stored: 1, refused: 1, ..Counts::default() };
            assert_eq!(talk.tally.counts, expected, "{protocol}, {piece}");
            assert_eq!(talk.session.under_way(), 0);
            assert_eq!(talk.tally.samples, ["refused: `SERVER_ERROR out of memory`"]);
        }
    }
}

#[test]
fn requests_go_out_in_order() {
    let mut talk = Talk::new(Protocol::Text, 1);
    assert_eq!(talk.ask(Ask::Get { key: 12 }, 0), "get k012\\r\\n");
    let value = talk.value(3, 1).escape_ascii().to_string();
    assert_eq!(talk.ask(Ask::Set { key: 3 }, 0), format!("set k003 0 0 1\\r\\n{value}\\r\\n"));
    assert_eq!(talk.session.under_way(), 2);
    talk.session.ask(Ask::Get { key: 1 }, 0, 0, &talk.subject);
    talk.session.advance(4);
    assert_eq!(talk.session.unsent(), b"k001\r\n");
}

#[test]
fn stale_wrong_and_misdirected_values_are_counted() {
    let mut talk = Talk::new(Protocol::Meta, 40);
    for key in [1, 1, 2] {
        talk.set(key);
        talk.hear(b"HD\r\n").expect("a reply");
    }
    for _ in 0..4 {
        talk.get(1);
    }
    let mut broken = talk.reply(1, 2);
    broken[30] ^= 1;
    let replies = [talk.reply(1, 2), talk.reply(1, 1), talk.reply(2, 1), broken];
    talk.hear(&replies.concat()).expect("replies");
    let Counts { hits, stale, wrong, unjudged, .. } = talk.tally.counts;
    assert_eq!((hits, stale, wrong, unjudged), (4, 1, 2, 0));
    assert_eq!(
        talk.tally.samples[0],
        "stale value: version 1 (40 bytes) of k001, expected a version from 2 to 2"
    );
}

#[test]
fn a_refused_set_may_or_may_not_have_been_executed() {
    let mut talk = Talk::new(Protocol::Meta, 40);
    for reply in [b"HD\r\n".as_slice(), b"SERVER_ERROR out of memory\r\n"] {
        talk.set(1);
        talk.hear(reply).expect("a reply");
    }
    for version in [1, 2] {
        talk.get(1);
        let reply = talk.reply(1, version);
        talk.hear(&reply).expect("a reply");
    }
    let expected = Counts { hits: 2, stored: 1, refused: 1, ..Counts::default() };
    assert_eq!(talk.tally.counts, expected);
}

#[test]
fn what_was_there_before_is_not_judged() {
    let mut talk = Talk::new(Protocol::Meta, 40);
    talk.get(1);
    talk.hear(b"VA 5\r\nhello\r\n").expect("a reply");
    assert_eq!((talk.tally.counts.unjudged, talk.tally.counts.wrong), (1, 0));
    // From the first confirmed set on, it is.
    talk.get(1);
    talk.set(1);
    talk.get(1);
    talk.hear(b"VA 5\r\nhello\r\nHD\r\nVA 5\r\nhello\r\n").expect("replies");
    assert_eq!((talk.tally.counts.unjudged, talk.tally.counts.wrong), (3, 0));
    talk.get(1);
    talk.hear(b"VA 5\r\nhello\r\n").expect("a reply");
    assert_eq!((talk.tally.counts.unjudged, talk.tally.counts.wrong), (3, 1));
}

#[test]
fn what_is_no_reply_ends_the_conversation() {
    let long = [b'x'; LINE_BYTES_MAX + 1];
    for (bytes, got, expected) in [
        (b"HELLO\r\n".as_slice(), "`HELLO`", "the reply to a get"),
        (b"VALUE k002 0 1\r\nx\r\nEND\r\n", "`VALUE k002 0 1`", "a value of another key"),
        (b"VALUE k001 0 1\r\nxyEND\r\n\r\n\r\n", "`yEND\\r\\n\\r\\n\\r\\n`", "the end of a value"),
        (&long, "", "the end of a line"),
        (b"END\r\nEND\r\n", "`END`", "nothing: all is answered"),
    ] {
        let mut talk = Talk::new(Protocol::Text, 1);
        talk.get(1);
        let garbled = talk.hear(bytes).expect_err("it is garbled");
        assert_eq!(garbled.expected, expected);
        assert!(garbled.got.contains(got), "{garbled:?}");
        assert!(garbled.got.len() < 200);
    }
    let mut talk = Talk::new(Protocol::Text, 1);
    talk.set(1);
    assert_eq!(talk.hear(b"END\r\n").expect_err("garbled").expected, "the reply to a set");
}

#[test]
fn latency_counts_from_when_a_request_was_due() {
    let mut talk = Talk::new(Protocol::Meta, 1);
    for due_ns in [99, 100, 400, 999, 1000] {
        talk.ask(Ask::Get { key: 1 }, due_ns);
    }
    talk.hear_cut(&b"EN\r\n".repeat(5), 100, 5000).expect("replies");
    // Only those that were due in the span.
    let latencies: Vec<u64> = talk.tally.raw.iter().map(|raw| raw.latency_ns).collect();
    assert_eq!(latencies, [4900, 4600, 4001]);
    assert_eq!((talk.tally.gets.len(), talk.tally.sets.len()), (3, 0));
    // A closed loop has no schedule: a request is due when it is sent.
    talk.ask(Ask::Get { key: 1 }, 0);
    talk.ask(Ask::Set { key: 1 }, 0);
    talk.session.stamp(1, 600);
    talk.hear_cut(b"EN\r\nHD\r\n", 100, 700).expect("replies");
    assert_eq!(talk.tally.raw.last().map(|raw| raw.latency_ns), Some(100));
    assert_eq!((talk.tally.gets.len(), talk.tally.sets.len()), (3, 1));
}

#[test]
fn a_made_up_reply_is_compared_and_found_right() {
    let mut talk = Talk::new(Protocol::Text, 4);
    talk.subject.is_null = true;
    talk.set(1);
    talk.get(1);
    talk.hear(b"STORED\r\nVALUE null 0 4\r\nnnnn\r\nEND\r\n").expect("replies");
    let expected = Counts { hits: 1, stored: 1, ..Counts::default() };
    assert_eq!(talk.tally.counts, expected);
}
