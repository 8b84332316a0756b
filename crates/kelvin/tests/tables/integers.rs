//! Tables of integers: the same commands as on any other table, on keys that have one spelling.

use std::fmt::Write as _;

use crate::{
    harness::{
        binary::{Ask, converse},
        log_directory::Directory,
        rng::Rng,
        server::Io,
    },
    serving::{Section, ask, home_of, make_log_once, of_table, refusal, serve, stop},
};

const SECTIONS: [Section; 2] = [
    Section {
        more: "keys = \"integer\"\nrange = [10, 60]",
        ..Section::new("numbers", "n:", "durable")
    },
    Section::new("bytes", "b:", "durable"),
];

const ROUNDS: usize = 3;
const COMMANDS: usize = 400;

const FOREIGN: &str = "CLIENT_ERROR the key is no integer of its table\n";

fn make_logs(directory: &Directory) {
    make_log_once(&home_of(directory, "numbers"), "integers:10-50");
}

/// A command on a key: what is left out is its prefix.
fn command(rng: &mut Rng) -> String {
    let key = 10 + rng.below(50);
    // What a delete of an expired record says depends on whether memory has a copy of it.
    let (key_that_expires, key_that_is_deleted) = (key & !1, key | 1);
    let number = rng.below(200);
    let value = format!("{number}{}", " ".repeat(rng.below(2) * rng.below(300)));
    let (len, time) = (value.len(), rng.pick(&["0", "0", "1000"]).to_owned());
    match rng.below(18) {
        0..=3 => format!("set #{key} {number} {time} {len}\n{value}\n"),
        4 => format!("add #{key} 0 0 {len}\n{value}\n"),
        5 => format!("replace #{key} 1 0 {len}\n{value}\n"),
        6 => format!("append #{key} 0 0 {len}\n{value}\n"),
        7 => format!("prepend #{key} 0 0 {len}\n{value}\n"),
        8 => format!("incr #{key} {number}\n"),
        9 => format!("decr #{key} {number}\n"),
        10 => format!("delete #{key_that_is_deleted}\n"),
        11 => format!("touch #{key} {time}\n"),
        12 => format!("gat 0 #{key} #{}\n", 10 + rng.below(50)),
        13 => format!("mg #{key} v f s k q\nmn\n"),
        14 => format!("ms #{key} {len} F7\n{value}\n"),
        15 => format!("set #{key_that_expires} {number} -1 {len}\n{value}\n"),
        16 => format!("touch #{key_that_expires} -1\n"),
        _ => format!("ma #{key} N0 J5 v\n"),
    }
}

#[test]
fn integers_are_served_as_strings_are() {
    for io in Io::BOTH {
        let directory = Directory::new();
        make_logs(&directory);
        let mut rng = Rng::new(11);
        for _ in 0..ROUNDS {
            // Its range is longer than when it was made.
            let server = serve(&directory, io, "volatile", &SECTIONS, &[]);
            let conn = &mut server.connect();
            let mut gets = String::from("get");
            for key in 10..60 {
                write!(gets, " #{key}").expect("it fits");
            }
            gets.push('\n');
            for at in 0..COMMANDS {
                let command = if at % 50 == 0 { gets.clone() } else { command(&mut rng) };
                let [numbers, bytes] = ["n:", "b:"]
                    .map(|prefix| ask(conn, &command.replace('#', prefix)).replace(prefix, "#"));
                assert_eq!(numbers, bytes, "{command}");
            }
            let entries = of_table(conn, "numbers:log_entries");
            let index: u64 = of_table(conn, "numbers:log_index_bytes").parse().expect("a number");
            assert!(entries.parse::<u64>().expect("a number") > 20, "{entries}");
            assert!(index < 1 << 20, "{index} is the index of strings");
            stop(server);
        }
    }
}

#[test]
fn what_is_no_integer_of_the_range_is_a_clients_error_and_changes_nothing() {
    let directory = Directory::new();
    make_logs(&directory);
    let server = serve(&directory, Io::Uring, "volatile", &SECTIONS, &[]);
    let conn = &mut server.connect();
    for key in ["10", "59"] {
        assert_eq!(ask(conn, &format!("set n:{key} 0 0 1\n1\n")), "STORED\n");
    }
    for key in
        ["9", "60", "", "x", "010", "+10", "-10", "10x", "1e1", "0x10", "18446744073709551626"]
    {
        for request in [
            format!("set n:{key} 0 0 1\n1\n"),
            format!("set n:{key} 0 0 10000\n{}\n", "v".repeat(10_000)),
            format!("add n:{key} 0 0 1\n1\n"),
            format!("append n:{key} 0 0 1\n1\n"),
            format!("get n:{key}\n"),
            format!("gat 0 n:{key}\n"),
            format!("delete n:{key}\n"),
            format!("touch n:{key} 0\n"),
            format!("incr n:{key} 1\n"),
            format!("mg n:{key} v\n"),
            format!("mg n:{key} N10\n"),
            format!("ms n:{key} 1\n1\n"),
            format!("md n:{key}\n"),
            format!("ma n:{key}\n"),
            format!("me n:{key}\n"),
        ] {
            assert_eq!(ask(conn, &request), FOREIGN, "{request}");
        }
    }
    assert_eq!(of_table(conn, "numbers:log_entries"), "2");
    let mut binary = server.connect();
    let asks = [
        Ask::new(0x00, "n:10"),
        Ask::new(0x00, "n:010"),
        Ask::store(0x01, "n:x", 0, "1"),
        Ask::new(0x04, "n:60"),
        Ask::count(0x05, "n:", 1, 1, 0),
    ];
    let (replies, _) = converse(&mut binary, &asks);
    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [0, 4, 4, 4, 4]);
    // Among the records of one retrieval an error is no end that clients know.
    let mut several = server.connect();
    several.send(b"get n:10 n:010 n:59\r\n");
    let got = String::from_utf8(several.read_to_close()).expect("text").replace("\r\n", "\n");
    assert_eq!(got, format!("VALUE n:10 0 1\n1\n{FOREIGN}"));
    stop(server);
}

#[test]
fn a_log_of_other_keys_is_refused_as_it_is() {
    let directory = Directory::new();
    make_logs(&directory);
    for (range, wants) in [
        ("", "this table has strings"),
        ("keys = \"integer\"\nrange = [10, 49]", "from 10 to below 49 (positions of 5 bytes)"),
        ("keys = \"integer\"\nrange = [0, 50]", "from 0 to below 50"),
        ("keys = \"integer\"\nrange = [10, 50]\nposition_bytes = 6", "positions of 6 bytes"),
    ] {
        let own = "name = \"numbers\"\nprefix = \"n:\"\nkind = \"durable\"";
        let said = refusal(&directory, &format!("{own}\n{range}"));
        let has = "has integers from 10 to below 50 (positions of 5 bytes) for keys";
        assert!(said.contains(has) && said.contains(wants), "{said}");
    }
}
