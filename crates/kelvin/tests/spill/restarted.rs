//! What a table that spills has after its server was killed or stopped.

use std::time::Duration;

use crate::{
    harness::{
        log_directory::{Directory, stat},
        rng::Rng,
        server::Server,
    },
    records::{KEYS, Records, serve},
};

const END_MAX: Duration = Duration::from_secs(20);

const RECOVERS: [&str; 2] = ["--spill-recover", "true"];

fn stop(mut server: Server) {
    server.terminate();
    let ended = server.wait_for_end(END_MAX).expect("it ends");
    assert!(ended.success(), "{ended}: {}", server.log());
}

#[test]
fn a_ring_begins_empty_after_a_kill_and_after_a_stop() {
    let directory = Directory::new();
    for end in [drop::<Server>, stop, drop] {
        let server = serve(&directory, &[]);
        let mut conn = server.connect();
        assert_eq!(stat(&mut conn, "log_entries"), 0);
        let mut records = Records::default();
        records.flush();
        records.check_all(&mut conn);
        records.store(&mut conn, 0..KEYS);
        assert!(records.check_all(&mut conn) < KEYS / 2);
        end(server);
    }
}

/// Whatever is there is the newest that was acknowledged, and most of it is there.
#[test]
fn a_ring_that_recovers_shows_nothing_old() {
    let directory = Directory::new();
    let mut records = Records::default();
    for (seed, end) in [drop::<Server>, stop, drop, drop].into_iter().enumerate() {
        let server = serve(&directory, &RECOVERS);
        let mut conn = server.connect();
        let missed = records.check_all(&mut conn);
        assert!(missed < KEYS * 3 / 4, "{missed} are lost");
        records.store(&mut conn, 0..KEYS);
        records.play(&mut conn, &mut Rng::new(seed as u64), 60);
        conn.ask(b"flush_all\r\n", b"CLIENT_ERROR flush_all not allowed\r\n");
        end(server);
    }
}

/// A run without tombstones leaves what is out of date: nobody gets to see it.
#[test]
fn a_ring_that_did_not_recover_is_emptied_before_it_does() {
    let directory = Directory::new();
    let server = serve(&directory, &RECOVERS);
    let mut records = Records::default();
    records.store(&mut server.connect(), 0..KEYS);
    stop(server);
    let server = serve(&directory, &[]);
    assert_eq!(stat(&mut server.connect(), "log_entries"), 0);
    records.store(&mut server.connect(), 0..KEYS);
    records.store(&mut server.connect(), (0..KEYS).step_by(2));
    stop(server);
    let server = serve(&directory, &RECOVERS);
    assert_eq!(records.check_all(&mut server.connect()), KEYS);
    assert!(server.log().contains("the ring begins empty"), "{}", server.log());
}
