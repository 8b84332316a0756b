//! Debian's package: its scripts and its configuration start kelvin in memcached's place.
//!
//! The scripts say `/usr/bin/memcached`. In a mount namespace of its own a process has kelvin at
//! that path, and the configuration with another port at the configuration's.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::servers::{Directory, eventually, is_root, signal};
use crate::harness::conn::Conn;

const MEMCACHED: &str = "/usr/bin/memcached";
const CONFIGURATION: &str = "/etc/memcached.conf";
const SCRIPTS: &str = "/usr/share/memcached/scripts";

/// Why the test cannot run here, if it cannot.
fn hindrance() -> Option<&'static str> {
    let files = [MEMCACHED, CONFIGURATION, SCRIPTS];
    if !is_root() {
        return Some("only the superuser has mount namespaces");
    }
    if files.iter().any(|file| !Path::new(file).exists()) {
        return Some("Debian's package memcached is not installed");
    }
    let tried = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    match tried {
        Ok(status) if status.success() => None,
        _ => Some("the system allows no mount namespaces"),
    }
}

/// The packaged configuration with another port, and a pid file in the test's directory.
fn configuration(dir: &Directory, port: u16) -> String {
    let packaged = fs::read_to_string(CONFIGURATION).expect("it can be read");
    let lines = packaged.lines().map(|line| match line.split_whitespace().next() {
        Some("-p") => format!("-p {port}"),
        Some("-P") => format!("-P {}", dir.path("pid")),
        _ => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}

/// Runs a script of the package with kelvin in memcached's place.
fn run(dir: &Directory, script: &str) -> Child {
    let kelvin = env!("CARGO_BIN_EXE_kelvin");
    let commands = format!(
        "mount --bind '{kelvin}' {MEMCACHED} && mount --bind '{}' {CONFIGURATION} && exec {script}",
        dir.path("memcached.conf")
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &commands]).stdin(Stdio::null());
    command.spawn().expect("unshare runs")
}

fn free_port() -> u16 {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    probe.local_addr().expect("a bound socket has an address").port()
}

/// Starts the server by a script, talks to it as user `memcache`, and ends it.
fn starts_by(script: impl Fn(&Directory) -> String) {
    if let Some(why) = hindrance() {
        eprintln!("skipped: {why}");
        return;
    }
    let dir = Directory::new();
    dir.open_to_all();
    let port = free_port();
    dir.file("memcached.conf", configuration(&dir, port));
    let mut child = run(&dir, &script(&dir));
    let address = (Ipv4Addr::LOCALHOST, port);
    eventually("it listens", || TcpStream::connect(address).is_ok());
    let mut conn = Conn::tcp(TcpStream::connect(address).expect("it listens"));
    conn.ask(b"set key 0 0 1\r\nx\r\nget key\r\n", b"STORED\r\nVALUE key 0 1\r\nx\r\nEND\r\n");
    let mut pid = 0;
    eventually("there is a pid file", || {
        pid =
            fs::read_to_string(dir.path("pid")).map_or(0, |text| text.trim().parse().unwrap_or(0));
        pid != 0
    });
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let users = fs::read_to_string("/etc/passwd").expect("there are users");
    let user = users.lines().find(|line| line.starts_with("memcache:")).expect("Debian's user");
    let uid = user.split(':').nth(2).expect("it has a number");
    assert!(status.contains(&format!("Uid:\t{uid}\t{uid}")), "{status}");
    let program = fs::read_link(format!("/proc/{pid}/exe")).expect("it is a program");
    assert!(program.ends_with("memcached") || program.ends_with("kelvin"), "{program:?}");
    signal(pid, "TERM");
    // Nobody may wait for it: then it stays as a zombie.
    eventually("it ends", || {
        fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
    });
    let status = child.wait().expect("it has been started");
    assert!(status.success(), "{status}");
}

#[test]
fn the_systemd_unit_starts_it() {
    starts_by(|_| format!("{SCRIPTS}/systemd-memcached-wrapper {CONFIGURATION}"));
}

#[test]
fn the_init_script_starts_it() {
    starts_by(|dir| format!("{SCRIPTS}/start-memcached {CONFIGURATION} {}", dir.path("pid")));
}
