use super::*;

fn refused(input: &[u8]) -> (&'static [u8], usize) {
    match parse_login(input) {
        LoginStep::Refused { reply, consumed } => (reply, consumed),
        step => panic!("{step:?}"),
    }
}

#[test]
fn a_set_of_any_key_is_a_login() {
    for line in ["set foo 0 0 8\r\n", "set  x  y z 8 noreply\r\n", "settle a b c 8\n"] {
        let input = format!("{line}me a b c\r\nget x\r\n");
        let consumed = line.len() + 10;
        let login = LoginStep::Login { user: b"me", password: b"a b c", consumed };
        assert_eq!(parse_login(input.as_bytes()), login, "{line}");
    }
    let empty = LoginStep::Login { user: b"", password: b"", consumed: 18 };
    assert_eq!(parse_login(b"set foo 0 0 1\r\n \r\n"), empty);
}

#[test]
fn what_is_no_login_is_refused_line_by_line() {
    for line in [
        "get foo\r\n",
        " set foo 0 0 1\r\n",
        "set foo 0 0\r\n",
        "set foo 0 0 x\r\n",
        "set foo 0 0 -1\r\n",
        "set foo 0 0 4294967296\r\n",
        "version\r\n",
    ] {
        assert_eq!(refused(line.as_bytes()), (lines::UNAUTHENTICATED, line.len()), "{line}");
    }
    let long = b"set foo 0 0 1001\r\n";
    assert_eq!(refused(long), (lines::LOGIN_TOO_LONG, long.len()));
    assert_eq!(refused(b"set a 0 0 3\r\nabc\r\n"), (lines::BAD_LOGIN, 18));
    assert_eq!(refused(b"set a 0 0 3\r\na cxx"), (lines::BAD_TERMINATION, 18));
}

#[test]
fn a_part_is_waited_for() {
    let login = b"set foo 0 0 1000\r\n";
    let needed = Some(login.len() + 1000 + 2);
    assert_eq!(parse_login(login), LoginStep::Incomplete { needed });
    assert_eq!(parse_login(b"set foo 0 0 1"), LoginStep::Incomplete { needed: None });
    assert_eq!(parse_login(&[b'x'; 1000]), LoginStep::Incomplete { needed: None });
}

#[test]
fn what_no_client_sends_closes_the_connection() {
    assert_eq!(parse_login(&[b'x'; 1001]), LoginStep::Foreign);
    let line = |len| [&vec![b'x'; len][..], b"\n"].concat();
    assert_eq!(parse_login(&line(1001)), LoginStep::Foreign);
    assert!(matches!(parse_login(&line(1000)), LoginStep::Refused { .. }));
    assert_eq!(parse_login(b"quit\r\n"), LoginStep::Foreign);
    assert_eq!(parse_login(b"\n"), LoginStep::Foreign);
}
