//! How much may wait, and what then.

use store::limits::{LARGE_IDLE_MS, LARGE_WANTED_MS};

use super::*;
use crate::memcached::durable::upload::UPLOAD_BYTES_MAX;

#[test]
fn a_connection_has_so_many_requests_under_way() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    let names: Vec<String> = (0..SLOTS_MAX + 6).map(|key| format!("set k{key} 0 0 1")).collect();
    let lines: Vec<&str> = names.iter().flat_map(|name| [name, "x"]).collect();
    let asked = stage.send(&mut client, &lines);
    assert_eq!(asked, (String::new(), Next::Wait), "more is under way than may be");
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".repeat(SLOTS_MAX), Next::Read));
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".repeat(6), Next::Read));
}

#[test]
fn whom_the_store_has_no_place_for_waits_and_hears_it_after_a_second() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let names: Vec<String> = (0..SLOTS_MAX).map(|key| format!("set k{key} 0 0 1")).collect();
    let lines: Vec<&str> = names.iter().flat_map(|name| [name, "x"]).collect();
    let mut clients: Vec<Client> = (0..PENDING_MAX / SLOTS_MAX).map(|_| stage.client()).collect();
    for client in &mut clients {
        assert_eq!(stage.send(client, &lines), (String::new(), Next::Read));
    }
    let mut late = stage.client();
    assert_eq!(stage.send(&mut late, &["set late 0 0 1", "x"]), (String::new(), Next::Retry));
    stage.clock.advance_ms(999);
    assert_eq!(stage.serve(&mut late), (String::new(), Next::Retry), "a request is lost");
    stage.clock.advance_ms(1);
    let words = "SERVER_ERROR too much waits for the disk\n";
    assert_eq!(stage.serve(&mut late), (words.to_owned(), Next::Read));
    while stage.go_on() {}
    assert_eq!(stage.serve(&mut clients[0]).0, "STORED\n".repeat(SLOTS_MAX));
    assert_eq!(stage.ask(&["get late k1"]), "VALUE k1 0 1\nx\nEND\n");
}

/// The replies that come while it waits for more keys are many bytes, and the rest of the line is
/// no key.
#[test]
fn a_line_of_keys_that_turns_out_to_be_wrong_waits_for_its_turn() {
    let directory = Directory::new();
    let mut stage = cold(&directory, 5, VALUE_BYTES_MAX);
    let mut client = stage.client();
    let keys = format!("set a 0 0 1\r\nx\r\nget c0 c1 c2 c3 c4{}", " ".repeat(16 << 10));
    assert_eq!(stage.stream(&mut client, keys.as_bytes()), (String::new(), Next::Read));
    let (held, _) = stage.go_on_without(is_flush);
    let rest = [&[b'k'; 251][..], b"\n"].concat();
    stage.feed(&mut client, &rest);
    assert_eq!(stage.serve(&mut client), (String::new(), Next::Wait));
    assert!(stage.make_up(held));
    let (replies, next) = stage.serve(&mut client);
    let value = format!("{}\n", "v".repeat(VALUE_BYTES_MAX));
    let lines = replies.replace(&value, "").replace(&format!(" {VALUE_BYTES_MAX}"), "");
    let expected = "STORED\nVALUE c0 0\nVALUE c1 0\nVALUE c2 0\nVALUE c3 0\nVALUE c4 0\n\
        CLIENT_ERROR bad command line format\n";
    assert_eq!((lines.as_str(), next), (expected, Next::Finish));
}

/// Values from the disk count until they are taken: with too many of them, a client that has some
/// gets no more, and another one waits for what it wants.
#[test]
fn what_clients_do_not_take_is_bounded() {
    const LEN: usize = 50_000;
    let directory = Directory::new();
    let mut stage = cold(&directory, 8, LEN);
    // With those under way a client has room for the half of it.
    stage.table.unsent_bytes_max = 8 * LEN;
    let (mut one, mut other) = (stage.client(), stage.client());
    stage.feed(&mut one, b"get c0\r\nget c1\r\nget c2\r\nget c3\r\n");
    assert_eq!(stage.turn(&mut one), Next::Wait, "a client has all of it");
    assert!(stage.go_on());
    assert_eq!(stage.turn(&mut one), Next::Wait, "a client has all of it");
    // What is left is for those who have none.
    let mut late = stage.client();
    stage.feed(&mut late, b"get c6\r\n");
    assert_eq!(stage.turn(&mut late), Next::Read, "who has none waits");
    assert!(stage.go_on());
    assert_eq!(stage.turn(&mut late), Next::Read);
    assert!(taken(&mut late).len() > LEN);
    stage.table.unsent_bytes_max = 3 * LEN;
    assert!(stage.table.is_laden(), "what is not taken is not counted");
    assert_eq!(stage.turn(&mut one), Next::Wait);
    for request in ["get c4", "gat 0 c4", "mg c4 v T0"] {
        let mut other = stage.client();
        stage.feed(&mut other, format!("{request}\r\n").as_bytes());
        assert_eq!(stage.turn(&mut other), Next::Retry, "{request} adds to it");
        assert!(!stage.table.is_waited_for());
        stage.clock.advance_ms(1000);
        let words = "SERVER_ERROR too much waits for the disk\n";
        assert_eq!(stage.serve(&mut other).0, words, "{request}");
    }
    stage.feed(&mut other, b"get c4\r\n");
    assert_eq!(stage.turn(&mut other), Next::Retry);
    assert!(taken(&mut one).len() > 3 * LEN);
    assert!(!stage.table.is_laden());
    assert!(stage.take_roused(), "who has taken all is served again");
    for client in [&mut one, &mut other] {
        assert_eq!(stage.turn(client), Next::Read);
        assert!(stage.go_on());
        assert_eq!(stage.turn(client), Next::Read);
        assert!(taken(client).len() > LEN);
    }
    stage.table.unsent_bytes_max = 1;
    assert!(!stage.table.is_laden(), "nothing is left to be taken");
}

