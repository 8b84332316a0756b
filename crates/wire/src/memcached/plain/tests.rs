use super::*;
use crate::memcached::{Get, Keys, Limits, Request, Step, parse};

/// What the parser makes of a line.
fn parsed(input: &[u8]) -> Option<(Request<'_>, usize)> {
    match parse(input, &Limits::default()) {
        Step::Request { request, consumed } => Some((request, consumed)),
        _ => None,
    }
}

/// What the quick way makes of it.
fn plain(input: &[u8]) -> Option<(Request<'_>, usize)> {
    let get = || {
        let (key, consumed) = plain_get(input)?;
        let keys = Keys::checked(key)?;
        let get = Get { keys, complete: true, with_token: false, touch: None };
        Some((Request::Get(get), consumed))
    };
    let set = || plain_set(input).map(|(store, consumed)| (Request::Store(store), consumed));
    let meta = || plain_meta_get(input).map(|(meta, consumed)| (Request::MetaGet(meta), consumed));
    get().or_else(set).or_else(meta)
}

#[test]
fn plain_requests_are_read_as_the_parser_reads_them() {
    let longest = "k".repeat(KEY_LEN_MAX);
    for line in [
        "get k\r\n",
        "get key_00001234\r\n",
        "get k\u{e9}y\x7f\r\n",
        &format!("get {longest}\r\n"),
        "set k 0 0 0\r\n",
        "set key_00001234 4294967 3600 32\r\n",
        "set k 999999999 999999999 999999999\r\n",
        "set key_00001234 4294967 3600 32 noreply\r\n",
        &format!("set {longest} 1 2 3\r\n"),
        "mg k\r\n",
        "mg key_00001234 v\r\n",
        "mg k v t f k q s\r\n",
        &format!("mg {longest} c h l u x\r\n"),
    ] {
        for behind in ["", "g", "get next\r\n", "0123456789abcdef"] {
            let input = [line, behind].concat();
            let read = plain(input.as_bytes());
            assert_eq!(read.map(|(_, consumed)| consumed), Some(line.len()), "{line:?}");
            assert_eq!(read, parsed(input.as_bytes()), "{line:?}");
        }
    }
}

#[test]
fn what_is_not_plain_is_left_to_the_parser() {
    let too_long = "k".repeat(KEY_LEN_MAX + 1);
    for line in [
        "",
        "get ",
        "get \r\n",
        "get  k\r\n",
        "get k",
        "get k\r",
        "get k\n",
        "get k \r\n",
        "get k l\r\n",
        "get k\x01\r\n",
        "gets k\r\n",
        "GET k\r\n",
        &format!("get {too_long}\r\n"),
        "set k 0 0\r\n",
        "set k 0 0 1",
        "set k 0 0 1\r",
        "set k 0 0 1\n",
        "set k 0 0 1 \r\n",
        "set k 0 0 1 noreply",
        "set k 0 0 1 noreply\n",
        "set k 0 0 1  noreply\r\n",
        "set k 0 0 1 noreply \r\n",
        "set k 0 0 1 noreplyy\r\n",
        "set k 0 0 1 norepl\r\n",
        "set k -1 0 1\r\n",
        "set k 0 -1 1\r\n",
        "set k 0 0 -1\r\n",
        "set k 0 0 1x\r\n",
        "set k 0 0 1000000000\r\n",
        "set k  0 0 1\r\n",
        &format!("set {too_long} 0 0 1\r\n"),
        "mg k\n",
        "mg k v",
        "mg k  v\r\n",
        "mg k v \r\n",
        "mg k v v\r\n",
        "mg k vt\r\n",
        "mg k b\r\n",
        "mg k O1\r\n",
        "mg k T30\r\n",
        "mg k z\r\n",
        "mg k \x60\r\n",
    ] {
        assert_eq!(plain(line.as_bytes()), None, "{line:?}");
    }
}
