//! How a server starts: ports, sockets, and what it says before it serves.

use std::net::{SocketAddr, TcpStream};

use super::servers::{PATIENCE, Program, on_both, on_kelvin, on_recent};
use crate::harness::{
    binary::Ask,
    conn::{Conn, Got},
};

const SET: &[u8] = b"set key 5 0 5\r\nvalue\r\n";
const GET: &[u8] = b"get key\r\n";
const FOUND: &[u8] = b"VALUE key 5 5\r\nvalue\r\nEND\r\n";

#[test]
fn serves_tcp_on_a_port_that_the_system_chooses() {
    on_both(&[], |server| {
        let mut conn = server.connect();
        conn.ask(SET, b"STORED\r\n");
        conn.ask(GET, FOUND);
        server.stat("settings", "udpport")
    });
}

#[test]
fn a_unix_socket_replaces_the_network() {
    on_both(&["-s", "{dir}/socket", "-a", "0766"], |server| {
        server.ask(SET, b"STORED\r\n");
        server.ask(GET, FOUND);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(server.dir().path("socket"))
                .expect("there is a socket")
                .permissions(),
        );
        assert_eq!(mode & 0o777, 0o766);
        server.stat("settings", "umask")
    });
}

#[test]
fn options_show_in_the_settings() {
    let options = ["-m", "100", "-c", "77", "-t", "2", "-b", "33", "-I", "2m"];
    on_both(&options, |server| {
        let settings = ["maxbytes", "maxconns", "num_threads", "tcp_backlog", "item_size_max"];
        let values = settings.map(|name| server.stat("settings", name).unwrap_or_default());
        assert_eq!(values, ["104857600", "77", "2", "33", "2097152"]);
        assert_eq!(server.stat("", "limit_maxbytes").as_deref(), Some("104857600"));
    });
}

#[test]
fn tells_its_version_and_its_options() {
    let (code, said, _) = Program::Kelvin.run(&["-V"]);
    assert_eq!((code, said.as_str()), (Some(0), "memcached 1.6.45\n"));
    on_recent(&["-vv"], |server| {
        let mut conn = server.connect();
        conn.ask(b"mn\r\n", b"MN\r\n");
    });
}

#[test]
fn prefixes_end_where_they_are_told() {
    on_both(&["-D", "/", "-s", "{dir}/socket"], |server| {
        server.ask(b"set a/b:c 0 0 1\r\nx\r\n", b"STORED\r\n");
        let dump = b"PREFIX a get 0 hit 0 set 1 del 0\r\nEND\r\n";
        server.ask(b"stats detail dump\r\n", dump);
        (server.stat("settings", "stat_key_prefix"), server.stat("settings", "detail_enabled"))
    });
}

#[test]
fn addresses_are_lists_with_and_without_ports() {
    let options = ["-l", "127.0.0.1,127.0.0.2:-1", "-l", "proto[ascii]:tag[one]:127.0.0.3"];
    on_recent(&options, |server| {
        let ports =
            std::fs::read_to_string(server.dir().path("ports")).expect("it tells its ports");
        let ports: Vec<u16> = { ports.lines() }
            .map(|line| line.strip_prefix("TCP INET: ").and_then(|port| port.parse().ok()))
            .map(|port| port.expect("a line tells a port"))
            .collect();
        assert_eq!(ports.len(), 3);
        for (last, port) in (1..).zip(ports) {
            let stream = std::net::TcpStream::connect(SocketAddr::from(([127, 0, 0, last], port)));
            let mut conn = crate::harness::conn::Conn::tcp(stream.expect("it listens there"));
            conn.ask(b"mn\r\n", b"MN\r\n");
        }
    });
}

#[test]
fn each_address_has_its_protocol() {
    let options = ["-l", "proto[ascii]:127.0.0.1,proto[binary]:127.0.0.2:-1,127.0.0.3:-1"];
    on_both(&options, |server| {
        let ports =
            std::fs::read_to_string(server.dir().path("ports")).expect("it tells its ports");
        let ports = ports.lines().map(|line| line["TCP INET: ".len()..].parse().expect("a port"));
        let noop = Ask::new(0x0a, "").bytes();
        let mut heard = Vec::new();
        for (last, port) in (1..).zip(ports) {
            for (request, reply) in [(&b"mn\r\n"[..], &b"MN\r\n"[..]), (&noop, b"\x81\x0a")] {
                let address = SocketAddr::from(([127, 0, 0, last], port));
                let mut conn = Conn::tcp(TcpStream::connect(address).expect("it listens there"));
                // What is no command is answered, and what begins no frame closes the connection
                // once it is as long as one.
                conn.send(&[request, b"x xxxxxxxxxxxxxxxxxxxxx\r\n"].concat());
                let mut got = Vec::new();
                while got.len() < reply.len() && conn.read_once(&mut got, PATIENCE) == Got::Bytes {}
                heard.push(got.starts_with(reply));
            }
        }
        assert_eq!(heard, [true, false, false, true, true, true]);
    });
}

#[test]
fn a_server_may_listen_to_nothing() {
    // The file of ports is there when it runs, and has none.
    on_both(&["-p", "0"], |server| {
        server.signal("TERM");
        let told = std::fs::read_to_string(server.dir().path("ports"));
        (told.ok(), server.wait().and_then(|status| status.code()))
    });
}

/// The same refusals, by exit code and a word of the message.
#[test]
fn wrong_options_are_refused() {
    for (options, word) in [
        (&["-c", "0"][..], "Maximum connections"),
        (&["-t", "0"], "Number of threads"),
        (&["-R", "0"], "Number of requests"),
        (&["-f", "1"], "Factor"),
        (&["-n", "0"], "Chunk size"),
        (&["-D", ""], "No delimiter"),
        (&["-B", "http"], "Invalid value for binding protocol"),
        (&["-I", "1000"], "1024"),
        (&["-I", "1025m", "-m", "8192"], "gigabyte"),
        (&["-I", "1100k"], "evenly"),
        (&["-o", "idle_timeout"], "idle_timeout"),
        (&["-o", "hash_algorithm=md5"], "hash_algorithm"),
        (&["-o", "slab_automove=3"], "slab_automove"),
        (&["-o", "hashpower=11"], ""),
        (&["-o", "no_such_option"], "Illegal suboption"),
        (&["-p", "70000"], ""),
        (&["-l", "no.such.host.invalid", "-p", "-1"], ""),
        (&["-q"], "invalid option -- 'q'"),
    ] {
        let [ours, theirs] =
            [Program::Kelvin, Program::installed()].map(|program| program.run(options));
        assert_eq!(ours.0, theirs.0, "{options:?}: {} / {}", ours.2, theirs.2);
        for (_, output, errors) in [ours, theirs] {
            assert!(output.contains(word) || errors.contains(word), "{options:?}: {errors}");
        }
    }
}

#[test]
fn what_has_no_effect_is_told_and_no_reason_not_to_serve() {
    let options = ["-n", "64", "-L", "-o", "modern,hashpower=16,ext_path=/tmp/x:1G"];
    on_kelvin(&[&options[..], &["-s", "{dir}/socket"]].concat(), |server| {
        server.ask(b"mn\r\n", b"MN\r\n");
        let log = server.log();
        for name in ["-n has no effect", "-L has no", "-o hashpower has", "-o ext_path has"] {
            assert_eq!(log.matches(name).count(), 1, "{name}: {log}");
        }
        assert_eq!(log.lines().count(), 4, "{log}");
    });
}
