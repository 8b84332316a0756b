//! A table that spills: what a session makes of it.

use super::*;

fn stage(directory: &Directory, recovers: bool) -> Stage {
    let ring = Ring { bytes_max: 16 << 20, recovers };
    Stage::made(directory, MEMORY_BYTES, Access::default(), Some(ring))
}

impl Stage {
    /// Has records go to the disk.
    fn spill(&mut self, keys: &[&str]) {
        let mut worker = self.table.desk.cache.worker().expect("a small cache");
        for key in keys {
            let key = worker.key(key.as_bytes());
            assert!(worker.evict(key), "it is not in memory");
        }
        drop(worker);
        self.go_on();
    }

    fn wait(&mut self, ms: u64) {
        self.clock.advance_ms(ms);
        self.table.begin();
    }
}

#[test]
fn what_memory_has_is_told_at_once_and_the_rest_when_it_was_read() {
    let directory = Directory::new();
    let mut stage = stage(&directory, false);
    let mut client = stage.client();
    let told = stage.send(&mut client, &["set a 7 0 1", "1", "set b 0 0 1", "2"]);
    assert_eq!(told.0, "STORED\nSTORED\n", "a set waits for the disk");
    stage.spill(&["a"]);
    assert_eq!(stage.send(&mut client, &["get b a"]).0, "VALUE b 0 1\n2\n");
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client).0, "VALUE a 7 1\n1\nEND\n");
    assert_eq!(stage.send(&mut client, &["get a"]).0, "VALUE a 7 1\n1\nEND\n");
}

#[test]
fn a_flush_comes_behind_what_was_asked_before() {
    let directory = Directory::new();
    let mut stage = stage(&directory, false);
    let mut client = stage.client();
    stage.send(&mut client, &["set n 0 0 1", "1"]);
    stage.spill(&["n"]);
    let told = stage.send(&mut client, &["incr n 1", "flush_all", "get n"]);
    assert_eq!(told, (String::new(), Next::Wait), "a flush overtakes");
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client).0, "2\nOK\nEND\n", "a flush overtakes");
    assert_eq!(stage.ask(&["get n"]), "END\n");
}

#[test]
fn a_flush_at_a_time_is_done_by_who_comes_first() {
    let directory = Directory::new();
    let mut stage = stage(&directory, false);
    assert_eq!(stage.ask(&["set a 0 0 1", "1", "set b 0 0 1", "2"]), "STORED\nSTORED\n");
    stage.spill(&["a"]);
    assert_eq!(stage.ask(&["flush_all 5"]), "OK\n");
    stage.wait(4000);
    assert_eq!(stage.ask(&["get b"]), "VALUE b 0 1\n2\nEND\n");
    stage.wait(1000);
    assert_eq!(stage.ask(&["get a b"]), "END\n", "what was to be flushed is shown");
    assert_eq!(stage.ask(&["set a 0 0 1", "3"]), "STORED\n");
    stage.wait(5000);
    assert_eq!(stage.ask(&["get a"]), "VALUE a 0 1\n3\nEND\n", "it is flushed twice");
    assert_eq!(stage.ask(&["flush_all 5", "flush_all 10", "noop"]), "OK\nOK\nERROR\n");
    stage.wait(6000);
    assert_eq!(stage.ask(&["get a"]), "VALUE a 0 1\n3\nEND\n", "the first was to be forgotten");
}

#[test]
fn a_ring_that_recovers_is_not_flushed() {
    let directory = Directory::new();
    let mut stage = stage(&directory, true);
    let refused = "CLIENT_ERROR flush_all not allowed\n";
    assert_eq!(stage.ask(&["set a 0 0 1", "1", "flush_all"]), format!("STORED\n{refused}"));
    assert_eq!(stage.ask(&["get a"]), "VALUE a 0 1\n1\nEND\n");
}

/// A touch copies the value out of memory, and a get does where much is pinned.
#[test]
fn what_is_copied_from_memory_counts_until_it_is_taken() {
    const LEN: usize = 200_000;
    let directory = Directory::new();
    let mut stage = stage(&directory, false);
    let value = "v".repeat(LEN);
    assert_eq!(stage.ask(&[&format!("set a 0 0 {LEN}"), &value]), "STORED\n");
    stage.table.unsent_bytes_max = 3 * LEN;
    let mut clients: Vec<Client> = (0..4).map(|_| stage.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        stage.feed(client, b"gat 0 a\r\n");
        let next = if number < 3 { Next::Read } else { Next::Retry };
        assert_eq!(stage.turn(client), next, "client {number}");
    }
    assert!(stage.table.is_laden(), "what is not taken is not counted");
    drop(clients.pop());
    drop(clients.pop());
    assert!(stage.ask(&["gat 0 a"]).contains(&value), "there is room");
}
