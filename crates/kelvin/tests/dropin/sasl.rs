//! SASL PLAIN in the binary protocol.

use std::process::Command;

use super::servers::{Directory, Program, Server};
use crate::harness::{
    binary::{Answer, Ask, converse},
    conn::Conn,
};

const VARIABLE: &str = "MEMCACHED_SASL_PWDB";

/// Where Cyrus SASL, by which memcached knows its users, looks for the file `memcached.conf`.
const PEER_VARIABLE: &str = "SASL_CONF_PATH";

/// Names and passwords.
const USERS: [(&str, &str); 2] = [("testuser", "testpass"), ("other", "secret")];

/// Kelvin, and a memcached with SASL. Debian's has it; one that is built as it comes has not, so
/// it must be the one of the system.
fn programs() -> [Program; 2] {
    [Program::Kelvin, Program::installed()]
}

/// A server with users, which it finds where its program looks for them.
fn guarded(program: &Program, options: &[&str]) -> Server {
    let dir = Directory::new();
    let lines = USERS.map(|(user, password)| format!("{user}:{password}::::::::\n"));
    let path = dir.file("users", lines.concat());
    let conf_dir = dir.path("");
    if *program != Program::Kelvin {
        let database = dir.path("sasldb");
        make_database(&database);
        let conf = format!(
            "mech_list: plain\npwcheck_method: auxprop\nauxprop_plugin: sasldb\n\
             sasldb_path: {database}\n"
        );
        dir.file("memcached.conf", conf);
    }
    dir.file("text-users", "foo:bar\n");
    Server::start_with(dir, program, options, &[(VARIABLE, &path), (PEER_VARIABLE, &conf_dir)])
}

/// Writes the users as Cyrus SASL has them: a Berkeley database of passwords by user, host and
/// property. Its own tool for that comes with a service; Perl comes with memcached.
fn make_database(path: &str) {
    const SCRIPT: &str = r#"
        my ($path, $host, %users) = @ARGV;
        tie my %entries, "DB_File", $path, O_RDWR | O_CREAT, 0600, $DB_HASH or die "$path: $!";
        $entries{"$_\0$host\0userPassword"} = $users{$_} for keys %users;
    "#;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host has a name");
    let mut perl = Command::new("/usr/bin/perl");
    perl.args(["-MDB_File", "-MFcntl", "-e", SCRIPT, path, host.trim()]);
    perl.args(USERS.iter().flat_map(|(user, password)| [user, password]));
    assert!(perl.status().expect("perl runs").success(), "no database of users");
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
    for program in programs() {
        let server = guarded(&program, &["-S"]);
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
            assert_eq!(told(&mut server.connect(), &[ask]), expected, "{program:?}");
        }
        // The noop behind them is refused.
        let (answers, _) = told(&mut server.connect(), &[Ask::new(0x0b, ""), Ask::new(0x20, "")]);
        assert_eq!((answers[0].0, &answers[1]), (0, &(0, "PLAIN".to_owned())), "{program:?}");
    }
}

#[test]
fn a_login_opens_the_connection_until_another_fails() {
    for program in programs() {
        let server = guarded(&program, &["-S"]);
        let mut conn = server.connect();
        conn.send(&login(0x21, &"X".repeat(40), "\0testuser\0testpass").bytes());
        conn.send(&login(0x21, "PLAIN", "\0testuser\0wrong").bytes());
        let asks = [
            login(0x21, "PLAIN", "\0testuser\0testpass"),
            Ask::store(0x01, "k", 0, "v"),
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
        ];
        assert_eq!((&answers[..], closed), (&expected[..], false), "{program:?}");
        let (statistics, _) = converse(&mut conn, &[Ask::new(0x10, "")]);
        for (name, value) in [("auth_cmds", "2"), ("auth_errors", "1")] {
            let found = statistics.iter().find(|answer| answer.key == name.as_bytes());
            let found = found.map(|answer| &answer.value[..]);
            assert_eq!(found, Some(value.as_bytes()), "{program:?} {name}");
        }
        let asks = [login(0x21, "PLAIN", "\0testuser\0wrong"), Ask::new(0x00, "k")];
        assert_eq!(told(&mut conn, &asks), (vec![failed(), failed()], true), "{program:?}");
    }
}

