use super::super::{Direction, Expiry, reply::Writer};
use super::*;

/// A request with a header that says what follows it.
fn request(opcode: u8, token: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![MAGIC_REQUEST, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    bytes.extend(b"\x01\x02\x03\x04");
    bytes.extend(token.to_be_bytes());
    bytes.extend([extras, key, value].concat());
    bytes
}

const fn frame(opcode: u8) -> Frame {
    Frame { opcode, opaque: [1, 2, 3, 4] }
}

fn read(bytes: &[u8]) -> (bool, Command<'_>, usize) {
    match parse(bytes) {
        Step::Request { request, consumed } => {
            assert_eq!(request.frame, frame(bytes[1]));
            (request.quiet, request.command, consumed)
        }
        step => panic!("{step:?}"),
    }
}

fn refused(bytes: &[u8]) -> (Status, Option<u32>, bool, usize) {
    match parse(bytes) {
        Step::Refused { refusal: Refusal { frame, status, swallow, before_login }, consumed } => {
            assert_eq!(frame.opcode, bytes[1]);
            (status, swallow, before_login, consumed)
        }
        step => panic!("{step:?}"),
    }
}

#[test]
fn retrievals_are_told_apart_by_their_opcodes() {
    let ten = Some(Expiry::After { seconds: 10 });
    for (opcode, with_key, touch, quiet) in [
        (0x00, false, None, false),
        (0x09, false, None, true),
        (0x0c, true, None, false),
        (0x0d, true, None, true),
        (0x1d, false, ten, false),
        (0x1e, false, ten, true),
        (0x23, true, ten, false),
        (0x24, true, ten, true),
    ] {
        let extras: &[u8] = if touch.is_some() { &[0, 0, 0, 10] } else { &[] };
        let bytes = request(opcode, 0, extras, b"key", b"");
        let get = Command::Get(Get { key: b"key", with_key, touch });
        assert_eq!(read(&bytes), (quiet, get, bytes.len()), "{opcode:#x}");
    }
}

#[test]
fn stores_leave_their_value_where_it_is() {
    let extras = [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 5];
    for (opcode, quiet_opcode, verb) in [
        (0x01, 0x11, Verb::Set),
        (0x02, 0x12, Verb::Add),
        (0x03, 0x13, Verb::Replace),
        (0x0e, 0x19, Verb::Append),
        (0x0f, 0x1a, Verb::Prepend),
    ] {
        let joins = matches!(verb, Verb::Append | Verb::Prepend);
        let extras = if joins { &[][..] } else { &extras };
        for (opcode, quiet) in [(opcode, false), (quiet_opcode, true)] {
            let bytes = request(opcode, 7, extras, b"key", b"value");
            let expiry = if joins { Expiry::Never } else { Expiry::After { seconds: 5 } };
            let store = Store {
                frame: frame(opcode),
                quiet,
                key: b"key",
                verb,
                token: 7,
                client_flags: if joins { 0 } else { 0xdead_beef },
                expiry,
                value_len: 5,
            };
            let head_bytes = bytes.len() - 5;
            let expected = (quiet, Command::Store(store), head_bytes);
            assert_eq!(read(&bytes[..head_bytes]), expected);
            assert_eq!(read(&bytes), expected);
        }
    }
}

#[test]
fn the_other_commands_are_read() {
    let count = |direction, create| Command::Arithmetic {
        key: b"n",
        direction,
        delta: 2,
        create,
        token: 9,
    };
    let extras = |expiry: u32| {
        [&2_u64.to_be_bytes()[..], &300_u64.to_be_bytes(), &expiry.to_be_bytes()].concat()
    };
    let create = Some(Create { number: 300, expiry: Expiry::Never });
    for (opcode, quiet, extras, key, command) in [
        (0x05, false, extras(0), &b"n"[..], count(Direction::Up, create)),
        (0x15, true, extras(u32::MAX), b"n", count(Direction::Up, None)),
        (0x06, false, extras(0), b"n", count(Direction::Down, create)),
        (0x16, true, extras(0), b"n", count(Direction::Down, create)),
        (0x04, false, vec![], b"n", Command::Delete { key: b"n", token: 9 }),
        (0x14, true, vec![], b"n", Command::Delete { key: b"n", token: 9 }),
        (0x1c, false, vec![0; 4], b"n", Command::Touch { key: b"n", expiry: Expiry::Never }),
        (0x08, false, vec![], b"", Command::Flush { at: Expiry::Never }),
        (0x18, true, vec![0, 0, 0, 9], b"", Command::Flush { at: Expiry::After { seconds: 9 } }),
        (0x07, false, vec![], b"", Command::Quit),
        (0x17, true, vec![], b"", Command::Quit),
        (0x0a, false, vec![], b"", Command::Noop),
        (0x0b, false, vec![], b"", Command::Version),
        (0x10, false, vec![], b"", Command::Stat { name: b"" }),
        (0x10, false, vec![], b"items", Command::Stat { name: b"items" }),
        (0x20, false, vec![], b"", Command::Mechanisms),
    ] {
        let bytes = request(opcode, 9, &extras, key, b"");
        assert_eq!(read(&bytes), (quiet, command, bytes.len()), "{opcode:#x}");
    }
}

#[test]
fn a_login_is_read_with_its_message() {
    for (opcode, begins) in [(0x21, true), (0x22, false)] {
        let bytes = request(opcode, 0, b"", b"PLAIN", b"\0me\0secret");
        let login = Command::Login { mechanism: b"PLAIN", message: b"\0me\0secret", begins };
        assert_eq!(read(&bytes), (false, login, bytes.len()));
        let step = parse(&bytes[..bytes.len() - 1]);
        assert_eq!(step, Step::Incomplete { needed: bytes.len() });
    }
    let long = request(0x21, 0, b"", &[b'M'; 33], b"abc");
    assert_eq!(refused(&long), (Status::InvalidArguments, Some(3), false, long.len() - 3));
    let large = request(0x21, 0, b"", b"PLAIN", &[0; LOGIN_BYTES_MAX + 1]);
    assert_eq!(refused(&large), (Status::OutOfMemory, Some(1025), false, 29));
    for wrong in [request(0x20, 0, b"", b"k", b""), request(0x21, 0, b"", b"", b"x")] {
        assert_eq!(refused(&wrong).0, Status::InvalidArguments);
    }
}

#[test]
fn a_request_of_another_form_closes_the_connection() {
    for (opcodes, extras, key, value) in [
        (&[0x00, 0x09, 0x0c, 0x0d, 0x04, 0x14][..], 0, 0, 0),
        (&[0x00, 0x09, 0x0c, 0x0d, 0x04, 0x14], 4, 1, 0),
        (&[0x00, 0x09, 0x0c, 0x0d, 0x04, 0x14], 0, 1, 1),
        (&[0x01, 0x02, 0x03, 0x11, 0x12, 0x13], 8, 0, 1),
        (&[0x01, 0x02, 0x03, 0x11, 0x12, 0x13], 7, 1, 1),
        (&[0x01, 0x02, 0x03, 0x11, 0x12, 0x13], 9, 1, 1),
        (&[0x0e, 0x0f, 0x19, 0x1a], 0, 0, 1),
        (&[0x0e, 0x0f, 0x19, 0x1a], 8, 1, 1),
        (&[0x05, 0x06, 0x15, 0x16], 19, 1, 0),
        (&[0x05, 0x06, 0x15, 0x16], 21, 1, 0),
        (&[0x05, 0x06, 0x15, 0x16], 20, 0, 0),
        (&[0x05, 0x06, 0x15, 0x16], 20, 1, 1),
        (&[0x1c, 0x1d, 0x1e, 0x23, 0x24], 4, 0, 0),
        (&[0x1c, 0x1d, 0x1e, 0x23, 0x24], 0, 1, 0),
        (&[0x1c, 0x1d, 0x1e, 0x23, 0x24], 4, 1, 1),
        (&[0x07, 0x0a, 0x0b, 0x17, 0x08, 0x18], 0, 1, 0),
        (&[0x07, 0x0a, 0x0b, 0x17, 0x08, 0x18], 5, 0, 0),
        (&[0x07, 0x0a, 0x0b, 0x17, 0x08, 0x18, 0x10], 0, 0, 1),
        (&[0x10], 4, 0, 0),
    ] {
        for &opcode in opcodes {
            let bytes = request(opcode, 0, &vec![0; extras], &vec![b'k'; key], &vec![0; value]);
            let (status, swallow, before_login, _) = refused(&bytes);
            let found = (status, swallow, before_login);
            assert_eq!(found, (Status::InvalidArguments, None, false), "{opcode:#x} {extras}");
        }
    }
}

#[test]
fn an_unknown_operation_is_dropped_whole() {
    for opcode in [0x1b, 0x1f, 0x25, 0x30, 0xff] {
        let bytes = request(opcode, 0, b"ex", b"key", b"value");
        let expected = (Status::UnknownCommand, Some(5), false, bytes.len() - 5);
        assert_eq!(refused(&bytes), expected, "{opcode:#x}");
    }
}

#[test]
fn impossible_lengths_are_refused_before_anything_is_waited_for() {
    let with_body = |body_len: u32, key_len: u16, extras_len: u8| {
        let mut bytes = request(0x01, 0, b"", b"", b"");
        bytes[2..4].copy_from_slice(&key_len.to_be_bytes());
        bytes[4] = extras_len;
        bytes[8..12].copy_from_slice(&body_len.to_be_bytes());
        bytes
    };
    let close = |status, before_login| (status, None, before_login, HEADER_BYTES);
    assert_eq!(refused(&with_body(8, 1, 8)), close(Status::UnknownCommand, true));
    let large = with_body(BODY_BYTES_MAX + 1, 1, 8);
    assert_eq!(refused(&large), close(Status::InvalidArguments, true));
    assert_eq!(refused(&with_body(300, 251, 8)), close(Status::InvalidArguments, false));
    assert_eq!(parse(&with_body(300, 250, 8)), Step::Incomplete { needed: 24 + 258 });
    assert_eq!(parse(&with_body(BODY_BYTES_MAX, 1, 8)), Step::Incomplete { needed: 33 });
}

#[test]
fn a_part_is_waited_for_and_something_else_is_not() {
    let bytes = request(0x00, 0, b"", b"key", b"");
    for len in 0..bytes.len() {
        let needed = if len < HEADER_BYTES { HEADER_BYTES } else { bytes.len() };
        assert_eq!(parse(&bytes[..len]), Step::Incomplete { needed }, "{len}");
    }
    assert_eq!(parse(b"get a\r\n"), Step::Foreign);
    assert_eq!(parse(b"\x81"), Step::Foreign);
}

#[test]
fn a_reply_repeats_its_request() {
    let head = Head {
        token: 0x0102_0304_0506_0708,
        extras: &[0xde, 0xad, 0xbe, 0xef],
        key: b"key",
        value_len: 0x10000,
        ..Head::new(frame(0x0c), Status::Unauthenticated)
    };
    let mut room = [0xaa; 40];
    let mut writer = Writer::new(&mut room);
    head.write(&mut writer);
    assert_eq!(writer.len(), 31);
    assert_eq!(
        room[..31],
        *b"\x81\x0c\0\x03\x04\0\0\x20\0\x01\0\x07\x01\x02\x03\x04\
           \x01\x02\x03\x04\x05\x06\x07\x08\xde\xad\xbe\xefkey"
    );
}

#[test]
fn each_status_has_its_number_and_text() {
    for (status, number, text) in [
        (Status::Ok, 0, ""),
        (Status::NotFound, 1, "Not found"),
        (Status::Exists, 2, "Data exists for key."),
        (Status::TooLarge, 3, "Too large."),
        (Status::InvalidArguments, 4, "Invalid arguments"),
        (Status::NotStored, 5, "Not stored."),
        (Status::NotNumeric, 6, "Non-numeric server-side value for incr or decr"),
        (Status::Unauthenticated, 0x20, "Auth failure."),
        (Status::LoginGoesOn, 0x21, ""),
        (Status::UnknownCommand, 0x81, "Unknown command"),
        (Status::OutOfMemory, 0x82, "Out of memory"),
    ] {
        assert_eq!((status as u16, status.text()), (number, text.as_bytes()));
    }
}
