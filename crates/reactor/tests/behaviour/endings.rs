//! How connections end: by either side, half, at once, or with unread bytes.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    time::Duration,
};

use super::harness::{Message, Served, Setup, ask, expect, expect_end, value_byte};

#[test]
fn a_peer_that_ends_after_its_request_gets_the_reply() {
    let served = Served::start(Setup::default());
    for _ in 0..200 {
        let mut stream = served.connect();
        stream.write_all(b"echo one\necho two\n").expect("the loop reads");
        stream.shutdown(Shutdown::Write).expect("an open socket");
        expect(&mut stream, b"one\ntwo\n");
        expect_end(&mut stream);
    }
    let report = served.wait_for("all ends", |report| report.connections == 0);
    assert_eq!(report.reasons, [("Finished".to_owned(), 200)].into());
}

#[test]
fn a_peer_that_ends_gets_replies_that_take_long_to_send() {
    let served = Served::start(Setup::default());
    let mut stream = served.connect();
    stream.write_all(b"big  20000000\nmany 3000\necho end\n").expect("the loop reads");
    stream.shutdown(Shutdown::Write).expect("an open socket");
    std::thread::sleep(Duration::from_millis(50));
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("an orderly end");
    assert_eq!(reply.len(), 20_000_001 + 3_000_000 + 4);
    let intact = reply[..20_000_000].iter().enumerate().all(|(i, byte)| *byte == value_byte(i));
    assert!(intact && reply.ends_with(b"m\nend\n"));
}

