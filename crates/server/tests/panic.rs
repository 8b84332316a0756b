//! What becomes of a server in which a data thread panics.
//!
//! Nothing that a client can send makes one panic, so a log that panics does it: a data thread logs
//! the end of each connection. As a log is the whole process's, each case is a process of its own:
//! this program, run once more.

use std::{
    net::{SocketAddr, TcpStream},
    os::unix::process::ExitStatusExt,
    process::{Command, Output},
};

use base::{clock::Clock, size::ByteSize};
use server::{
    Error, Running,
    config::{Config, ListenAddress, Threads},
};
use tracing::{Event, Metadata, Subscriber, span};

/// Names the case in the environment of a process that is to be one.
const CASE: &str = "PANIC_CASE";

/// The number of SIGABRT.
const ABORTED: i32 = 6;

/// A log that panics when a data thread writes to it.
struct Trap;

impl Subscriber for Trap {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        let thread = std::thread::current();
        assert!(!thread.name().is_some_and(|name| name.starts_with("data-")), "the trap");
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Starts a server, lets a client come and go, and waits for the end.
fn serve_until_it_panics() -> Result<(), Error> {
    tracing::subscriber::set_global_default(Trap).expect("the first log");
    let config = Config {
        listen: vec![ListenAddress::Address(SocketAddr::from(([127, 0, 0, 1], 0)))],
        memory: ByteSize(64 << 20),
        net_threads: Threads::Count(2),
        ..Config::default()
    };
    let running = Running::start(&config, &Clock::system())?;
    drop(TcpStream::connect(running.addresses()[0]).expect("it listens"));
    running.wait()
}

fn run_case(name: &str) -> Output {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args(["--exact", name, "--nocapture"]).env(CASE, name);
    command.output().expect("it can be run again")
}

fn is_case(name: &str) -> bool {
    std::env::var(CASE).is_ok_and(|case| case == name)
}

#[test]
fn a_program_that_serves_is_aborted() {
    const NAME: &str = "a_program_that_serves_is_aborted";
    if is_case(NAME) {
        server::abort_on_panic();
        // Reaching the end, one way or the other, is what the parent does not expect.
        println!("not aborted: {:?}", serve_until_it_panics());
        return;
    }
    let output = run_case(NAME);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(ABORTED), "{said}");
    assert!(said.contains("'data-0'") && said.contains("the trap"), "{said}");
}

#[test]
fn otherwise_the_server_ends_with_an_error_that_names_the_thread() {
    const NAME: &str = "otherwise_the_server_ends_with_an_error_that_names_the_thread";
    if is_case(NAME) {
        let error = serve_until_it_panics().expect_err("a thread panicked");
        println!("ended: {error}");
        return;
    }
    let output = run_case(NAME);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("ended: the thread data-0 panicked"), "{said}");
}
