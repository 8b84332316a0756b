//! What clients hear who are refused.

use log::error::Error as LogError;
use store::{Answer, Error};

use super::*;
use crate::{
    memcached::durable::{
        answers::form,
        asking::{Style, What, read},
    },
    thread::OUT_OF_MEMORY_REQUEST,
    users::Users,
};

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

impl Stage {
    /// What a client hears whose request came to this.
    fn told(&mut self, what: &What<'_>, error: Error) -> String {
        let reply = form(&mut self.table.desk, what, Answer::Failed(error));
        String::from_utf8_lossy(&reply.head).replace("\r\n", "\n")
    }
}

#[test]
fn who_was_too_long_hears_that_the_old_record_has_stayed() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let Some(What::Store(set)) = read(b"set a 0 0 9000000\r\n") else { panic!("no store") };
    let told = stage.told(&What::Refused(set), Error::Log(LogError::NoRoom));
    assert_eq!(told, "SERVER_ERROR the disk is full\n", "it is taken for one that went");
}

/// A segment may take less than the longest value.
#[test]
fn what_the_log_has_no_room_for_in_a_record_is_too_large() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let error = || Error::Log(LogError::ValueBytes { got: 60_000, max: 50_000 });
    for (line, told) in [
        ("set a 0 0 60000\r\n", "SERVER_ERROR object too large for cache\n"),
        ("append a 0 0 60000\r\n", "NOT_STORED\n"),
        ("touch a 0\r\n", "SERVER_ERROR object too large for cache\n"),
    ] {
        let what = read(line.as_bytes()).expect("a request");
        assert_eq!(stage.told(&what, error()), told, "{line}");
    }
    let what = read(b"incr a 1\r\n").expect("a request");
    assert_eq!(stage.told(&what, Error::Ended), "SERVER_ERROR the store cannot do this\n");
}

/// As where memory is all that there is.
#[test]
fn a_lack_of_memory_is_told_as_memcached_does() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    for (line, told) in [
        ("set a 0 0 1\r\n", "SERVER_ERROR out of memory storing object\n"),
        ("ms a 1\r\n", "SERVER_ERROR out of memory storing object\n"),
        ("incr a 1\r\n", "SERVER_ERROR out of memory\n"),
        ("ma a\r\n", "SERVER_ERROR out of memory\n"),
        ("touch a 0\r\n", "SERVER_ERROR out of memory\n"),
        ("touch a 0 noreply\r\n", ""),
        ("mg a v T10\r\n", "EN\n"),
    ] {
        let what = read(line.as_bytes()).expect("a request");
        assert_eq!(stage.told(&what, Error::NoMemory), told, "{line}");
    }
    let gat = |is_only| What::Value(b"a", Style { with_token: false, touches: true, is_only });
    assert_eq!(stage.told(&gat(true), Error::NoMemory), "END\n");
    assert_eq!(stage.told(&gat(false), Error::NoMemory), "", "what comes behind it is not served");
    // GAT misses, Touch and Increment have a status of their own.
    for (opcode, extras, status) in [(0x1d, 4, 0x01), (0x1c, 4, 0x82), (0x05, 20, 0x82)] {
        let mut request = frame(opcode, 1, extras + 1);
        request[4] = extras as u8;
        request.extend(vec![0; extras as usize]);
        request.push(b'a');
        let what = read(&request).expect("a request");
        let reply = form(&mut stage.table.desk, &what, Answer::Failed(Error::NoMemory));
        assert_eq!(reply.head[6..8], [0, status], "{opcode:#x}");
    }
}

/// Together they are as long as no value may be.
#[test]
fn what_is_joined_is_as_long_as_values_may_be() {
    let directory = Directory::new();
    let mut stage = Stage::limited(&directory, 1000);
    let half = "v".repeat(600);
    assert_eq!(stage.ask(&["set a 0 0 600", &half]), "STORED\n");
    let long = "v".repeat(1001);
    for join in ["append", "prepend"] {
        assert_eq!(stage.ask(&[&format!("{join} a 0 0 600"), &half]), "NOT_STORED\n", "{join}");
        let told = stage.ask(&[&format!("{join} a 0 0 1001"), &long]);
        assert_eq!(told, "SERVER_ERROR object too large for cache\n", "{join}, too long by itself");
    }
    assert_eq!(stage.ask(&["append a 0 0 1", "w"]), "STORED\n");
    assert_eq!(stage.ask(&["get a"]), format!("VALUE a 0 601\n{half}w\nEND\n"));
}
