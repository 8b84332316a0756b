//! Requests over UDP.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    net::UdpSocket,
    time::Duration,
};

use super::servers::{PATIENCE, Server, eventually, on_both, on_kelvin};
use crate::harness::binary::{Ask, answers};

const UDP: [&str; 2] = ["-U", "-1"];

/// Longest datagram of a reply.
const DATAGRAM_BYTES_MAX: usize = 1400;

struct Client(UdpSocket);

impl Client {
    fn of(server: &Server) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(server.udp()).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Self(socket)
    }

    fn send(&self, frame: [u16; 4], message: &[u8]) {
        let frame: Vec<u8> = frame.iter().flat_map(|number| number.to_be_bytes()).collect();
        self.0.send(&[&frame[..], message].concat()).expect("loopback takes it");
    }

    /// One datagram; the system may end a wait early that has a timeout.
    fn receive_one(&self, datagram: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.0.recv(datagram) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => return received,
            }
        }
    }

    /// The message that answers `request`, and of how many datagrams it was.
    fn receive(&self, request: u16) -> (Vec<u8>, usize) {
        let (mut parts, mut total) = (BTreeMap::new(), None);
        while total.is_none_or(|total| parts.len() < total) {
            let mut datagram = [0; 2000];
            let len = self.receive_one(&mut datagram).expect("a reply");
            assert!((9..=DATAGRAM_BYTES_MAX).contains(&len), "{len}");
            let number = |at| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
            assert_eq!((number(0), number(6)), (request, 0));
            let of = usize::from(number(4));
            assert_eq!(*total.get_or_insert(of), of);
            assert_eq!(parts.insert(number(2), datagram[8..len].to_vec()), None);
        }
        (parts.into_values().flatten().collect(), total.unwrap_or(0))
    }

    fn ask(&self, request: u16, message: &[u8]) -> Vec<u8> {
        self.send([request, 0, 1, 0], message);
        self.receive(request).0
    }
}

#[test]
fn text_is_served_in_frames() {
    on_both(&UDP, |server| {
        let client = Client::of(server);
        assert_eq!(client.ask(1, b"set k 5 0 5\r\nvalue\r\n"), b"STORED\r\n");
        assert_eq!(client.ask(0xffff, b"get k\r\n"), b"VALUE k 5 5\r\nvalue\r\nEND\r\n");
        assert_eq!(client.ask(1, b"get none\r\n"), b"END\r\n");
        assert_eq!(
            client.ask(0, b"incr k 1\r\n").split(|&b| b == b' ').next(),
            Some(&b"CLIENT_ERROR"[..])
        );
        assert_eq!(client.ask(7, b"delete k\r\n"), b"DELETED\r\n");
        server.ask(b"get k\r\n", b"END\r\n");
        server.stat("settings", "udpport").is_some_and(|port| port != "0")
    });
}

#[test]
fn a_large_reply_takes_several_datagrams() {
    let value: Vec<u8> = (0..20_000).map(|number| b'C' + (number % 23) as u8).collect();
    on_both(&UDP, |server| {
        let head = format!("set large 0 0 {}\r\n", value.len());
        server.ask(&[head.as_bytes(), &value, b"\r\n"].concat(), b"STORED\r\n");
        let client = Client::of(server);
        client.send([53, 0, 1, 0], b"get large\r\n");
        let (reply, datagrams) = client.receive(53);
        assert!(reply == [&b"VALUE large 0 20000\r\n"[..], &value, b"\r\nEND\r\n"].concat());
        datagrams
    });
}

#[test]
fn the_binary_protocol_is_served_in_frames() {
    on_both(&UDP, |server| {
        let client = Client::of(server);
        let ask = |ask: Ask| {
            let mut told = answers(&client.ask(45, &ask.bytes()));
            told.iter_mut().for_each(|answer| answer.token = u64::from(answer.token != 0));
            told
        };
        let value = "abcd".repeat(1024);
        vec![
            ask(Ask::store(0x01, "k", 0, &value)),
            ask(Ask::new(0x0c, "k")),
            ask(Ask::new(0x00, "none")),
            ask(Ask::count(0x05, "n", 1, 7, 0)),
            ask(Ask::count(0x06, "n", 1, 7, 0)),
            ask(Ask::new(0x04, "k")),
            ask(Ask::new(0x0a, "")),
        ]
    });
}

