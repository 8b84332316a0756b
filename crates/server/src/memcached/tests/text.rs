//! Text retrieval, deletion, touch.

use super::{Server, ask, fresh};

#[test]
fn a_stored_value_is_read_back_with_its_flags() {
    let reply = fresh(&["set a 42 0 5", "hello", "get a", "get b"]);
    assert_eq!(reply, "STORED\nVALUE a 42 5\nhello\nEND\nEND\n");
}

#[test]
fn an_empty_value_is_a_value() {
    assert_eq!(fresh(&["set a 0 0 0", "", "get a"]), "STORED\nVALUE a 0 0\n\nEND\n");
}

#[test]
fn many_keys_are_answered_in_their_order_and_misses_left_out() {
    let mut server = Server::new();
    ask(&mut server, &["set a 0 0 1", "1", "set c 7 0 1", "3"]);
    let reply = ask(&mut server, &["get  c  x a c "]);
    assert_eq!(reply, "VALUE c 7 1\n3\nVALUE a 0 1\n1\nVALUE c 7 1\n3\nEND\n");
}

#[test]
fn more_keys_than_a_burst_are_all_answered() {
    let mut server = Server::new();
    let mut expected = String::new();
    let mut line = String::from("get");
    for number in 0..100 {
        ask(&mut server, &[&format!("set k{number} 0 0 2"), &format!("{number:02}")]);
        line += &format!(" k{number} missing{number}");
        expected += &format!("VALUE k{number} 0 2\n{number:02}\n");
    }
    assert_eq!(ask(&mut server, &[&line]), expected + "END\n");
}

#[test]
fn gets_shows_a_token_that_changes_with_each_store_and_not_with_touch() {
    let mut server = Server::new();
    let token = |server: &mut Server| {
        let reply = ask(server, &["gets a"]);
        let head = reply.lines().next().expect("a line").to_owned();
        head.rsplit(' ').next().and_then(|word| word.parse::<u64>().ok()).expect("a token")
    };
    ask(&mut server, &["set a 0 0 1", "x"]);
    let first = token(&mut server);
    ask(&mut server, &["touch a 100"]);
    assert_eq!(token(&mut server), first);
    ask(&mut server, &["set a 0 0 1", "x"]);
    let second = token(&mut server);
    assert!(second > first);
    ask(&mut server, &["delete a", "set a 0 0 1", "x"]);
    assert!(token(&mut server) > second);
}

#[test]
fn a_key_too_long_is_refused_before_any_record_is_sent() {
    let mut server = Server::new();
    ask(&mut server, &["set a 0 0 1", "x"]);
    let long = "k".repeat(251);
    let reply = ask(&mut server, &[&format!("get a {long}"), "get a"]);
    assert_eq!(reply, "CLIENT_ERROR bad command line format\nVALUE a 0 1\nx\nEND\n");
    let longest = "k".repeat(250);
    let reply =
        ask(&mut server, &[&format!("set {longest} 0 0 1"), "y", &format!("get {longest}")]);
    assert_eq!(reply, format!("STORED\nVALUE {longest} 0 1\ny\nEND\n"));
}

#[test]
fn delete_and_touch_say_whether_there_was_a_record() {
    let reply = fresh(&[
        "delete a",
        "touch a 10",
        "set a 0 0 1",
        "x",
        "touch a 10",
        "delete a",
        "delete a",
    ]);
    assert_eq!(reply, "NOT_FOUND\nNOT_FOUND\nSTORED\nTOUCHED\nDELETED\nNOT_FOUND\n");
}

#[test]
fn noreply_is_silent_and_done() {
    let mut server = Server::new();
    let reply = ask(
        &mut server,
        &[
            "set a 0 0 1 noreply",
            "x",
            "delete b noreply",
            "touch a 10 noreply",
            "incr a 1 noreply",
            "flush_all x noreply",
            "verbosity 1 noreply",
            "add a 0 0 1 noreply",
            "y",
            &format!("set {} 0 0 1 noreply", "k".repeat(251)),
            "x",
            "set a 0 0 1 noreply",
            "toolong",
            "get a",
        ],
    );
    // Of the value that is too long, "ong" is left as a line.
    assert_eq!(reply, "ERROR\nVALUE a 0 1\nx\nEND\n");
}

#[test]
fn records_expire_to_the_millisecond() {
    let mut server = Server::new();
    ask(&mut server, &["set a 0 10 1", "x", "set b 0 0 1", "y"]);
    server.advance(9_999);
    assert_eq!(ask(&mut server, &["get a b"]), "VALUE a 0 1\nx\nVALUE b 0 1\ny\nEND\n");
    server.advance(1);
    assert_eq!(ask(&mut server, &["get a b"]), "VALUE b 0 1\ny\nEND\n");
    assert_eq!(ask(&mut server, &["add a 0 0 1", "z", "get a"]), "STORED\nVALUE a 0 1\nz\nEND\n");
}

#[test]
fn negative_and_past_times_expire_at_once() {
    let mut server = Server::new();
    for exptime in ["-1", "-2147483648", "2592001", "1600000000"] {
        ask(&mut server, &["set a 0 0 1", "old"]);
        let line = format!("set a 0 {exptime} 1");
        assert_eq!(ask(&mut server, &[&line, "x", "get a"]), "STORED\nEND\n", "{exptime}");
    }
    let reply = ask(&mut server, &["set a 0 1700000010 1", "x", "get a"]);
    assert_eq!(reply, "STORED\nVALUE a 0 1\nx\nEND\n");
    server.advance(10_000);
    assert_eq!(ask(&mut server, &["get a"]), "END\n");
}

#[test]
fn gat_gives_a_new_life() {
    let mut server = Server::new();
    ask(&mut server, &["set a 3 10 1", "x"]);
    assert_eq!(ask(&mut server, &["gat 100 a b"]), "VALUE a 3 1\nx\nEND\n");
    server.advance(50_000);
    let reply = ask(&mut server, &["gats 0 a"]);
    assert!(reply.starts_with("VALUE a 3 1 "), "{reply}");
    server.advance(1_000_000);
    assert_eq!(ask(&mut server, &["gat -1 a", "get a"]), "VALUE a 3 1\nx\nEND\nEND\n");
}

#[test]
fn touch_changes_the_expiry_both_ways() {
    let mut server = Server::new();
    ask(&mut server, &["set a 0 10 1", "x", "touch a 0"]);
    server.advance(20_000);
    assert_eq!(ask(&mut server, &["get a", "touch a 5"]), "VALUE a 0 1\nx\nEND\nTOUCHED\n");
    server.advance(5_000);
    assert_eq!(ask(&mut server, &["get a", "touch a 5"]), "END\nNOT_FOUND\n");
}
