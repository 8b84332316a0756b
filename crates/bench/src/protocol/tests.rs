use super::{GetLine, Protocol, SetLine, put_number, read_number};
use crate::{
    sizes::{KeyNames, Sizes},
    value::Values,
};

#[test]
fn requests_are_those_of_the_protocol() {
    let names = KeyNames::new("k", Sizes::Fixed(4), 100, 1).expect("they fit");
    let values = Values::new(Sizes::Fixed(3), 1);
    let mut value = Vec::new();
    values.append(7, 2, 3, &mut value);
    for (protocol, get, set) in [
        (Protocol::Text, "get k007\r\n", "set k007 0 0 3\r\n"),
        (Protocol::Meta, "mg k007 v\r\n", "ms k007 3\r\n"),
    ] {
        let mut out = Vec::new();
        protocol.put_get(&names, 7, &mut out);
        assert_eq!(out, get.as_bytes());
        out.clear();
        protocol.put_set(&names, &values, 7, 2, &mut out);
        assert_eq!(out, [set.as_bytes(), &value, b"\r\n"].concat());
    }
}

#[test]
fn replies_are_told_apart() {
    let key = Some(b"k1".as_slice());
    for (protocol, line, expected) in [
        (Protocol::Text, "VALUE k1 0 12", GetLine::Value { key, size: 12 }),
        (Protocol::Text, "VALUE k1 5 0 99", GetLine::Value { key, size: 0 }),
        (Protocol::Text, "VALUE k1 0", GetLine::Unknown),
        (Protocol::Text, "VALUE k1 0 1x", GetLine::Unknown),
        (Protocol::Text, "END", GetLine::Miss),
        (Protocol::Text, "EN", GetLine::Unknown),
        (Protocol::Text, "STORED", GetLine::Unknown),
        (Protocol::Text, "SERVER_ERROR out of memory", GetLine::Refused),
        (Protocol::Meta, "VA 12", GetLine::Value { key: None, size: 12 }),
        (Protocol::Meta, "VA 12 ", GetLine::Value { key: None, size: 12 }),
        (Protocol::Meta, "VA", GetLine::Unknown),
        (Protocol::Meta, "EN", GetLine::Miss),
        (Protocol::Meta, "END", GetLine::Unknown),
        (Protocol::Meta, "CLIENT_ERROR bad", GetLine::Refused),
    ] {
        assert_eq!(protocol.read_get(line.as_bytes()), expected, "{protocol} {line}");
    }
    for (protocol, line, expected) in [
        (Protocol::Text, "STORED", SetLine::Stored),
        (Protocol::Text, "NOT_STORED", SetLine::NotStored),
        (Protocol::Text, "ERROR", SetLine::Refused),
        (Protocol::Text, "HD", SetLine::Unknown),
        (Protocol::Meta, "HD", SetLine::Stored),
        (Protocol::Meta, "HD ", SetLine::Stored),
        (Protocol::Meta, "NS", SetLine::NotStored),
        (Protocol::Meta, "SERVER_ERROR x", SetLine::Refused),
        (Protocol::Meta, "STORED", SetLine::Unknown),
    ] {
        assert_eq!(protocol.read_set(line.as_bytes()), expected, "{protocol} {line}");
    }
}

#[test]
fn numbers_go_both_ways() {
    for number in [0, 7, 10, 1024, 1 << 30] {
        let mut out = b"x".to_vec();
        put_number(number, &mut out);
        assert_eq!(out[1..], *number.to_string().as_bytes());
        assert_eq!(read_number(&out[1..]), Some(number));
    }
    for text in ["", "-1", "1 ", "12345678901"] {
        assert_eq!(read_number(text.as_bytes()), None, "{text}");
    }
}
