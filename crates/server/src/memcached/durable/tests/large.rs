//! Values in parts.

use std::io::IoSlice;

use reactor::Gather;
use store::limits::{LARGE_MAX, LARGE_UNTAKEN_NEEDED_MS};

use super::*;

pub(super) const LEN: usize = 3 * VALUE_BYTES_MAX + 1000;

pub(super) fn stage(directory: &Directory) -> Stage {
    let mut stage = Stage::new(directory);
    stage.table.take_values_of(4 << 20);
    stage
}

pub(super) fn text(letter: &str) -> String {
    (0..)
        .map(|at| format!("{letter}{at} "))
        .flat_map(String::into_bytes)
        .take(LEN)
        .map(char::from)
        .collect()
}

/// Nothing is left of what was under way.
pub(super) fn assert_at_rest(stage: &mut Stage) {
    while stage.go_on() {}
    assert!(!stage.table.is_waited_for(), "a transfer never ends");
    assert_eq!(stage.table.parts_bytes(), (0, 0), "parts are not given back");
}

#[test]
fn a_large_value_is_stored_in_pieces_and_shown_in_parts() {
    let directory = Directory::new();
    let mut stage = stage(&directory);
    let (first, second) = (text("a"), text("b"));
    assert_eq!(stage.ask(&[&format!("set k 7 0 {LEN}"), &first]), "STORED\n");
    let shown = |value: &str| format!("VALUE k 7 {LEN}\n{value}\nEND\n");
    assert!(stage.ask(&["get k"]) == shown(&first));
    assert_eq!(
        stage.ask(&["touch k 100", "append k 0 0 1", "x", "incr k 1"]),
        [
            "TOUCHED\n",
            "SERVER_ERROR nothing is put before or behind a value of this length\n",
            "CLIENT_ERROR cannot increment or decrement non-numeric value\n",
        ]
        .concat()
    );
    // Behind each other in one connection.
    let set = format!("set k 7 0 {LEN}");
    let replies = stage.ask(&["get k", &set, &second, "get k", "mg k s", "get k none"]);
    let both = [shown(&first), "STORED\n".to_owned(), shown(&second)].concat();
    let expected = [both, format!("HD s{LEN}\n"), shown(&second)].concat();
    assert!(replies == expected, "{} bytes, {} expected", replies.len(), expected.len());
    assert_eq!(stage.ask(&["delete k", "get k"]), "DELETED\nEND\n");
    assert_at_rest(&mut stage);
}

#[test]
fn who_leaves_in_mid_value_leaves_nothing_behind() {
    let directory = Directory::new();
    let mut stage = stage(&directory);
    assert_eq!(stage.ask(&[&format!("set k 0 0 {LEN}"), &text("a")]), "STORED\n");
    let mut sender = stage.client();
    let half = format!("set k 0 0 {LEN}\r\n{}", &text("b")[..LEN / 2]);
    stage.stream(&mut sender, half.as_bytes());
    let mut reader = stage.client();
    stage.feed(&mut reader, b"get k\r\n");
    for _ in 0..3 {
        stage.turn(&mut reader);
        stage.go_on();
    }
    assert_eq!(stage.turn(&mut reader), Next::Wait, "more is read than is taken");
    assert!(stage.table.parts_bytes().0 > 0 && stage.table.parts_bytes().1 > 0);
    drop((sender, reader));
    assert!(stage.table.has_roused(), "the thread does not look what was left");
    let (reads, _) = stage.go_on_without(|action| matches!(action, Action::Read { .. }));
    assert!(reads.is_empty(), "more is read for who has left");
    assert_at_rest(&mut stage);
    assert!(stage.ask(&["get k"]).contains(&text("a")));
}

#[test]
fn who_takes_nothing_of_a_value_is_cut_off_also_when_all_of_it_is_on_its_way() {
    let directory = Directory::new();
    for len in [VALUE_BYTES_MAX + 1000, LEN] {
        let mut stage = stage(&directory);
        assert_eq!(stage.ask(&[&format!("set k 0 0 {len}"), &text("a")[..len]]), "STORED\n");
        let mut reader = stage.client();
        stage.feed(&mut reader, b"get k\r\n");
        for _ in 0..4 {
            stage.turn(&mut reader);
            stage.go_on();
        }
        stage.clock.advance_ms(29_000);
        stage.go_on();
        assert_ne!(stage.turn(&mut reader), Next::Abort, "{len}: too early");
        stage.clock.advance_ms(1000);
        assert!(stage.go_on(), "{len}: it is not looked at");
        assert_eq!(stage.turn(&mut reader), Next::Abort, "{len}: it holds parts for ever");
        drop(reader);
        assert_at_rest(&mut stage);
    }
}

