//! Many connections in one turn.

use cache::CacheConfig;
use proptest::prelude::*;
use reactor::{Connection, Next};

use super::{Server, ask};
use crate::{
    memcached::{LargeValue, Session, TURN_COMMANDS_MAX, serve_all, session::PIN_WAIT_MS_MAX},
    stats::Settings,
};

type Client = Box<Connection<Session, LargeValue>>;

fn clients(server: &Server, count: usize) -> Vec<Client> {
    (0..count).map(|_| Box::new(server.client().connection)).collect()
}

fn feed(server: &Server, client: &mut Client, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        client.input.need(client.input.bytes().len() + bytes.len());
        bytes = &bytes[client.input.feed(bytes, &server.pool)..];
    }
}

fn take_replies(client: &mut Client) -> Vec<u8> {
    let mut chain = client.output.launch();
    let bytes = chain.take_bytes();
    client.output.landed(chain);
    bytes
}

/// Serves the clients as one burst.
fn together(server: &mut Server, clients: &mut [Client]) {
    let now_ms = server.context.worker().cache().clock().now_ms();
    serve_all(&mut server.context, clients, now_ms);
}

/// Serves one client after the other.
fn one_by_one(server: &mut Server, clients: &mut [Client]) {
    server.context.worker().quiesce();
    for client in clients {
        let Connection { session, input, output, next, .. } = &mut **client;
        *next = session.serve(&mut server.context, input, output);
    }
}

/// What each client hears when it sends its bytes in pieces, a piece a turn.
fn hear(serve: fn(&mut Server, &mut [Client]), streams: &[Stream]) -> Vec<String> {
    let mut server = Server::new();
    let mut clients = clients(&server, streams.len());
    let mut heard = vec![Vec::new(); streams.len()];
    let turns = streams.iter().map(|stream| stream.cuts.len()).max().unwrap_or(0) + 1;
    for turn in 0..turns {
        for (client, stream) in clients.iter_mut().zip(streams) {
            feed(&server, client, stream.piece(turn));
        }
        loop {
            serve(&mut server, &mut clients);
            for (client, heard) in clients.iter_mut().zip(&mut heard) {
                heard.extend(take_replies(client));
            }
            if clients.iter().all(|client| client.next == Next::Read) {
                break;
            }
        }
    }
    heard.into_iter().map(|bytes| bytes.escape_ascii().to_string()).collect()
}

/// What one client sends, and where it is cut into pieces.
#[derive(Clone, Debug)]
struct Stream {
    bytes: Vec<u8>,
    cuts: Vec<usize>,
}

impl Stream {
    fn piece(&self, turn: usize) -> &[u8] {
        let end = |turn: usize| self.cuts.get(turn).map_or(self.bytes.len(), |cut| *cut);
        let start = if turn == 0 { 0 } else { end(turn - 1) };
        &self.bytes[start..end(turn)]
    }
}

/// A request on one of a few keys that all clients share. `gets` tells the token, and so in what
/// order stores were executed.
fn request() -> impl Strategy<Value = String> {
    (0..12_u8, 0..4_u8, 0..40_usize).prop_map(|(kind, key, len)| match kind {
        0 | 1 => format!("get k{key}\r\n"),
        2 | 3 => format!("gets k{key}\r\n"),
        4 | 5 => format!("set k{key} 0 0 {len}\r\n{}\r\n", "7".repeat(len)),
        6 => format!("incr k{key} 3\r\n"),
        7 => format!("append k{key} 0 0 1\r\n1\r\n"),
        8 => format!("delete k{key} noreply\r\n"),
        9 => format!("mg k{key} v c\r\n"),
        10 => format!("gets k{key} k{} none\r\n", (key + 1) % 4),
        _ => "no command\r\n".to_owned(),
    })
}

