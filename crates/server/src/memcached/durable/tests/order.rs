//! Replies in the order of requests, and when.

use super::*;

#[test]
fn what_is_there_waits_for_what_was_asked_before() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    let lines = ["set a 7 0 1", "1", "get a", "version", "get none", "delete a", "get a"];
    let told = stage.send(&mut client, &lines);
    assert_eq!(told, (String::new(), Next::Read), "a reply leaves before its predecessor");
    assert!(stage.go_on(), "it is to be served");
    let (replies, next) = stage.serve(&mut client);
    let version = "VERSION 1.6.45-kelvin-";
    assert!(replies.starts_with(&format!("STORED\nVALUE a 7 1\n1\nEND\n{version}")), "{replies}");
    assert!(replies.ends_with("\nEND\nDELETED\nEND\n"), "{replies}");
    assert_eq!(next, Next::Read);
    // With nothing under way, no slot is needed.
    let told = stage.send(&mut client, &["get a", "mn"]);
    assert_eq!(told, ("END\nMN\n".to_owned(), Next::Read));
}

#[test]
fn the_last_requests_are_answered_before_the_end() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    let told = stage.send(&mut client, &["set a 0 0 1", "1", "quit", "get a"]);
    assert_eq!(told, (String::new(), Next::Wait));
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".to_owned(), Next::Finish));
    let mut client = stage.client();
    assert_eq!(stage.send(&mut client, &["set a 0 0 1", "2"]), (String::new(), Next::Read));
    client.input.end();
    assert_eq!(stage.serve(&mut client), (String::new(), Next::Wait));
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".to_owned(), Next::Read));
}

/// Who has gone is answered into the void.
#[test]
fn a_connection_that_ends_leaves_its_answers_to_nobody() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    stage.send(&mut client, &["set a 0 0 1", "1", "set b 0 0 1", "2", "version"]);
    drop(client);
    stage.go_on();
    assert!(!stage.table.is_waited_for());
    assert!(!stage.table.is_laden());
    assert_eq!(stage.ask(&["get a b"]), "VALUE a 0 1\n1\nVALUE b 0 1\n2\nEND\n");
}

/// The record is on the disk alone, or not flushed: a `mg` of it has to wait, and what comes behind
/// it does not take effect before it.
#[test]
fn who_renews_a_stale_record_is_decided_in_the_order_of_requests() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    for key in ["k", "l"] {
        let lines = [format!("ms {key} 3"), "old".to_owned(), format!("md {key} I")];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(stage.ask(&lines), "HD\nHD\n");
    }
    drop(stage);
    let mut stage = Stage::new(&directory);
    let told = stage.ask(&["mg k v", "set k 0 0 3", "new", "mg k v"]);
    assert_eq!(told, "VA 3 X W\nold\nSTORED\nVA 3\nnew\n");
    let told = stage.ask(&["mg l v", "mg l v"]);
    assert_eq!(told, "VA 3 X W\nold\nVA 3 Z X\nold\n");
    let told = stage.ask(&["md l I", "mg l v", "md l I", "mg l s", "mg l s"]);
    assert_eq!(told, "HD\nVA 3 X W\nold\nHD\nHD s3 X W\nHD s3 Z X\n");
}

/// What one client has set, another must not see before it is durable.
#[test]
fn what_is_not_flushed_is_not_told() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    assert_eq!(stage.ask(&["set a 0 0 1", "0"]), "STORED\n", "there is room in the log by now");
    let (mut one, mut other) = (stage.client(), stage.client());
    assert_eq!(stage.send(&mut one, &["set a 0 0 1", "1"]), (String::new(), Next::Read));
    let looks = ["get a", "mg a v", "add a 0 0 1", "x", "get none"];
    let told = stage.send(&mut other, &looks);
    assert_eq!(told, (String::new(), Next::Read), "it is told before it is durable");
    let (held, _) = stage.go_on_without(is_flush);
    assert!(!held.is_empty(), "writes are flushed");
    assert_eq!(stage.serve(&mut one).0, "");
    assert_eq!(stage.serve(&mut other).0, "", "it is told before it is durable");
    assert!(stage.make_up(held));
    assert_eq!(stage.serve(&mut one).0, "STORED\n");
    let told = "VALUE a 0 1\n1\nEND\nVA 1\n1\nNOT_STORED\nEND\n";
    assert_eq!(stage.serve(&mut other).0, told);
}
