//! What one connection may cost.

use reactor::{Connection, Next, OUTPUT_BYTES_HIGH, OUTPUT_UNIT_BYTES_MAX};

use super::{Client, Server, ask};
use crate::memcached::TURN_COMMANDS_MAX;

/// One call of the session; replies stay where they are.
fn serve(server: &mut Server, client: &mut Client) -> Next {
    let Connection { session, input, output, .. } = &mut client.connection;
    session.serve(&mut server.context, input, output)
}

/// Lets the client send all of `bytes`, in as many receives as it takes.
fn feed(server: &Server, client: &mut Client, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        client.connection.input.need(client.connection.input.bytes().len() + bytes.len());
        let fed = client.connection.input.feed(bytes, &server.pool);
        bytes = &bytes[fed..];
    }
}

fn read_all(client: &mut Client) -> Vec<u8> {
    let mut chain = client.connection.output.launch();
    let bytes = chain.take_bytes();
    client.connection.output.landed(chain);
    bytes
}

#[test]
fn a_turn_is_over_after_so_many_commands() {
    const COMMANDS: usize = TURN_COMMANDS_MAX + 10;
    let mut server = Server::new();
    let mut client = server.client();
    ask(&mut server, &["set a 0 0 1", "x"]);
    let one = "VALUE a 0 1\r\nx\r\n";
    let keys = format!("get{}\r\n", " a".repeat(COMMANDS));
    let mut turns = vec![(keys, one.to_owned())];
    for (command, reply) in [
        ("get a", format!("{one}END\r\n")),
        ("gat 0 a", format!("{one}END\r\n")),
        ("mg a v", "VA 1\r\nx\r\n".to_owned()),
        ("set b 0 0 1\r\ny", "STORED\r\n".to_owned()),
        ("touch a 0", "TOUCHED\r\n".to_owned()),
        ("mn", "MN\r\n".to_owned()),
        ("no command", "ERROR\r\n".to_owned()),
    ] {
        turns.push((format!("{command}\r\n").repeat(COMMANDS), reply));
    }
    for (request, reply) in &turns {
        feed(&server, &mut client, request.as_bytes());
        assert_eq!(serve(&mut server, &mut client), Next::Yield, "{reply}");
        assert_eq!(read_all(&mut client).len(), TURN_COMMANDS_MAX * reply.len(), "{reply}");
        assert_eq!(serve(&mut server, &mut client), Next::Read, "{reply}");
        assert_eq!(read_all(&mut client).len() / reply.len(), 10, "{reply}");
    }
    assert_eq!(server.stats.totals().conn_yields, turns.len() as u64);
}

#[test]
fn a_million_pipelined_requests_to_a_client_that_reads_are_all_answered() {
    let mut server = Server::new();
    let mut client = server.client();
    ask(&mut server, &["set a 0 0 1", "x"]);
    let count = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let mut request = "get a\r\n".repeat(count).into_bytes();
    request.extend(b"quit\r\n");
    let (reply, next) = server.send_until(&mut client, &request);
    assert_eq!(next, Next::Finish);
    let one: &[u8] = b"VALUE a 0 1\r\nx\r\nEND\r\n";
    assert_eq!(reply.len(), one.len() * count);
    assert!(reply.chunks(one.len()).all(|reply| reply == one));
    assert!(server.pool.stats().used_bytes_max <= 256 << 10, "{:?}", server.pool.stats());
}

#[test]
fn a_client_that_does_not_read_is_not_served_on() {
    let mut server = Server::new();
    let mut client = server.client();
    let value = "v".repeat(4_000);
    ask(&mut server, &["set a 0 0 4000", &value]);
    let request = "get a\r\n".repeat(1_000);
    feed(&server, &mut client, request.as_bytes());
    while serve(&mut server, &mut client) == Next::Yield {}
    let held = client.connection.output.len();
    assert!(held >= OUTPUT_BYTES_HIGH / 2, "{held}");
    assert!(held <= OUTPUT_BYTES_HIGH + OUTPUT_UNIT_BYTES_MAX, "{held}");
    for _ in 0..10 {
        assert_eq!(serve(&mut server, &mut client), Next::Blocked);
    }
    assert_eq!(client.connection.output.len(), held);
}

