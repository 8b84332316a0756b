//! Records that memory does not have: every command reads them from the disk, and replies come in
//! the order of the requests.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::IO;
use crate::harness::{
    binary::{self, Ask},
    conn::{Conn, REPLY_TIMEOUT, cut},
    log_directory::{Directory, record, set, stat},
    repeated,
    rng::Rng,
    server::Server,
};

/// Records of 1 to 8 KiB, 24 MB of them, in a table with 2 MiB of memory.
const KEYS: usize = 5000;
const VALUE_BYTES: usize = 8 << 10;
/// Sets that are sent together.
const TOGETHER: usize = 100;

fn name(key: usize) -> String {
    format!("key-{key}")
}

/// Of some lengths, so that records begin and end anywhere in a block; every other one is sent from
/// where it lies, the others are copied.
fn value(key: usize) -> Vec<u8> {
    let text = format!("{key} ");
    let len = if key.is_multiple_of(2) { VALUE_BYTES - key % 700 } else { 1500 + key % 700 };
    repeated(&text, len)
}

fn fill(server: &Server) -> Conn {
    let mut conn = server.connect();
    for first in (0..KEYS).step_by(TOGETHER) {
        let keys = first..first + TOGETHER;
        let request: Vec<u8> =
            keys.flat_map(|key| set(&name(key), key as u32, &value(key))).collect();
        conn.ask(&request, &b"STORED\r\n".repeat(TOGETHER));
    }
    conn
}

fn line(conn: &mut Conn, request: &str) -> String {
    let (reply, _) = conn.exchange(&[request.as_bytes()], |got| got.ends_with(b"\r\n"));
    String::from_utf8(reply).expect("text").trim_end().to_owned()
}

