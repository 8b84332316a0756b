//! What a client has stored, and what it may be shown: nothing, or the newest.

use std::{collections::BTreeMap, path::Path, thread, time::Duration};

use super::IO;
use crate::harness::{
    conn::Conn,
    log_directory::{Directory, set, settle, stat},
    repeated,
    rng::Rng,
    server::Server,
};

/// Values of 1 to 4 KiB: 4,000 keys are five times the memory.
pub(crate) const KEYS: usize = 4000;
const VALUE_BYTES: usize = 4 << 10;

/// Sets that are sent together: a third of what may wait for the disk.
const TOGETHER: usize = 100;

/// Sets that may be refused where few were asked for, beside one in a hundred: some in a row are.
const REFUSED_SPARE: usize = 5;

/// What is said where memory does not come free in time.
const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object";

/// What a server has whose table spills, unless a test says otherwise.
const SETTINGS: [&str; 10] = [
    "--table-kind",
    "spill",
    "--memory-use",
    "records",
    "--net-threads",
    "2",
    "--value-size-max",
    "256KiB",
    "--spill-size",
    "64MiB",
];

/// A server whose table spills.
pub(crate) fn serve(directory: &Directory, arguments: &[&str]) -> Server {
    serve_by(&[], directory.path(), arguments)
}

/// The same, run by a program that becomes it.
pub(crate) fn serve_by(by: &[&str], path: &Path, arguments: &[&str]) -> Server {
    let own = SETTINGS.chunks(2).filter(|own| !arguments.contains(&own[0])).flatten().copied();
    let path = ["--data-dir", path.to_str().expect("a path of the tests' own")];
    let all: Vec<&str> = own.chain(path).chain(arguments.iter().copied()).collect();
    let server = Server::kelvin_by(by, IO, "2MiB", &all);
    server.connect().ask(b"mn\r\n", b"MN\r\n");
    server
}

/// Waits until each thread has shown what it has counted.
pub(crate) fn count(conn: &mut Conn, name: &str) -> u64 {
    thread::sleep(Duration::from_millis(1100));
    stat(conn, name)
}

pub(crate) fn name(key: usize) -> String {
    format!("key-{key}")
}

pub(crate) fn value(key: usize, version: u64) -> Vec<u8> {
    let text = format!("{key}.{version} ");
    repeated(&text, VALUE_BYTES / 4 + key * 37 % (VALUE_BYTES * 3 / 4))
}

/// What a get of a key shows.
pub(crate) fn look(conn: &mut Conn, key: &str) -> Option<Vec<u8>> {
    let request = format!("get {key}\r\n");
    let (reply, _) = conn.exchange(&[request.as_bytes()], |got| got.ends_with(b"END\r\n"));
    if reply == b"END\r\n" {
        return None;
    }
    let head = reply.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let line = String::from_utf8_lossy(&reply[..head]).into_owned();
    assert!(line.starts_with(&format!("VALUE {key} ")), "{line}");
    Some(reply[head..reply.len() - b"\r\nEND\r\n".len()].to_vec())
}

/// The newest version of each key; of one that was removed nothing.
#[derive(Clone, Default)]
pub(crate) struct Records {
    newest: BTreeMap<usize, Option<u64>>,
    versions: u64,
    /// Sets, and those for which there was no memory.
    asked: usize,
    refused: usize,
}

impl Records {
    /// Stores keys, as fast as the disk is.
    pub(crate) fn store(&mut self, conn: &mut Conn, keys: impl IntoIterator<Item = usize>) {
        let keys: Vec<usize> = keys.into_iter().collect();
        for some in keys.chunks(TOGETHER) {
            let mut request = Vec::new();
            for (key, version) in some.iter().zip(self.versions + 1..) {
                request.extend(set(&name(*key), 0, &value(*key, version)));
            }
            let count = |got: &[u8]| got.iter().filter(|byte| **byte == b'\n').count();
            let (reply, _) = conn.exchange(&[&request], |got| count(got) >= some.len());
            let reply = String::from_utf8_lossy(&reply);
            assert_eq!(reply.lines().count(), some.len(), "to sets: {reply}");
            for (key, line) in some.iter().zip(reply.lines()) {
                self.versions += 1;
                self.asked += 1;
                match line {
                    "STORED" => drop(self.newest.insert(*key, Some(self.versions))),
                    // A thread that others keep from its processor has what is evicted.
                    NO_MEMORY => self.refused += 1,
                    _ => panic!("to a set: {line}"),
                }
            }
            assert!(
                self.refused <= REFUSED_SPARE + self.asked / 100,
                "{} sets are refused",
                self.refused
            );
            settle(conn);
        }
    }

    /// Removes keys, of which not all need be there.
    pub(crate) fn remove(&mut self, conn: &mut Conn, keys: impl IntoIterator<Item = usize>) {
        for key in keys {
            self.newest.insert(key, None);
            let request = format!("delete {}\r\n", name(key));
            let (reply, _) = conn.exchange(&[request.as_bytes()], |got| got.ends_with(b"\r\n"));
            let is_told = reply == b"DELETED\r\n" || reply == b"NOT_FOUND\r\n";
            assert!(is_told, "{}", reply.escape_ascii());
        }
    }

    /// Everything is to be gone.
    pub(crate) fn flush(&mut self) {
        self.newest.values_mut().for_each(|newest| *newest = None);
    }

    /// Looks at one key. Says whether it was there.
    pub(crate) fn check(&self, conn: &mut Conn, key: usize) -> bool {
        let Some(shown) = look(conn, &name(key)) else { return false };
        let begin = String::from_utf8_lossy(&shown[..shown.len().min(20)]).into_owned();
        let newest = self.newest.get(&key).copied().flatten();
        let newest = newest.unwrap_or_else(|| panic!("{key} is gone, and shown: {begin}"));
        assert!(shown == value(key, newest), "{key} is version {newest}, shown: {begin}");
        true
    }

    /// Looks at all keys. Says how many of those that were not removed are not there any more.
    pub(crate) fn check_all(&self, conn: &mut Conn) -> usize {
        let keys = self.newest.iter();
        keys.filter(|(key, newest)| !self.check(conn, **key) && newest.is_some()).count()
    }

    /// Stores, removes and looks, in random order.
    pub(crate) fn play(&mut self, conn: &mut Conn, rng: &mut Rng, rounds: usize) {
        for _ in 0..rounds {
            let keys: Vec<usize> = (0..30).map(|_| rng.below(KEYS)).collect();
            match rng.below(4) {
                0 => self.store(conn, keys),
                1 => self.remove(conn, keys.into_iter().take(10)),
                _ => keys.into_iter().for_each(|key| {
                    self.check(conn, key);
                }),
            }
        }
    }
}
