use super::*;
use crate::memcached::limits::META_TOKENS_MAX;
use crate::memcached::lines;
use crate::memcached::tests::{refusal, request, swallowed};
use crate::memcached::{Direction, MetaStore, Request};

fn get(line: &[u8]) -> Meta<'_> {
    let Request::MetaGet(meta) = request(line) else { panic!("{line:?}") };
    meta
}

fn store(line: &[u8]) -> MetaStore<'_> {
    let Request::MetaStore(store) = request(line) else { panic!("{line:?}") };
    store
}

fn arithmetic(line: &[u8]) -> (Meta<'_>, Direction) {
    let Request::MetaArithmetic { meta, direction } = request(line) else { panic!("{line:?}") };
    (meta, direction)
}

fn key<'a>(key: MetaKey<'a>) -> Vec<u8> {
    key.bytes(&mut [0; KEY_LEN_MAX]).to_vec()
}

#[test]
fn flag_sets_tell_letters_apart() {
    let set = FlagSet::of(b"Azm");
    assert!(set.has(b'A') && set.has(b'z') && set.has(b'm'));
    for other in [b'a', b'Z', b'M', b'n', b'[', b'@', b'{', b'0', 0, 0xff, b'A' | 0x80] {
        assert!(!set.has(other), "{other}");
    }
    assert!(set.meets(FlagSet::of(b"xz")) && !set.meets(FlagSet::of(b"xy")));
}

#[test]
fn a_command_without_flags_has_defaults() {
    let meta = get(b"mg a\r\n");
    assert_eq!(key(meta.key), b"a");
    assert_eq!(meta.flags, FlagSet::default());
    assert_eq!((meta.expiry, meta.vivify, meta.renew), (None, None, None));
    assert_eq!((meta.compare, meta.token), (None, None));
    assert_eq!((meta.client_flags, meta.delta, meta.initial), (0, 1, 0));
    assert!(!meta.quiet() && !meta.key.is_base64());
    assert_eq!(meta.tokens().count(), 0);
}

#[test]
fn each_flag_sets_its_own_value() {
    let meta = get(b"mg a T30 N-1 R0 C5 E6 F7 D8 J9 q v MS Oxyz Lany Pany\r\n");
    assert_eq!(meta.expiry, Some(Expiry::After { seconds: 30 }));
    assert_eq!(meta.vivify, Some(Expiry::Past));
    assert_eq!(meta.renew, Some(Expiry::Never));
    assert_eq!((meta.compare, meta.token), (Some(5), Some(6)));
    assert_eq!((meta.client_flags, meta.delta, meta.initial), (7, 8, 9));
    assert!(meta.quiet() && meta.flags.has(b'v') && !meta.flags.has(b'k'));
    let tokens: Vec<_> = meta.tokens().collect();
    assert_eq!(tokens[..3], [&b"T30"[..], b"N-1", b"R0"]);
    assert_eq!(tokens[11], b"Oxyz");
}

#[test]
fn every_known_flag_is_taken_by_every_command() {
    let flags = b"cfhklqstuvxCDEFIJLMNOPRTb";
    for &flag in flags {
        let argument = match flag {
            b'C' | b'D' | b'E' | b'F' | b'J' | b'N' | b'R' | b'T' => "1",
            b'M' => "",
            _ => "any",
        };
        for start in ["mg Zm9v ", "md Zm9v ", "ms Zm9v 0 ", "ma Zm9v "] {
            let argument = match (flag, start) {
                (b'M', "ms Zm9v 0 ") => "S",
                (b'M', "ma Zm9v ") => "I",
                _ => argument,
            };
            let line = format!("{start}{}{argument}\r\n", flag as char);
            match request(line.as_bytes()) {
                Request::MetaGet(meta)
                | Request::MetaDelete(meta)
                | Request::MetaStore(MetaStore { meta, .. })
                | Request::MetaArithmetic { meta, .. } => {
                    assert_eq!(meta.flags, FlagSet::of(&[flag]), "{line}");
                }
                request => panic!("{request:?}"),
            }
        }
    }
    for flag in (0..=0xff_u8).filter(|flag| !flags.contains(flag) && !b" \n".contains(flag)) {
        let reply = match flag {
            b'A'..=b'z' | b'0'..=b'9' => lines::INVALID_FLAG,
            _ => lines::BAD_FORMAT,
        };
        // A carriage return here ends the line.
        let line = [&b"mg a "[..], &[flag], b"1\r\n"].concat();
        assert_eq!(refusal(&line), reply, "{flag:?}");
    }
}

