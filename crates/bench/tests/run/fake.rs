//! A small server that can be told to misbehave.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// What is wrong with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Answers get number 500 only after so many milliseconds.
    Stall(u64),
    /// Takes so many milliseconds for each get.
    Slow(u64),
    /// From get number 100 on, returns the value of the key that was asked for before.
    Swap,
    /// Keeps the first value of each key.
    Forget,
    /// Flips a bit in the last byte of a value, once, at get number 100.
    Flip,
    /// Refuses every set.
    Full,
    /// Confirms every set, and keeps nine keys of ten. Adds it keeps.
    Drop,
    /// Closes the connection instead of answering get number 100.
    Close,
    /// Never answers get number 100, nor what comes after.
    Silence,
    /// Answers get number 100 with a sentence.
    Babble,
}

type Store = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

/// Starts a server; it lives as long as the test's process. Returns its address.
pub(crate) fn start(fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let address = listener.local_addr().expect("bound").to_string();
    let store = Store::default();
    let gets = Arc::new(AtomicU64::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (store, gets) = (Arc::clone(&store), Arc::clone(&gets));
            thread::spawn(move || {
                stream.set_nodelay(true).expect("a socket");
                let _ = serve(stream, fault, &store, &gets);
            });
        }
    });
    address
}

/// Speaks text and meta; sends when nothing more has arrived.
fn serve(stream: TcpStream, fault: Fault, store: &Store, gets: &AtomicU64) -> std::io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, stream.try_clone()?);
    let mut output = stream;
    let (mut line, mut replies) = (Vec::new(), Vec::new());
    let mut last_key = Vec::new();
    loop {
        if input.buffer().is_empty() {
            output.write_all(&replies)?;
            replies.clear();
        }
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let words: Vec<&str> = text.split(' ').collect();
        match words.as_slice() {
            ["version"] => replies.extend_from_slice(b"VERSION fake\r\n"),
            ["stats"] => replies.extend_from_slice(b"ERROR\r\n"),
            ["set", key, _, _, size] | ["ms", key, size] => {
                let value = read_value(&mut input, size)?;
                if fault == Fault::Full {
                    replies.extend_from_slice(b"SERVER_ERROR out of memory storing object\r\n");
                    continue;
                }
                let mut store = store.lock().expect("no panic");
                let key = key.as_bytes().to_vec();
                if fault == Fault::Drop && key.ends_with(b"0") {
                    store.remove(&key);
                } else if fault == Fault::Forget {
                    store.entry(key).or_insert(value);
                } else {
                    store.insert(key, value);
                }
                replies.extend_from_slice(if words[0] == "ms" { b"HD\r\n" } else { b"STORED\r\n" });
            }
            ["add", key, _, _, size] | ["ms", key, size, "ME"] => {
                let value = read_value(&mut input, size)?;
                replies.extend_from_slice(add(store, key, value, words[0] == "ms"));
            }
            ["get", key] | ["mg", key, "v"] => {
                let number = gets.fetch_add(1, Ordering::Relaxed) + 1;
                match fault {
                    Fault::Stall(ms) if number == 500 => thread::sleep(Duration::from_millis(ms)),
                    Fault::Slow(ms) => thread::sleep(Duration::from_millis(ms)),
                    Fault::Close if number >= 100 => return Ok(()),
                    Fault::Silence if number >= 100 => thread::sleep(Duration::from_secs(60)),
                    Fault::Babble if number == 100 => {
                        replies.extend_from_slice(b"I am sorry\r\n");
                        continue;
                    }
                    _ => {}
                }
                let asked = key.as_bytes().to_vec();
                let is_swapped = fault == Fault::Swap && number >= 100;
                let found = if is_swapped { &last_key } else { &asked };
                let mut value = store.lock().expect("no panic").get(found).cloned();
                last_key.clone_from(&asked);
                if let Some(value) =
                    value.as_mut().filter(|_| fault == Fault::Flip && number == 100)
                {
                    *value.last_mut().expect("not empty") ^= 4;
                }
                reply(words[0] == "mg", key, value, &mut replies);
            }
            _ => replies.extend_from_slice(b"ERROR\r\n"),
        }
    }
}

fn read_value(input: &mut impl Read, size: &str) -> std::io::Result<Vec<u8>> {
    let mut value = vec![0; size.parse::<usize>().expect("a size") + 2];
    input.read_exact(&mut value)?;
    value.truncate(value.len() - 2);
    Ok(value)
}

fn add(store: &Store, key: &str, value: Vec<u8>, is_meta: bool) -> &'static [u8] {
    let mut store = store.lock().expect("no panic");
    let is_there = store.contains_key(key.as_bytes());
    store.entry(key.as_bytes().to_vec()).or_insert(value);
    match (is_meta, is_there) {
        (true, false) => b"HD\r\n",
        (true, true) => b"NS\r\n",
        (false, false) => b"STORED\r\n",
        (false, true) => b"NOT_STORED\r\n",
    }
}

fn reply(is_meta: bool, key: &str, value: Option<Vec<u8>>, replies: &mut Vec<u8>) {
    let Some(value) = value else {
        replies.extend_from_slice(if is_meta { b"EN\r\n" } else { b"END\r\n" });
        return;
    };
    let line = if is_meta {
        format!("VA {}\r\n", value.len())
    } else {
        format!("VALUE {key} 0 {}\r\n", value.len())
    };
    replies.extend_from_slice(line.as_bytes());
    replies.extend_from_slice(&value);
    replies.extend_from_slice(if is_meta { b"\r\n" } else { b"\r\nEND\r\n" });
}
