//! The next value in parts, read while one is sent.

use store::limits::LARGE_UNTAKEN_NEEDED_MS;

use super::{
    large::{LEN, SLOW_BYTES, assert_at_rest, pass, stage, take_slowly, text},
    *,
};

/// Two parts.
const TWO: usize = 2 * VALUE_BYTES_MAX - 1000;

/// What a value takes in memory beside its bytes.
const BESIDE: usize = 20_000;

/// A table of two values, and a client that has asked for three and takes nothing yet, of whom the
/// server has sent what it sends.
fn asked(directory: &Directory) -> (Stage, Client, Vec<u8>) {
    let mut stage = stage(directory);
    let mut expected = Vec::new();
    for letter in ["k", "l"] {
        let value = &text(letter)[..TWO];
        assert_eq!(stage.ask(&[&format!("set {letter} 0 0 {TWO}"), value]), "STORED\n");
        expected.extend(format!("VALUE {letter} 0 {TWO}\r\n{value}\r\nEND\r\n").bytes());
    }
    expected.extend(expected[..expected.len() / 2].to_vec());
    let mut client = stage.client();
    stage.feed(&mut client, b"get k\r\nget l\r\nget k\r\n");
    settle(&mut stage, &mut client);
    (stage, client, expected)
}

fn settle(stage: &mut Stage, client: &mut Client) {
    for _ in 0..8 {
        stage.turn(client);
        stage.go_on();
    }
}

/// The client takes so many bytes a second, and gets what is expected. The most that parts took.
fn take_all(stage: &mut Stage, client: &mut Client, expected: &[u8], rate: usize) -> usize {
    let (replies, most) = take_slowly(stage, client, expected.len(), rate);
    assert!(replies == expected, "{} bytes, {} expected", replies.len(), expected.len());
    most
}

fn parts_bytes(stage: &Stage) -> usize {
    stage.table.parts_bytes().1
}

#[test]
fn the_next_value_is_read_while_one_is_sent_and_no_more() {
    let directory = Directory::new();
    let (mut stage, mut client, expected) = asked(&directory);
    let bytes = parts_bytes(&stage);
    assert!(bytes > 2 * TWO, "one at a time is read: {bytes} bytes are there");
    assert!(bytes < 2 * (TWO + BESIDE), "{bytes} bytes are read ahead");
    // Its client may take as long for each as if it was read when its turn came.
    let most = take_all(&mut stage, &mut client, &expected, SLOW_BYTES);
    assert!(most < 2 * (TWO + BESIDE), "a connection holds {most} bytes of parts");
    assert_at_rest(&mut stage);
}

#[test]
fn who_is_so_slow_that_a_value_takes_a_minute_gets_all() {
    let directory = Directory::new();
    let (mut stage, mut client, expected) = asked(&directory);
    take_all(&mut stage, &mut client, &expected, SLOW_BYTES / 2);
    assert_at_rest(&mut stage);
}

#[test]
fn what_is_read_ahead_makes_way_to_who_needs_memory_and_its_client_stays() {
    let directory = Directory::new();
    let (mut stage, mut client, expected) = asked(&directory);
    let bytes = parts_bytes(&stage);
    stage.store.set_large_bytes(bytes);
    // So long that who has taken nothing would have to go.
    stage.clock.advance_ms(LARGE_UNTAKEN_NEEDED_MS + 500);
    let mut waiting = stage.client();
    stage.feed(&mut waiting, b"get k\r\n");
    let early = pass(&mut stage, &mut waiting, 10);
    assert_ne!(stage.turn(&mut client), Next::Abort, "it is cut off for what is read ahead");
    assert!(early < 100, "there is memory");
    stage.go_on();
    let left = parts_bytes(&stage);
    let is_there = pass(&mut stage, &mut waiting, 30) > TWO;
    assert!(left < bytes && is_there, "{left} of {bytes} bytes are kept from others");
    take_all(&mut stage, &mut client, &expected, SLOW_BYTES);
    drop(waiting);
    assert_at_rest(&mut stage);
}

#[test]
fn of_a_longer_value_the_first_parts_are_read_ahead() {
    let directory = Directory::new();
    let mut stage = stage(&directory);
    for (key, len) in [("k", TWO), ("l", LEN)] {
        let set = format!("set {key} 0 0 {len}");
        assert_eq!(stage.ask(&[&set, &text(key)[..len]]), "STORED\n");
    }
    let mut client = stage.client();
    stage.feed(&mut client, b"get k\r\nget l\r\n");
    settle(&mut stage, &mut client);
    let bytes = parts_bytes(&stage);
    assert!(bytes > 2 * TWO && bytes < 2 * (TWO + BESIDE), "{bytes} bytes are read");
    stage.store.set_large_bytes(bytes);
    let mut waiting = stage.client();
    stage.feed(&mut waiting, b"get k\r\n");
    pass(&mut stage, &mut waiting, 10);
    stage.turn(&mut client);
    // Nobody has taken yet what is back.
    stage.table.begin();
    assert!(parts_bytes(&stage) < TWO + BESIDE, "it keeps {} bytes", parts_bytes(&stage));
    let expected = [("k", TWO), ("l", LEN)].map(|(key, len)| {
        format!("VALUE {key} 0 {len}\r\n{}\r\nEND\r\n", &text(key)[..len]).into_bytes()
    });
    let expected = expected.concat();
    drop(waiting);
    take_all(&mut stage, &mut client, &expected, SLOW_BYTES);
    assert_at_rest(&mut stage);
}

#[test]
fn who_leaves_leaves_nothing_of_what_was_read_ahead() {
    let directory = Directory::new();
    let (mut stage, client, _) = asked(&directory);
    assert!(parts_bytes(&stage) > 2 * TWO);
    drop(client);
    assert_at_rest(&mut stage);
}
