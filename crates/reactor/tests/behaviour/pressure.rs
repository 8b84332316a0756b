//! Clients that do not read, values that do not fit a socket, and memory that runs out.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::harness::{Served, Setup, ask, expect, value_byte};
use reactor::{OUTPUT_BYTES_HIGH, OUTPUT_UNIT_BYTES_MAX, OWN_BYTES_PER_CONNECTION};

#[test]
fn a_client_that_does_not_read_costs_bounded_memory() {
    let served = Served::start(Setup::default());
    let mut streams: Vec<_> = (0..20).map(|_| served.connect()).collect();
    for stream in &mut streams {
        stream.write_all(b"many 20000\n").expect("the loop reads");
    }
    let mut blocked = served.wait_for("the bound", |report| {
        report.served >= 20 && report.pool.used_bytes >= 20 * OUTPUT_BYTES_HIGH / 2
    });
    // What the sockets take fills for a while on a busy machine.
    let is_left_alone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let before = std::mem::replace(&mut blocked, served.report());
        blocked.served <= before.served + 20
    });
    assert!(is_left_alone, "a blocked session is served again and again");
    let bound = 20 * (OUTPUT_BYTES_HIGH + OUTPUT_UNIT_BYTES_MAX);
    assert!(blocked.pool.used_bytes_max <= bound, "{blocked:?}");
    // Others are served meanwhile.
    ask(&mut served.connect(), b"echo still here\n", b"still here\n");
    // And everything comes once it is read.
    for stream in &mut streams {
        let mut line = [0; 1000];
        for _ in 0..20_000 {
            stream.read_exact(&mut line).expect("20 MB");
            assert!(line.ends_with(b"m\n"));
        }
    }
    served.wait_for("all buffers", |report| report.pool.used_bytes == 0);
}

#[test]
fn a_thousand_clients_that_do_not_read_leave_room_for_others() {
    let count = 1000.min(super::harness::descriptors() / 2 - 100);
    let served = Served::start(Setup {
        pool_bytes: 1 << 20,
        send_buffer_bytes: Some(64 << 10),
        ..Setup::default()
    });
    let mut streams: Vec<_> = (0..count).map(|_| served.connect()).collect();
    for stream in &mut streams {
        stream.write_all("many 10000\n".repeat(400).as_bytes()).expect("the loop reads");
    }
    served.wait_for("many blocked sends", |report| report.served as usize >= 2 * count);
    let mut worst = Duration::ZERO;
    for _ in 0..50 {
        let mut other = served.connect();
        let before = Instant::now();
        ask(&mut other, format!("echo {}\n", "x".repeat(1500)).as_bytes(), &[b'x'; 1500]);
        worst = worst.max(before.elapsed());
    }
    assert!(worst < Duration::from_secs(3), "{worst:?}");
    let report = served.report();
    let bound = (1 << 20) + OUTPUT_UNIT_BYTES_MAX + (count + 50) * OWN_BYTES_PER_CONNECTION;
    assert!(report.pool.used_bytes_max <= bound, "{report:?}");
    assert_eq!(report.reasons.get("Starved"), None);
}

#[test]
fn requests_behind_unread_replies_are_not_read() {
    let served = Served::start(Setup::default());
    let mut stream = served.connect();
    stream.set_nonblocking(true).expect("a socket");
    let request = "big  1000000\n".repeat(1000);
    let (mut sent, mut quiet) = (0, 0);
    while quiet < 50 {
        match stream.write(&request.as_bytes()[sent % 13..]) {
            Ok(count) => (sent, quiet) = (sent + count, 0),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(2));
                quiet += 1;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 256 << 20, "the loop reads on and on");
    }
    // Two values of 1 MB pass the bound of 1 MiB.
    assert!((1..=2).contains(&served.alive.count()), "{}", served.alive.count());
    let report = served.report();
    assert!(report.pool.used_bytes <= 128 << 10, "{report:?}");
}

