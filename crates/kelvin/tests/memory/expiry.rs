//! What has expired makes room before anything live has to go.

use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    client::Client,
    harness::server::{Io, Server},
};

/// When most of what has expired must be free, after it has.
const FREE_WITHIN: Duration = Duration::from_secs(5);
/// How much of it.
const FREE_PERCENT: u64 = 95;

/// How many records, and in how much memory: it is nearly full of them.
struct Load {
    /// Of each kind.
    records: u64,
    memory: &'static str,
    value_bytes: usize,
    /// Time to store them in.
    store_within_s: u64,
}

fn key(kind: &str, number: u64) -> String {
    format!("{kind}{number}")
}

fn store(client: &mut Client, kind: &str, numbers: std::ops::Range<u64>, expiry: u64, len: usize) {
    let value = vec![b'v'; len];
    for number in numbers {
        client.set(&key(kind, number), expiry, &value);
    }
    client.finish();
}

fn expired_records_make_room(load: &Load) {
    let arguments = ["--net-threads", "1", "--max-connections", "128"];
    let server = Server::kelvin_with_memory(Io::Uring, load.memory, &arguments);
    let mut client = Client::new(&server);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let expiry_s = now.as_secs() + load.store_within_s;
    for from in (0..load.records).step_by(10_000) {
        let numbers = from..load.records.min(from + 10_000);
        store(&mut client, "mortal:", numbers.clone(), expiry_s, load.value_bytes);
        store(&mut client, "lasting:", numbers, 0, load.value_bytes);
    }
    assert_eq!(client.stat("evictions"), 0, "too little memory for this test");
    assert_eq!(client.stat("curr_items"), 2 * load.records, "stored too slowly for this test");
    let until = Duration::from_secs(expiry_s);
    while SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970") < until {
        thread::sleep(Duration::from_millis(10));
    }
    let (expired, before_bytes) = (Instant::now(), client.stat("bytes"));
    let share_bytes = before_bytes / 2 * FREE_PERCENT / 100;
    while client.stat("bytes") > before_bytes - share_bytes {
        assert!(expired.elapsed() < FREE_WITHIN, "{} bytes are left", client.stat("bytes"));
        thread::sleep(Duration::from_millis(10));
    }
    println!("{FREE_PERCENT} % were free after {:?}", expired.elapsed());
    // Others take their place.
    let fitting = load.records * FREE_PERCENT / 100;
    store(&mut client, "later:", 0..fitting, 0, load.value_bytes);
    assert_eq!(client.stat("evictions"), 0, "something live was evicted");
    let (_, lasting) = client.holds((0..load.records).map(|number| key("lasting:", number)));
    assert_eq!(lasting, load.records);
}

#[test]
fn expired_records_make_room_within_seconds_and_nothing_live_is_evicted() {
    let load = Load { records: 200_000, memory: "64MiB", value_bytes: 90, store_within_s: 15 };
    expired_records_make_room(&load);
}

#[test]
#[ignore = "soak: two minutes and 2 GiB of memory"]
fn soak_ten_million_expired_records_make_room_within_seconds() {
    let load = Load { records: 10_000_000, memory: "2GiB", value_bytes: 40, store_within_s: 240 };
    expired_records_make_room(&load);
}
