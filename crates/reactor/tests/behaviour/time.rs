//! Idle connections, with a clock that the test moves, and messages from other threads.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use super::harness::{Message, PATIENCE, Served, Setup, ask, expect_end};
use base::clock::Clock;

#[test]
fn idle_connections_are_closed_and_busy_ones_are_not() {
    let clock = Clock::manual(1_700_000_000_000);
    let served =
        Served::start(Setup { idle_timeout_ms: 60_000, clock: clock.clone(), ..Setup::default() });
    let mut idle: Vec<_> = (0..100).map(|_| served.connect()).collect();
    let mut busy = served.connect();
    served.wait_for("all connections", |report| report.connections == 101);
    for _ in 0..5 {
        clock.advance_ms(11_900);
        ask(&mut busy, b"echo here\n", b"here\n");
    }
    assert_eq!(served.report().connections, 101, "59.5 s are not 60");
    clock.advance_ms(600);
    let report = served.wait_for("the timeout", |report| report.connections == 1);
    assert_eq!(report.reasons, [("Idle".to_owned(), 100)].into());
    idle.iter_mut().for_each(expect_end);
    ask(&mut busy, b"echo here\n", b"here\n");
    clock.advance_ms(60_100);
    served.wait_for("the timeout", |report| report.connections == 0);
}

#[test]
fn a_client_that_reads_slowly_is_not_idle_and_one_that_stopped_is() {
    let clock = Clock::manual(1_700_000_000_000);
    let served = Served::start(Setup {
        idle_timeout_ms: 10_000,
        clock: clock.clone(),
        send_buffer_bytes: Some(128 << 10),
        ..Setup::default()
    });
    let mut stream = served.connect();
    // Else the system may make it so large that it takes the whole value.
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 1 << 20).expect("any size");
    stream.write_all(b"big  16000000\n").expect("the loop reads");
    served.wait_for("the value", |_| served.alive.count() == 1);
    let mut part = vec![0; 2_000_000];
    for _ in 0..6 {
        stream.read_exact(&mut part).expect("the value");
        // The loop sends on before its clock moves.
        std::thread::sleep(std::time::Duration::from_millis(100));
        clock.advance_ms(4_000);
        assert_eq!(served.report().connections, 1);
    }
    // The system may still take bytes for a stopped client, and each time that is where
    // the ten seconds begin anew.
    let report = served.wait_for("the timeout", |report| {
        clock.advance_ms(100);
        report.connections == 0
    });
    assert_eq!(report.reasons, [("Idle".to_owned(), 1)].into());
    assert_eq!(served.alive.count(), 0);
}

#[test]
fn sockets_come_by_mail() {
    let served = Served::start(Setup::default());
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let addr = listener.local_addr().expect("bound");
    let mut clients = Vec::new();
    for _ in 0..300 {
        let client = TcpStream::connect(addr).expect("the listener accepts");
        client.set_read_timeout(Some(PATIENCE)).expect("a time");
        let (socket, _) = listener.accept().expect("a connection");
        socket.set_nonblocking(true).expect("a socket");
        let mut message = Message::Adopt(socket.into());
        while let Err(reactor::SendError::Full(back)) = served.sender.send(message) {
            message = back;
            std::thread::yield_now();
        }
        clients.push(client);
    }
    for client in &mut clients {
        ask(client, b"echo by mail\n", b"by mail\n");
    }
    assert_eq!(served.report().connections, 300);
}

#[test]
fn a_full_mailbox_gives_the_message_back_and_a_closed_one_too() {
    let (sender, inbox) = reactor::mailbox::<u32>(2).expect("an eventfd");
    assert_eq!(sender.send(1), Ok(()));
    assert_eq!(sender.clone().send(2), Ok(()));
    assert_eq!(sender.send(3), Err(reactor::SendError::Full(3)));
    drop(inbox);
    assert_eq!(sender.send(4), Err(reactor::SendError::Closed(4)));
}

#[test]
fn a_sleeping_loop_wakes_for_every_message() {
    let served = Served::start(Setup::default());
    let before = std::time::Instant::now();
    for _ in 0..2000 {
        served.report();
    }
    // A lost wake-up would cost up to a second each.
    assert!(before.elapsed() < PATIENCE);
}
