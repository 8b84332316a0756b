//! The command line: flags, environment, configuration file, exit codes, and what an operator is
//! told.

mod bench;
mod io;
mod log;
mod process;
mod sim;

use std::{
    ffi::OsStr,
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::{ffi::OsStrExt, net::UnixStream},
    time::{Duration, Instant},
};

use process::{Directory, Serving, kelvin};

/// A client of the Unix socket at `path`.
fn connect(path: &str) -> UnixStream {
    let client = UnixStream::connect(path).expect("it listens");
    client.set_read_timeout(Some(process::PATIENCE)).expect("a socket");
    client.set_write_timeout(Some(process::PATIENCE)).expect("a socket");
    client
}

#[test]
fn config_print_shows_each_value_with_its_origin() {
    let directory = Directory::new("print");
    let file = directory.file("kelvin.toml", "memory = \"128MiB\"\nbacklog = 7\n");
    let output = kelvin(&["config", "print", "--config", &file, "--max-connections", "55"])
        .env("KELVIN_BACKLOG", "8")
        .output()
        .expect("kelvin runs");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    for (line, origin) in [
        ("memory = \"128MiB\"", format!("# file {file}")),
        ("backlog = 8", "# environment KELVIN_BACKLOG".to_owned()),
        ("max_connections = 55", "# flag --max-connections".to_owned()),
        ("listen = [\"127.0.0.1:11211\"]", "# default".to_owned()),
    ] {
        let found = text.lines().find(|found| found.starts_with(line));
        assert!(found.is_some_and(|found| found.ends_with(&origin)), "{line} {origin}:\n{text}");
    }
    // What is printed is a configuration file.
    let again = directory.file("again.toml", &text);
    let output = kelvin(&["config", "check", "--config", &again]).output().expect("kelvin runs");
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn the_file_may_be_named_by_the_environment() {
    let directory = Directory::new("variable");
    let file = directory.file("kelvin.toml", "backlog = 7\n");
    let output =
        kelvin(&["config", "print"]).env("KELVIN_CONFIG", &file).output().expect("kelvin runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("backlog = 7 "));
}

#[test]
fn config_check_fails_with_the_line_of_the_mistake() {
    let directory = Directory::new("check");
    for (text, expected) in [
        ("backlog = 7\nmemroy = \"1GiB\"\n", &["line 2", "unknown field `memroy`"][..]),
        ("memory = \"1MiB\"\n", &["memory 1MiB is too small", "at least 16MiB are needed"]),
        ("listen = [\"nowhere:x\"]\n", &["line 1", "`nowhere:x` is not an address"]),
        ("value_size_max = \"2GiB\"\n", &["value_size_max", "must be from 1KiB to 1GiB"]),
    ] {
        let file = directory.file("kelvin.toml", text);
        for command in [&["config", "check"][..], &["config", "print"], &["serve"]] {
            let mut arguments = command.to_vec();
            arguments.extend(["--config", &file]);
            let output = kelvin(&arguments).output().expect("kelvin runs");
            assert_eq!(output.status.code(), Some(1), "{text}");
            let said = String::from_utf8(output.stderr).expect("text");
            for part in expected {
                assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
            }
        }
    }
}

#[test]
fn flags_are_explained_and_mistakes_in_them_too() {
    let output = kelvin(&["serve", "--help"]).output().expect("kelvin runs");
    let help = String::from_utf8(output.stdout).expect("text");
    for flag in ["--config <FILE>", "--listen <ADDR>", "--memory <SIZE>", "--cpus <LIST>"] {
        assert!(help.contains(flag), "{flag}:\n{help}");
    }
    for (arguments, code, expected) in [
        (&["serve", "--memory", "lots"][..], 1, "flag --memory: `lots` is not a size"),
        (&["serve", "--listen", "1.2.3"], 1, "flag --listen: `1.2.3` is not an address"),
        (&["serve", "--memroy", "1GiB"], 2, "--memory"),
        (&["serve", "--config", "/nonexistent"], 1, "cannot read the configuration file"),
        (&["bake"], 2, "unrecognized subcommand"),
        (&[], 2, "Usage"),
    ] {
        let output = kelvin(arguments).output().expect("kelvin runs");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_misspelt_variable_is_pointed_out() {
    let mut serving = Serving::start_with(&[], |command| {
        command.env("KELVIN_MEMROY", "1GiB");
    });
    serving.wait_for_log("KELVIN_MEMROY");
}

#[test]
fn a_variable_that_is_no_text_is_refused() {
    let path = OsStr::from_bytes(b"/tmp/\xff");
    let mut command = kelvin(&["config", "print"]);
    let output = command.env("KELVIN_UNIX", path).output().expect("kelvin runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("environment KELVIN_UNIX: it is not UTF-8"), "{said}");
}

#[test]
fn an_address_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let address = taken.local_addr().expect("bound").to_string();
    let output = kelvin(&["serve", "--listen", &address]).output().expect("kelvin runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = format!("error: cannot listen on {address}: binding the address: ");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(said.matches("in use").count(), 1, "{said}");
}

#[test]
fn listening_beyond_loopback_is_warned_about() {
    let mut exposed = Serving::start(&["--listen", "0.0.0.0:0"]);
    exposed.wait_for_log("WARN nobody has to log in");
    let mut local = Serving::start(&[]);
    assert!(!local.log_until("listening").contains("WARN"));
}

#[test]
fn a_signal_stops_gracefully_and_a_second_one_at_once() {
    let directory = Directory::new("signals");
    let socket = directory.path("socket");
    for signal in ["TERM", "INT"] {
        let mut serving = Serving::start(&["--unix", &socket]);
        let mut client = connect(&socket);
        client.write_all(b"set a 0 0 1\r\nx\r\nget a\r\n").expect("it reads");
        let mut reply = [0; 29];
        client.read_exact(&mut reply).expect("it replies");
        assert_eq!(&reply, b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
        serving.signal(signal);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).expect("an orderly end");
        assert_eq!(rest, b"");
        assert_eq!(serving.wait(), Some(0));
        assert!(fs::metadata(&socket).is_err(), "its socket goes with it");
    }

    let mut serving = Serving::start(&["--unix", &socket, "--drain-timeout", "1h"]);
    let mut client = connect(&socket);
    let value = "v".repeat(1 << 20);
    let gets = "get big\r\n".repeat(100);
    let request = format!("set big 0 0 {}\r\n{value}\r\n{gets}", value.len());
    client.write_all(request.as_bytes()).expect("it reads");
    client.read_exact(&mut [0; 8]).expect("it replies");
    serving.signal("TERM");
    serving.wait_for_log("stopping when clients are answered");
    std::thread::sleep(Duration::from_millis(100));
    let before = Instant::now();
    serving.signal("TERM");
    assert_eq!(serving.wait(), Some(0));
    assert!(before.elapsed() < Duration::from_secs(10));
}

#[test]
fn nobody_has_to_read_the_log() {
    let mut serving = Serving::start(&[]);
    serving.close_log();
    serving.signal("TERM");
    assert_eq!(serving.wait(), Some(0));
}

#[test]
fn clients_do_not_change_what_is_logged() {
    for command in ["verbosity 0", "verbosity 2"] {
        let directory = Directory::new("log");
        let path = directory.path("socket");
        let mut serving = Serving::start(&["--unix", &path, "--log", "info"]);
        let mut client = connect(&path);
        client.write_all(format!("{command}\r\n").as_bytes()).expect("it listens");
        let mut reply = [0; 4];
        client.read_exact(&mut reply).expect("it answers");
        assert_eq!(&reply, b"OK\r\n");
        serving.signal("TERM");
        let log = serving.log_until("INFO stopped");
        assert!(!log.contains("DEBUG"), "{command}: {log}");
    }
}

#[test]
fn a_socket_left_behind_by_a_killed_server_is_taken_over() {
    let directory = Directory::new("stale");
    let socket = directory.path("socket");
    let mut first = Serving::start(&["--unix", &socket]);
    let second = kelvin(&["serve", "--unix", &socket]).output().expect("kelvin runs");
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another process listens there"), "{said}");
    first.signal("KILL");
    first.wait();
    assert!(fs::metadata(&socket).is_ok());
    let _third = Serving::start(&["--unix", &socket]);
    connect(&socket);
}

#[test]
fn without_descriptors_accepting_pauses_and_goes_on() {
    let directory = Directory::new("descriptors");
    let socket = directory.path("socket");
    let mut serving = Serving::start_with(&["--unix", &socket, "--net-threads", "1"], |command| {
        process::limit_descriptors(command, 40);
    });
    serving.wait_for_log("file descriptors do not suffice");
    let mut clients: Vec<_> = (0..60).map(|_| connect(&socket)).collect();
    serving.wait_for_log("cannot accept connections for now");
    // Those that are in are served.
    let asked = |client: &mut UnixStream| {
        client.write_all(b"mn\r\n").expect("it reads");
        let mut reply = [0; 4];
        client.read_exact(&mut reply).expect("it replies");
        assert_eq!(&reply, b"MN\r\n");
    };
    asked(&mut clients[0]);
    // The others come in when some leave.
    let mut late = clients.split_off(40);
    drop(clients);
    late.iter_mut().for_each(asked);
    serving.wait_for_log("accepting connections again");
}
