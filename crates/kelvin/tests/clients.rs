//! Real memcached clients store and read through kelvin, over TCP and over a Unix socket.
//!
//! Each client is driven by a program in `clients/` that prints `ok FEATURE` for every feature that
//! works. Python is the one that `KELVIN_TEST_PYTHON` names, else an environment that the test
//! makes below the target directory. A machine without Python or Go fails the test.

mod harness;

use harness::log_directory::{crowd_out, stat};
use harness::server::{Io, Server, Serving, Table};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What clients are driven through.
const FEATURES: [&str; 17] = [
    "add",
    "append",
    "cas",
    "decr",
    "delete",
    "expiry",
    "flush_all",
    "gat",
    "get",
    "incr",
    "large_values",
    "multi_get",
    "noreply",
    "prepend",
    "replace",
    "set",
    "touch",
];

/// What a client does not offer.
const ABSENT: [(&str, &str); 3] =
    [("pylibmc", "gat"), ("pylibmc, binary", "gat"), ("gomemcache", "noreply")];

/// What a durable table has not, as `docs/memcached.md` says.
const NOT_DURABLE: [&str; 1] = ["flush_all"];

/// Runs against a table that spills until one has lost nothing, or needs nothing of that.
const ATTEMPTS: usize = 5;

/// Between two times that a table that spills has its memory taken for something else.
const PAUSE: Duration = Duration::from_millis(100);

#[test]
fn pymemcache_is_served() {
    drive("pymemcache", || python("drive_pymemcache.py"));
}

#[test]
fn pylibmc_is_served() {
    drive("pylibmc", || python("drive_pylibmc.py"));
}

#[test]
fn pylibmc_is_served_in_the_binary_protocol() {
    drive("pylibmc, binary", || {
        let mut command = python("drive_pylibmc.py");
        command.arg("binary");
        command
    });
}

#[test]
fn gomemcache_is_served() {
    drive("gomemcache", go);
}

/// Runs a client's program against servers on both drivers, from memory alone and from tables with
/// a disk.
fn drive(client: &str, program: impl Fn() -> Command) {
    for io in Io::BOTH {
        drive_on(Serving::from_memory(io), client, &program);
        if harness::under_test().is_none() {
            drive_on(Serving::from_disk(io), client, &program);
            drive_on(Serving::spilling(io), client, &program);
        }
    }
}

/// Runs it against both sockets of a server, one after the other. Against one of them from the
/// disk, where nothing would remove what the first run has stored: the network's on io_uring.
fn drive_on(serving: Serving, client: &str, program: impl Fn() -> Command) {
    for attempt in 1.. {
        match drive_once(serving, client, &program) {
            Ok(()) => return,
            // A table that spills may lose a record where an eviction would have to wait.
            Err((what, has_lost)) => assert!(has_lost && attempt < ATTEMPTS, "{what}"),
        }
    }
}

/// What is wrong, and whether the table has lost a record on its way to the disk.
fn drive_once(
    serving: Serving,
    client: &str,
    program: &impl Fn() -> Command,
) -> Result<(), (String, bool)> {
    let left_out: &[&str] = if serving.table.is_durable() { &NOT_DURABLE } else { &[] };
    let server = Server::kelvin(serving.of_large_values(), &[]);
    let mut addresses = vec![server.addr().to_string(), server.unix_path().display().to_string()];
    match (serving.table.has_disk(), serving.io) {
        (false, _) => {}
        (true, Io::Uring) => addresses.truncate(1),
        (true, Io::Epoll) => drop(addresses.remove(0)),
    }
    for address in addresses {
        let mut command = program();
        command.arg(&address).env("KELVIN_LEFT_OUT", left_out.join(","));
        let mut run = || command.output();
        let output = match serving.table {
            Table::Spill => crowded(&server, run),
            Table::Volatile | Table::Durable => run(),
        };
        let output =
            output.unwrap_or_else(|e| panic!("the program for {client} does not start: {e}"));
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let works: BTreeSet<&str> = text.lines().filter_map(|l| l.strip_prefix("ok ")).collect();
        let offered = FEATURES.into_iter().filter(|f| !ABSENT.contains(&(client, *f)));
        let served = offered.filter(|f| !left_out.contains(f));
        if !output.status.success() || works != served.collect() {
            let what = format!("{client} at {address}, {serving:?}: {works:?}\n{text}{errors}");
            let lost = || stat(&mut server.connect(), "table_spills_lost");
            return Err((what, serving.table == Table::Spill && lost() > 0));
        }
    }
    Ok(())
}

/// Does something while others want the memory that its records have, again and again.
fn crowded<T>(server: &Server, run: impl FnOnce() -> T) -> T {
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                crowd_out(server);
                thread::sleep(PAUSE);
            }
        });
        let result = run();
        has_ended.store(true, Ordering::Relaxed);
        result
    })
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

fn python(script: &str) -> Command {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let python = PYTHON.get_or_init(|| match std::env::var_os("KELVIN_TEST_PYTHON") {
        Some(python) => python.into(),
        None => made_environment(),
    });
    let mut command = Command::new(python);
    // `-B`: nothing is written beside the sources.
    command.arg("-B").arg(directory().join(script));
    command
}

/// An environment with the pinned clients, kept between runs while the pins stay.
fn made_environment() -> PathBuf {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let python = environment.join("bin/python");
    let requirements = directory().join("requirements.txt");
    let wanted = fs::read(&requirements).expect("the requirements are in the repository");
    let installed = environment.join("requirements.txt");
    if fs::read(&installed).is_ok_and(|text| text == wanted) {
        return python;
    }
    run(
        Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment),
        "python3 with venv is needed: `cargo xtask setup` installs it",
    );
    run(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
            .arg(&requirements),
        "the clients could not be installed: pylibmc needs libmemcached-dev and a C compiler, \
         which `cargo xtask setup` installs",
    );
    fs::write(installed, wanted).expect("the target directory can be written");
    python
}

fn go() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gomemcache");
        run(
            Command::new("go")
                .args(["build", "-buildvcs=false", "-mod=readonly", "-o"])
                .arg(&program)
                .arg(".")
                .current_dir(directory().join("go")),
            "Go is needed to build the driver of gomemcache: `cargo xtask setup` installs it",
        );
        program
    });
    Command::new(program)
}

fn run(command: &mut Command, otherwise: &str) {
    let status = command.stdin(Stdio::null()).status();
    assert!(status.as_ref().is_ok_and(|s| s.success()), "{otherwise} ({status:?})");
}
