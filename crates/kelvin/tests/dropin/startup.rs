//! How a server starts: ports, sockets, and what it says before it serves.

use crate::servers::{Program, on_both, on_recent};

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
