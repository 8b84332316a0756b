use super::*;
use crate::memcached::tests::{refusal, request, swallowed};

const LONGEST: [u8; 250] = [b'k'; 250];
const TOO_LONG: [u8; 251] = [b'k'; 251];

fn line(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn keys_of(line: &[u8]) -> (Vec<Vec<u8>>, bool, Option<Expiry>) {
    let Request::Get(get) = request(line) else { panic!("{line:?}") };
    assert!(get.complete);
    (get.keys.map(<[u8]>::to_vec).collect(), get.with_token, get.touch)
}

fn owned(keys: &[&str]) -> Vec<Vec<u8>> {
    keys.iter().map(|key| key.as_bytes().to_vec()).collect()
}

#[test]
fn retrievals_carry_keys_token_and_time() {
    assert_eq!(keys_of(b"get a\r\n"), (owned(&["a"]), false, None));
    assert_eq!(keys_of(b"gets  a  b \n"), (owned(&["a", "b"]), true, None));
    let soon = Some(Expiry::After { seconds: 5 });
    assert_eq!(keys_of(b"gat 5 a\r\n"), (owned(&["a"]), false, soon));
    assert_eq!(keys_of(b"gats  -  a b\r\n"), (owned(&["a", "b"]), true, Some(Expiry::Never)));
    assert_eq!(keys_of(b"gat -1 a\r\n").2, Some(Expiry::Past));
    assert_eq!(keys_of(b"get a noreply\r\n").0, owned(&["a", "noreply"]));
    assert_eq!(keys_of(b"get a\x01\tb\r\r\n").0, owned(&["a\x01\tb\r"]));
    assert_eq!(keys_of(&line(&[b"get a ", &LONGEST, b"\n"])).0[1], LONGEST);
}

#[test]
fn retrievals_without_good_keys_are_refused() {
    for wrong in [
        &b"get\r\n"[..],
        b"get  \r\n",
        b"gets\r\n",
        b"gat\r\n",
        b"gat 1\r\n",
        b"gat 1 \r\n",
        b"gat x\r\n",
    ] {
        assert_eq!(refusal(wrong), lines::BAD_FORMAT, "{wrong:?}");
    }
    for verb in [&b"get "[..], b"gets a ", b"gat 0 ", b"gats 0 a "] {
        assert_eq!(refusal(&line(&[verb, &TOO_LONG, b" b\r\n"])), lines::BAD_FORMAT);
    }
    for wrong in [&b"gat x a\r\n"[..], b"gats 2147483648 a\r\n", b"gat +1 a\r\n"] {
        assert_eq!(refusal(wrong), lines::INVALID_EXPTIME, "{wrong:?}");
    }
    assert_eq!(refusal(&line(&[b"gat x ", &TOO_LONG, b"\r\n"])), lines::INVALID_EXPTIME);
}

fn stored(line: &[u8]) -> Store<'_> {
    let Request::Store(store) = request(line) else { panic!("{line:?}") };
    store
}

const PLAIN: Store<'static> = Store {
    key: b"a",
    verb: StoreVerb::Set,
    client_flags: 5,
    expiry: Expiry::After { seconds: 60 },
    value_len: 12,
    noreply: false,
};

#[test]
fn each_storage_verb_has_its_meaning() {
    for (name, verb) in [
        ("set", StoreVerb::Set),
        ("add", StoreVerb::Add),
        ("replace", StoreVerb::Replace),
        ("append", StoreVerb::Append),
        ("prepend", StoreVerb::Prepend),
    ] {
        let store = Store { verb, ..PLAIN };
        assert_eq!(stored(format!("{name} a 5 60 12\r\n").as_bytes()), store);
        let silent = Store { noreply: true, ..store };
        assert_eq!(stored(format!("{name} a 5 60 12 noreply\r\n").as_bytes()), silent);
    }
    let cas = Store { verb: StoreVerb::CompareAndSwap { token: 99 }, ..PLAIN };
    assert_eq!(stored(b"cas a 5 60 12 99\r\n"), cas);
    assert_eq!(stored(b"cas a 5 60 12 99 noreply\r\n"), Store { noreply: true, ..cas });
}

#[test]
fn storage_lines_are_taken_with_all_latitude() {
    for same in [
        &b"set  a  5  60  12 \r\n"[..],
        b"set a +5 60 12\r\n",
        b"set a 5\t +60 12\r\n",
        b"set a 4294967301 60 12\r\n",
        b"set a 5 4294967356 12\r\n",
        b"set a 0000000005 60 00000000012\r\n",
        b"set a 5 60 12 nothing\r\n",
        b"set a 5 60 12 noreply nothing\n",
    ] {
        assert_eq!(stored(same), PLAIN, "{same:?}");
    }
    assert_eq!(stored(b"set a 5 -1 12\r\n").expiry, Expiry::Past);
    assert_eq!(stored(b"set a 5 2592001 12\r\n").expiry, Expiry::At { unix_s: 2_592_001 });
    assert_eq!(stored(b"set a 5 60 -\r\n").value_len, 0);
    assert!(stored(b"set a 5 60 12 nothing noreply\r\n").noreply);
    assert_eq!(stored(&line(&[b"set ", &LONGEST, b" 0 0 1\r\n"])).key, LONGEST);
    assert_eq!(stored(b"set a 0 0 2147483645\r\n").value_len, 2_147_483_645);
}

#[test]
fn noreply_counts_within_the_first_23_words() {
    let words = |before: usize| {
        let fill = "w ".repeat(before);
        format!("set a 5 60 12 {fill}noreply\r\n").into_bytes()
    };
    assert!(stored(&words(17)).noreply, "word 23");
    assert!(!stored(&words(18)).noreply, "word 24");
}