#[test]
fn every_command_finds_what_memory_does_not_have() {
    let directory = Directory::with_log();
    let server = directory.serve(IO, &[]);
    let mut conn = fill(&server);
    let ends_with_value =
        |key: usize| [&record(&name(key), key as u32, &value(key))[..], b"END\r\n"].concat();
    conn.ask(b"get key-0\r\n", &ends_with_value(0));
    let several = [record("key-1", 1, &value(1)), record("key-3", 3, &value(3))].concat();
    conn.ask(b"get key-1 none key-3\r\n", &[&several[..], b"END\r\n"].concat());
    conn.ask(b"add key-4 0 0 1\r\nx\r\n", b"NOT_STORED\r\n");
    conn.ask(b"replace none 0 0 1\r\nx\r\n", b"NOT_STORED\r\n");
    conn.ask(
        b"replace key-5 9 0 3\r\nnew\r\nget key-5\r\n",
        b"STORED\r\nVALUE key-5 9 3\r\nnew\r\nEND\r\n",
    );
    let joined = [b"<", &value(6)[..], b">"].concat();
    conn.ask(b"append key-6 0 0 1\r\n>\r\nprepend key-6 0 0 1\r\n<\r\n", b"STORED\r\nSTORED\r\n");
    conn.ask(b"get key-6\r\n", &[&record("key-6", 6, &joined)[..], b"END\r\n"].concat());
    // A number in a value that is wider than any is not filled up any further than that.
    conn.ask(
        b"incr key-7 1\r\nget key-7\r\n",
        b"8\r\nVALUE key-7 7 20\r\n8                   \r\nEND\r\n",
    );
    conn.ask(
        b"decr key-16 1\r\n",
        b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    );
    conn.ask(b"touch key-8 1000\r\ntouch none 1000\r\n", b"TOUCHED\r\nNOT_FOUND\r\n");
    let left = line(&mut conn, "mg key-8 t\r\n");
    assert!(["HD t1000", "HD t999"].contains(&&*left), "it has got a time: {left}");
    conn.ask(b"gat 0 key-9\r\n", &ends_with_value(9));
    let token = line(&mut conn, "mg key-10 c\r\n");
    let token = token.strip_prefix("HD c").expect("a token");
    conn.ask(b"cas key-10 0 0 1 1\r\nx\r\n", b"EXISTS\r\n");
    conn.ask(format!("cas key-10 0 0 1 {token}\r\nx\r\n").as_bytes(), b"STORED\r\n");
    conn.ask(b"cas none 0 0 1 1\r\nx\r\n", b"NOT_FOUND\r\n");
    conn.ask(
        b"delete key-11\r\ndelete key-11\r\nget key-11\r\n",
        b"DELETED\r\nNOT_FOUND\r\nEND\r\n",
    );
    let expected = [
        format!("VA {} f12 s{}\r\n", value(12).len(), value(12).len()).as_bytes(),
        &value(12),
        b"\r\n",
    ]
    .concat();
    conn.ask(b"mg key-12 v f s\r\n", &expected);
    conn.ask(
        b"md key-13 I T30\r\nmg key-13 s\r\nmg key-13 k\r\n",
        format!("HD\r\nHD s{} X W\r\nHD kkey-13 Z X\r\n", value(13).len()).as_bytes(),
    );
    conn.ask(b"mg fresh N30 v\r\nmg fresh v\r\n", b"VA 0 W\r\n\r\nVA 0 Z\r\n\r\n");
    conn.ask(
        b"ms key-14 2 MA\r\n!!\r\nma none N0 J7 v\r\nma none v\r\n",
        b"HD\r\nVA 1\r\n7\r\nVA 1\r\n8\r\n",
    );
    // Threads show their figures once a second.
    let deadline = Instant::now() + REPLY_TIMEOUT;
    while stat(&mut conn, "table_reads") < 10 {
        assert!(Instant::now() < deadline, "these were to come from the disk");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(stat(&mut conn, "table_reads_failed"), 0);
}

#[test]
fn the_binary_protocol_finds_it_too() {
    let directory = Directory::with_log();
    let server = directory.serve(IO, &[]);
    drop(fill(&server));
    let mut conn = server.connect();
    let (get, getkq, set_quietly, delete, append) = (0x00, 0x0d, 0x11, 0x04, 0x0e);
    let asks = [
        Ask::new(get, "key-0"),
        Ask::new(getkq, "none"),
        Ask::new(getkq, "key-1"),
        Ask::store(set_quietly, "key-2", 0, "quiet"),
        Ask { value: b"!".to_vec(), ..Ask::new(append, "key-3") },
        Ask::new(get, "key-2"),
        Ask::new(delete, "key-4"),
        Ask::new(delete, "key-4"),
        Ask::new(get, "key-3"),
    ];
    let (answers, closed) = binary::converse(&mut conn, &asks);
    assert!(!closed);
    let told: Vec<(u16, usize)> = answers.iter().map(|it| (it.status, it.value.len())).collect();
    let len = |key| value(key).len();
    let expected = [(0, len(0)), (0, len(1)), (0, 0), (0, 5), (0, 0), (1, 9), (0, len(3) + 1)];
    assert_eq!(told, expected);
    assert_eq!((&answers[1].key[..], &answers[0].value), (&b"key-1"[..], &value(0)));
    assert_ne!(answers[2].token, 0, "a store tells the token");
}

/// Hits, reads, writes that wait for their flush and words, mixed in one pipeline.
#[test]
fn replies_come_in_the_order_of_their_requests() {
    let directory = Directory::with_log();
    let server = directory.serve(IO, &[]);
    let mut conn = fill(&server);
    let mut rng = Rng::new(15);
    for round in 0..20 {
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        for _ in 0..150 {
            let (key, other) = (rng.below(KEYS), rng.below(KEYS));
            match rng.below(8) {
                0..=3 => {
                    request.extend(format!("get {}\r\n", name(key)).bytes());
                    reply.extend(
                        [&record(&name(key), key as u32, &value(key))[..], b"END\r\n"].concat(),
                    );
                }
                4 => {
                    request.extend(set(&name(key), key as u32, &value(key)));
                    reply.extend(b"STORED\r\n");
                }
                5 => {
                    request.extend(format!("get {} none {}\r\n", name(key), name(other)).bytes());
                    reply.extend(record(&name(key), key as u32, &value(key)));
                    reply.extend(
                        [&record(&name(other), other as u32, &value(other))[..], b"END\r\n"]
                            .concat(),
                    );
                }
                6 => {
                    request.extend(format!("touch {} 0\r\nmg none v q\r\n", name(key)).bytes());
                    reply.extend(b"TOUCHED\r\n");
                }
                _ => {
                    request.extend(b"mn\r\nbad\r\n");
                    reply.extend(b"MN\r\nERROR\r\n");
                }
            }
        }
        let (got, _) = conn.exchange(&[&request], |got| got.len() >= reply.len());
        assert!(got == reply, "round {round}: replies differ");
    }
}

/// What is too large for one record of the log is refused, and a `set` of it leaves nothing.
#[test]
fn values_have_a_limit() {
    let directory = Directory::new();
    let server = directory.serve(IO, &[]);
    let mut conn = server.connect();
    let most = vec![b'm'; 256 << 10];
    conn.ask(&set("large", 0, &most), b"STORED\r\n");
    conn.ask(b"get large\r\n", &[&record("large", 0, &most)[..], b"END\r\n"].concat());
    conn.ask(b"append large 0 0 1\r\nx\r\n", b"NOT_STORED\r\n");
    conn.ask(
        &set("large", 0, &[&most[..], b"x"].concat()),
        b"SERVER_ERROR object too large for cache\r\n",
    );
    conn.ask(b"get large\r\nflush_all\r\n", b"END\r\nCLIENT_ERROR flush_all not allowed\r\n");
}

/// A value that comes in pieces, between other requests, and one whose end is wrong.
#[test]
fn a_value_comes_in_pieces() {
    let directory = Directory::with_log();
    let server = directory.serve(IO, &[]);
    let mut conn = server.connect();
    let value: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let request = [b"set a 0 0 1\r\n1\r\n", &set("slow", 3, &value)[..], b"get a\r\n"].concat();
    let mut rng = Rng::new(3);
    let pieces = cut(&request, &mut rng, 40);
    let expected = b"STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n";
    let (got, _) = conn.exchange(&pieces, |got| got.len() >= expected.len());
    assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string());
    conn.ask(b"get slow\r\n", &[&record("slow", 3, &value)[..], b"END\r\n"].concat());
    let whole = set("slow", 3, &value);
    let wrong = [&whole[..whole.len() - 2], b"??"].concat();
    conn.send(&wrong[..100_000]);
    conn.ask(&wrong[100_000..], b"CLIENT_ERROR bad data chunk\r\n");
}