/// Others wait for the memory. Without them nobody is cut off.
#[test]
fn who_takes_nothing_while_others_wait_is_cut_off() {
    const LEN: usize = 50_000;
    let directory = Directory::new();
    let mut stage = cold(&directory, 2, LEN);
    stage.table.unsent_bytes_max = LEN;
    let (mut one, mut other) = (stage.client(), stage.client());
    stage.feed(&mut one, b"get c0\r\n");
    assert_eq!(stage.turn(&mut one), Next::Read);
    assert!(stage.go_on());
    assert_eq!(stage.turn(&mut one), Next::Read);
    stage.clock.advance_ms(LARGE_IDLE_MS - 1);
    stage.feed(&mut other, b"get c1\r\n");
    assert_eq!(stage.turn(&mut other), Next::Retry);
    assert!(!stage.go_on(), "it is too early");
    assert_eq!(stage.serve(&mut other).1, Next::Retry);
    stage.clock.advance_ms(LARGE_WANTED_MS - 1);
    assert_eq!(stage.turn(&mut other), Next::Retry);
    assert!(stage.go_on(), "nobody looks at it");
    assert_eq!(stage.turn(&mut one), Next::Abort, "it keeps what others wait for");
    drop(one);
    assert_eq!(stage.turn(&mut other), Next::Read);
    assert!(stage.go_on());
    assert_eq!(stage.turn(&mut other), Next::Read);
    assert!(taken(&mut other).len() > LEN);
}

/// A connection has one long line that waits to be answered, and none for a value that arrives.
#[test]
fn of_long_lines_few_are_kept() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    let long = format!("set a 0 0 1{}", " ".repeat(3000));
    assert_eq!(stage.send(&mut client, &["set b 0 0 1", "1"]).1, Next::Read);
    assert_eq!(stage.send(&mut client, &[&long, "2"]).1, Next::Wait);
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".to_owned(), Next::Read));
    assert_eq!(stage.send(&mut client, &["get a", &long, "3"]), (String::new(), Next::Wait));
    assert!(stage.go_on());
    let told = "STORED\nVALUE a 0 1\n2\nEND\n";
    assert_eq!(stage.serve(&mut client), (told.to_owned(), Next::Read));
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".to_owned(), Next::Read));
    let begun = format!("set a 0 0 5000{}\r\nbegin", " ".repeat(3000));
    let words = "SERVER_ERROR out of memory storing object\n";
    assert_eq!(stage.stream(&mut client, begun.as_bytes()), (words.to_owned(), Next::Read));
    let rest = [&[b'v'; 4995][..], b"\r\nget a\r\n"].concat();
    assert_eq!(stage.stream(&mut client, &rest).0, "VALUE a 0 1\n3\nEND\n");
}

/// Others are to blame for it, and the record that was to be replaced stays.
#[test]
fn a_value_that_there_is_no_memory_for_leaves_the_record_that_was_there() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    assert_eq!(stage.ask(&["set a 0 0 3", "old"]), "STORED\n");
    let mut of_others = stage.table.upload(UPLOAD_BYTES_MAX);
    assert!(of_others.push(&vec![0; UPLOAD_BYTES_MAX]));
    stage.feed(&mut client, b"set a 0 0 5000\r\nbegin");
    let (mut replies, _) = stage.serve(&mut client);
    while stage.go_on() {
        replies += &stage.serve(&mut client).0;
    }
    assert_eq!(stage.ask(&["get a"]), "VALUE a 0 3\nold\nEND\n", "a record went");
    assert_eq!(replies, "SERVER_ERROR out of memory storing object\n");
    drop(of_others);
    let rest = [&[b'v'; 4995][..], b"\r\nmn\r\n"].concat();
    assert_eq!(stage.stream(&mut client, &rest), ("MN\n".to_owned(), Next::Read));
}

/// Clients that do not read have pinned as much of memory as may be. The log has all values.
#[test]
fn what_is_not_pinned_because_much_is_comes_from_the_log() {
    const LEN: usize = 100_000;
    const KEYS: usize = 16;
    let directory = Directory::new();
    let mut stage = Stage::with(&directory, 4 << 20, Access::default());
    let value = "v".repeat(LEN);
    let sets = (0..KEYS).map(|key| format!("set k{key} 0 0 {LEN}"));
    sets.for_each(|set| assert_eq!(stage.ask(&[&set, &value]), "STORED\n"));
    let mut idle = Vec::new();
    for key in 0..KEYS {
        let mut client = stage.client();
        stage.feed(&mut client, format!("get k{key}\r\n").as_bytes());
        stage.turn(&mut client);
        idle.push(client);
    }
    while stage.go_on() {}
    assert!(stage.table.figures(0).fills > 0, "all could be pinned");
    for key in 0..KEYS {
        for request in ["get", "gets", "mg"] {
            let replies = stage.ask(&[&format!("{request} k{key} v")]);
            assert!(replies.contains(&value), "{request} k{key}: {replies:.80}");
        }
    }
}
