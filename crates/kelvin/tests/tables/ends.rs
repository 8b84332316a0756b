//! What tables have after their server was killed, or stopped.

use std::thread;

use crate::{
    harness::{
        conn::Conn,
        log_directory::Directory,
        rng::Rng,
        server::{Io, Server},
    },
    serving::{Section, ask, refusal, serve, stop},
};

const SECTIONS: [Section; 3] = [
    Section::new("one", "1:", "durable"),
    Section::new("two", "2:", "durable"),
    Section::new("fast", "m:", "volatile"),
];

const KEYS: usize = 40;

/// What was acknowledged last of each key of two tables and of the default one, by one client.
struct Client {
    number: usize,
    values: Vec<Option<u64>>,
}

impl Client {
    fn key(&self, at: usize) -> String {
        format!("{}{}-{at}", ["1:", "2:", ""][at % 3], self.number)
    }

    fn play(&mut self, conn: &mut Conn, rng: &mut Rng, commands: usize) {
        for _ in 0..commands {
            let at = rng.below(KEYS);
            let key = self.key(at);
            let value = rng.next();
            if rng.chance(25) {
                let reply =
                    if self.values[at].take().is_some() { "DELETED\n" } else { "NOT_FOUND\n" };
                assert_eq!(ask(conn, &format!("delete {key}\n")), reply);
            } else {
                let text = format!("{value:020}{}", "x".repeat(rng.below(3000)));
                assert_eq!(
                    ask(conn, &format!("set {key} 0 0 {}\n{text}\n", text.len())),
                    "STORED\n"
                );
                self.values[at] = Some(value);
            }
            assert_eq!(ask(conn, &format!("set m:{key} 0 0 1\n1\n")), "STORED\n");
        }
    }

    fn check(&self, conn: &mut Conn) {
        for (at, value) in self.values.iter().enumerate() {
            let key = self.key(at);
            let got = ask(conn, &format!("get {key} m:none\n"));
            match value {
                None => assert_eq!(got, "END\n", "{key} is back"),
                Some(value) => assert!(got.contains(&format!("\n{value:020}")), "{key}: {got}"),
            }
        }
    }
}

#[test]
fn what_was_acknowledged_outlasts_the_server_in_each_table() {
    for io in Io::BOTH {
        let directory = Directory::new();
        let mut clients: Vec<Client> =
            (0..4).map(|number| Client { number, values: vec![None; KEYS] }).collect();
        for (round, end) in [drop::<Server>, stop, drop, drop].into_iter().enumerate() {
            let server = serve(&directory, io, "durable", &SECTIONS, &[]);
            thread::scope(|scope| {
                for client in &mut clients {
                    let mut conn = server.connect();
                    scope.spawn(move || {
                        client.check(&mut conn);
                        assert_eq!(ask(&mut conn, &format!("get m:{}\n", client.key(1))), "END\n");
                        let seed = round * 10 + client.number;
                        client.play(&mut conn, &mut Rng::new(seed as u64), 60);
                    });
                }
            });
            // A kill when it is dropped.
            end(server);
        }
    }
}

/// What a table has is in a directory of its own, and nobody else's.
#[test]
fn a_table_whose_log_cannot_be_opened_keeps_the_server_from_serving() {
    let directory = Directory::new();
    let server = serve(&directory, Io::Uring, "volatile", &SECTIONS[..1], &[]);
    assert_eq!(ask(&mut server.connect(), "set 1:a 0 0 1\n1\n"), "STORED\n");
    stop(server);
    let said = refusal(&directory, "name = \"one\"\nprefix = \"1:\"\nkind = \"spill\"");
    assert!(said.contains("tables/one"), "{said}");
    // And it is as it was.
    let server = serve(&directory, Io::Uring, "volatile", &SECTIONS[..1], &[]);
    assert_eq!(ask(&mut server.connect(), "get 1:a\n"), "VALUE 1:a 0 1\n1\nEND\n");
    stop(server);
}
