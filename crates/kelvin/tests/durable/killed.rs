//! A server that is killed under load: nothing that it acknowledged is missing or stale.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::{
    IO,
    harness::{
        conn::{Conn, Got, REPLY_TIMEOUT},
        log_directory::Directory,
        rng::Rng,
    },
};

const WRITERS: usize = 4;
const KEYS: usize = 200;

/// What a key may have: the last that was acknowledged, and what was asked for since. `None` is no
/// record.
type May = Vec<Option<u64>>;

/// A client with keys of its own. A value is a number, of some length.
struct Writer {
    number: usize,
    keys: BTreeMap<usize, May>,
    rng: Rng,
    next: u64,
}

fn text(number: u64) -> String {
    let len = 20 + (number as usize * 7919) % 6000;
    format!("{number:0len$}")
}

impl Writer {
    fn new(number: usize) -> Self {
        let keys = (0..KEYS).map(|key| (key, vec![None])).collect();
        Self { number, keys, rng: Rng::new(number as u64 + 1), next: 1 }
    }

    fn name(&self, key: usize) -> String {
        format!("w{}-{key}", self.number)
    }

    /// Writes in pipelines until the server is gone.
    fn write(&mut self, addr: SocketAddr, acknowledged: &AtomicBool) {
        let Ok(stream) = TcpStream::connect(addr) else { return };
        let mut conn = Conn::tcp(stream);
        loop {
            let mut request = Vec::new();
            let mut asked = Vec::new();
            for _ in 0..=self.rng.below(16) {
                let key = self.rng.below(KEYS);
                let name = self.name(key);
                let number = (!self.rng.chance(15)).then_some(self.next);
                self.next += 1;
                match number {
                    Some(number) => {
                        let value = text(number);
                        let set = format!("set {name} 0 0 {}\r\n{value}\r\n", value.len());
                        request.extend(set.bytes());
                    }
                    None => request.extend(format!("delete {name}\r\n").bytes()),
                }
                self.keys.entry(key).or_default().push(number);
                asked.push((key, number));
            }
            if conn.try_send(&request).is_err() {
                return;
            }
            let mut reply = Vec::new();
            let mut answered = 0;
            while answered < asked.len() {
                if conn.read_once(&mut reply, REPLY_TIMEOUT) != Got::Bytes {
                    break;
                }
                answered = reply.iter().filter(|byte| **byte == b'\n').count();
            }
            let lines = reply.split_inclusive(|byte| *byte == b'\n');
            for (line, (key, number)) in lines.zip(asked.iter().take(answered)) {
                let is_fine: &[&[u8]] = match number {
                    Some(_) => &[b"STORED\r\n"],
                    None => &[b"DELETED\r\n", b"NOT_FOUND\r\n"],
                };
                assert!(is_fine.contains(&line), "{}", line.escape_ascii());
                let may = self.keys.get_mut(key).expect("it is known");
                // Of equal ones the first: later ones may be without an answer.
                let at = may.iter().position(|it| it == number).expect("it was asked for");
                may.drain(..at);
                acknowledged.store(true, Ordering::Relaxed);
            }
            if answered < asked.len() {
                return;
            }
        }
    }

    /// Whether each key has something that it may have, and forgets the rest.
    fn check(&mut self, conn: &mut Conn, round: usize) {
        for key in 0..KEYS {
            let name = self.name(key);
            let request = format!("get {name}\r\n");
            let (reply, _) = conn.exchange(&[request.as_bytes()], |got| got.ends_with(b"END\r\n"));
            let reply = String::from_utf8(reply).expect("text");
            let found = reply.lines().nth(1).map(|value| value.parse().expect("a number"));
            let may = self.keys.get_mut(&key).expect("it is known");
            assert!(may.contains(&found), "round {round}: {name} has {found:?}, not of {may:?}");
            if let Some(number) = found {
                assert_eq!(reply.lines().nth(1), Some(&*text(number)), "{name}");
            }
            *may = vec![found];
        }
    }
}

fn kill_and_look(rounds: usize) {
    let directory = Directory::new();
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let mut rng = Rng::new(7);
    for round in 0..=rounds {
        let server = directory.serve(IO, &[]);
        let mut conn = server.connect();
        writers.iter_mut().for_each(|writer| writer.check(&mut conn, round));
        let (addr, acknowledged) = (server.addr(), &AtomicBool::new(false));
        thread::scope(|scope| {
            for writer in &mut writers {
                scope.spawn(move || writer.write(addr, acknowledged));
            }
            thread::sleep(Duration::from_millis(200 + rng.below(500) as u64));
            // Killed, not told to end.
            drop(server);
        });
        assert!(acknowledged.load(Ordering::Relaxed), "round {round}: nothing was written");
    }
}

#[test]
fn nothing_acknowledged_is_missing_or_stale_after_a_kill() {
    kill_and_look(5);
}

#[test]
#[ignore = "soak: minutes"]
fn soak_nothing_acknowledged_is_missing_or_stale_after_many_kills() {
    kill_and_look(200);
}
