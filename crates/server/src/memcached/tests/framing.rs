//! Requests cut into pieces: wherever the cuts are, the replies are the same.

use proptest::prelude::*;
use reactor::Next;

use super::{Server, ask};

/// A conversation that has everything: bodies short and long, wrong ones, lines of all kinds.
fn conversation() -> Vec<u8> {
    let long = "v".repeat(4_097);
    let mut text = String::new();
    for line in [
        "set a 1 0 5",
        "hello",
        "get a b",
        "set big 2 0 4097",
        &long,
        "get a big a",
        "incr a 1",
        "set n 0 0 1 noreply",
        "7",
        "incr n 5",
        "ms big 4097 MA s q k",
        &long,
        "mg big s",
        "ms Zm9v 3 b E9",
        "bar",
        "mg foo v c k",
        "bad line",
        "set big 0 0 4097",
        &long[1..],
        "z",
        "set a 0 0 1",
        "toolong",
        "gat 0 big",
        "delete a",
        "flush_all",
        "get big",
        "mn",
    ] {
        text += line;
        text += "\r\n";
    }
    text.into_bytes()
}

fn whole() -> Vec<u8> {
    let mut server = Server::new();
    let mut client = server.client();
    server.send(&mut client, &conversation())
}

fn in_pieces(pieces: &[&[u8]]) -> Vec<u8> {
    let mut server = Server::new();
    let mut client = server.client();
    pieces.iter().flat_map(|piece| server.send(&mut client, piece)).collect()
}

#[test]
fn the_conversation_says_what_it_should() {
    let long = "v".repeat(4_097);
    let reply = String::from_utf8(whole()).expect("text").replace("\r\n", "\n");
    let expected = format!(
        "STORED\nVALUE a 1 5\nhello\nEND\nSTORED\nVALUE a 1 5\nhello\nVALUE big 2 4097\n{long}\n\
         VALUE a 1 5\nhello\nEND\nCLIENT_ERROR cannot increment or decrement non-numeric value\n\
         12\nHD s8194\nHD\nVA 3 c9 kfoo\nbar\nERROR\n"
    );
    assert!(reply.starts_with(&expected), "{reply}");
    let rest = &reply[expected.len()..];
    assert_eq!(
        rest,
        format!(
            "CLIENT_ERROR bad data chunk\nCLIENT_ERROR bad command line format\n\
             CLIENT_ERROR bad data chunk\nERROR\nVALUE big 2 8194\n{long}{long}\nEND\nDELETED\nOK\n\
             END\nMN\n"
        )
    );
}

#[test]
fn every_cut_in_two_gives_the_same_replies() {
    let (request, expected) = (conversation(), whole());
    let step = if cfg!(miri) { 997 } else { 7 };
    for cut in (0..request.len()).step_by(step) {
        assert!(in_pieces(&[&request[..cut], &request[cut..]]) == expected, "cut at {cut}");
    }
}

#[test]
fn pieces_of_any_size_give_the_same_replies() {
    let (request, expected) = (conversation(), whole());
    for size in [1, 2, 3, 5, 64, 1_000, 4_099] {
        let pieces: Vec<&[u8]> = request.chunks(size).collect();
        assert!(in_pieces(&pieces) == expected, "pieces of {size}");
    }
}

#[test]
fn the_cuts_around_a_long_value_are_all_harmless() {
    let head = b"set k 0 0 4097\r\n";
    let mut request = head.to_vec();
    request.extend(std::iter::repeat_n(b'x', 4_097));
    request.extend(b"\r\nmg k s\r\n");
    let end = head.len() + 4_097;
    for cut in (0..head.len() + 3).chain(end - 3..request.len()) {
        let reply = in_pieces(&[&request[..cut], &request[cut..]]);
        assert_eq!(reply, b"STORED\r\nHD s4097\r\n", "cut at {cut}");
    }
}

#[test]
fn a_body_that_is_waited_for_says_how_much_is_missing() {
    let mut server = Server::new();
    let mut client = server.client();
    let (reply, next) = server.send_until(&mut client, b"mn\r\nset a 0 0 4096\r\nabc");
    assert_eq!((&reply[..], next), (&b"MN\r\n"[..], Next::Read));
    assert_eq!(client.connection.input.bytes(), b"set a 0 0 4096\r\nabc");
    let rest = vec![b'x'; 4_093];
    assert_eq!(server.send(&mut client, &rest), b"");
    assert_eq!(server.send(&mut client, b"\r\n"), b"STORED\r\n");
    assert_eq!(ask(&mut server, &["mg a s"]), "HD s4096\n");
}

#[test]
fn bare_line_feeds_end_lines_but_not_values() {
    let mut server = Server::new();
    let mut client = server.client();
    let reply = server.send(&mut client, b"set a 0 0 1\nx\r\nget a\nset a 0 0 1\nyz\nget a\n");
    let expected: &[u8] = b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nCLIENT_ERROR bad data chunk\r\n\
        CLIENT_ERROR bad command line format\r\nVALUE a 0 1\r\nx\r\nEND\r\n";
    // The body is "yz\n"; nothing is left of that line.
    let without = b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nCLIENT_ERROR bad data chunk\r\n\
        VALUE a 0 1\r\nx\r\nEND\r\n";
    assert!(reply == without, "{:?} {expected:?}", String::from_utf8_lossy(&reply));
}

#[test]
fn a_line_without_end_is_cut_off() {
    let mut server = Server::new();
    let mut client = server.client();
    assert_eq!(server.send_until(&mut client, &[b'x'; 2_048]), (vec![], Next::Read));
    assert_eq!(server.send_until(&mut client, b"x"), (vec![], Next::Finish));
}

/// Lines that are right, nearly right, and noise.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let line = |line: &'static str| Just([line.as_bytes(), b"\r\n"].concat());
    let stored = |len: usize, sent: usize| {
        // Read as lines, by mistake, it has to have ends: those without are cut off.
        let value: Vec<u8> = b"vvvvvv\n".iter().copied().cycle().take(sent).collect();
        Just([format!("set b 1 0 {len}\r\n").as_bytes(), &value, b"\r\n"].concat())
    };
    prop_oneof![
        4 => prop_oneof![
            line("set a 0 0 2\r\n12"), line("ms a 3 MA s c\r\n345"), line("incr a 1"),
            line("get a b c"), line("gats 9 b a"), line("mg a v t k q O1"), line("mg c N30 t"),
            line("md a I"), line("ma a N0 v"), line("delete a"), line("touch b 3"), line("mn"),
            line("flush_all"), line("stats sizes"), line("cas a 0 0 1 3\r\nx"), line("quip"),
            line("set a 0 0 1 noreply\r\ny"), line("ms b 0\r\n"), line(""), line("set a 0 0"),
        ],
        1 => stored(4_096, 4_096),
        1 => stored(4_097, 4_097),
        1 => stored(9_000, 9_000),
        1 => prop_oneof![stored(5_000, 4_999), stored(5_000, 5_001), stored(2_000_000, 100)],
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 300 }))]

    #[test]
    fn noise_in_random_pieces_gets_the_same_replies(
        fragments in prop::collection::vec(fragments(), 1..30),
        sizes in prop::collection::vec(prop_oneof![3 => 1_usize..50, 1 => 50_usize..3_000], 1..20),
    ) {
        let request = fragments.concat();
        let mut pieces = Vec::new();
        let mut rest = &request[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, later) = rest.split_at(rest.len().min(*size));
            pieces.push(piece);
            rest = later;
        }
        prop_assert!(in_pieces(&pieces) == in_pieces(&[&request]));
    }
}
