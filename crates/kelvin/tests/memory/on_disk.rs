//! Tables with a disk, whose data are a hundred times their memory.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use crate::{
    client::Client,
    harness::server::{Io, Server, Serving, Table},
};

const MIB: u64 = 1 << 20;

/// What the server is given for records.
const RECORD_BYTES: u64 = 2 * MIB;

/// Data threads of a server of the tests' own.
const THREADS: u64 = 2;

/// What `docs/store.md` says that is beside it: chunks and the index of the log, what waits to be
/// spilled, and for each thread what waits, and buffers of reads. Nobody has large values under
/// way.
const BESIDE_BYTES: u64 = 34 * MIB + THREADS * 17 * MIB;

/// What a process takes whatever it serves: code, stacks, the allocator's own.
const PROCESS_BYTES: u64 = 16 * MIB;

/// Bytes of all values.
const DATA_BYTES: u64 = 100 * RECORD_BYTES;

/// Clients that store and look at the same time, each keys of its own.
const CLIENTS: u64 = 4;

/// Lengths of values in each round, which has fewer keys than the one before it.
const ROUNDS: [usize; 2] = [300, 4200];

/// Of the keys of a round, every such one is looked at behind it.
const LOOKED_AT: usize = 5;

/// Bytes that a client sends to a table that spills before it waits for the disk, which that table
/// does not: all of them are half of what may wait for it.
const TOGETHER_BYTES: usize = 128 << 10;

fn key(client: u64, number: u64) -> String {
    format!("{client}:{number}")
}

/// Keys of each client in a round of values of this length: half of the data.
fn keys(len: usize) -> u64 {
    DATA_BYTES / CLIENTS / 2 / len as u64
}

/// Has each client store all values of a length, and look at some.
fn store_and_look(server: &Server, table: Table, round: usize) {
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            scope.spawn(move || {
                let (mut client, value) = (Client::new(server), vec![b'v'; ROUNDS[round]]);
                let own = |len: usize| (0..keys(len)).map(move |at| key(number, at));
                for (at, key) in own(value.len()).enumerate() {
                    client.set(&key, 0, &value);
                    if table == Table::Spill && at % (TOGETHER_BYTES / value.len()) == 0 {
                        settle(&mut client);
                    }
                }
                client.finish();
                let some = own(value.len()).step_by(LOOKED_AT);
                let wanted: usize = some.clone().map(|key| key.len() + value.len()).sum();
                let held = client.holds(some).0;
                assert!(held == wanted as u64 || table == Table::Spill, "in round {round}");
            });
        }
    });
}

/// Waits until nothing waits for the disk.
fn settle(client: &mut Client) {
    client.finish();
    while client.stat("table_spills_waiting") > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

/// What every client's keys have in the end: the last round that stored them.
fn bytes_in_the_end() -> u64 {
    let of_key = |at: u64| {
        let last = ROUNDS.iter().rev().find(|len| at < keys(**len));
        last.map_or(0, |len| *len as u64)
    };
    let most = ROUNDS.iter().map(|len| keys(*len)).max().unwrap_or(0);
    let of_client = |client| (0..most).map(|at| of_key(at) + key(client, at).len() as u64).sum();
    (0..CLIENTS).map(|client| -> u64 { of_client(client) }).sum()
}

fn resident_memory_has_a_bound(serving: Serving) {
    let server = Server::kelvin(serving, &[]);
    let (stop, peak_bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                peak_bytes.fetch_max(server.resident_bytes(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
        });
        // A panic in here must not leave the other one waiting.
        let _stop = crate::churn::StopOnDrop(&stop);
        (0..ROUNDS.len()).for_each(|round| store_and_look(&server, serving.table, round));
    });
    let mut observer = Client::new(&server);
    let most = ROUNDS.iter().map(|len| keys(*len)).max().unwrap_or(0);
    let all = (0..CLIENTS).flat_map(|client| (0..most).map(move |at| key(client, at)));
    let (held_bytes, held) = observer.holds(all);
    if serving.table.is_durable() {
        assert_eq!(held_bytes, bytes_in_the_end(), "keys or values are missing");
    } else {
        let lost = observer.stat("table_spills_lost");
        println!("{lost} were lost on their way to the disk");
        assert!(held + lost >= CLIENTS * most, "{held} are there, and {lost} lost");
        assert!(lost * 100 <= CLIENTS * most && held_bytes <= bytes_in_the_end(), "{lost} lost");
        assert!(lost > 0 || held_bytes == bytes_in_the_end(), "values are of another length");
    }
    let (bytes, items) = (observer.stat("bytes"), observer.stat("curr_items"));
    assert!(bytes <= RECORD_BYTES && items * 10 < CLIENTS * most, "{items} of {bytes} in memory");
    let peak_bytes = peak_bytes.into_inner();
    println!("at most {} MiB resident", peak_bytes / MIB);
    assert!(peak_bytes <= RECORD_BYTES + BESIDE_BYTES + PROCESS_BYTES, "{}", peak_bytes / MIB);
}

#[test]
fn a_durable_table_keeps_a_hundred_times_its_memory_within_its_limits() {
    resident_memory_has_a_bound(Serving::from_disk(Io::Uring));
}

#[test]
fn a_durable_table_keeps_a_hundred_times_its_memory_within_its_limits_on_epoll() {
    resident_memory_has_a_bound(Serving::from_disk(Io::Epoll));
}

#[test]
fn a_table_that_spills_keeps_a_hundred_times_its_memory_within_its_limits() {
    resident_memory_has_a_bound(Serving::spilling(Io::Uring));
}

#[test]
fn a_table_that_spills_keeps_a_hundred_times_its_memory_within_its_limits_on_epoll() {
    resident_memory_has_a_bound(Serving::spilling(Io::Epoll));
}
