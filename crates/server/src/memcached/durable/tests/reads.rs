//! Values that are sent from the buffers that they were read into.

use std::io::IoSlice;

use cache::INLINE_VALUE_MAX_BYTES;
use reactor::Gather;

use super::*;

/// What waits for a client, in the slices that are sent.
fn slices(client: &mut Client) -> Vec<Vec<u8>> {
    let mut chain = client.output.launch();
    let mut room = [IoSlice::new(&[]); 64];
    let mut gather = Gather::new(&mut room);
    chain.gather(&mut gather);
    let count = gather.count();
    let slices = room[..count].iter().map(|slice| slice.to_vec()).collect();
    drop(chain.take_bytes());
    client.output.landed(chain);
    slices
}

/// Asks for what is on the disk alone, and has it read.
fn fetch(stage: &mut Stage, client: &mut Client, request: &str) {
    stage.feed(client, request.as_bytes());
    assert_eq!(stage.turn(client), Next::Read);
    assert!(stage.go_on(), "{request}");
    assert_eq!(stage.turn(client), Next::Read);
}

#[test]
fn a_value_from_the_disk_is_one_slice_with_its_reply_around_it() {
    for len in [1, INLINE_VALUE_MAX_BYTES, 9000, 50_000] {
        let directory = Directory::new();
        let mut stage = cold(&directory, 1, len);
        let mut client = stage.client();
        fetch(&mut stage, &mut client, "get c0\r\n");
        let value = "v".repeat(len);
        let expected = format!("VALUE c0 0 {len}\r\n{value}\r\nEND\r\n");
        let sent = slices(&mut client);
        // Of the longest, too, which has no margin: in the buffer its record has a header.
        assert_eq!(sent.len(), 1, "{len} are sent in pieces");
        assert!(sent.concat() == expected.as_bytes(), "{len} are sent wrong");
        assert_eq!(stage.table.unsent_bytes(), 0, "of {len} something is left");
    }
}

#[test]
fn several_short_values_of_a_turn_go_out_in_one_piece() {
    let directory = Directory::new();
    let mut stage = cold(&directory, 3, 100);
    let mut client = stage.client();
    fetch(&mut stage, &mut client, "get c0 c1\r\nget c2\r\n");
    let sent = slices(&mut client);
    assert_eq!(sent.len(), 1);
    let value = "v".repeat(100);
    let record = |key: &str| format!("VALUE {key} 0 100\r\n{value}\r\n");
    let expected = [record("c0"), record("c1"), "END\r\n".into(), record("c2"), "END\r\n".into()];
    assert_eq!(String::from_utf8_lossy(&sent[0]), expected.concat());
}

/// Others are to be read into as well.
#[test]
fn a_client_that_takes_nothing_holds_few_buffers_of_reads() {
    const LEN: usize = 5000;
    let directory = Directory::new();
    let mut stage = cold(&directory, 10, LEN);
    let mut client = stage.client();
    for key in 0..10 {
        fetch(&mut stage, &mut client, &format!("get c{key}\r\n"));
    }
    let held_bytes = stage.table.unsent_bytes();
    let expected = 4 * READ_BYTES_KEPT + 6 * LEN;
    assert_eq!(held_bytes, expected, "a client holds more buffers than it may");
    let value = "v".repeat(LEN);
    let reply = |key| format!("VALUE c{key} 0 {LEN}\r\n{value}\r\nEND\r\n");
    let replies: String = (0..10).map(reply).collect();
    assert!(taken(&mut client) == replies.as_bytes(), "something else is sent");
    assert_eq!(stage.table.unsent_bytes(), 0);
}

/// The same of one whose replies wait for others before them.
#[test]
fn replies_that_wait_hold_few_buffers_of_reads() {
    const LEN: usize = 5000;
    let directory = Directory::new();
    let mut stage = cold(&directory, 10, LEN);
    let mut client = stage.client();
    let requests: String = (1..10).map(|key| format!("get c{key}\r\n")).collect();
    stage.feed(&mut client, format!("set c0 0 0 1\r\nx\r\n{requests}").as_bytes());
    assert_eq!(stage.turn(&mut client), Next::Read);
    let (held, _) = stage.go_on_without(is_flush);
    let heads = 9 * "VALUE c1 0 5000\r\n".len();
    let expected = 4 * READ_BYTES_KEPT + 5 * LEN + heads;
    assert_eq!(stage.table.unsent_bytes(), expected, "a client holds more buffers than it may");
    // A connection that ends gives back what waits for it.
    drop(client);
    assert!(!stage.make_up(held) || stage.table.unsent_bytes() == 0);
    assert_eq!(stage.table.unsent_bytes(), 0, "what a connection has left is counted");
}
