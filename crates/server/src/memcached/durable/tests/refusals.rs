//! What clients hear who are refused.

use super::*;
use crate::{thread::OUT_OF_MEMORY_REQUEST, users::Users};

/// Whoever is refused while answers are to come must not take the words for one of them.
#[test]
fn the_last_words_are_not_the_answer_to_what_was_asked_before() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    assert_eq!(client.session.last_words(), OUT_OF_MEMORY_REQUEST);
    assert_eq!(stage.send(&mut client, &["set a 0 0 1", "1"]), (String::new(), Next::Read));
    assert_eq!(client.session.last_words(), b"", "it is taken for the answer to the set");
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client).0, "STORED\n");
    assert_eq!(client.session.last_words(), OUT_OF_MEMORY_REQUEST);
}

/// A request of the binary protocol that begins with this, its other fields 0.
fn frame(opcode: u8, key_bytes: u8, body_bytes: u32) -> Vec<u8> {
    let mut frame = vec![0; 24];
    (frame[0], frame[1], frame[3]) = (0x80, opcode, key_bytes);
    frame[8..12].copy_from_slice(&body_bytes.to_be_bytes());
    frame
}

#[test]
fn a_stranger_hears_that_it_has_to_log_in_whatever_it_asks() {
    let directory = Directory::new();
    let path = directory.0.join("users");
    fs::write(&path, "user:password\n").expect("a file can be written");
    let users = Some(Arc::new(Users::load(&path).expect("users")));
    let access = Access { users, ..Access::default() };
    let mut stage = Stage::with(&directory, MEMORY_BYTES, access);
    let (unauthenticated, authenticated) = ([0, 0x20], [0, 0]);
    // An operation that there is, one that there is not and that announces much, a wrong length.
    for request in [frame(0x00, 1, 1), frame(0x40, 0, 100 << 20), frame(0x00, 0, 0)] {
        let mut client = stage.client();
        stage.feed(&mut client, &request);
        let (reply, next) = stage.serve_bytes(&mut client);
        let told = (&reply[6..8], next);
        assert_eq!(told, (&unauthenticated[..], Next::Finish), "a stranger stays: {request:?}");
    }
    let mut client = stage.client();
    stage.feed(&mut client, &frame(0x0b, 0, 0));
    let (reply, next) = stage.serve_bytes(&mut client);
    assert_eq!((&reply[6..8], next), (&authenticated[..], Next::Read), "the version is for all");
    let login = [&frame(0x21, 5, 19)[..], b"PLAIN\0user\0password"].concat();
    stage.feed(&mut client, &login);
    let (reply, next) = stage.serve_bytes(&mut client);
    assert_eq!((&reply[6..8], next), (&authenticated[..], Next::Read));
    stage.feed(&mut client, &frame(0x40, 0, 0));
    let (reply, next) = stage.serve_bytes(&mut client);
    assert_eq!((&reply[6..8], next), (&[0, 0x81][..], Next::Read), "it is known");
}