fn stream() -> impl Strategy<Value = Stream> {
    let requests = prop_oneof![
        8 => prop::collection::vec(request(), 0..4),
        1 => prop::collection::vec(request(), 0..80),
    ];
    (requests, prop::collection::vec(any::<prop::sample::Index>(), 0..4)).prop_map(
        |(requests, cuts)| {
            let bytes = requests.concat().into_bytes();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            Stream { bytes, cuts }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn all_hear_what_they_would_hear_one_by_one(
        streams in prop::collection::vec(stream(), 1..80),
    ) {
        prop_assert_eq!(hear(together, &streams), hear(one_by_one, &streams));
    }
}

#[test]
fn requests_see_what_was_done_for_others_in_the_same_turn() {
    const CLIENTS: usize = 100;
    let mut server = Server::new();
    ask(&mut server, &["set n 0 0 1", "0"]);
    let mut clients = clients(&server, CLIENTS);
    for client in &mut clients {
        feed(&server, client, b"incr n 1\r\nget n\r\n");
    }
    together(&mut server, &mut clients);
    for (client, number) in clients.iter_mut().zip(1..) {
        let text = format!("{number}");
        let expected = format!("{text}\r\nVALUE n 0 {}\r\n{text}\r\nEND\r\n", text.len());
        assert_eq!(String::from_utf8(take_replies(client)).expect("text"), expected);
        assert_eq!(client.next, Next::Read);
        assert_eq!(client.input.bytes(), b"");
    }
    assert_eq!(server.stats.totals().bytes_read, 16 + (CLIENTS * 17) as u64);
}

#[test]
fn nobody_gets_more_done_in_a_turn_because_others_are_served_with_it() {
    let mut server = Server::new();
    let mut clients = clients(&server, 5);
    for client in &mut clients {
        feed(&server, client, &b"mn\r\n".repeat(TURN_COMMANDS_MAX + 3));
    }
    for (next, replies) in [(Next::Yield, TURN_COMMANDS_MAX), (Next::Read, 3)] {
        together(&mut server, &mut clients);
        for client in &mut clients {
            assert_eq!(client.next, next);
            assert_eq!(take_replies(client), b"MN\r\n".repeat(replies));
        }
    }
    assert_eq!(server.stats.totals().conn_yields, 5);
}

#[test]
fn what_is_in_the_middle_of_something_goes_on_beside_the_others() {
    let mut server = Server::new();
    let mut clients = clients(&server, 5);
    let long = "v".repeat(6_000);
    let starts = [
        format!("set long 0 0 6000\r\n{}", &long[..5_000]),
        format!("set refused 0 0 9000000\r\n{long}"),
        format!("get{}", " none".repeat(4_000)),
        "set half 0 0 10\r\n01234".to_owned(),
        String::new(),
    ];
    for (client, start) in clients.iter_mut().zip(&starts) {
        feed(&server, client, start.as_bytes());
    }
    // The long line needs more than a turn, and is not at its end.
    for _ in 0..10 {
        together(&mut server, &mut clients);
    }
    let replies: Vec<_> = clients.iter_mut().map(take_replies).collect();
    let too_large = &b"SERVER_ERROR object too large for cache\r\n"[..];
    assert_eq!(replies, [b"", too_large, b"", b"", b""]);
    let ends: [&[u8]; 5] = [
        &[&long.as_bytes()[5_000..], b"\r\n"].concat(),
        b"x",
        b" none\r\n",
        b"56789\r\n",
        b"mn\r\n",
    ];
    for (client, end) in clients.iter_mut().zip(ends) {
        feed(&server, client, end);
    }
    together(&mut server, &mut clients);
    let replies: Vec<_> = clients.iter_mut().map(take_replies).collect();
    assert_eq!(replies, [&b"STORED\r\n"[..], b"", b"END\r\n", b"STORED\r\n", b"MN\r\n"]);
    assert!(clients.iter().all(|client| client.next == Next::Read));
    assert_eq!(ask(&mut server, &["get half"]), "VALUE half 0 10\n0123456789\nEND\n");
    assert_eq!(ask(&mut server, &["mg long s"]), "HD s6000\n");
}

#[test]
fn each_client_waits_its_own_time_for_memory_that_others_have_pinned() {
    let config = CacheConfig { value_size_max: 4 << 20, ..CacheConfig::new(16 << 20) };
    let mut server = Server::with(config, Settings::default());
    for (key, len) in [("pinned", 3_900_000), ("k", 1 << 20)] {
        let value = "v".repeat(len);
        ask(&mut server, &[&format!("set {key} 0 0 {len}"), &value]);
    }
    let mut deaf = clients(&server, 1);
    feed(&server, &mut deaf[0], b"get pinned\r\n");
    together(&mut server, &mut deaf);
    let mut clients = clients(&server, 3);
    for (asking, nexts) in [
        (&[1][..], [Next::Read, Next::Retry, Next::Read]),
        (&[0, 2][..], [Next::Retry, Next::Read, Next::Retry]),
    ] {
        asking.iter().for_each(|&client| feed(&server, &mut clients[client], b"get k\r\n"));
        together(&mut server, &mut clients);
        assert!(clients.iter().map(|client| client.next).eq(nexts), "{asking:?}");
        server.advance(PIN_WAIT_MS_MAX);
    }
    let replies: Vec<_> = clients.iter_mut().map(take_replies).collect();
    assert_eq!(replies, [&b""[..], b"END\r\n", b""]);
}