#[test]
fn a_storage_line_without_a_length_has_no_body() {
    for wrong in [
        &b"set\r\n"[..],
        b"set a 0 0\r\n",
        b"set a 0 0 \r\n",
        b"set a 0 0 noreply\r\n",
        b"set a 0 0 -1\r\n",
        b"set a 0 0 +1\r\n",
        b"set a 0 0 1x\r\n",
        b"set a 0 0 2147483646\r\n",
        b"set a 0 0 4294967297\r\n",
        b"cas a 0 0\r\n",
        b"cas a 0 0 x 1 noreply\r\n",
    ] {
        assert_eq!(refusal(wrong), lines::BAD_FORMAT, "{wrong:?}");
    }
}

#[test]
fn a_storage_line_with_a_length_takes_its_body_along() {
    for wrong in [
        &b"set a x 0 7\r\n"[..],
        b"set a 0 x 7\r\n",
        b"set a -1 0 7\r\n",
        b"set a 18446744073709551616 0 7\r\n",
        b"set a 0 9223372036854775808 7\r\n",
        b"cas a 0 0 7\r\n",
        b"cas a 0 0 7 x\r\n",
        b"cas a 0 0 7 -1\r\n",
    ] {
        assert_eq!(swallowed(wrong), (lines::BAD_FORMAT, 9), "{wrong:?}");
        let end = wrong.len() - 2;
        let silent = line(&[&wrong[..end], b" noreply\r\n"]);
        assert_eq!(swallowed(&silent), (&b""[..], 9), "{silent:?}");
    }
    let long_key = |end: &[u8]| line(&[b"add ", &TOO_LONG, b" 0 0 7", end]);
    assert_eq!(swallowed(&long_key(b"\r\n")), (lines::BAD_FORMAT, 9));
    assert_eq!(swallowed(&long_key(b" noreply\r\n")), (&b""[..], 9));
}

#[test]
fn delete_takes_a_key_and_ignores_a_time() {
    let delete = |key, noreply| Request::Delete { key, noreply };
    assert_eq!(request(b"delete a\r\n"), delete(b"a", false));
    assert_eq!(request(b"delete a 0\r\n"), delete(b"a", false));
    assert_eq!(request(b"delete a noreply\r\n"), delete(b"a", true));
    assert_eq!(request(b"delete a 10 noreply\r\n"), delete(b"a", true));
    assert_eq!(request(b"delete noreply\r\n"), delete(b"noreply", true));
    assert_eq!(request(b"delete a b c\r\n"), delete(b"a", false));
    assert_eq!(refusal(b"delete a b c d\r\n"), lines::BAD_FORMAT);
    assert_eq!(refusal(b"delete a 0 0 noreply\r\n"), b"");
    assert_eq!(refusal(b"delete\r\n"), lines::BAD_FORMAT);
    assert_eq!(refusal(&line(&[b"delete ", &TOO_LONG, b"\r\n"])), lines::BAD_FORMAT);
    assert_eq!(refusal(&line(&[b"delete ", &TOO_LONG, b" noreply\r\n"])), b"");
}

#[test]
fn arithmetic_takes_a_key_and_a_delta() {
    let up = Direction::Up;
    let expected =
        |direction, delta, noreply| Request::Arithmetic { key: b"a", direction, delta, noreply };
    assert_eq!(request(b"incr a 1\r\n"), expected(up, 1, false));
    assert_eq!(request(b"decr a 1 noreply\r\n"), expected(Direction::Down, 1, true));
    assert_eq!(request(b"incr a 18446744073709551615\r\n"), expected(up, u64::MAX, false));
    for wrong in [&b"incr\r\n"[..], b"incr a\r\n", b"decr a\r\n"] {
        assert_eq!(refusal(wrong), lines::BAD_FORMAT, "{wrong:?}");
    }
    for wrong in [&b"incr a x\r\n"[..], b"decr a -1\r\n", b"incr a 18446744073709551616\r\n"] {
        assert_eq!(refusal(wrong), lines::INVALID_DELTA, "{wrong:?}");
    }
    assert_eq!(refusal(b"incr a noreply\r\n"), b"");
    assert_eq!(refusal(&line(&[b"incr ", &TOO_LONG, b" x\r\n"])), lines::BAD_FORMAT);
}

#[test]
fn touch_takes_a_key_and_a_time() {
    let touch = |expiry, noreply| Request::Touch { key: b"a", expiry, noreply };
    assert_eq!(request(b"touch a 0\r\n"), touch(Expiry::Never, false));
    assert_eq!(request(b"touch a -5 noreply\r\n"), touch(Expiry::Past, true));
    assert_eq!(refusal(b"touch a\r\n"), lines::BAD_FORMAT);
    assert_eq!(refusal(b"touch a x\r\n"), lines::INVALID_EXPTIME);
    assert_eq!(refusal(b"touch a x noreply\r\n"), b"");
    assert_eq!(refusal(&line(&[b"touch ", &TOO_LONG, b" 0\r\n"])), lines::BAD_FORMAT);
}

#[test]
fn commands_are_lower_case_words_at_the_start_of_the_line() {
    for wrong in [
        &b"GET a\r\n"[..],
        b"Get a\r\n",
        b" get a\r\n",
        b"get\ta\r\n",
        b"getx a\r\n",
        b"mx a\r\n",
        b"\x80get a\r\n",
        b"misbehave\r\n",
        b"refresh_certs\r\n",
        b"debugtime 1\r\n",
        b"\0\0\0\r\n",
    ] {
        assert_eq!(refusal(wrong), lines::ERROR, "{wrong:?}");
    }
    assert_eq!(refusal(b"unknown noreply\r\n"), b"");
}