#[test]
fn wrong_arguments_have_their_own_replies() {
    for wrong in ["T", "Tx", "T1x", "T2147483648", "N", "R1.5", "C", "C-1", "Ex", "E"] {
        let line = format!("mg a {wrong}\r\n");
        assert_eq!(refusal(line.as_bytes()), lines::BAD_TOKEN, "{wrong}");
    }
    for (flags, reply) in [
        ("J", lines::INVALID_INITIAL),
        ("D-1", lines::INVALID_META_DELTA),
        ("F", lines::BAD_FORMAT),
        ("F4294967296", lines::BAD_FORMAT),
        ("v v", lines::DUPLICATE_FLAG),
        ("T1 T2", lines::DUPLICATE_FLAG),
        ("S", lines::INVALID_FLAG),
        ("W", lines::INVALID_FLAG),
        // Of several complaints the last counts, an end of the search before all.
        ("Tx Jx", lines::INVALID_INITIAL),
        ("Jx Tx", lines::BAD_TOKEN),
        ("Fx Tx", lines::BAD_TOKEN),
        ("Tx Fx", lines::BAD_TOKEN),
        ("Tx v v", lines::DUPLICATE_FLAG),
        ("Tx S", lines::INVALID_FLAG),
        ("S v v", lines::INVALID_FLAG),
        ("v v S", lines::DUPLICATE_FLAG),
        ("v v -", lines::BAD_FORMAT),
    ] {
        let line = format!("mg a {flags}\r\n");
        assert_eq!(refusal(line.as_bytes()), reply, "{flags}");
    }
}

#[test]
fn the_opaque_token_is_limited_with_its_letter() {
    let opaque = |len| format!("mg a O{}\r\n", "x".repeat(len)).into_bytes();
    assert_eq!(get(&opaque(0)).tokens().next(), Some(&b"O"[..]));
    assert_eq!(get(&opaque(31)).tokens().next().map(<[u8]>::len), Some(32));
    assert_eq!(refusal(&opaque(32)), lines::OPAQUE_TOO_LONG);
    let late = format!("mg a O{} Tx\r\n", "x".repeat(32));
    assert_eq!(refusal(late.as_bytes()), lines::BAD_TOKEN);
}

#[test]
fn a_line_has_twenty_words_at_most() {
    let flags = "c f h k l q s t u v x I L P O MS T1 N1";
    assert_eq!(2 + flags.split(' ').count(), META_TOKENS_MAX);
    assert_eq!(get(format!("mg a {flags}\r\n").as_bytes()).tokens().count(), 18);
    assert_eq!(refusal(format!("mg a {flags} R1\r\n").as_bytes()), lines::TOO_MANY_FLAGS);
    let one = format!("ms a 1 {flags}\r\n");
    assert_eq!(swallowed(one.as_bytes()), (lines::TOO_MANY_FLAGS, 3));
    // Words beyond the 23rd are not looked at.
    let words = |count: usize, last: &str| format!("mg a {}{last}\r\n", "v ".repeat(count));
    assert_eq!(refusal(words(20, "-").as_bytes()), lines::BAD_FORMAT);
    assert_eq!(refusal(words(21, "-").as_bytes()), lines::TOO_MANY_FLAGS);
}

#[test]
fn keys_are_limited_and_may_be_base64() {
    let longest = [b'/'; 250];
    let too_long = [b'/'; 251];
    assert_eq!(key(get(&[b"mg ", &longest[..], b" v\r\n"].concat()).key), longest);
    let line = |end: &[u8]| [b"mg ", &too_long[..], end].concat();
    assert_eq!(refusal(&line(b" v\r\n")), lines::BAD_FORMAT);
    assert_eq!(refusal(&line(b" b v v\r\n")), lines::BAD_FORMAT);
    for flags in ["b", "v b", "b v"] {
        let line = format!("mg Zm9v {flags}\r\n");
        let key_sent = get(line.as_bytes()).key;
        assert!(key_sent.is_base64());
        assert_eq!(key(key_sent), b"foo");
        let line = format!("mg Zm9 {flags}\r\n");
        assert_eq!(refusal(line.as_bytes()), lines::BAD_KEY_ENCODING);
    }
    assert_eq!(refusal(b"mg Zm9 Tx b\r\n"), lines::BAD_KEY_ENCODING);
    assert_eq!(refusal(b"mg Zm9 b Tx\r\n"), lines::BAD_TOKEN);
    assert_eq!(refusal(b"mg\r\n"), lines::BAD_FORMAT);
    assert_eq!(refusal(b"md  \r\n"), lines::BAD_FORMAT);
    assert_eq!(refusal(b"ma\r\n"), lines::BAD_FORMAT);
}