/// Has the server do what it does of itself, for so many turns.
pub(super) fn pass(stage: &mut Stage, waiting: &mut Client, turns: usize) -> usize {
    let mut bytes = 0;
    for _ in 0..turns {
        stage.clock.advance_ms(1);
        stage.go_on();
        stage.turn(waiting);
        bytes += taken(waiting).len();
    }
    bytes
}

#[test]
fn who_takes_nothing_of_a_value_gives_way_to_who_has_no_memory_and_who_moves_does_not() {
    let directory = Directory::new();
    let mut stage = stage(&directory);
    assert_eq!(stage.ask(&[&format!("set k 0 0 {LEN}"), &text("a")]), "STORED\n");
    // All that a client has asked for is in the kernel's hands but for what it does not take.
    let begun = |stage: &mut Stage| {
        let mut client = stage.client();
        stage.feed(&mut client, b"get k\r\n");
        for _ in 0..4 {
            stage.turn(&mut client);
            stage.go_on();
        }
        let mut chain = client.output.launch();
        chain.advance(1000);
        (client, chain)
    };
    // Would its bytes not count, the first would have to go.
    let (mut moving, mut of_moving) = begun(&mut stage);
    stage.clock.advance_ms(10);
    let (mut idle, of_idle) = begun(&mut stage);
    stage.store.set_large_bytes(stage.table.parts_bytes().1);
    let mut waiting = stage.client();
    stage.feed(&mut waiting, b"get k\r\n");
    assert!(pass(&mut stage, &mut waiting, 10) < 100, "there is memory");
    for _ in 0..2 {
        of_moving.advance(1000);
        stage.clock.advance_ms(LARGE_UNTAKEN_NEEDED_MS / 2 - 100);
        pass(&mut stage, &mut waiting, 10);
        assert_ne!(stage.turn(&mut idle), Next::Abort, "too early");
    }
    of_moving.advance(1000);
    stage.clock.advance_ms(LARGE_UNTAKEN_NEEDED_MS / 2);
    pass(&mut stage, &mut waiting, 10);
    assert_ne!(stage.turn(&mut moving), Next::Abort, "who moves is cut off");
    assert_eq!(stage.turn(&mut idle), Next::Abort, "it keeps what another one needs");
    drop((idle, of_idle));
    assert!(pass(&mut stage, &mut waiting, 30) > LEN, "its memory is not given on");
    assert_ne!(stage.turn(&mut moving), Next::Abort, "nobody needs it any more");
    drop((moving, of_moving, waiting));
    assert_at_rest(&mut stage);
}

#[test]
fn who_takes_nothing_of_a_value_and_ends_is_cut_off_as_well() {
    let directory = Directory::new();
    for (len, request) in [
        (VALUE_BYTES_MAX + 1000, "get k\r\nquit\r\n"),
        (LEN, "get k\r\nquit\r\n"),
        (VALUE_BYTES_MAX + 1000, "get k\r\n"),
    ] {
        let mut stage = stage(&directory);
        assert_eq!(stage.ask(&[&format!("set k 0 0 {len}"), &text("a")[..len]]), "STORED\n");
        let begun = |stage: &mut Stage| {
            let mut reader = stage.client();
            stage.feed(&mut reader, request.as_bytes());
            reader.input.end();
            for _ in 0..4 {
                stage.turn(&mut reader);
                stage.go_on();
            }
            reader
        };
        let mut reader = begun(&mut stage);
        let next = stage.turn(&mut reader);
        assert_eq!(next, Next::Wait, "{len}: it waits for its output alone");
        stage.clock.advance_ms(30_000);
        assert!(stage.go_on(), "{len}: it is not looked at");
        assert_eq!(stage.turn(&mut reader), Next::Abort, "{len}: it holds parts for ever");
        drop(reader);
        assert_at_rest(&mut stage);
        // Who takes all of it ends as others do.
        let mut reader = begun(&mut stage);
        let mut bytes = 0;
        let mut next = Next::Wait;
        for _ in 0..20 {
            bytes += taken(&mut reader).len();
            stage.go_on();
            next = stage.turn(&mut reader);
        }
        assert!(bytes > len, "{bytes} of {len}");
        let has_ended = next == Next::Finish || next == Next::Read && !request.contains("quit");
        assert!(has_ended, "{len}: {next:?}");
        drop(reader);
        assert_at_rest(&mut stage);
    }
}

