//! What brings a value.

use super::{Ask, CacheConfig, Server, Settings, Status, answers, ask, converse, failed, one};

fn value(server: &mut Server, key: &str) -> Vec<u8> {
    one(server, Ask::new(0x00, key)).value
}

#[test]
fn each_command_has_its_condition() {
    let mut server = Server::new();
    let replaced = one(&mut server, Ask::store(0x03, "k", b"1"));
    assert_eq!(replaced.short(), failed(0x03, Status::NotFound));
    for opcode in [0x0e, 0x0f] {
        let joined = one(&mut server, Ask { value: b"1", ..Ask::new(opcode, "k") });
        assert_eq!(joined.short(), failed(opcode, Status::NotStored));
    }
    assert_eq!(one(&mut server, Ask::store(0x02, "k", b"1")).short(), (0x02, 0, ""));
    let added = one(&mut server, Ask::store(0x02, "k", b"2"));
    assert_eq!(added.short(), failed(0x02, Status::Exists));
    assert_eq!(one(&mut server, Ask::store(0x03, "k", b"3")).short(), (0x03, 0, ""));
    one(&mut server, Ask { value: b"4", ..Ask::new(0x0e, "k") });
    one(&mut server, Ask { value: b"2", ..Ask::new(0x0f, "k") });
    assert_eq!(value(&mut server, "k"), b"234");
    one(&mut server, Ask::store(0x01, "k", b""));
    assert_eq!(value(&mut server, "k"), b"");
}

#[test]
fn a_token_replaces_the_condition() {
    let mut server = Server::new();
    for opcode in [0x01, 0x02, 0x03] {
        let missing = one(&mut server, Ask { token: 1, ..Ask::store(opcode, "k", b"v") });
        assert_eq!(missing.short(), failed(opcode, Status::NotFound));
    }
    let mut token = one(&mut server, Ask::store(0x01, "k", b"v")).token;
    for opcode in [0x01, 0x02, 0x03, 0x0e, 0x0f] {
        let joins = opcode >= 0x0e;
        let extras: &[u8] = if joins { &[] } else { &[0; 8] };
        let ask = Ask { token, extras, value: b"v", ..Ask::new(opcode, "k") };
        let other = one(&mut server, Ask { token: token + 1, ..ask });
        assert_eq!(other.short(), failed(opcode, Status::Exists));
        let stored = one(&mut server, ask);
        assert_eq!(stored.short(), (opcode, 0, ""));
        assert!(stored.token > token);
        token = stored.token;
    }
    assert_eq!(value(&mut server, "k"), b"vvv");
    let totals = server.stats.totals();
    assert_eq!((totals.cas_misses, totals.cas_badval, totals.cas_hits), (3, 3, 3));
}

#[test]
fn quiet_stores_answer_only_failures() {
    let mut server = Server::new();
    let answers = ask(
        &mut server,
        &[
            Ask::store(0x11, "k", b"1"),
            Ask::store(0x12, "k", b"2"),
            Ask::store(0x13, "k", b"3"),
            Ask { value: b"4", ..Ask::new(0x19, "k") },
            Ask { value: b"2", ..Ask::new(0x1a, "k") },
            Ask::store(0x13, "x", b"3"),
            Ask { value: b"4", ..Ask::new(0x19, "x") },
            Ask::new(0x0a, ""),
        ],
    );
    let answers: Vec<_> = answers.iter().map(super::Answer::short).collect();
    let expected = [
        failed(0x12, Status::Exists),
        failed(0x13, Status::NotFound),
        failed(0x19, Status::NotStored),
        (0x0a, 0, ""),
    ];
    assert_eq!(answers, expected);
    assert_eq!(value(&mut server, "k"), b"234");
}

#[test]
fn times_are_relative_up_to_30_days_and_never_past() {
    let mut server = Server::new();
    let mut set = |expiry: u32| {
        let extras = [&[0; 4][..], &expiry.to_be_bytes()].concat();
        one(&mut server, Ask { extras: &extras, ..Ask::store(0x01, "k", b"v") });
        let before = one(&mut server, Ask::new(0x00, "k")).status;
        server.advance(1000);
        (before, one(&mut server, Ask::new(0x00, "k")).status)
    };
    assert_eq!(set(1), (0, 1));
    assert_eq!(set(2), (0, 0));
    assert_eq!(set(2_592_000), (0, 0));
    assert_eq!(set(2_592_001), (1, 1), "1970");
    assert_eq!(set(u32::MAX), (0, 0));
}

#[test]
fn a_large_value_comes_and_goes_in_pieces() {
    let mut server = Server::new();
    let large: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    let bytes = [
        Ask::store(0x01, "k", &large).bytes(),
        Ask { value: &large, ..Ask::new(0x19, "k") }.bytes(),
        Ask::new(0x0c, "k").bytes(),
        Ask::new(0x0a, "").bytes(),
    ]
    .concat();
    for step in [4097, 70_001, bytes.len()] {
        let mut client = server.client();
        let replies: Vec<u8> =
            bytes.chunks(step).flat_map(|piece| server.send(&mut client, piece)).collect();
        let answers = super::answers(&replies);
        assert_eq!(answers.len(), 3, "{step}");
        assert_eq!(answers[1].key, "k");
        assert!(answers[1].value == [&large[..], &large].concat(), "{step}");
        assert_eq!(answers[2].opcode, 0x0a);
    }
    server.context.worker().quiesce();
    assert_eq!(server.cache.stats().upload_bytes, 0);
}

#[test]
fn a_value_beyond_the_limit_is_dropped_and_takes_the_old_one_with_it() {
    let config = CacheConfig { value_size_max: 10_000, ..CacheConfig::new(32 << 20) };
    for (opcode, left) in [(0x01, 1), (0x02, 0), (0x03, 0), (0x0e, 0)] {
        let mut server = Server::with(config.clone(), Settings::default());
        one(&mut server, Ask::store(0x01, "k", b"old"));
        let large = vec![b'x'; 10_001];
        let ask = Ask::store(opcode, "k", &large);
        let ask = if opcode == 0x0e { Ask { extras: &[], ..ask } } else { ask };
        let mut client = server.client();
        let (answers, _) = converse(&mut server, &mut client, &[ask, Ask::new(0x0a, "")]);
        assert_eq!(answers[0].short(), failed(opcode, Status::TooLarge));
        assert_eq!(answers[1].opcode, 0x0a);
        assert_eq!(one(&mut server, Ask::new(0x00, "k")).status, left, "{opcode:#x}");
        assert_eq!(server.stats.totals().store_too_large, 1);
    }
}

#[test]
fn a_short_value_beyond_the_limit_is_refused_before_it_comes() {
    let config = CacheConfig { value_size_max: 1024, ..CacheConfig::new(32 << 20) };
    let mut server = Server::with(config, Settings::default());
    let mut client = server.client();
    let bytes = Ask::store(0x01, "k", &[b'x'; 1025]).bytes();
    let (head, value) = bytes.split_at(bytes.len() - 1025);
    let refused = answers(&server.send(&mut client, head));
    assert_eq!(refused[0].short(), failed(0x01, Status::TooLarge));
    assert_eq!(server.send(&mut client, value), b"", "it is dropped");
    let (answers, _) = converse(&mut server, &mut client, &[Ask::new(0x0a, "")]);
    assert_eq!(answers[0].short(), (0x0a, 0, ""));
}