/// Whoever half-closes gets all answers.
#[test]
fn what_is_under_way_is_answered_after_the_last_request() {
    let directory = Directory::with_log();
    let server = directory.serve(IO, &[]);
    let mut conn = fill(&server);
    let request: Vec<u8> =
        (0..60).flat_map(|key| format!("get {}\r\n", name(key)).into_bytes()).collect();
    conn.send(&request);
    conn.shut_write_if_open();
    let expected: Vec<u8> = (0..60)
        .flat_map(|key| [&record(&name(key), key as u32, &value(key))[..], b"END\r\n"].concat())
        .collect();
    assert!(conn.read_to_close() == expected, "answers are missing");
}

/// What few keys take of memory is within the default, so the server does not say otherwise.
#[test]
fn the_index_of_few_keys_is_within_the_default_memory() {
    let directory = Directory::with_log();
    let path = directory.path().to_str().expect("text");
    let arguments = ["--data-dir", path, "--net-threads", "2", "--write-mode", "async"];
    let server = Server::kelvin_with_memory(IO, "64MiB", &arguments);
    let mut conn = server.connect();
    for key in 0..500 {
        conn.ask(&set(&name(key), 0, b"v"), b"STORED\r\n");
    }
    // It is looked at once a second.
    thread::sleep(Duration::from_millis(2500));
    assert!(!server.log().contains("has grown beyond"), "{}", server.log());
    let index_bytes = stat(&mut conn, "log_index_bytes");
    assert!((4 << 20..8 << 20).contains(&index_bytes), "{index_bytes}");
}
