//! `incr` and `decr`.

use super::{Server, ask, fresh};

fn counted(value: &str, command: &str) -> String {
    fresh(&[&format!("set n 5 0 {}", value.len()), value, command, "get n"])
}

#[test]
fn numbers_go_up_and_down() {
    assert_eq!(counted("5", "incr n 4"), "STORED\n9\nVALUE n 5 1\n9\nEND\n");
    assert_eq!(counted("5", "decr n 4"), "STORED\n1\nVALUE n 5 1\n1\nEND\n");
    assert_eq!(counted("5", "decr n 6"), "STORED\n0\nVALUE n 5 1\n0\nEND\n");
    let most = u64::MAX.to_string();
    assert_eq!(
        counted(&most, "incr n 2"),
        format!("STORED\n1\nVALUE n 5 20\n1{}\nEND\n", " ".repeat(19))
    );
}

#[test]
fn a_longer_number_makes_room_and_a_shorter_keeps_it() {
    assert_eq!(counted("99", "incr n 1"), "STORED\n100\nVALUE n 5 3\n100\nEND\n");
    assert_eq!(counted("100", "decr n 1"), "STORED\n99\nVALUE n 5 3\n99 \nEND\n");
    assert_eq!(counted("7   x", "incr n 1"), "STORED\n8\nVALUE n 5 5\n8    \nEND\n");
}

#[test]
fn a_number_in_a_wide_value_keeps_its_width() {
    let wide = format!("{}12", "0".repeat(30));
    assert_eq!(
        counted(&wide, "incr n 1"),
        format!("STORED\n13\nVALUE n 5 32\n13{}\nEND\n", " ".repeat(30))
    );
    let wider = format!("1{}", " ".repeat(4_095));
    assert_eq!(
        counted(&wider, "decr n 1"),
        format!("STORED\n0\nVALUE n 5 4096\n0{}\nEND\n", " ".repeat(4_095))
    );
}

#[test]
fn a_value_in_parts_is_no_number_but_its_token_is_looked_at_first() {
    let mut server = Server::new();
    let long = format!("1{}", " ".repeat(4_096));
    ask(&mut server, &["ms n 4097 E5", &long]);
    assert_eq!(
        ask(&mut server, &["ma n C6", "ma n C5", "mg n s"]),
        "EX\nCLIENT_ERROR cannot increment or decrement non-numeric value\nHD s4097\n"
    );
}

#[test]
fn what_is_no_number_stays() {
    for value in ["abc", "", "1x", "-1", "18446744073709551616"] {
        let reply = counted(value, "incr n 1");
        let expected = format!(
            "STORED\nCLIENT_ERROR cannot increment or decrement non-numeric value\n\
             VALUE n 5 {}\n{value}\nEND\n",
            value.len()
        );
        assert_eq!(reply, expected, "{value}");
    }
}

#[test]
fn expiry_stays_and_the_token_is_new() {
    let mut server = Server::new();
    ask(&mut server, &["set n 0 10 1", "5"]);
    let before = ask(&mut server, &["mg n c"]);
    ask(&mut server, &["incr n 1"]);
    assert_ne!(ask(&mut server, &["mg n c"]), before);
    server.advance(10_000);
    assert_eq!(ask(&mut server, &["incr n 1", "decr n 1"]), "NOT_FOUND\nNOT_FOUND\n");
    let totals = server.stats.totals();
    assert_eq!((totals.incr_hits, totals.incr_misses, totals.decr_misses), (1, 1, 1));
}

#[test]
fn ma_counts_creates_and_compares() {
    let reply = fresh(&[
        "ma n",
        "ma n N0 J13 v",
        "ma n v",
        "ma n D5 v t",
        "ma n MD D100 v",
        "ma n M- q v",
        "mn",
        "ma n M+ k O9 c E77",
        "ma n C76 D9 k",
        "ma n C77 D9 v c E78",
        "mg n v c",
    ]);
    assert_eq!(
        reply,
        "NF\nVA 2\n13\nVA 2\n14\nVA 2 t-1\n19\nVA 1\n0\nMN\nHD kn O9 c77\nEX kn\nVA 2 c78\n10\n\
         VA 2 c78\n10\n"
    );
}

#[test]
fn ma_sets_times_on_hit_and_on_creation() {
    let mut server = Server::new();
    let reply = ask(
        &mut server,
        &[
            "ma n N30 t",
            "ma n t N60",
            "ma n t T90",
            "ma n T10 t",
            "mg n t",
            "ma m t N30",
            "mg m t",
            "ma o N30 T60 t",
            "mg o t",
        ],
    );
    assert_eq!(reply, "HD t30\nHD t30\nHD t30\nHD t10\nHD t10\nHD t-1\nHD t30\nHD t60\nHD t60\n");
    assert_eq!(ask(&mut server, &["ma n T5 D95 v t", "mg n t"]), "VA 2 t5\n98\nHD t5\n");
}

#[test]
fn marks_stay_in_place_and_go_with_a_longer_number() {
    let mut server = Server::new();
    ask(&mut server, &["set n 0 0 1", "8", "md n I"]);
    assert_eq!(ask(&mut server, &["incr n 1", "mg n"]), "9\nHD X W\n");
    assert_eq!(ask(&mut server, &["mg n", "incr n 1", "mg n h"]), "HD Z X\n10\nHD h0\n");
    assert_eq!(ask(&mut server, &["mg n h", "decr n 1", "mg n h"]), "HD h1\n9\nHD h1\n");
}