#[test]
fn a_retrieval_of_many_keys_stops_for_room_and_goes_on_where_it_was() {
    let mut server = Server::new();
    let mut client = server.client();
    let value = "v".repeat(3_000);
    let mut line = String::from("gat 100");
    let mut expected = String::new();
    for number in 0..200 {
        ask(&mut server, &[&format!("set k{number} 0 0 3000"), &value]);
        line += &format!("  k{number} none");
        expected += &format!("VALUE k{number} 0 3000\r\n{value}\r\n");
    }
    line += "\r\nmn\r\n";
    feed(&server, &mut client, line.as_bytes());
    let (mut reply, mut blocked) = (Vec::new(), 0);
    loop {
        let next = serve(&mut server, &mut client);
        assert!(client.connection.output.len() <= OUTPUT_BYTES_HIGH + OUTPUT_UNIT_BYTES_MAX);
        reply.extend(read_all(&mut client));
        match next {
            Next::Blocked => blocked += 1,
            Next::Read => break,
            next => assert_eq!(next, Next::Yield),
        }
    }
    assert!(blocked >= 8, "{blocked}");
    assert!(reply == (expected + "END\r\nMN\r\n").into_bytes());
    let totals = server.stats.totals();
    assert_eq!((totals.touch_hits, totals.touch_misses), (200, 200));
}

#[test]
fn a_retrieval_line_longer_than_any_buffer_is_answered_in_parts() {
    let mut server = Server::new();
    let mut client = server.client();
    ask(&mut server, &["set a 0 0 1", "x"]);
    let mut line = String::from("get");
    for number in 0..200_000 {
        line += &format!(" missing{number}");
        if number % 1_000 == 0 {
            line += " a";
        }
    }
    line += " a\r\nmn\r\n";
    let reply = server.send(&mut client, line.as_bytes());
    let one = "VALUE a 0 1\r\nx\r\n";
    assert_eq!(String::from_utf8(reply).expect("text"), one.repeat(201) + "END\r\nMN\r\n");
    assert!(server.pool.stats().used_bytes_max <= 512 << 10, "{:?}", server.pool.stats());
    assert_eq!(server.stats.totals().get_misses, 200_000);
}

#[test]
fn a_long_key_in_a_later_part_of_a_line_ends_the_connection() {
    let mut server = Server::new();
    let mut client = server.client();
    let line = format!("get{} {}\r\nmn\r\n", " a".repeat(20_000), "k".repeat(300));
    let (reply, next) = server.send_until(&mut client, line.as_bytes());
    assert_eq!(next, Next::Finish);
    assert_eq!(reply, b"CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn a_long_key_behind_records_that_were_sent_ends_the_connection() {
    let mut server = Server::new();
    let mut client = server.client();
    ask(&mut server, &["set a 0 0 1", "x"]);
    let begun = format!("get{}", " a".repeat(10_000));
    feed(&server, &mut client, begun.as_bytes());
    assert_eq!(serve(&mut server, &mut client), Next::Yield);
    let one = "VALUE a 0 1\r\nx\r\n";
    assert_eq!(read_all(&mut client).len(), TURN_COMMANDS_MAX * one.len());
    let rest = format!(" {}\r\nget a\r\n", "k".repeat(300));
    feed(&server, &mut client, rest.as_bytes());
    let (reply, next) = server.run(&mut client);
    assert_eq!(next, Next::Finish);
    assert_eq!(reply, b"CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn a_reply_of_many_large_values_pins_a_few_at_a_time() {
    let mut server = Server::new();
    let mut client = server.client();
    let value = "v".repeat(400_000);
    ask(&mut server, &["set a 0 0 400000", &value]);
    feed(&server, &mut client, b"get a a a a a a a a\r\nmn\r\n");
    let mut reply = Vec::new();
    let mut blocked = 0;
    loop {
        let next = serve(&mut server, &mut client);
        assert!(client.connection.output.len() <= reactor::EXTERNAL_BYTES_HIGH + 500_000);
        reply.extend(read_all(&mut client));
        match next {
            Next::Blocked => blocked += 1,
            next => {
                assert_eq!(next, Next::Read);
                break;
            }
        }
    }
    assert_eq!(blocked, 2);
    let one = format!("VALUE a 0 400000\r\n{value}\r\n");
    assert!(reply == (one.repeat(8) + "END\r\nMN\r\n").into_bytes());
}

#[test]
fn a_long_report_is_sent_in_parts() {
    let mut server = Server::new();
    let mut client = server.client();
    let others: Vec<_> = (0..2_000).map(|_| server.client()).collect();
    feed(&server, &mut client, b"stats conns\r\nmn\r\n");
    assert_eq!(serve(&mut server, &mut client), Next::Blocked);
    assert!(client.connection.output.len() <= OUTPUT_BYTES_HIGH + OUTPUT_UNIT_BYTES_MAX);
    let mut reply = read_all(&mut client);
    reply.extend(server.run(&mut client).0);
    let reply = String::from_utf8(reply).expect("text");
    assert_eq!(reply.matches(":addr ").count(), others.len() + 1);
    assert!(reply.ends_with("END\r\nMN\r\n"));
}
