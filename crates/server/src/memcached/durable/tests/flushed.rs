//! Flushes of a durable table: what a session makes of them.

use super::*;

#[test]
fn a_flush_is_answered_when_it_is_done_and_what_comes_behind_it_waits() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    assert_eq!(stage.ask(&["set a 0 0 1", "1", "set b 0 0 1", "2"]), "STORED\nSTORED\n");
    let mut client = stage.client();
    let told = stage.send(&mut client, &["flush_all", "get a", "add b 0 0 1", "3", "get b"]);
    assert_eq!(told, (String::new(), Next::Wait), "what was flushed is shown");
    assert_eq!(stage.ask(&["get a"]), "VALUE a 0 1\n1\nEND\n", "nothing has happened yet");
    let mut replies = stage.serve(&mut client).0;
    while stage.go_on() {
        replies += &stage.serve(&mut client).0;
    }
    assert_eq!(replies, "OK\nEND\nSTORED\nVALUE b 0 1\n3\nEND\n");
    drop((client, stage));
    let mut stage = Stage::new(&directory);
    assert_eq!(stage.ask(&["get a", "get b"]), "END\nVALUE b 0 1\n3\nEND\n");
}

#[test]
fn a_flush_comes_behind_what_was_asked_before_it() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let told = stage.ask(&["set n 0 0 1", "1", "incr n 1", "flush_all", "get n"]);
    assert_eq!(told, "STORED\n2\nOK\nEND\n");
    assert_eq!(stage.ask(&["set n 0 0 1", "1", "flush_all noreply", "get n"]), "STORED\nEND\n");
}

#[test]
fn a_flush_at_a_time_is_begun_when_it_is_due() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    assert_eq!(stage.ask(&["set a 0 0 1", "1", "flush_all 5", "get a"]), {
        "STORED\nOK\nVALUE a 0 1\n1\nEND\n"
    });
    assert_eq!(stage.table.wake_at_ms(), Some(START_MS + 5000), "nobody wakes for it");
    stage.ask(&["get a"]);
    while stage.table.take_stirred() {}
    let mut client = stage.client();
    stage.send(&mut client, &["flush_all 5"]);
    assert!(stage.table.take_stirred(), "whoever waits does not look when it is");
    stage.clock.advance_ms(4999);
    stage.go_on();
    assert_eq!(stage.ask(&["get a"]), "VALUE a 0 1\n1\nEND\n");
    stage.clock.advance_ms(1);
    stage.go_on();
    assert_eq!(stage.ask(&["get a", "set a 0 0 1", "2"]), "END\nSTORED\n");
    stage.clock.advance_ms(5000);
    stage.go_on();
    assert_eq!(stage.ask(&["get a"]), "VALUE a 0 1\n2\nEND\n", "it is flushed twice");
    // One at once takes one that is to come back.
    assert_eq!(stage.ask(&["flush_all 5", "flush_all", "set a 0 0 1", "3"]), "OK\nOK\nSTORED\n");
    stage.clock.advance_ms(6000);
    stage.go_on();
    assert_eq!(stage.ask(&["get a"]), "VALUE a 0 1\n3\nEND\n");
}

#[test]
fn a_flush_at_a_time_that_fails_is_tried_again() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    stage.ask(&["set a 0 0 1", "1", "flush_all 5"]);
    // In the way of the next manifest.
    fs::create_dir(directory.0.join("manifest.new")).expect("a directory");
    stage.clock.advance_ms(5000);
    stage.go_on();
    assert_eq!(stage.ask(&["get a"]), "VALUE a 0 1\n1\nEND\n");
    fs::remove_dir(directory.0.join("manifest.new")).expect("it is empty");
    assert_eq!(stage.table.wake_at_ms(), Some(START_MS + 6000), "it is forgotten");
    stage.clock.advance_ms(1000);
    stage.go_on();
    assert_eq!(stage.ask(&["get a"]), "END\n");
    assert_eq!(stage.table.wake_at_ms(), None);
}

#[test]
fn a_flush_at_once_that_fails_leaves_the_one_that_is_to_come() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    stage.ask(&["set a 0 0 1", "1", "flush_all 5"]);
    fs::create_dir(directory.0.join("manifest.new")).expect("a directory");
    assert!(stage.ask(&["flush_all"]).starts_with("SERVER_ERROR not flushed"));
    fs::remove_dir(directory.0.join("manifest.new")).expect("it is empty");
    assert_eq!(stage.table.wake_at_ms(), Some(START_MS + 5000), "it was taken back");
    // One that is asked for while another one is done is not taken back by that.
    let mut client = stage.client();
    stage.send(&mut client, &["flush_all"]);
    assert_eq!(stage.ask(&["flush_all 9"]), "OK\n");
    while stage.go_on() {
        stage.serve(&mut client);
    }
    assert_eq!(stage.table.wake_at_ms(), Some(START_MS + 9000));
}

#[test]
fn where_nobody_knows_whether_it_is_flushed_nobody_says_that_it_is_not() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    stage.ask(&["set a 0 0 1", "1"]);
    // In the way of its name.
    let manifest = directory.0.join("manifest");
    fs::remove_file(&manifest).expect("it is there");
    fs::create_dir(&manifest).expect("a directory");
    let told = "SERVER_ERROR read-only, because writing to the disk has failed; \
                all may be gone after a restart\n";
    let shown = "VALUE a 0 1\n1\nEND\n";
    assert_eq!(stage.ask(&["flush_all", "get a"]), format!("{told}{shown}"));
}

#[test]
fn a_flush_in_the_binary_protocol_is_answered_when_it_is_done() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    stage.ask(&["set a 0 0 1", "1"]);
    let mut client = stage.client();
    let mut frames = [[0_u8; 24]; 2];
    for (frame, opcode) in frames.iter_mut().zip([0x08, 0x0a]) {
        (frame[0], frame[1]) = (0x80, opcode);
    }
    stage.feed(&mut client, &frames.concat());
    assert_eq!(stage.serve_bytes(&mut client), (Vec::new(), Next::Wait));
    while stage.go_on() {}
    let (replies, _) = stage.serve_bytes(&mut client);
    let told: Vec<_> = replies.chunks(24).map(|frame| (frame[1], frame[7])).collect();
    assert_eq!(told, [(0x08, 0), (0x0a, 0)]);
    assert_eq!(stage.ask(&["get a"]), "END\n");
}

#[test]
fn a_flush_that_cannot_be_written_is_told_in_words() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    stage.ask(&["set a 0 0 1", "1"]);
    // In the way of the next manifest.
    fs::create_dir(directory.0.join("manifest.new")).expect("a directory");
    let refused = "SERVER_ERROR not flushed, because writing to the disk has failed\n";
    assert_eq!(stage.ask(&["flush_all", "get a"]), format!("{refused}VALUE a 0 1\n1\nEND\n"));
    fs::remove_dir(directory.0.join("manifest.new")).expect("it is empty");
    assert_eq!(stage.ask(&["flush_all", "get a"]), "OK\nEND\n");
}
