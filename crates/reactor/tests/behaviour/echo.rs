//! Requests are answered in order, however they are cut and however many speak at a time.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
};

use super::harness::{Message, Served, Setup, ask, expect, expect_end};

#[test]
fn requests_in_any_pieces_are_answered_in_order() {
    let served = Served::start(Setup::default());
    let mut stream = served.connect();
    stream.set_nodelay(true).expect("a TCP socket");
    let mut requests = Vec::new();
    let mut replies = Vec::new();
    for i in 0..2000_usize {
        let text = format!("{i}:{}", "x".repeat(i * 7 % 3000));
        requests.extend_from_slice(format!("echo {text}\n").as_bytes());
        replies.extend_from_slice(format!("{text}\n").as_bytes());
    }
    let mut reader = stream.try_clone().expect("a second handle");
    let writer = std::thread::spawn(move || {
        let (mut sent, mut size) = (0, 1);
        while sent < requests.len() {
            let end = requests.len().min(sent + size);
            stream.write_all(&requests[sent..end]).expect("the loop reads");
            sent = end;
            size = size * 3 % 40_009 + 1;
        }
    });
    expect(&mut reader, &replies);
    writer.join().expect("the writer");
    let report = served.finish(Message::Stop);
    assert_eq!(report.pool.used_bytes, 0);
}

#[test]
fn one_byte_at_a_time() {
    let served = Served::start(Setup::default());
    let mut stream = served.connect();
    stream.set_nodelay(true).expect("a TCP socket");
    for _ in 0..20 {
        for byte in b"echo slow\n" {
            stream.write_all(&[*byte]).expect("the loop reads");
        }
        expect(&mut stream, b"slow\n");
    }
}

#[test]
fn a_line_of_many_buffers_comes_back_whole() {
    let served = Served::start(Setup::default());
    let mut stream = served.connect();
    let text = "long ".repeat(200_000);
    let request = format!("echo {text}\n");
    assert!(request.len() < reactor::INPUT_BYTES_MAX);
    ask(&mut stream, request.as_bytes(), format!("{text}\n").as_bytes());
    let report = served.wait_for("all buffers", |report| report.pool.used_bytes == 0);
    assert_eq!(report.reasons.len(), 0);
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    let served = Served::start(Setup::default());
    let mut stream = served.connect();
    stream.write_all(&vec![b'e'; reactor::INPUT_BYTES_MAX]).expect("the loop reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an orderly end");
    assert_eq!(reply, "refused InputFull\n");
    drop(stream);
    let report = served.wait_for("the end", |report| report.connections == 0);
    assert_eq!(report.pool.used_bytes, 0);
}

#[test]
fn thousands_of_connections_hold_no_buffer_while_they_are_silent() {
    let served = Served::start(Setup::default());
    let count = 2000.min(super::harness::descriptors() / 2 - 100);
    let mut streams: Vec<_> = (0..count).map(|_| served.connect()).collect();
    let report = served.wait_for("all connections", |report| report.connections == count);
    assert_eq!(report.pool.used_bytes, 0);
    for round in 0..3 {
        for (i, stream) in streams.iter_mut().enumerate() {
            stream.write_all(format!("echo {round}-{i}\n").as_bytes()).expect("the loop reads");
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            expect(stream, format!("{round}-{i}\n").as_bytes());
        }
    }
    let report = served.wait_for("silence", |report| report.pool.used_bytes == 0);
    // One turn takes at most 256 connections, each with a buffer in and one out.
    assert!(report.pool.used_bytes_max <= 2 * 256 * 2048, "{report:?}");
    drop(streams);
    let report = served.wait_for("all ends", |report| report.connections == 0);
    assert_eq!(report.reasons, [("Finished".to_owned(), count)].into());
}

#[test]
fn the_same_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("reactor-echo-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a directory to write to");
    listener.set_nonblocking(true).expect("a listener");
    let served = Served::start(Setup { listener: Some(listener.into()), ..Setup::default() });
    let mut stream = UnixStream::connect(&path).expect("the loop accepts");
    for i in 0..100 {
        ask(&mut stream, format!("echo {i}\n").as_bytes(), format!("{i}\n").as_bytes());
    }
    stream.write_all(b"echo last\nquit \n").expect("the loop reads");
    expect(&mut stream, b"last\n");
    expect_end(&mut stream);
    std::fs::remove_file(&path).expect("the socket is a file");
    drop(served);
}
