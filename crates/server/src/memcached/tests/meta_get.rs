//! `mg`.

use super::{Server, ask, fresh};

fn token(server: &mut Server, key: &str) -> u64 {
    let reply = ask(server, &[&format!("mg {key} c")]);
    let token = reply.split([' ', '\n']).nth(1).and_then(|token| token.strip_prefix('c'));
    token.and_then(|token| token.parse().ok()).expect("a token")
}

#[test]
fn flags_are_answered_in_their_order() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 5 F9 T30 E123", "hello"]);
    let reply = ask(&mut server, &["mg a s v f t k c Oxyz", "mg a Oxyz c k t f s"]);
    assert_eq!(reply, "VA 5 s5 f9 t30 ka c123 Oxyz\nhello\nHD Oxyz c123 ka t30 f9 s5\n");
}

#[test]
fn a_miss_gives_opaque_and_key_and_quiet_hides_it() {
    assert_eq!(fresh(&["mg a v k O1 t", "mg a v k q O2", "mn"]), "EN ka O1\nMN\n");
    assert_eq!(fresh(&["ms a 1", "x", "mg a v q", "mg a q"]), "HD\nVA 1\nx\nHD\n");
}

#[test]
fn a_key_in_base64_is_the_key_it_encodes() {
    let reply =
        fresh(&["ms Zm9v 1 b k", "x", "get foo", "mg Zm9v b k v", "md Zm9v b k", "get foo"]);
    assert_eq!(reply, "HD kZm9v b\nVALUE foo 0 1\nx\nEND\nVA 1 kZm9v b\nx\nHD kZm9v b\nEND\n");
}

#[test]
fn the_value_is_left_out_when_the_token_is_known() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 1 E5", "x"]);
    assert_eq!(ask(&mut server, &["mg a v C5 c", "mg a v C6 c"]), "HD c5\nVA 1 c5\nx\n");
    assert_eq!(ask(&mut server, &["mg a v C5 T30 t", "mg a t"]), "HD t30\nHD t30\n");
}

#[test]
fn hit_before_is_as_of_before_and_u_leaves_no_trace() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 1", "x"]);
    assert_eq!(ask(&mut server, &["mg a h u", "mg a h", "mg a h"]), "HD h0\nHD h0\nHD h1\n");
    ask(&mut server, &["ms a 1", "y"]);
    assert_eq!(ask(&mut server, &["mg a h"]), "HD h0\n");
}

#[test]
fn t_shows_the_time_as_of_its_place() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 1 T100", "x"]);
    assert_eq!(
        ask(&mut server, &["mg a t T30", "mg a T50 t", "mg a t"]),
        "HD t100\nHD t50\nHD t50\n"
    );
    server.advance(1_500);
    assert_eq!(ask(&mut server, &["mg a t"]), "HD t49\n");
    server.advance(500);
    assert_eq!(ask(&mut server, &["mg a t", "mg a T0 t"]), "HD t48\nHD t-1\n");
}

#[test]
fn vivify_creates_once_and_lets_one_win() {
    let mut server = Server::new();
    let reply = ask(&mut server, &["mg a N30 v t s k", "mg a N30 v t", "mg a"]);
    assert_eq!(reply, "VA 0 t30 s0 ka W\n\nVA 0 t30 Z\n\nHD Z\n");
    assert_eq!(ask(&mut server, &["ms a 1 T60", "x", "mg a N30 v t"]), "HD\nVA 1 t60\nx\n");
    assert_eq!(ask(&mut server, &["mg b N30 E9 c", "mg b c"]), "HD c9 W\nHD c9 Z\n");
    assert_eq!(ask(&mut server, &["mg c N30 T60 t", "mg d T60 N30 t"]), "HD t60 W\nHD t30 W\n");
    let reply = ask(&mut server, &["mg e N2 t T0", "mg e t", "mg f t N100", "mg g T50 t N100"]);
    assert_eq!(reply, "HD t2 W\nHD t-1 Z\nHD t-1 W\nHD t50 W\n");
    server.advance(30_000);
    assert_eq!(ask(&mut server, &["mg d N10 t"]), "HD t10 W\n");
}

#[test]
fn renewal_is_won_by_one_client_when_little_time_is_left() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 1 T30", "x", "ms b 1", "x"]);
    assert_eq!(ask(&mut server, &["mg a R30", "mg b R30", "mg a R0"]), "HD\nHD\nHD\n");
    assert_eq!(ask(&mut server, &["mg a R31", "mg a R31 v"]), "HD W\nVA 1 Z\nx\n");
    ask(&mut server, &["ms a 1 T30", "y"]);
    server.advance(1_000);
    assert_eq!(ask(&mut server, &["mg a R29", "mg a R30 t"]), "HD\nHD t29 W\n");
    ask(&mut server, &["ms a 1 T30", "y"]);
    assert_eq!(
        ask(&mut server, &["mg a R60 T90", "ms a 1 T30", "z", "mg a T90 R60"]),
        "HD W\nHD\nHD\n"
    );
}

#[test]
fn a_stale_record_is_won_by_one_client_and_served_to_all() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 1 T30", "x"]);
    let before = token(&mut server, "a");
    assert_eq!(ask(&mut server, &["md a I T60"]), "HD\n");
    let reply = ask(&mut server, &["mg a v t", "mg a v", "mg a v"]);
    assert_eq!(reply, "VA 1 t60 X W\nx\nVA 1 Z X\nx\nVA 1 Z X\nx\n");
    let after = token(&mut server, "a");
    assert!(after > before);
    // A value from before the invalidation is let in, still stale.
    let late = format!("ms a 1 C{before} I T5");
    assert_eq!(ask(&mut server, &[&late, "w", "mg a v t"]), "HD\nVA 1 t60 Z X\nw\n");
    let right = format!("ms a 1 C{} I", token(&mut server, "a"));
    assert_eq!(ask(&mut server, &[&right, "n", "mg a v t"]), "HD\nVA 1 t-1\nn\n");
}

#[test]
fn time_since_the_store_is_in_seconds() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 1", "x"]);
    assert_eq!(ask(&mut server, &["mg a l"]), "HD l0\n");
}

#[test]
fn statistics_tell_touches_from_reads() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 1", "x", "mg a", "mg a T30", "mg b", "mg b T30", "mg c N30"]);
    let totals = server.stats.totals();
    assert_eq!((totals.cmd_get, totals.get_hits, totals.get_misses), (4, 2, 2));
    assert_eq!((totals.cmd_touch, totals.touch_hits, totals.touch_misses), (1, 1, 0));
}