#[test]
fn what_is_no_whole_request_is_dropped() {
    on_both(&UDP, |server| {
        let client = Client::of(server);
        client.send([1, 0, 2, 0], b"set k 0 0 1\r\nv\r\n");
        client.send([2, 0, 0, 0], b"set k 0 0 1\r\nv\r\n");
        client.send([3, 0, 1, 0], b"");
        client.0.send(b"\0\x04").expect("loopback takes it");
        assert_eq!(client.ask(5, b"get k\r\n"), b"END\r\n", "the first to be answered");
    });
}

#[test]
fn a_datagram_leaves_nothing_behind() {
    on_kelvin(&UDP, |server| {
        let client = Client::of(server);
        client.send([1, 0, 1, 0], b"set k 0 0 100000\r\npart of a value");
        client.send([2, 0, 1, 0], b"get");
        client.send([3, 0, 1, 0], &Ask::new(0x00, "key").bytes()[..20]);
        assert_eq!(client.ask(4, b"mn\r\nmn\r\n"), b"MN\r\nMN\r\n");
        assert_eq!(client.ask(5, b"quit\r\nmn\r\n".as_slice().split_at(6).1), b"MN\r\n");
        assert_eq!(server.stat("", "curr_items").as_deref(), Some("0"));
        client.0.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
        client.send([6, 0, 1, 0], b"set k 0 0 1 noreply\r\nv\r\n");
        assert!(client.receive_one(&mut [0; 100]).is_err(), "there is nothing to be said");
        server.ask(b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n");
    });
}

#[test]
fn replies_are_not_answered() {
    on_kelvin(&UDP, |server| {
        let client = Client::of(server);
        let replies =
            ["END", "ERROR", "STORED", "OK", "VALUE k 0 1", "MN", "HD", "1234", "VERSION 1"];
        for reply in replies {
            client.send([1, 0, 1, 0], format!("{reply}\r\n").as_bytes());
        }
        let noop = Ask::new(0x0a, "");
        let answer = client.ask(2, &noop.bytes());
        client.send([3, 0, 1, 0], &answer);
        assert_eq!(client.ask(4, b"mn\r\n"), b"MN\r\n", "the only other thing to be answered");
    });
}

/// What `stats conns` says of sockets for datagrams, without numbers of connections and seconds.
fn listed(server: &Server) -> BTreeSet<String> {
    let (reply, _) =
        server.connect().exchange(&[b"stats conns\r\n"], |got| got.ends_with(b"END\r\n"));
    let text = String::from_utf8(reply).expect("reports are text");
    let lines = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(':'));
    let lines: Vec<(&str, &str)> = lines.collect();
    let sockets: Vec<&str> =
        lines.iter().filter(|(_, what)| *what == "UDP UDP").map(|(number, _)| *number).collect();
    let of_sockets = lines.iter().filter(|(number, _)| sockets.contains(number));
    let words = of_sockets.map(|(_, what)| match what.split_once(' ') {
        Some(("addr", address)) => address.replace(&server.udp().to_string(), "ADDRESS"),
        Some(("secs_since_last_cmd", _)) => "secs_since_last_cmd".to_owned(),
        _ => (*what).to_owned(),
    });
    words.collect()
}

#[test]
fn sockets_are_listed_among_connections() {
    on_both(&UDP, |server| {
        Client::of(server).ask(1, b"mn\r\n");
        // The answer may be here before the thread that has sent it is done with it.
        let is_at_rest = || !listed(server).contains("state conn_mwrite");
        eventually("sockets are at rest", is_at_rest);
        let listed = listed(server);
        assert!(listed.contains("udp:ADDRESS"), "{listed:?}");
        listed
    });
}

#[test]
fn it_is_off_unless_asked_for() {
    on_both(&[], |server| server.stat("settings", "udpport"));
}

#[test]
fn all_addresses_are_served_by_both() {
    on_kelvin(&["-U", "-1", "-l", "*"], |server| {
        assert_eq!(Client::of(server).ask(1, b"mn\r\n"), b"MN\r\n");
        server.ask(b"mn\r\n", b"MN\r\n");
    });
}
