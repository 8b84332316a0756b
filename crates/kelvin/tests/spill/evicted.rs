//! What memory has no room for: it is found on the disk, and what is out of date is not.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::records::{KEYS, Records, count, look, name, serve, value};
use crate::harness::{
    binary::{Ask, converse},
    log_directory::{Directory, set, settle, stat},
    rng::Rng,
};

/// Keys that may be lost on their way to the disk, when it is slow: one in a hundred.
const LOST_MAX: usize = KEYS / 100;

#[test]
fn a_set_larger_than_memory_is_read_back_from_all_tiers() {
    let directory = Directory::new();
    let server = serve(&directory, &[]);
    let mut conn = server.connect();
    let mut records = Records::default();
    records.store(&mut conn, 0..KEYS);
    let missed = records.check_all(&mut conn);
    assert!(missed <= LOST_MAX, "{missed} are lost");
    for _ in 0..2 {
        records.check(&mut conn, 7);
    }
    let disk = count(&mut conn, "table_hits_disk");
    assert!(disk > KEYS as u64 / 2, "{disk} of {KEYS} were read");
    assert!(stat(&mut conn, "table_hits_memory") > 0);
    assert!(stat(&mut conn, "table_spills") > KEYS as u64 / 2);
    assert_eq!(stat(&mut conn, "get_misses"), missed as u64);
    assert!(stat(&mut conn, "table_spills_lost") >= missed as u64, "they are not counted");
    assert_eq!(stat(&mut conn, "table_spills_refused"), 0);
    assert_eq!(stat(&mut conn, "table_reads_failed"), 0);
}

#[test]
fn what_was_overwritten_or_removed_does_not_come_back() {
    let directory = Directory::new();
    let server = serve(&directory, &[]);
    let mut conn = server.connect();
    let mut records = Records::default();
    records.store(&mut conn, 0..KEYS);
    records.store(&mut conn, (0..KEYS).step_by(3));
    records.remove(&mut conn, (0..KEYS).step_by(5));
    records.play(&mut conn, &mut Rng::new(1), 60);
    let missed = records.check_all(&mut conn);
    assert!(missed <= LOST_MAX, "{missed} are lost");
    assert!(count(&mut conn, "table_hits_disk") > 1000);
}

/// The ring holds less than was stored: what is oldest is gone, and what is newest is there.
#[test]
fn a_full_ring_drops_what_is_oldest() {
    let directory = Directory::new();
    let server = serve(&directory, &["--spill-size", "16MiB"]);
    let mut conn = server.connect();
    let mut records = Records::default();
    let mut rng = Rng::new(2);
    records.store(&mut conn, 0..3 * KEYS);
    assert!(stat(&mut conn, "log_values_dropped") > 0, "nothing was dropped");
    let newest = 3 * KEYS - 1000..3 * KEYS;
    let there = newest.filter(|key| records.check(&mut conn, *key)).count();
    assert!(there >= 1000 - LOST_MAX, "{there} of the newest are there");
    assert!(!records.check(&mut conn, 0), "the oldest is there");
    records.play(&mut conn, &mut rng, 60);
    records.check_all(&mut conn);
    assert!(stat(&mut conn, "log_bytes") <= 16 << 20);
    assert_eq!(stat(&mut conn, "table_reads_failed"), 0);
}

/// Commands that have to know what the disk has.
#[test]
fn commands_change_what_the_disk_has() {
    let directory = Directory::new();
    let server = serve(&directory, &[]);
    let mut conn = server.connect();
    let mut records = Records::default();
    let mut request = Vec::new();
    for key in 0..10 {
        request.extend(set(&format!("n{key}"), 3, key.to_string().as_bytes()));
        request.extend(set(&format!("t{key}"), 5, b"text"));
    }
    conn.ask(&request, &b"STORED\r\n".repeat(20));
    records.store(&mut conn, 0..KEYS / 2);
    conn.ask(b"incr n1 5\r\nincr n2 1\r\n", b"6\r\n3\r\n");
    conn.ask(b"append t1 0 0 1\r\n+\r\nprepend t1 0 0 1\r\n-\r\n", b"STORED\r\nSTORED\r\n");
    conn.ask(b"add t2 0 0 1\r\nx\r\nreplace t3 9 0 3\r\nnew\r\n", b"NOT_STORED\r\nSTORED\r\n");
    conn.ask(b"touch t4 100\r\ntouch none 100\r\n", b"TOUCHED\r\nNOT_FOUND\r\n");
    conn.ask(b"cas t5 0 0 1 1\r\nx\r\ndelete t6\r\n", b"EXISTS\r\nDELETED\r\n");
    records.store(&mut conn, KEYS / 2..KEYS);
    conn.ask(
        b"get n1 n2 t1 t2 t3 t4 t5 t6 t7\r\n",
        b"VALUE n1 3 1\r\n6\r\nVALUE n2 3 1\r\n3\r\nVALUE t1 5 6\r\n-text+\r\n\
          VALUE t2 5 4\r\ntext\r\nVALUE t3 9 3\r\nnew\r\nVALUE t4 5 4\r\ntext\r\n\
          VALUE t5 5 4\r\ntext\r\nVALUE t7 5 4\r\ntext\r\nEND\r\n",
    );
    assert!(count(&mut conn, "table_hits_disk") > 8);
}