/// A table of cold values `c0` and so on, and a large one.
fn with_cold(directory: &Directory, count: usize, value_bytes: usize) -> Stage {
    let mut stage = cold(directory, count, value_bytes);
    stage.table.take_values_of(4 << 20);
    assert_eq!(stage.ask(&[&format!("set k 0 0 {LEN}"), &text("a")]), "STORED\n");
    stage
}

#[test]
fn who_leaves_other_replies_untaken_does_not_keep_a_value_behind_them_for_ever() {
    let directory = Directory::new();
    let mut stage = with_cold(&directory, 8, VALUE_BYTES_MAX);
    let mut client = stage.client();
    let gets: String = (0..8).map(|key| format!("get c{key}\r\n")).collect();
    stage.feed(&mut client, format!("{gets}get k\r\n").as_bytes());
    while stage.turn(&mut client) != Next::Blocked {
        assert!(stage.go_on(), "all of it is taken");
    }
    stage.clock.advance_ms(29_000);
    stage.go_on();
    assert_eq!(stage.turn(&mut client), Next::Blocked, "too early");
    // What it takes now gives it as long again.
    assert!(!taken(&mut client).is_empty());
    while stage.turn(&mut client) != Next::Blocked {}
    stage.clock.advance_ms(29_000);
    stage.go_on();
    assert_eq!(stage.turn(&mut client), Next::Blocked, "it has taken something");
    stage.clock.advance_ms(1000);
    assert!(stage.go_on(), "it is not looked at");
    assert_eq!(stage.turn(&mut client), Next::Abort, "it keeps places in the log for ever");
    drop(client);
    assert_at_rest(&mut stage);
}

/// Bytes a second of a client that may be slow: a value that it takes has to bring two parts in
/// 30 s.
pub(super) const SLOW_BYTES: usize = 20_000;

/// A client that takes so many bytes a second, until it has all. Its replies, and the most that
/// parts took.
pub(super) fn take_slowly(
    stage: &mut Stage,
    client: &mut Client,
    len: usize,
    bytes_per_second: usize,
) -> (Vec<u8>, usize) {
    let (mut replies, mut most) = (Vec::new(), 0);
    while replies.len() < len {
        let mut chain = client.output.launch();
        while !chain.is_empty() {
            let mut slices = [IoSlice::new(&[]); 16];
            let mut gather = Gather::new(&mut slices);
            chain.gather(&mut gather);
            let count = gather.count();
            let all: Vec<u8> = slices[..count].iter().flat_map(|it| it.iter().copied()).collect();
            let taken = all.len().min(bytes_per_second);
            replies.extend(&all[..taken]);
            chain.advance(taken);
            client.output.note_moved();
            stage.clock.advance_ms(1000);
            stage.go_on();
            assert_ne!(stage.turn(client), Next::Abort, "cut off at {}", replies.len());
            most = most.max(stage.table.parts_bytes().1);
        }
        client.output.landed(chain);
        stage.go_on();
        assert_ne!(stage.turn(client), Next::Abort, "cut off at {}", replies.len());
    }
    (replies, most)
}