#[test]
fn values_larger_than_the_socket_are_sent_piece_by_piece() {
    let served = Served::start(Setup { send_buffer_bytes: Some(128 << 10), ..Setup::default() });
    let mut stream = served.connect();
    let mut request = Vec::new();
    for i in 0..10 {
        request.extend_from_slice(format!("echo {i}\nbig  {}\n", 1_000_000 + i).as_bytes());
    }
    stream.write_all(&request).expect("the loop reads");
    for i in 0..10 {
        expect(&mut stream, format!("{i}\n").as_bytes());
        let mut value = vec![0; 1_000_000 + i];
        // A slow reader.
        for chunk in value.chunks_mut(123_457) {
            stream.read_exact(chunk).expect("the value");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(value.iter().enumerate().all(|(i, byte)| *byte == value_byte(i)), "value {i}");
        expect(&mut stream, b"\n");
    }
    assert_eq!(served.alive.count(), 0);
}

#[test]
fn hoarders_of_half_lines_do_not_keep_others_from_speaking() {
    // 1 MiB of buffers; each hoarder would take 64 KiB.
    let served = Served::start(Setup { pool_bytes: 1 << 20, ..Setup::default() });
    let mut hoarders: Vec<_> = (0..40).map(|_| served.connect()).collect();
    for hoarder in &mut hoarders {
        hoarder.set_nonblocking(true).expect("a socket");
        let _ = hoarder.write(&[b'h'; 60_000]).expect("room in the socket");
    }
    served.wait_for("scarcity", |report| report.pool.refusals > 0);
    let mut other = served.connect();
    for i in 0..100 {
        ask(&mut other, format!("echo {i}\n").as_bytes(), format!("{i}\n").as_bytes());
    }
    let report = served.report();
    let bound = (1 << 20) + OUTPUT_UNIT_BYTES_MAX + 41 * OWN_BYTES_PER_CONNECTION;
    assert!(report.pool.used_bytes_max <= bound, "{report:?}");
    // Those that wait longer than they may are told so, and free what they held.
    let report = served.wait_for("refusals", |report| {
        report.reasons.get("Finished").is_some_and(|count| *count > 0)
    });
    assert!(report.connections < 41, "{report:?}");
    let mut told = 0;
    for hoarder in &mut hoarders {
        let mut reply = [0; 16];
        told += usize::from(
            hoarder.read(&mut reply).is_ok_and(|n| &reply[..n] == b"refused Starved\n"),
        );
    }
    assert!(told > 0);
    ask(&mut other, b"echo end\n", b"end\n");
}

/// Five connections that hold 32 KiB each and want 64, of 192.
fn stuck() -> (Served, Vec<TcpStream>) {
    let served = Served::start(Setup { pool_bytes: 192 << 10, ..Setup::default() });
    let mut hoarders = Vec::new();
    for i in 1..=5 {
        let mut hoarder = served.connect();
        hoarder.write_all(b"echo ").expect("the loop reads");
        hoarder.write_all(&[b'h'; (32 << 10) - 5]).expect("the loop reads");
        served.wait_for("a buffer", |report| report.pool.used_bytes == i * (32 << 10));
        hoarders.push(hoarder);
    }
    for hoarder in &mut hoarders {
        hoarder.write_all(b"end\n").expect("room in the socket");
    }
    served.wait_for("hunger", |report| report.pool.refusals >= 5);
    (served, hoarders)
}

#[test]
fn who_waits_for_memory_goes_on_when_it_comes_back() {
    let (served, mut hoarders) = stuck();
    let before = Instant::now();
    hoarders.truncate(3);
    // The closed ones are noticed when they give up, at the latest.
    for hoarder in &mut hoarders {
        let mut reply = vec![0; 32 << 10];
        hoarder.read_exact(&mut reply[..(32 << 10) - 5 + 4]).expect("the whole line");
    }
    assert!(before.elapsed() < Duration::from_millis(2 * reactor::STARVED_MAX_MS));
    served.wait_for("all buffers", |report| report.pool.used_bytes == 0);
}

#[test]
fn when_all_wait_for_memory_one_goes_so_that_the_others_can() {
    let (served, hoarders) = stuck();
    let (mut done, mut told) = (0, 0);
    for mut hoarder in hoarders {
        let mut reply = Vec::new();
        hoarder.shutdown(std::net::Shutdown::Write).expect("an open socket");
        hoarder.read_to_end(&mut reply).expect("an orderly end");
        done += usize::from(reply.len() == (32 << 10) - 5 + 4);
        told += usize::from(reply == b"refused Starved\n");
    }
    assert_eq!((done, told), (4, 1));
    served.wait_for("all buffers", |report| report.pool.used_bytes == 0);
}

#[test]
fn after_a_burst_the_memory_goes_back_to_the_system() {
    let served = Served::start(Setup::default());
    let mut streams: Vec<_> = (0..20).map(|_| served.connect()).collect();
    for stream in &mut streams {
        stream.write_all(b"many 20000\n").expect("the loop reads");
    }
    served.wait_for("the burst", |report| report.pool.used_bytes >= 20 * OUTPUT_BYTES_HIGH / 2);
    drop(streams);
    let report = served.wait_for("the end of it", |report| report.connections == 0);
    assert!(report.pool.free_bytes > 0);
    served.wait_for("trimming", |report| report.pool.free_bytes == 0);
}
