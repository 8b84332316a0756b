//! Logins, of both protocols.

use std::{fs, sync::Arc};

use super::{Answer, Ask, Client, Next, Server, Status, answers, ask, converse, failed};
use crate::{config::Protocol, memcached::Access, users::Users};

/// A server with one user.
fn guarded() -> Server {
    let mut server = Server::new();
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default().replace(':', "-");
    let path = std::env::temp_dir().join(format!("kelvin-login-{}-{name}", std::process::id()));
    fs::write(&path, "me:secret:and more\n").expect("a file");
    let users = Some(Arc::new(Users::load(&path).expect("users")));
    fs::remove_file(&path).expect("a file");
    server.context.access = Access { protocol: Protocol::Auto, users };
    server
}

fn login<'a>(message: &'a [u8]) -> Ask<'a> {
    Ask { value: message, ..Ask::new(0x21, "PLAIN") }
}

fn say(server: &mut Server, client: &mut Client, ask: Ask<'_>) -> (Answer, Next) {
    let (mut answers, next) = converse(server, client, &[ask]);
    assert_eq!(answers.len(), 1, "{answers:?}");
    (answers.remove(0), next)
}

fn counted(server: &Server) -> (u64, u64) {
    let totals = server.stats.totals();
    (totals.auth_cmds, totals.auth_errors)
}

#[test]
fn without_users_there_is_nothing_to_log_in_to() {
    let mut server = Server::new();
    let long = Ask { value: &[0; 2000], ..Ask::new(0x21, "PLAIN") };
    let step = Ask { value: b"x", ..Ask::new(0x22, "PLAIN") };
    let asks = [Ask::new(0x20, ""), login(b"\0me\0secret"), step, long, Ask::new(0x0a, "")];
    let answers = ask(&mut server, &asks);
    for (answer, opcode) in answers.iter().zip([0x20, 0x21, 0x22, 0x21]) {
        assert_eq!(answer.short(), failed(opcode, Status::UnknownCommand));
    }
    assert_eq!((answers.len(), counted(&server)), (5, (0, 0)));
}

#[test]
fn a_stranger_may_ask_for_version_and_mechanisms_and_nothing_else() {
    let mut server = guarded();
    let mut client = server.client();
    assert_eq!(say(&mut server, &mut client, Ask::new(0x0b, "")).0.status, 0);
    let (mechanisms, _) = say(&mut server, &mut client, Ask::new(0x20, ""));
    assert_eq!(mechanisms.short(), (0x20, 0, "PLAIN"));
    let large = [b'x'; 5000];
    for ask in [
        Ask::new(0x00, "k"),
        Ask::new(0x0a, ""),
        Ask::new(0x10, ""),
        Ask::new(0x17, ""),
        Ask::new(0x1b, ""),
        Ask::store(0x01, "k", b"v"),
        Ask::store(0x11, "k", &large),
        Ask { value: b"malformed", ..Ask::new(0x00, "k") },
    ] {
        let mut client = server.client();
        let (answer, next) = say(&mut server, &mut client, ask);
        assert_eq!(answer.short(), failed(ask.opcode, Status::Unauthenticated));
        assert_eq!(next, Next::Finish);
    }
    assert_eq!((server.cache.stats().records, counted(&server)), (0, (0, 0)));
}

#[test]
fn a_login_opens_the_connection_and_a_failed_one_closes_it_to_all() {
    let mut server = guarded();
    let mut client = server.client();
    let (wrong, next) = say(&mut server, &mut client, login(b"\0me\0wrong"));
    assert_eq!((wrong.short(), next), (failed(0x21, Status::Unauthenticated), Next::Read));
    let (right, _) = say(&mut server, &mut client, login(b"\0me\0secret"));
    assert_eq!(right.short(), (0x21, 0, "Authenticated"));
    assert_eq!(say(&mut server, &mut client, Ask::new(0x00, "k")).0.status, 1);
    say(&mut server, &mut client, login(b"\0me\0wrong"));
    let (stranger, next) = say(&mut server, &mut client, Ask::new(0x00, "k"));
    assert_eq!((stranger.status, next), (0x20, Next::Finish));
    assert_eq!(counted(&server), (3, 2));
}

