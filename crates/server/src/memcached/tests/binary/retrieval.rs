//! What reads, touches, deletes and counts.

use super::{Ask, Server, Status, ask, converse, failed, one};

const SECOND: [u8; 4] = [0, 0, 0, 1];

#[test]
fn a_record_comes_with_flags_and_token_and_with_its_key_if_asked_for() {
    let mut server = Server::new();
    let token = one(&mut server, Ask::store(0x01, "key", b"value")).token;
    assert_ne!(token, 0);
    for (opcode, key) in [(0x00, ""), (0x09, ""), (0x0c, "key"), (0x0d, "key")] {
        let got = one(&mut server, Ask::new(opcode, "key"));
        assert_eq!(got.short(), (opcode, 0, "value"));
        assert_eq!((got.key.as_str(), got.token), (key, token));
        assert_eq!(got.extras, [0, 0, 0, 7]);
    }
    let totals = server.stats.totals();
    assert_eq!((totals.cmd_get, totals.get_hits, totals.cmd_set), (4, 4, 1));
}

#[test]
fn a_miss_is_in_words_or_gives_the_key_back_or_is_silent() {
    let mut server = Server::new();
    assert_eq!(one(&mut server, Ask::new(0x00, "x")).short(), failed(0x00, Status::NotFound));
    let with_key = one(&mut server, Ask::new(0x0c, "x"));
    assert_eq!((with_key.short(), with_key.key.as_str()), ((0x0c, 1, ""), "x"));
    let quiet = [Ask::new(0x09, "x"), Ask::new(0x0d, "x"), Ask::new(0x0a, "")];
    assert_eq!(ask(&mut server, &quiet).len(), 1, "the noop alone");
    assert_eq!(server.stats.totals().get_misses, 4);
}

#[test]
fn a_touch_gives_another_time_and_the_flags() {
    let mut server = Server::new();
    one(&mut server, Ask::store(0x01, "a", b"1"));
    one(&mut server, Ask::store(0x01, "b", b"2"));
    let touched = one(&mut server, Ask { extras: &SECOND, ..Ask::new(0x1c, "a") });
    assert_eq!((touched.short(), touched.extras.as_slice()), ((0x1c, 0, ""), &[0, 0, 0, 7][..]));
    assert_ne!(touched.token, 0);
    for (opcode, key) in [(0x1d, ""), (0x1e, ""), (0x23, "b"), (0x24, "b")] {
        let got = one(&mut server, Ask { extras: &SECOND, ..Ask::new(opcode, "b") });
        assert_eq!((got.short(), got.key.as_str()), ((opcode, 0, "2"), key));
    }
    server.advance(1000);
    for (opcode, key) in [(0x1c, "a"), (0x1d, "b")] {
        let missed = one(&mut server, Ask { extras: &SECOND, ..Ask::new(opcode, key) });
        assert_eq!(missed.short(), failed(opcode, Status::NotFound));
    }
    let asks = [0x1e, 0x24].map(|opcode| Ask { extras: &SECOND, ..Ask::new(opcode, "b") });
    assert_eq!(ask(&mut server, &asks), []);
    let totals = server.stats.totals();
    assert_eq!((totals.cmd_touch, totals.touch_hits, totals.touch_misses), (9, 5, 4));
}

#[test]
fn a_deletion_may_depend_on_the_token() {
    let mut server = Server::new();
    let token = one(&mut server, Ask::store(0x01, "k", b"v")).token;
    let other = one(&mut server, Ask { token: token + 1, ..Ask::new(0x04, "k") });
    assert_eq!(other.short(), failed(0x04, Status::Exists));
    let deleted = one(&mut server, Ask { token, ..Ask::new(0x04, "k") });
    assert_eq!((deleted.short(), deleted.token), ((0x04, 0, ""), 0));
    assert_eq!(one(&mut server, Ask::new(0x04, "k")).short(), failed(0x04, Status::NotFound));
    one(&mut server, Ask::store(0x01, "k", b"v"));
    let answers = ask(&mut server, &[Ask::new(0x14, "k"), Ask::new(0x14, "k")]);
    assert_eq!(answers.len(), 1, "only the miss");
    assert_eq!(answers[0].short(), failed(0x14, Status::NotFound));
    let totals = server.stats.totals();
    assert_eq!((totals.delete_hits, totals.delete_misses), (2, 2));
}

/// The extras of a command that counts.
fn counting(delta: u64, initial: u64, expiry: u32) -> Vec<u8> {
    [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &expiry.to_be_bytes()].concat()
}

#[test]
fn counting_creates_and_wraps_and_stops() {
    let mut server = Server::new();
    let mut count = |opcode, extras: &[u8], token| {
        let answer = one(&mut server, Ask { extras, token, ..Ask::new(opcode, "n") });
        let number = answer.value.as_slice().try_into().map(u64::from_be_bytes);
        (answer.status, number.ok(), answer.token)
    };
    let (missing, created) = (counting(5, 40, u32::MAX), counting(5, 40, 0));
    assert_eq!(count(0x05, &missing, 0), (1, None, 0));
    let (status, number, first) = count(0x06, &created, 0);
    assert_eq!((status, number), (0, Some(40)));
    let (status, number, second) = count(0x05, &created, 0);
    assert_eq!((status, number), (0, Some(45)));
    assert!(first != 0 && second > first);
    assert_eq!(count(0x05, &created, first).0, 2, "another token");
    assert_eq!(count(0x06, &created, second).1, Some(40));
    assert_eq!(count(0x06, &counting(50, 0, 0), 0).1, Some(0));
    assert_eq!(count(0x06, &counting(0, 0, 0), 0).1, Some(0));
    assert_eq!(count(0x05, &counting(u64::MAX, 0, 0), 0).1, Some(u64::MAX));
    assert_eq!(count(0x05, &counting(2, 0, 0), 0).1, Some(1));
    let extras = counting(1, 0, 0);
    let quiet = [0x15, 0x16].map(|opcode| Ask { extras: &extras, ..Ask::new(opcode, "n") });
    assert_eq!(ask(&mut server, &quiet), []);
    one(&mut server, Ask::store(0x01, "n", b"x"));
    let answers = ask(&mut server, &quiet);
    assert_eq!(answers[1].short(), failed(0x16, Status::NotNumeric));
    let totals = server.stats.totals();
    assert_eq!((totals.incr_misses, totals.incr_hits, totals.decr_hits), (1, 4, 4));
}

#[test]
fn a_created_number_expires() {
    let mut server = Server::new();
    let extras = counting(1, 7, 1);
    one(&mut server, Ask { extras: &extras, ..Ask::new(0x05, "n") });
    server.advance(999);
    assert_eq!(one(&mut server, Ask::new(0x00, "n")).text(), "7");
    server.advance(1);
    assert_eq!(one(&mut server, Ask::new(0x00, "n")).status, 1);
}

#[test]
fn many_gets_in_one_packet_are_answered_in_order() {
    let mut server = Server::new();
    let mut client = server.client();
    let keys: Vec<String> = (0..700).map(|number| format!("key-{number}")).collect();
    let sets: Vec<_> = keys.iter().map(|key| Ask::store(0x11, key, key.as_bytes())).collect();
    let gets: Vec<_> = keys.iter().map(|key| Ask::new(0x0d, key)).collect();
    let (answers, _) = converse(&mut server, &mut client, &[sets, gets].concat());
    let got: Vec<_> = answers.iter().map(|answer| answer.key.as_str()).collect();
    assert_eq!(got, keys);
    assert!(answers.iter().all(|answer| answer.text() == answer.key));
}
