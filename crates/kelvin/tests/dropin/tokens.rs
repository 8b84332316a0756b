//! `-C`: records without tokens.

use super::servers::{Server, on_both, on_recent};
use crate::harness::binary::{Answer, Ask, converse};

/// A directory's socket, and no tokens.
const OPTIONS: [&str; 3] = ["-C", "-s", "{dir}/socket"];

/// Asks each of `asked` for its reply, on one connection.
fn say(server: &Server, asked: &[(&str, &str)]) {
    let mut conn = server.connect();
    for (request, reply) in asked {
        conn.ask(format!("{request}\r\n").as_bytes(), format!("{reply}\r\n").as_bytes());
    }
}

#[test]
fn without_tokens_no_cas_stores() {
    on_both(&OPTIONS, |server| {
        say(
            server,
            &[
                ("set k 0 0 1\r\n5", "STORED"),
                ("gets k", "VALUE k 0 1 0\r\n5\r\nEND"),
                ("gats 0 k", "VALUE k 0 1 0\r\n5\r\nEND"),
                ("cas k 0 0 1 0\r\nx", "EXISTS"),
                ("cas k 0 0 1 1\r\nx", "EXISTS"),
                ("cas none 0 0 1 0\r\nx", "NOT_FOUND"),
                ("incr k 1", "6"),
                ("append k 0 0 1\r\n1", "STORED"),
                ("gets k", "VALUE k 0 2 0\r\n61\r\nEND"),
                ("ms k 1 c C0\r\nx", "EX c0"),
                ("ms k 1 c C1 I\r\nx", "EX c0"),
                ("ms k 1 c\r\n7", "HD c0"),
                ("ms k 1 MA C9\r\n1", "HD"),
                ("ma k c", "HD c0"),
                ("ma k C4", "EX"),
                ("md k C1", "EX"),
                ("md k I C0", "HD"),
                ("mg k c", "HD c0 X W"),
                ("md k C0", "HD"),
                ("mg none c N0", "HD c0 W"),
            ],
        );
        let counted = ["cas_misses", "cas_hits", "cas_badval"].map(|name| server.stat("", name));
        assert_eq!(server.stat("settings", "cas_enabled").as_deref(), Some("no"));
        counted
    });
}

#[test]
fn clients_give_no_tokens_either() {
    on_recent(&OPTIONS, |server| {
        say(
            server,
            &[
                ("ms k 1 c E9\r\n5", "HD c0"),
                ("mg k c v C0", "HD c0"),
                ("mg k c v C1", "VA 1 c0\r\n5"),
                ("ma k c E9", "HD c0"),
                ("mg none c E9 N0", "HD c0 W"),
                ("md k x E9", "HD"),
                ("mg k c s", "HD c0 s0"),
                ("md k I E9", "HD"),
                ("mg k c", "HD c0 X W"),
            ],
        );
    });
}

#[test]
fn the_binary_protocol_has_none() {
    on_both(&OPTIONS, |server| {
        let with_token = |ask: Ask| Ask { token: 9, ..ask };
        let asks = [
            // A set is no comparison then.
            with_token(Ask::store(0x01, "k", 0, "5")),
            with_token(Ask::store(0x02, "k", 0, "5")),
            with_token(Ask::store(0x03, "k", 0, "5")),
            with_token(Ask { value: b"1".to_vec(), ..Ask::new(0x0e, "k") }),
            Ask::new(0x00, "k"),
            with_token(Ask::count(0x05, "k", 1, 0, 0)),
            Ask::count(0x05, "k", 1, 0, 0),
            Ask::timed(0x1c, "k", 100),
            with_token(Ask::new(0x04, "k")),
            Ask::new(0x04, "k"),
        ];
        let (answers, closed) = converse(&mut server.connect(), &asks);
        assert!(answers.iter().all(|answer| answer.token == 0), "{answers:?}");
        let statuses: Vec<u16> = answers.iter().map(|Answer { status, .. }| *status).collect();
        assert_eq!(statuses, [0, 2, 0, 0, 0, 2, 0, 0, 2, 0]);
        (answers, closed)
    });
}
