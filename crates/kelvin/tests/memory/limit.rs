//! A limit that is changed while the server serves.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    client::Client,
    harness::server::{Io, Server},
};

const MIB: u64 = 1 << 20;
/// Far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_lowered_limit_is_reached_while_serving_and_a_raised_one_at_once() {
    let server = Server::kelvin_with_memory(
        Io::Uring,
        "256MiB",
        &["--net-threads", "1", "--max-connections", "128"],
    );
    let mut client = Client::new(&server);
    let value = [b'v'; 1000];
    let store = |client: &mut Client, count: u64| {
        (0..count).for_each(|number| client.set(&format!("k{number}"), 0, &value));
        client.finish();
    };
    store(&mut client, 300_000);
    let full = server.resident_bytes();
    assert!(full > 230 * MIB, "{} MiB", full / MIB);
    assert_eq!(client.command("cache_memlimit 96"), "OK");
    assert_eq!(client.stat("limit_maxbytes"), 96 * MIB);
    let asked = Instant::now();
    while server.resident_bytes() > 112 * MIB {
        assert!(asked.elapsed() < PATIENCE, "{} MiB are left", server.resident_bytes() / MIB);
        // It serves meanwhile.
        store(&mut client, 1000);
        thread::sleep(Duration::from_millis(10));
    }
    let (bytes, _) = client.holds((0..300_000).map(|number| format!("k{number}")));
    assert!(bytes > 70 * MIB, "{} MiB of values are left", bytes / MIB);
    store(&mut client, 300_000);
    assert!(server.resident_bytes() <= 112 * MIB, "{} MiB", server.resident_bytes() / MIB);
    assert_eq!(client.command("cache_memlimit 400"), "OK");
    store(&mut client, 300_000);
    let (bytes, count) = client.holds((0..300_000).map(|number| format!("k{number}")));
    assert_eq!((bytes > 280 * MIB, count), (true, 300_000), "{} MiB", bytes / MIB);
    assert_eq!(client.stat("limit_maxbytes"), 400 * MIB);
}