#[test]
fn requests_behind_a_login_in_the_same_packet_count_on_it() {
    let mut server = guarded();
    let mut client = server.client();
    let asks = [login(b"\0me\0secret:and more"), Ask::new(0x0a, "")];
    let (answers, next) = converse(&mut server, &mut client, &asks);
    assert_eq!((answers.len(), answers[1].status, next), (2, 0, Next::Read));
    let mut client = server.client();
    let asks = [login(b"\0me\0"), Ask::store(0x01, "k", b"v"), Ask::new(0x0a, "")];
    let (answers, next) = converse(&mut server, &mut client, &asks);
    assert_eq!((answers.len(), answers[1].status, next), (2, 0x20, Next::Finish));
}

#[test]
fn nothing_of_a_strangers_request_is_waited_for() {
    let mut server = guarded();
    let set = Ask::store(0x01, "k", &[b'v'; 4000]).bytes();
    let mut client = server.client();
    let (replies, next) = server.send_until(&mut client, &set[..23]);
    assert_eq!((replies.len(), next), (0, Next::Read));
    let (replies, next) = server.send_until(&mut client, &set[23..24]);
    assert_eq!(answers(&replies)[0].short(), failed(0x01, Status::Unauthenticated));
    assert_eq!(next, Next::Finish);
    let mut client = server.client();
    assert_eq!(server.send_until(&mut client, b"set k 0 0 1001\r\n").0.len(), 34);
}

#[test]
fn a_login_in_two_steps() {
    let mut server = guarded();
    let mut client = server.client();
    let step = Ask { value: b"\0me\0secret", ..Ask::new(0x22, "PLAIN") };
    assert_eq!(say(&mut server, &mut client, step).0.status, 0x20, "nothing to go on with");
    let (goes_on, _) = say(&mut server, &mut client, login(b""));
    assert_eq!(goes_on.short(), (0x22 - 1, 0x21, ""));
    let wrong = Ask { value: b"\0me\0wrong", ..step };
    assert_eq!(say(&mut server, &mut client, wrong).0.status, 0x20);
    assert_eq!(say(&mut server, &mut client, Ask::new(0x20, "")).0.status, 0);
    assert_eq!(say(&mut server, &mut client, step).0.short(), (0x22, 0, "Authenticated"));
    assert_eq!(say(&mut server, &mut client, step).0.status, 0x20, "it was over");
    let stranger = say(&mut server, &mut client, step);
    assert_eq!((stranger.0.status, stranger.1), (0x20, Next::Read));
    let other = Ask { value: b"\0me\0secret", ..Ask::new(0x21, "CRAM-MD5") };
    assert_eq!(say(&mut server, &mut client, other).0.status, 0x20);
}

#[test]
fn a_text_client_logs_in_by_a_set() {
    let mut server = guarded();
    let mut client = server.client();
    let mut told = |bytes: &str| {
        let (replies, next) = server.send_until(&mut client, bytes.as_bytes());
        (String::from_utf8(replies).expect("text"), next)
    };
    let reply = |text: &str| (format!("{text}\r\n"), Next::Read);
    assert_eq!(told("get k\r\n"), reply("CLIENT_ERROR unauthenticated"));
    assert_eq!(told("set k 0 0 8\r\nme wrong\r\n"), reply("CLIENT_ERROR authentication failure"));
    assert_eq!(
        told("set k 0 0 9\r\nme secret\r\n"),
        reply("CLIENT_ERROR authentication failure"),
        "in text a password does not end at a colon"
    );
    assert_eq!(told("set k 0 0 18\r\nme secret:"), (String::new(), Next::Read));
    assert_eq!(told("and more\r\nget k\r\n"), reply("STORED\r\nEND"));
    assert_eq!(told("set k 0 0 1\r\nv\r\nget k\r\n"), reply("STORED\r\nVALUE k 0 1\r\nv\r\nEND"));
    assert_eq!(counted(&server), (3, 2));
    let mut client = server.client();
    assert_eq!(server.send_until(&mut client, b"mn\r\n\r\n"), (vec![], Next::Finish));
}

#[test]
fn the_two_logins_are_apart() {
    let mut server = guarded();
    let mut client = server.client();
    let (replies, next) = server.send_until(&mut client, &login(b"\0me\0secret").bytes());
    assert_eq!((answers(&replies).len(), next), (1, Next::Read));
    assert_eq!(server.send_until(&mut client, b"get k\r\n"), (vec![], Next::Finish));
}
