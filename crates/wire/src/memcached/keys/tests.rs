use super::*;

const LIMITS: Limits = Limits { retrieval_part_bytes: 4096 };

fn words(keys: Keys<'_>) -> Vec<&[u8]> {
    keys.collect()
}

#[test]
fn keys_are_words_between_any_spaces() {
    assert_eq!(words(Keys::checked(b"a").unwrap()), [b"a"]);
    assert_eq!(words(Keys::checked(b"  a   bc d  ").unwrap()), [&b"a"[..], b"bc", b"d"]);
    assert_eq!(words(Keys::checked(b"a\tb \0 \xff\r").unwrap()), [&b"a\tb"[..], b"\0", b"\xff\r"]);
    assert!(words(Keys::checked(b"   ").unwrap()).is_empty());
}

#[test]
fn a_long_key_is_found_wherever_it_stands() {
    let longest = [b'k'; 250];
    let too_long = [b'k'; 251];
    for before in [0, 1, 2, 124, 125, 126, 127, 250, 1000] {
        for after in [0, 1, 125, 300] {
            let line = |key: &[u8]| [&b"a ".repeat(before), key, &b" b".repeat(after)].concat();
            assert!(Keys::checked(&line(&longest)).is_some(), "{before} {after}");
            assert!(Keys::checked(&line(&too_long)).is_none(), "{before} {after}");
        }
    }
    let two = [&longest[..], b" ", &longest].concat();
    assert_eq!(words(Keys::checked(&two).unwrap()), [longest, longest]);
}

#[test]
fn a_paused_retrieval_goes_on_where_it_stopped() {
    let mut keys = Keys::checked(b"one two  three ").unwrap();
    assert_eq!(keys.rest_len(), 15);
    assert_eq!(keys.next(), Some(&b"one"[..]));
    let paused = keys.rest_len();
    assert_eq!(keys.next(), Some(&b"two"[..]));

    let mut again = Keys::checked(b"one two  three ").unwrap();
    again.skip_to(paused);
    assert_eq!(words(again), [&b"two"[..], b"three"]);
    again.skip_to(0);
    assert_eq!(again.next(), None);
    keys.by_ref().last();
    assert_eq!(keys.rest_len(), 0);
}

#[test]
fn the_rest_of_a_line_comes_in_parts() {
    assert_eq!(parse_keys(b"", &LIMITS), KeysStep::Incomplete);
    assert_eq!(parse_keys(b"a b", &LIMITS), KeysStep::Incomplete);
    let last = Keys::checked(b"a b").unwrap();
    for line in [&b"a b\r\nget"[..], b"a b\nget x"] {
        let consumed = line.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let part = KeysStep::Part { keys: last, consumed, complete: true };
        assert_eq!(parse_keys(line, &LIMITS), part);
    }
    let none = KeysStep::Part { keys: Keys::default(), consumed: 2, complete: true };
    assert_eq!(parse_keys(b"\r\n", &LIMITS), none);

    let full = b"key ".repeat(1023).into_iter().chain(*b"keys").collect::<Vec<_>>();
    let KeysStep::Part { keys, consumed: 4092, complete: false } = parse_keys(&full, &LIMITS)
    else {
        panic!("the word begun stays");
    };
    assert_eq!(keys.count(), 1023);
}

#[test]
fn a_long_key_ends_a_retrieval_in_parts() {
    let word = |len| [b"a ".repeat(2048), vec![b'k'; len]].concat();
    assert_eq!(parse_keys(&word(252), &LIMITS), KeysStep::TooLong);
    // The last byte may be the half of a line end.
    let KeysStep::Part { consumed: 4096, complete: false, .. } = parse_keys(&word(251), &LIMITS)
    else {
        panic!("not yet too long");
    };
    assert_eq!(parse_keys(&[&vec![b'k'; 251][..], b"\n"].concat(), &LIMITS), KeysStep::TooLong);
    assert_eq!(parse_keys(&[&vec![b'k'; 251][..], b" a\n"].concat(), &LIMITS), KeysStep::TooLong);
    let inside = [&vec![b'k'; 251][..], &b" a".repeat(2048)].concat();
    assert_eq!(parse_keys(&inside, &LIMITS), KeysStep::TooLong);
}