#[test]
fn who_is_slow_gets_all_values_that_he_has_asked_for_and_holds_the_parts_of_two() {
    const SHORT: usize = VALUE_BYTES_MAX + 40_000;
    let directory = Directory::new();
    let mut stage = with_cold(&directory, 6, VALUE_BYTES_MAX);
    assert_eq!(stage.ask(&[&format!("set k 0 0 {SHORT}"), &text("a")[..SHORT]]), "STORED\n");
    let mut client = stage.client();
    // One after the other, and behind as much of others as a connection may have in its output.
    let gets: String = (0..6).map(|key| format!("get c{key}\r\n")).collect();
    let asked = ["get k\r\n".repeat(5), gets, "get k\r\n".to_owned()].concat();
    stage.feed(&mut client, asked.as_bytes());
    stage.turn(&mut client);
    let value = |key: &str, value: &str| {
        format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()).into_bytes()
    };
    let large = value("k", &text("a")[..SHORT]);
    let cold = "v".repeat(VALUE_BYTES_MAX);
    let others: Vec<u8> = (0..6).flat_map(|key| value(&format!("c{key}"), &cold)).collect();
    let expected = [large.repeat(5), others, large].concat();
    let (replies, most) = take_slowly(&mut stage, &mut client, expected.len(), SLOW_BYTES);
    assert!(replies == expected, "{} bytes, {} expected", replies.len(), expected.len());
    assert!(most < 2 * (SHORT + 10_000), "a connection holds {most} bytes of parts");
    assert_at_rest(&mut stage);
}

#[test]
fn who_has_to_wait_until_fewer_values_are_sent_gets_his_in_turn() {
    let directory = Directory::new();
    let mut stage = with_cold(&directory, 1, 1000);
    let (mut one, mut other) = (stage.client(), stage.client());
    stage.feed(&mut one, b"get k\r\n");
    for _ in 0..4 {
        stage.turn(&mut one);
        stage.go_on();
    }
    // No room for what tells where a second one lies.
    stage.store.set_large_bytes(100);
    stage.feed(&mut other, b"get k\r\nget c0\r\n");
    assert_eq!(stage.turn(&mut other), Next::Read);
    stage.go_on();
    assert_eq!(stage.turn(&mut other), Next::Retry, "it is refused, or begun");
    assert!(taken(&mut other).is_empty(), "what comes behind it comes before it");
    drop(one);
    let mut replies = String::new();
    for _ in 0..20 {
        stage.clock.advance_ms(1);
        stage.go_on();
        replies += &stage.serve(&mut other).0;
    }
    let small = "v".repeat(1000);
    let expected = format!("VALUE k 0 {LEN}\n{}\nEND\nVALUE c0 0 1000\n{small}\nEND\n", text("a"));
    assert!(replies == expected, "{} bytes, {} expected", replies.len(), expected.len());
    assert_at_rest(&mut stage);
}

#[test]
fn what_others_leave_untaken_keeps_no_large_value_from_being_taken() {
    let directory = Directory::new();
    let mut stage = with_cold(&directory, 1, 50_000);
    let mut client = stage.client();
    stage.feed(&mut client, b"get c0\r\n");
    stage.turn(&mut client);
    stage.go_on();
    stage.turn(&mut client);
    let begun = format!("set k 0 0 {LEN}\r\n{}", &text("b")[..1000]);
    stage.feed(&mut client, begun.as_bytes());
    assert_eq!(stage.turn(&mut client), Next::Read);
    stage.table.unsent_bytes_max = 1;
    assert!(stage.table.is_laden());
    stage.feed(&mut client, &text("b").as_bytes()[1000..2000]);
    assert_eq!(stage.turn(&mut client), Next::Read, "it waits, and ends as too slow");
}

#[test]
fn when_too_many_values_arrive_a_client_waits_for_one_that_makes_way() {
    let directory = Directory::new();
    let mut stage = stage(&directory);
    let line = format!("set k 0 0 {LEN}\r\nx");
    let mut clients: Vec<Client> = (0..LARGE_MAX).map(|_| stage.client()).collect();
    for client in &mut clients {
        stage.feed(client, line.as_bytes());
        assert!(matches!(stage.turn(client), Next::Read | Next::Wait));
    }
    let mut late = stage.client();
    stage.feed(&mut late, line.as_bytes());
    assert_eq!(stage.turn(&mut late), Next::Retry, "it is refused at once");
    stage.clock.advance_ms(1999);
    assert_eq!(stage.turn(&mut late), Next::Retry);
    stage.clock.advance_ms(1);
    assert!(matches!(stage.turn(&mut late), Next::Read | Next::Wait), "nobody makes way");
    stage.go_on();
    let words = "SERVER_ERROR";
    assert!(stage.serve(&mut clients[0]).0.starts_with(words), "it is not told");
    drop((late, clients));
    assert_at_rest(&mut stage);
}
