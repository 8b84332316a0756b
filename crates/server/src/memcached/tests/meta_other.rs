//! `ms`, `md`, `me`, `mn`.

use super::{Server, ask, fresh};

#[test]
fn ms_has_the_conditions_of_the_text_commands() {
    let reply = fresh(&[
        "ms a 1 MR",
        "x",
        "ms a 1 MA",
        "x",
        "ms a 1 MP",
        "x",
        "ms a 1 ME F7",
        "m",
        "ms a 1 ME",
        "n",
        "ms a 2 MA s",
        "zz",
        "ms a 1 MP s",
        "(",
        "mg a v f",
        "ms a 1 MR T30",
        "r",
        "mg a v f t",
    ]);
    assert_eq!(reply, "NS\nNS\nNS\nHD\nNS\nHD s3\nHD s4\nVA 4 f7\n(mzz\nHD\nVA 1 f0 t30\nr\n");
}

#[test]
fn ms_append_creates_when_told_to() {
    let reply =
        fresh(&["ms a 2 MA N30 F5 T99", "xy", "mg a v t f", "ms a 1 MP N60", "w", "mg a v t f"]);
    assert_eq!(reply, "HD\nVA 2 t30 f5\nxy\nHD\nVA 3 t30 f5\nwxy\n");
}

#[test]
fn ms_compares_tokens() {
    let reply = fresh(&["ms a 1 C1", "x", "ms a 1 E10", "x", "ms a 1 C11 k O7 c s", "yy"]);
    assert_eq!(
        reply,
        "NF\nHD\nCLIENT_ERROR bad data chunk\nCLIENT_ERROR bad command line format\n"
    );
    let reply = fresh(&[
        "ms a 1 E10",
        "x",
        "ms a 3 C11 k O7 c s",
        "yyy",
        "ms a 1 C0",
        "y",
        "ms a 1 C10 E20 c",
        "z",
        "ms a 1 MA C20 E21 c s",
        "w",
        "ms a 1 MA C20",
        "v",
        "ms a 1 MA C0 E30",
        "u",
        "ms a 1 ME C30",
        "t",
        "ms a 1 MR C30 E31 c",
        "s",
        "mg a v c",
    ]);
    assert_eq!(
        reply,
        "HD\nEX ka O7 c0 s3\nEX\nHD c20\nHD c21 s2\nEX\nHD\nNS\nHD c31\nVA 1 c31\ns\n"
    );
}

#[test]
fn quiet_ms_hides_success_only() {
    let reply = fresh(&["ms a 1 q", "x", "ms a 1 q ME", "y", "ms a 1 q", "toolong", "mg a v"]);
    // Of "toolong", three bytes are the body, and the rest is a line.
    assert_eq!(reply, "NS\nCLIENT_ERROR bad data chunk\nERROR\nVA 1\nx\n");
}

#[test]
fn wrong_flags_drop_the_body() {
    let reply = fresh(&["ms a 1 !", "x", "ms a 1 q q", "x", "ms a 1 MX", "x", "mn"]);
    assert_eq!(
        reply,
        "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n\
         CLIENT_ERROR duplicate flag\nCLIENT_ERROR invalid mode for ms M token\nMN\n"
    );
}

#[test]
fn md_deletes_marks_and_empties() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 3 E10 F5 T60", "abc", "ms b 1", "x", "ms c 3 E7 F5", "abc"]);
    assert_eq!(
        ask(&mut server, &["md a C9 k O1", "md a C10 I E15 k", "mg a v c t"]),
        "EX ka O1\nHD ka\nVA 3 c15 t60 X W\nabc\n"
    );
    assert_eq!(ask(&mut server, &["md b q", "md b q", "md b"]), "NF\nNF\n");
    assert_eq!(ask(&mut server, &["md c x", "mg c v c f t"]), "HD\nVA 0 c7 f0 t-1\n\n");
    assert_eq!(
        ask(&mut server, &["md c x I F3 T9 E8", "mg c v c f t"]),
        "HD\nVA 0 c8 f3 t9 X W\n\n"
    );
    assert_eq!(ask(&mut server, &["md none x", "md none I"]), "NF\nNF\n");
    let totals = server.stats.totals();
    assert_eq!((totals.delete_hits, totals.delete_misses), (2, 5));
    // A mark alone is a change that tokens tell, an emptied value is not.
    assert_eq!(
        ask(&mut server, &["md c x", "md c C8 x", "md c x I", "md c C8 x"]),
        "HD\nHD\nHD\nEX\n"
    );
}

#[test]
fn a_marked_record_that_was_won_can_be_won_again() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 1", "x", "md a I"]);
    assert_eq!(
        ask(&mut server, &["mg a", "mg a", "md a I", "mg a"]),
        "HD X W\nHD Z X\nHD\nHD X W\n"
    );
}

#[test]
fn me_tells_about_a_record_and_leaves_it_alone() {
    let mut server = Server::new();
    ask(&mut server, &["ms a 3 E10 T60", "abc"]);
    let line = "ME a exp=60 la=0 cas=10 fetch=no cls=1 size=4\n";
    assert_eq!(ask(&mut server, &["me a", "me a", "me b"]), format!("{line}{line}EN\n"));
    assert_eq!(server.stats.totals().cmd_meta, 3);
}

#[test]
fn mn_is_answered_in_its_place() {
    assert_eq!(fresh(&["mn", "mg a", "mn"]), "MN\nEN\nMN\n");
}