#[test]
fn a_store_has_a_mode_and_a_length() {
    for (mode, meant) in [
        ("", StoreMode::Set),
        (" MS", StoreMode::Set),
        (" MSET", StoreMode::Set),
        (" M\0", StoreMode::Set),
        (" ME", StoreMode::Add),
        (" MA", StoreMode::Append),
        (" MP", StoreMode::Prepend),
        (" MR", StoreMode::Replace),
    ] {
        let line = format!("ms a 12{mode}\r\n");
        let sent = store(line.as_bytes());
        assert_eq!((sent.mode, sent.value_len), (meant, 12), "{mode}");
    }
    for mode in ["M", "Mx", "Ms", "MI"] {
        let line = format!("ms a 12 {mode}\r\n");
        assert_eq!(swallowed(line.as_bytes()), (lines::INVALID_STORE_MODE, 14), "{mode}");
    }
    assert_eq!(store(b"ms a -\n").value_len, 0);
    assert_eq!(store(b"ms a 2147483645\r\n").value_len, 2_147_483_645);
}

#[test]
fn a_store_that_is_wrong_takes_its_body_along_if_it_has_one() {
    for wrong in ["ms", "ms a", "ms a x", "ms a -1", "ms a 2147483646", "ms a S1", "ms a 1 -"] {
        assert_eq!(refusal(format!("{wrong}\r\n").as_bytes()), lines::BAD_FORMAT, "{wrong}");
    }
    assert_eq!(swallowed(b"ms a 7 S1 q\r\n"), (lines::INVALID_FLAG, 9));
    assert_eq!(swallowed(b"ms Zm9 7 b\r\n"), (lines::BAD_KEY_ENCODING, 9));
    let long = [b"ms ", &[b'k'; 251][..], b" 7\r\n"].concat();
    assert_eq!(swallowed(&long), (lines::BAD_FORMAT, 9));
    let opaque = "x".repeat(32);
    let line = format!("ms a 7 O{opaque}\r\n");
    assert_eq!(swallowed(line.as_bytes()), (lines::OPAQUE_TOO_LONG, 9));
    let line = format!("ms a 7 O{opaque} Mx\r\n");
    assert_eq!(swallowed(line.as_bytes()), (lines::INVALID_STORE_MODE, 9));
}

#[test]
fn arithmetic_has_a_direction_and_one_reply_for_most_faults() {
    for (mode, direction) in [
        ("", Direction::Up),
        (" MI", Direction::Up),
        (" M+", Direction::Up),
        (" MINCR", Direction::Up),
        (" MD", Direction::Down),
        (" M-", Direction::Down),
    ] {
        let line = format!("ma a D5{mode}\r\n");
        let (meta, sent) = arithmetic(line.as_bytes());
        assert_eq!((meta.delta, sent), (5, direction), "{mode}");
    }
    for mode in ["M", "MS", "Mi"] {
        let line = format!("ma a {mode}\r\n");
        assert_eq!(refusal(line.as_bytes()), lines::INVALID_ARITHMETIC_MODE, "{mode}");
    }
    for wrong in ["S", "v v", "Dx", "Jx", "Tx", "F", "b"] {
        let line = format!("ma a {wrong}\r\n");
        assert_eq!(refusal(line.as_bytes()), lines::INVALID_OR_DUPLICATE_FLAG, "{wrong}");
    }
    let long = [b"ma ", &[b'k'; 251][..], b"\r\n"].concat();
    assert_eq!(refusal(&long), lines::INVALID_OR_DUPLICATE_FLAG);
    assert_eq!(refusal(b"ma a -\r\n"), lines::BAD_FORMAT);
    let opaque = "x".repeat(32);
    assert_eq!(refusal(format!("ma a O{opaque}\r\n").as_bytes()), lines::OPAQUE_TOO_LONG);
    let line = format!("ma a O{opaque} Mx\r\n");
    assert_eq!(refusal(line.as_bytes()), lines::INVALID_ARITHMETIC_MODE);
}

#[test]
fn debug_takes_a_key() {
    let debug = |line| match request(line) {
        Request::MetaDebug { key: sent } => (key(sent), sent.is_base64()),
        request => panic!("{request:?}"),
    };
    assert_eq!(debug(b"me a\r\n"), (b"a".to_vec(), false));
    assert_eq!(debug(b"me Zm9v b x\r\n"), (b"foo".to_vec(), true));
    for plain in [&b"me Zm9v b\r\n"[..], b"me Zm9v x b\r\n", b"me Zm9v bx x\r\n"] {
        assert_eq!(debug(plain), (b"Zm9v".to_vec(), false), "{plain:?}");
    }
    let longest = [b"me ", &[b'k'; 250][..], b"\r\n"].concat();
    assert_eq!(debug(&longest), (vec![b'k'; 250], false));
    let long = [b"me ", &[b'k'; 251][..], b"\r\n"].concat();
    for wrong in [&b"me\r\n"[..], b"me a -\r\n", b"me Zm9 b x\r\n", &long] {
        assert_eq!(refusal(wrong), lines::BAD_FORMAT, "{wrong:?}");
    }
}
