//! The server over sockets, on both drivers, and from a file.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::{
        fs::FileExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use super::{Disk, Replies, poll, uring};

const KEYS: u32 = 3;

/// What answers.
#[derive(Clone, Copy, Debug)]
enum Side {
    Uring,
    Epoll,
    Disk,
}

const SIDES: [Side; 3] = [Side::Uring, Side::Epoll, Side::Disk];

fn path(what: &str, value_bytes: usize) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("peers-bare-{what}-{}-{value_bytes}-{next}", std::process::id());
    std::env::temp_dir().join(name)
}

/// A server in this process, for as long as it lasts.
fn serve(side: Side, value_bytes: usize) -> PathBuf {
    let socket = path("socket", value_bytes);
    let listener = UnixListener::bind(&socket).expect("the temporary directory can be written");
    let replies = || Replies::new(value_bytes, KEYS).expect("memory");
    match side {
        Side::Uring => {
            let replies = replies();
            thread::spawn(|| uring::serve(listener.into(), replies).expect("io_uring"));
        }
        Side::Epoll => {
            let replies = replies();
            thread::spawn(move || poll::serve(&listener.into(), replies).expect("epoll"));
        }
        Side::Disk => {
            let (disk, _) = disk(value_bytes, KEYS);
            thread::spawn(|| uring::serve(listener.into(), disk).expect("io_uring"));
        }
    }
    socket
}

/// A file that nobody finds any more but through what is returned beside it.
fn disk(value_bytes: usize, keys: u32) -> (Disk, File) {
    let path = path("file", value_bytes);
    let disk = Disk::new(&path, value_bytes, keys).expect("the file can be written");
    let file = File::open(&path).expect("it exists");
    fs::remove_file(&path).expect("it exists");
    (disk, file)
}

fn join(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    stream
}

fn connect(side: Side, value_bytes: usize) -> UnixStream {
    let socket = serve(side, value_bytes);
    let stream = join(&socket);
    fs::remove_file(&socket).expect("it exists");
    stream
}

#[test]
fn requests_are_answered_whatever_their_size() {
    for io in [Side::Uring, Side::Epoll] {
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
    for io in SIDES {
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
    for io in SIDES {
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

#[test]
fn what_lies_on_the_disk_is_answered_in_the_order_of_the_requests() {
    for value_bytes in [32, 4096, 100 << 10] {
        let mut stream = connect(Side::Disk, value_bytes);
        let data = "c".repeat(value_bytes);
        // Nothing that is set is as much as a buffer, so what is got is still what was there.
        let asked =
            format!("get k1\r\nset k2 0 0 {value_bytes}\r\n{data}\r\nget k2\r\nversion\r\n");
        let value = "b".repeat(value_bytes);
        let got = format!("VALUE bare 0 {value_bytes}\r\n{value}\r\nEND\r\n");
        let expected = format!("{got}STORED\r\n{got}VERSION bare\r\n").repeat(3);
        stream.write_all(asked.repeat(3).as_bytes()).expect("it reads");
        let mut got = vec![0; expected.len()];
        stream.read_exact(&mut got).expect("it answers");
        assert!(got == expected.as_bytes(), "{value_bytes}");
    }
}

#[test]
fn what_is_set_goes_to_the_disk_one_behind_the_other() {
    const VALUE_BYTES: usize = 4096;
    const RECORD_BYTES: usize = 40 + VALUE_BYTES;
    const KEYS: usize = 4000;
    let (disk, file) = disk(VALUE_BYTES, KEYS as u32);
    let socket = path("socket", VALUE_BYTES);
    let listener = UnixListener::bind(&socket).expect("the temporary directory can be written");
    thread::spawn(|| uring::serve(listener.into(), disk).expect("io_uring"));
    let mut stream = join(&socket);
    fs::remove_file(&socket).expect("it exists");
    let values: Vec<String> = (0..KEYS).map(|key| format!("{key:0VALUE_BYTES$}")).collect();
    let mut sent = stream.try_clone().expect("a socket");
    let ask = |(key, value)| format!("set k{key} 0 0 {VALUE_BYTES}\r\n{value}\r\n");
    let asked: String = values.iter().enumerate().map(ask).collect();
    let sender = thread::spawn(move || sent.write_all(asked.as_bytes()).expect("it reads"));
    let mut stored = vec![0; KEYS * "STORED\r\n".len()];
    stream.read_exact(&mut stored).expect("it answers");
    sender.join().expect("it sends");
    assert!(stored == "STORED\r\n".repeat(KEYS).as_bytes());
    // The last buffer is not full, and those before may be on their way.
    let whole = (KEYS * RECORD_BYTES) >> 20 << 20;
    let is_there = |key: usize| {
        let mut value = [0; VALUE_BYTES];
        let at = key * RECORD_BYTES + 40;
        file.read_exact_at(&mut value, at as u64).expect("it is as long");
        value == values[key].as_bytes()
    };
    for key in 0..whole / RECORD_BYTES {
        let looks = (0..1000).find(|_| {
            let is_there = is_there(key);
            if !is_there {
                thread::sleep(Duration::from_millis(10));
            }
            is_there
        });
        assert!(looks.is_some(), "{key}");
    }
    // And is got from there.
    stream.write_all(b"get k7\r\n").expect("it reads");
    let expected = format!("VALUE bare 0 {VALUE_BYTES}\r\n{}\r\nEND\r\n", values[7]);
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).expect("it answers");
    assert!(got == expected.as_bytes());
}

#[test]
fn peers_that_leave_before_their_replies_take_no_buffers_along() {
    const VALUE_BYTES: usize = 100_000;
    let socket = serve(Side::Disk, VALUE_BYTES);
    let gets = "get k\r\n".repeat(100);
    for _ in 0..20 {
        join(&socket).write_all(gets.as_bytes()).expect("it reads");
    }
    let mut stream = join(&socket);
    stream.write_all(gets.as_bytes()).expect("it reads");
    let reply_bytes = format!("VALUE bare 0 {VALUE_BYTES}\r\n\r\nEND\r\n").len() + VALUE_BYTES;
    let mut got = vec![0; 100 * reply_bytes];
    stream.read_exact(&mut got).expect("it answers");
    assert!(got.ends_with(b"b\r\nEND\r\n"));
    fs::remove_file(&socket).expect("it exists");
}