#[test]
fn logins_in_steps_and_wrong_ones_come_to_the_same() {
    const RIGHT: &str = "\0testuser\0testpass";
    const WRONG: &str = "\0testuser\0wrong";
    let start = |message: &str| login(0x21, "PLAIN", message);
    let step = |message: &str| login(0x22, "PLAIN", message);
    let long = format!("\0{}\0testpass", "u".repeat(500));
    let conversations = [
        vec![start(""), step("\0other\0secret"), Ask::new(0x00, "k")],
        vec![start(""), step(WRONG), step(""), step(RIGHT), Ask::new(0x00, "k")],
        vec![start(""), Ask::new(0x20, ""), step(RIGHT), Ask::new(0x00, "k")],
        vec![start(""), start(WRONG), step(RIGHT)],
        vec![start(""), login(0x21, &"X".repeat(40), RIGHT), step(RIGHT)],
        vec![start(""), login(0x22, "NONE", RIGHT)],
        vec![step(RIGHT), start(RIGHT), Ask::new(0x00, "k")],
        vec![start(WRONG), step(RIGHT), start(RIGHT)],
        vec![start(RIGHT), Ask::new(0x20, ""), Ask::new(0x00, "k")],
        vec![start(RIGHT), login(0x21, &"X".repeat(40), RIGHT), Ask::new(0x00, "k")],
        vec![start(RIGHT), start(WRONG), start(RIGHT), Ask::new(0x00, "k")],
        vec![start("testuser\0testuser\0testpass")],
        vec![start("other\0testuser\0testpass")],
        vec![start("\0testuser\0testpass\0")],
        vec![start("\0testuser")],
        vec![start(&long)],
        vec![login(0x21, "plain", RIGHT)],
        vec![login(0x21, "PLAIN2", RIGHT)],
        vec![login(0x21, "LOGIN PLAIN", RIGHT)],
        vec![login(0x21, "", RIGHT)],
        vec![Ask::new(0x20, "key")],
        vec![login(0x20, "", "value")],
    ];
    let servers = programs().map(|program| guarded(&program, &["-S"]));
    for asks in conversations {
        let [kelvin, memcached] =
            servers.each_ref().map(|server| told(&mut server.connect(), &asks));
        assert_eq!(kelvin, memcached, "kelvin, and memcached: {asks:?}");
    }
}

#[test]
fn users_of_text_go_before_those_of_sasl() {
    for program in programs() {
        let server = guarded(&program, &["-S", "-Y", "{dir}/text-users"]);
        let mut conn = server.connect();
        conn.ask(b"get k\r\n", b"CLIENT_ERROR unauthenticated\r\n");
        let wrong = b"CLIENT_ERROR authentication failure\r\n";
        conn.ask(b"set k 0 0 17\r\ntestuser testpass\r\n", wrong);
        conn.ask(b"set k 0 0 7\r\nfoo bar\r\n", b"STORED\r\n");
        let (reply, _) = conn.exchange(&[b"stats settings\r\n"], |got| got.ends_with(b"END\r\n"));
        let settings = String::from_utf8_lossy(&reply);
        let path = format!("STAT auth_enabled_ascii {}\r\n", server.dir().path("text-users"));
        for line in ["STAT binding_protocol ascii\r\n", &path] {
            assert!(settings.contains(line), "{program:?}: {settings}");
        }
        for protocol in ["ascii", "binary"] {
            let (code, _, said) = program.run(&["-S", "-Y", "/dev/null", "-B", protocol]);
            assert_eq!(code, Some(64), "{program:?} {protocol}: {said}");
        }
    }
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
