//! SASL PLAIN in the binary protocol.

use crate::{
    harness::{
        binary::{Answer, Ask, converse},
        conn::Conn,
    },
    servers::{Directory, Program, Server},
};

const VARIABLE: &str = "MEMCACHED_SASL_PWDB";

/// A server whose users are in a file of the form that memcached reads.
fn guarded() -> Server {
    let dir = Directory::new();
    let path = dir.file("users", "testuser:testpass::::::::\nother:secret\n");
    Server::start_with(dir, &Program::Kelvin, &["-S"], &[(VARIABLE, &path)])
}

fn login(opcode: u8, mechanism: &str, message: &str) -> Ask {
    Ask { value: message.into(), ..Ask::new(opcode, mechanism) }
}

fn told(conn: &mut Conn, asks: &[Ask]) -> (Vec<(u16, String)>, bool) {
    let (answers, closed) = converse(conn, asks);
    let shown =
        |answer: &Answer| (answer.status, String::from_utf8_lossy(&answer.value).into_owned());
    (answers.iter().map(shown).collect(), closed)
}

fn failed() -> (u16, String) {
    (0x20, "Auth failure.".to_owned())
}

#[test]
fn who_has_not_logged_in_may_ask_how_and_nothing_else() {
    let server = guarded();
    for ask in [
        Ask::new(0x00, "k"),
        Ask::store(0x01, "k", 0, "v"),
        Ask::store(0x11, "k", 0, "v".repeat(10_000)),
        Ask::new(0x08, ""),
        Ask::new(0x10, ""),
        Ask::new(0x0a, ""),
        Ask::new(0xee, ""),
    ] {
        let expected = (vec![failed()], true);
        assert_eq!(told(&mut server.connect(), &[ask]), expected);
    }
    // The noop behind them is refused.
    let (answers, _) = told(&mut server.connect(), &[Ask::new(0x0b, ""), Ask::new(0x20, "")]);
    assert_eq!((answers[0].0, &answers[1]), (0, &(0, "PLAIN".to_owned())));
}

#[test]
fn a_login_opens_the_connection_until_another_fails() {
    let server = guarded();
    let mut conn = server.connect();
    conn.send(&login(0x21, &"X".repeat(40), "\0testuser\0testpass").bytes());
    conn.send(&login(0x21, "PLAIN", "\0testuser\0wrong").bytes());
    let asks = [
        login(0x21, "PLAIN", "\0testuser\0testpass"),
        Ask::store(0x01, "k", 0, "v"),
        Ask::new(0x00, "k"),
        login(0x21, "PLAIN", ""),
        login(0x22, "PLAIN", "\0other\0secret"),
        Ask::new(0x00, "k"),
    ];
    let (answers, closed) = told(&mut conn, &asks);
    let said = |status, text: &str| (status, text.to_owned());
    let expected = [
        said(4, "Invalid arguments"),
        failed(),
        said(0, "Authenticated"),
        said(0, ""),
        said(0, "v"),
        said(0x21, ""),
        said(0, "Authenticated"),
        said(0, "v"),
    ];
    assert_eq!((&answers[..], closed), (&expected[..], false));
    let (statistics, _) = converse(&mut conn, &[Ask::new(0x10, "")]);
    for (name, value) in [("auth_cmds", "3"), ("auth_errors", "1")] {
        let found = statistics.iter().find(|answer| answer.key == name.as_bytes());
        assert_eq!(found.map(|answer| &answer.value[..]), Some(value.as_bytes()), "{name}");
    }
    let asks = [login(0x21, "PLAIN", "\0testuser\0wrong"), Ask::new(0x00, "k")];
    assert_eq!(told(&mut conn, &asks), (vec![failed(), failed()], true));
}

#[test]
fn what_does_not_go_with_it_is_refused() {
    for program in [Program::Kelvin, Program::installed()] {
        for options in [&["-S", "-B", "auto"][..], &["-S", "-B", "ascii"], &["-S", "-U", "11211"]] {
            let (code, _, said) = program.run(options);
            assert_eq!(code, Some(64), "{program:?} {options:?}: {said}");
        }
    }
    let (code, _, said) = Program::Kelvin.run(&["-S"]);
    assert_eq!((code, said.contains(VARIABLE)), (Some(64), true), "{said}");
}
