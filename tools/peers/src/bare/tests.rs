//! The server over sockets, on both drivers.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    thread,
    time::Duration,
};

use super::{poll, replies::Replies, uring};
use crate::options::Io;

/// A server in this process, for as long as it lasts.
fn connect(io: Io, value_bytes: usize) -> UnixStream {
    let name = format!("peers-bare-{}-{value_bytes}-{io:?}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let listener = UnixListener::bind(&path).expect("the temporary directory can be written");
    let replies = Replies::new(value_bytes, 3).expect("memory");
    thread::spawn(move || match io {
        Io::Uring => uring::serve(listener.into(), replies).expect("io_uring"),
        Io::Epoll => poll::serve(&listener.into(), replies).expect("epoll"),
    });
    let stream = UnixStream::connect(&path).expect("it listens");
    fs::remove_file(&path).expect("it exists");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    stream
}

#[test]
fn requests_are_answered_whatever_their_size() {
    for io in [Io::Uring, Io::Epoll] {
        for value_bytes in [32, 100 << 10] {
            let mut stream = connect(io, value_bytes);
            let get = |byte: &str| {
                format!("VALUE bare 0 {value_bytes}\r\n{}\r\nEND\r\n", byte.repeat(value_bytes))
            };
            for (before, byte) in [("b", "c"), ("c", "d"), ("d", "e")] {
                let data = byte.repeat(value_bytes);
                let asked = format!("get k1\r\nset k2 0 0 {value_bytes}\r\n{data}\r\nget k2\r\n");
                stream.write_all(b"get k2\r\n").expect("it reads");
                let mut got = vec![0; get(before).len()];
                stream.read_exact(&mut got).expect("it answers");
                assert!(got == get(before).as_bytes(), "{io:?}, {value_bytes}");
                stream.write_all(asked.as_bytes()).expect("it reads");
                let expected = format!("{}STORED\r\n{}", get("b"), get(byte));
                let mut got = vec![0; expected.len()];
                stream.read_exact(&mut got).expect("it answers");
                assert!(got == expected.as_bytes(), "{io:?}, {value_bytes}");
            }
        }
    }
}

#[test]
fn a_peer_that_reads_late_gets_everything() {
    const GETS: usize = 100;
    const VALUE_BYTES: usize = 100_000;
    for io in [Io::Uring, Io::Epoll] {
        let mut stream = connect(io, VALUE_BYTES);
        stream.write_all("get k\r\n".repeat(GETS).as_bytes()).expect("it reads");
        // Far more than a socket holds.
        thread::sleep(Duration::from_millis(50));
        let reply_bytes = format!("VALUE bare 0 {VALUE_BYTES}\r\n\r\nEND\r\n").len() + VALUE_BYTES;
        let mut got = vec![0; GETS * reply_bytes];
        stream.read_exact(&mut got).expect("it answers");
        assert!(got.ends_with(b"b\r\nEND\r\n"), "{io:?}");
    }
}

#[test]
fn a_peer_that_asks_for_too_much_or_nonsense_is_cut_off() {
    for io in [Io::Uring, Io::Epoll] {
        for asked in [" ".repeat(5000), "get k\r\n".repeat(1000)] {
            let mut stream = connect(io, 100_001);
            // What it no longer reads breaks the connection, too.
            let _ = stream.write_all(asked.as_bytes());
            let mut got = Vec::new();
            let _ = stream.read_to_end(&mut got);
            assert!(got.len() < 32 << 20, "{io:?}: {} bytes", got.len());
            drop(stream);
        }
    }
}
