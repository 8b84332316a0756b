use std::{
    fs::Permissions,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
};

use super::Listener;
use crate::{
    Error,
    config::{Config, Mode},
};

/// A directory of the test's own.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("listener-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self(path)
    }

    fn config(&self) -> Config {
        Config { listen: Vec::new(), unix: Some(self.0.join("socket")), ..Config::default() }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tcp(text: &str) -> Config {
    Config { listen: vec![text.parse().expect("an address")], ..Config::default() }
}

#[test]
fn the_port_that_the_system_chose_is_known_and_taken() {
    let listeners = Listener::open_all(&tcp("127.0.0.1:0")).expect("a free port");
    let [listener] = &listeners[..] else { panic!("{listeners:?}") };
    let address = listener.address().expect("TCP");
    assert_ne!(address.port(), 0);
    assert_eq!(listener.name(), address.to_string());
    assert!(!listener.is_exposed());
    TcpStream::connect(address).expect("it listens");

    let error = Listener::open_all(&tcp(&address.to_string())).expect_err("it is taken");
    assert_eq!(error.to_string(), format!("cannot listen on {address}: binding the address"));
    let Error::Listen { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.kind(), ErrorKind::AddrInUse);
}

#[test]
fn any_address_of_one_family_leaves_the_other_free() {
    let both = |six: &str, four: &str| {
        let listen = [six, four].map(|text| text.parse().expect("an address"));
        Listener::open_all(&Config { listen: listen.into(), ..Config::default() })
    };
    let first = both("[::]:0", "127.0.0.1:0").expect("free ports");
    assert!(first[0].is_exposed() && !first[1].is_exposed());
    let port = first[0].address().expect("TCP").port();
    let second = Listener::open_all(&tcp(&format!("0.0.0.0:{port}"))).expect("it is free");
    assert!(second[0].is_exposed());
    drop(first);
    both(&format!("[::]:{}", port), "127.0.0.1:0").expect("it is free again");
}

#[test]
fn names_are_resolved_and_unknown_ones_reported() {
    let listeners = Listener::open_all(&tcp("localhost:0")).expect("localhost");
    assert!(!listeners.is_empty());
    assert!(listeners.iter().all(|listener| !listener.is_exposed()));
    let error = Listener::open_all(&tcp("no-such-host.invalid:1")).expect_err("unknown");
    assert!(matches!(error, Error::Listen { what: "resolving the name", .. }), "{error}");
}

#[test]
fn beyond_loopback_is_exposed() {
    let listeners = Listener::open_all(&tcp("0.0.0.0:0")).expect("a free port");
    assert!(listeners[0].is_exposed());
}

#[test]
fn accepted_sockets_send_at_once_and_notice_dead_peers() {
    let listeners = Listener::open_all(&tcp("127.0.0.1:0")).expect("a free port");
    let _client = TcpStream::connect(listeners[0].address().expect("TCP")).expect("it listens");
    let accepted = rustix::net::accept(&listeners[0].socket).expect("somebody is there");
    assert!(rustix::net::sockopt::tcp_nodelay(&accepted).expect("a TCP socket"));
    assert!(rustix::net::sockopt::socket_keepalive(&accepted).expect("a socket"));
}

#[test]
fn a_unix_socket_has_its_mode_and_goes_with_its_listener() {
    let directory = Directory::new("mode");
    let mut config = directory.config();
    config.unix_mode = Mode(0o620);
    let listeners = Listener::open_all(&config).expect("a new path");
    let path = config.unix.as_deref().expect("set above");
    let mode = std::fs::metadata(path).expect("a file").mode();
    assert_eq!(mode & 0o777, 0o620);
    assert_eq!(listeners[0].name(), format!("unix:{}", path.display()));
    assert!(!listeners[0].is_exposed());
    UnixStream::connect(path).expect("it listens");
    drop(listeners);
    assert!(!path.exists());
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let directory = Directory::new("stale");
    let config = directory.config();
    let path = config.unix.as_deref().expect("set above");
    drop(UnixListener::bind(path).expect("a new path"));
    assert!(path.exists(), "the standard library leaves it behind");
    let listeners = Listener::open_all(&config).expect("stale");
    assert!(matches!(Listener::open_all(&config), Err(Error::UnixInUse { .. })));
    UnixStream::connect(path).expect("the first still listens");

    // Somebody else's socket at the same path is left alone at the end.
    std::fs::remove_file(path).expect("a file");
    let other = UnixListener::bind(path).expect("free");
    drop(listeners);
    let mut client = UnixStream::connect(path).expect("the other listens");
    client.write_all(b"x").expect("connected");
    let mut byte = [0];
    other.accept().expect("a client").0.read_exact(&mut byte).expect("a byte");
    assert_eq!(byte, *b"x");
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let directory = Directory::new("occupied");
    let config = directory.config();
    let path = config.unix.as_deref().expect("set above");
    std::fs::write(path, "precious").expect("a new file");
    assert!(matches!(Listener::open_all(&config), Err(Error::UnixOccupied { .. })));
    assert_eq!(std::fs::read_to_string(path).expect("a file"), "precious");
}

#[test]
fn impossible_paths_are_reported() {
    let directory = Directory::new("impossible");
    let mut config = directory.config();
    for (path, what) in [
        (directory.0.join("x".repeat(200)), "the path is too long"),
        (directory.0.join("none/socket"), "creating the socket's file"),
    ] {
        config.unix = Some(path);
        let error = Listener::open_all(&config).expect_err("impossible");
        assert!(matches!(error, Error::Listen { what: said, .. } if said == what), "{error}");
    }
    // A socket without permission may be alive: it is not removed. Root may do everything, so
    // the permissions are only looked at by others.
    let path = directory.0.join("socket");
    let _listener = UnixListener::bind(&path).expect("a new path");
    std::fs::set_permissions(&path, Permissions::from_mode(0o000)).expect("an own file");
    config.unix = Some(path);
    assert!(matches!(Listener::open_all(&config), Err(Error::UnixInUse { .. })));
}