#[test]
fn a_unix_peer_that_closes_at_once_is_still_obeyed() {
    // Closing one end of a Unix socket hangs up the other at once, with bytes still unread.
    let path = std::env::temp_dir().join(format!("reactor-endings-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a directory to write to");
    listener.set_nonblocking(true).expect("a listener");
    let served = Served::start(Setup { listener: Some(listener.into()), ..Setup::default() });
    for _ in 0..100 {
        let mut stream = UnixStream::connect(&path).expect("the loop accepts");
        stream.write_all(b"abort\n").expect("the loop reads");
    }
    std::fs::remove_file(&path).expect("the socket is a file");
    let report = served.wait_for("all ends", |report| {
        report.connections == 0 && report.reasons.values().sum::<usize>() == 100
    });
    assert_eq!(report.reasons, [("Aborted".to_owned(), 100)].into());
}

#[test]
fn a_connection_that_has_been_answered_often_is_closed_at_once_as_any_other() {
    let served = Served::start(Setup::default());
    for round in 0..3 {
        let mut stream = served.connect();
        for number in 0..200 {
            let reply = format!("{round} {number}\n");
            ask(&mut stream, format!("echo {reply}").as_bytes(), reply.as_bytes());
        }
        stream.write_all(b"abort\n").expect("the loop reads");
        expect_end(&mut stream);
    }
    let report = served.wait_for("all ends", |report| report.connections == 0);
    assert_eq!(report.reasons, [("Aborted".to_owned(), 3)].into());
}

#[test]
fn a_session_that_finishes_first_delivers_everything_before_it() {
    let served = Served::start(Setup::default());
    for _ in 0..50 {
        let mut stream = served.connect();
        // What comes behind is never read: an early close would reset the connection and could
        // destroy the replies.
        let mut request = b"many 300\nquit \n".to_vec();
        request.extend_from_slice(&[b'j'; 100_000]);
        stream.write_all(&request).expect("the loop reads");
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("an orderly end");
        assert_eq!(reply.len(), 300_000);
    }
    let report = served.wait_for("all ends", |report| report.connections == 0);
    assert_eq!(report.reasons, [("Finished".to_owned(), 50)].into());
}

#[test]
fn a_peer_that_does_not_end_is_cut_after_a_while() {
    let served = Served::start(Setup::default());
    let mut stream = served.connect();
    stream.write_all(b"quit \n").expect("the loop reads");
    expect_end(&mut stream);
    // The client keeps its side open.
    let report = served.wait_for("the cut", |report| report.connections == 0);
    assert_eq!(report.reasons, [("Finished".to_owned(), 1)].into());

    // One that floods is cut earlier.
    let mut stream = served.connect();
    stream.write_all(b"quit \n").expect("the loop reads");
    let mut sent = 0;
    while stream.write(&[0; 65_536]).inspect(|count| sent += count).is_ok() {
        assert!(sent < 256 << 20, "never cut");
    }
    served.wait_for("the cut", |report| report.connections == 0);
}

#[test]
fn an_abort_drops_what_is_queued() {
    let served = Served::start(Setup::default());
    let mut stream = served.connect();
    stream.write_all(b"echo lost\nabort\n").expect("the loop reads");
    expect_end(&mut stream);
    let report = served.wait_for("the end", |report| report.connections == 0);
    assert_eq!(report.reasons, [("Aborted".to_owned(), 1)].into());
    assert_eq!(report.pool.used_bytes, 0);
}

#[test]
fn a_reset_in_the_middle_of_a_value_frees_everything() {
    let served = Served::start(Setup::default());
    for _ in 0..20 {
        let mut stream = served.connect();
        stream.write_all(b"big  30000000\nmany 100\n").expect("the loop reads");
        let mut first = [0; 4096];
        stream.read_exact(&mut first).expect("the value begins");
        assert_eq!(served.alive.count(), 1);
        // Closing with bytes unread resets.
        drop(stream);
        let report = served.wait_for("the end", |report| report.connections == 0);
        assert_eq!((report.pool.used_bytes, served.alive.count()), (0, 0));
    }
    let report = served.finish(Message::Stop);
    assert_eq!(report.reasons, [("Failed".to_owned(), 20)].into());
}

#[test]
fn a_drain_answers_what_has_been_received() {
    let served = Served::start(Setup::default());
    let mut silent = served.connect();
    let mut half = served.connect();
    half.write_all(b"echo half a li").expect("the loop reads");
    let mut slow = served.connect();
    slow.write_all(b"big  16000000\necho after\n").expect("the loop reads");
    served.wait_for("a blocked send", |report| report.served >= 2 && served.alive.count() == 1);
    let mut busy = served.connect();
    // One packet: when the first reply is there, all of it has been received. What has not been
    // when the drain begins is nobody's promise.
    busy.write_all("echo busy\n".repeat(100).as_bytes()).expect("the loop reads");
    busy.peek(&mut [0]).expect("a reply");
    served.wait_for("all connections", |report| report.connections == 4);

    let addr = served.addr;
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            expect(&mut busy, "busy\n".repeat(100).as_bytes());
            expect_end(&mut busy);
            expect_end(&mut silent);
            expect_end(&mut half);
            let mut value = vec![0; 16_000_001];
            slow.read_exact(&mut value).expect("the value was asked for before");
            expect(&mut slow, b"after\n");
            expect_end(&mut slow);
        });
        served.finish(Message::Drain)
    });
    assert_eq!(report.reasons, [("Finished".to_owned(), 4)].into());
    assert_eq!(report.pool.used_bytes, 0);
    std::net::TcpStream::connect(addr).expect_err("nobody listens any more");
}

#[test]
fn a_stop_closes_everything_at_once() {
    let served = Served::start(Setup::default());
    let mut stream = served.connect();
    stream.write_all(b"big  30000000\n").expect("the loop reads");
    served.wait_for("the value", |_| served.alive.count() == 1);
    let alive = served.alive.clone();
    let report = served.finish(Message::Stop);
    assert_eq!(report.reasons, [("Stopped".to_owned(), 1)].into());
    assert_eq!((report.pool.used_bytes, alive.count()), (0, 0));
}

#[test]
fn a_stop_ends_connections_that_have_been_answered_often() {
    let served = Served::start(Setup::default());
    let mut streams: Vec<_> = (0..3).map(|_| served.connect()).collect();
    for number in 0..200 {
        for stream in &mut streams {
            let reply = format!("{number}\n");
            ask(stream, format!("echo {reply}").as_bytes(), reply.as_bytes());
        }
    }
    let report = served.finish(Message::Stop);
    assert_eq!(report.reasons, [("Stopped".to_owned(), 3)].into());
    streams.iter_mut().for_each(expect_end);
}