#[test]
fn nothing_of_before_a_flush_comes_back() {
    let directory = Directory::new();
    let server = serve(&directory, &[]);
    let (mut conn, mut other) = (server.connect(), server.connect());
    let mut records = Records::default();
    records.store(&mut conn, 0..KEYS / 2);
    // What is asked before it on the same connection comes before it, also what has to be read.
    conn.ask(&set("number", 0, b"5"), b"STORED\r\n");
    records.store(&mut conn, KEYS / 2..KEYS);
    conn.ask(b"incr number 1\r\nflush_all\r\nget number\r\n", b"6\r\nOK\r\nEND\r\n");
    records.flush();
    records.check_all(&mut other);
    records.store(&mut conn, (0..KEYS).step_by(4));
    records.check_all(&mut other);
    // Later; others see it in time, too.
    conn.ask(b"flush_all 1\r\n", b"OK\r\n");
    assert!(records.check(&mut other, 4) || records.check(&mut other, 8), "it is flushed at once");
    thread::sleep(Duration::from_millis(2100));
    records.flush();
    records.check_all(&mut other);
    records.store(&mut conn, 0..KEYS / 4);
    let mut third = server.connect();
    let (answers, _) = converse(&mut third, &[Ask::new(0x08, "")]);
    assert_eq!(answers[0].status, 0, "a binary flush is done");
    records.flush();
    records.check_all(&mut conn);
    assert_eq!(stat(&mut conn, "cmd_flush"), 3);
    // One that is not due yet is taken back by another one.
    conn.ask(b"flush_all 1\r\nflush_all\r\n", b"OK\r\nOK\r\n");
    records.store(&mut conn, 0..50);
    thread::sleep(Duration::from_millis(2100));
    assert_eq!(records.check_all(&mut conn), 0, "it was not taken back");
}

#[test]
fn what_has_expired_on_the_disk_is_gone() {
    let directory = Directory::new();
    let server = serve(&directory, &[]);
    let mut conn = server.connect();
    let mut request = Vec::new();
    for key in 0..50 {
        request.extend(format!("set soon{key} 0 2 4\r\nsoon\r\n").into_bytes());
        request.extend(format!("set late{key} 0 1000 4\r\nlate\r\n").into_bytes());
    }
    conn.ask(&request, &b"STORED\r\n".repeat(100));
    let mut records = Records::default();
    records.store(&mut conn, 0..KEYS);
    thread::sleep(Duration::from_millis(2100));
    for key in 0..50 {
        assert_eq!(look(&mut conn, &format!("soon{key}")), None);
        assert_eq!(look(&mut conn, &format!("late{key}")).as_deref(), Some(&b"late"[..]));
    }
}

/// Values that are longer than what is spilled are kept as long as memory has room.
#[test]
fn a_value_that_is_too_long_for_the_disk_is_in_memory_alone() {
    let directory = Directory::new();
    let server = serve(&directory, &["--value-size-max", "512KiB"]);
    let mut conn = server.connect();
    let long = vec![b'l'; 300 << 10];
    conn.ask(&set("long", 0, &long), b"STORED\r\n");
    assert!(look(&mut conn, "long").as_deref() == Some(&long[..]));
    let mut records = Records::default();
    records.store(&mut conn, 0..KEYS);
    assert_eq!(look(&mut conn, "long"), None);
    assert_eq!(count(&mut conn, "table_spills_long"), 1);
    let too_long = vec![b'l'; 513 << 10];
    conn.ask(&set("key-1", 0, &too_long), b"SERVER_ERROR object too large for cache\r\n");
    assert_eq!(look(&mut conn, "key-1"), None, "a set that fails removes what there was");
}

#[test]
fn only_what_was_seen_is_spilled_where_that_is_asked_for() {
    let directory = Directory::new();
    let server = serve(&directory, &["--spill-admission", "seen"]);
    let mut conn = server.connect();
    for key in 0..200 {
        conn.ask(&set(&name(key), 0, &value(key, 0)), b"STORED\r\n");
        if key % 2 == 0 {
            assert!(look(&mut conn, &name(key)).is_some());
        }
    }
    let mut records = Records::default();
    records.store(&mut conn, 200..KEYS);
    settle(&mut conn);
    for key in 0..200 {
        let expected = (key % 2 == 0).then(|| value(key, 0));
        assert!(look(&mut conn, &name(key)) == expected, "{key}");
    }
    assert!(count(&mut conn, "table_spills_unseen") > 1000);
}

/// Nothing waits for memory, and nothing old is shown, when it is made smaller and larger again.
#[test]
fn memory_that_changes_goes_to_the_disk_and_back() {
    let directory = Directory::new();
    let server = serve(&directory, &["--memory-max", "32MiB"]);
    let mut conn = server.connect();
    conn.ask(b"cache_memlimit 32\r\n", b"OK\r\n");
    let mut records = Records::default();
    records.store(&mut conn, 0..2 * KEYS);
    assert_eq!(stat(&mut conn, "evictions"), 0, "there is room for all");
    // Nobody asks for anything meanwhile.
    conn.ask(b"cache_memlimit 8\r\n", b"OK\r\n");
    let deadline = Instant::now() + Duration::from_secs(30);
    while stat(&mut conn, "arena_used_bytes") > 8 << 20 {
        assert!(Instant::now() < deadline, "memory is not given back");
        thread::sleep(Duration::from_millis(10));
    }
    settle(&mut conn);
    let missed = records.check_all(&mut conn);
    // Also meanwhile: what is read from the disk takes the memory of something else.
    let lost = stat(&mut conn, "table_spills_lost") as usize;
    assert!(missed <= lost, "{missed} are missing, {lost} were lost");
    assert!(lost < KEYS, "{lost} were lost on their way to the disk");
    records.play(&mut conn, &mut Rng::new(9), 40);
    conn.ask(b"cache_memlimit 32\r\n", b"OK\r\n");
    records.store(&mut conn, 0..2 * KEYS);
    let before = stat(&mut conn, "table_spills_lost");
    assert_eq!(records.check_all(&mut conn), 0, "there is room for all again");
    assert_eq!(stat(&mut conn, "table_spills_lost"), before);
}
