//! Which driver serves: by io_uring, or without it where it is forbidden.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::process::{Directory, Serving, kelvin};

/// Runs `work` on a thread whose children may not make the system call `number`: the system says
/// EPERM, as it does in containers.
fn without(number: libc::c_long, work: impl FnOnce() + Send + 'static) {
    let forbid = move || {
        let rules = [(number, Vec::new())].into();
        let (others, these) = (SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32));
        let arch = TargetArch::try_from(std::env::consts::ARCH).expect("a known processor");
        let filter = SeccompFilter::new(rules, others, these, arch).expect("a filter");
        let program = BpfProgram::try_from(filter).expect("a filter");
        seccompiler::apply_filter(&program).expect("a thread may forbid itself something");
        work();
    };
    if let Err(panic) = std::thread::spawn(forbid).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Stores, reads back, and asks which driver did it and why.
fn driver_of(socket: &str) -> (String, String) {
    let mut client = UnixStream::connect(socket).expect("it listens");
    client.set_read_timeout(Some(crate::process::PATIENCE)).expect("a socket");
    client.write_all(b"set a 0 0 1\r\nx\r\nget a\r\nstats\r\n").expect("it reads");
    let (mut reply, mut lines) = (String::new(), BufReader::new(client));
    while reply.matches("END\r\n").count() < 2 {
        let count = lines.read_line(&mut reply).expect("it replies");
        assert!(count > 0, "the server has closed after {reply}");
    }
    assert!(reply.starts_with("STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"), "{reply}");
    let statistic = |name: &str| {
        let line = reply.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {reply}")).to_owned()
    };
    (statistic("io_driver"), statistic("io_driver_reason"))
}

#[test]
fn where_io_uring_is_forbidden_auto_serves_on_epoll_and_says_so() {
    without(libc::SYS_io_uring_setup, || {
        let directory = Directory::new("forbidden");
        let socket = directory.path("socket");
        let flags = ["--listen", "127.0.0.1:0", "--unix", &socket, "--io"];
        let mut serving = Serving::start(&[&flags[..], &["auto"]].concat());
        let log = serving.log_until("listening");
        assert!(log.contains("driver=\"epoll\" reason=\"no io_uring: "), "{log}");
        assert!(log.contains("seccomp"), "{log}");
        let (driver, reason) = driver_of(&socket);
        assert_eq!(driver, "epoll");
        assert!(
            reason.starts_with("no_io_uring:_setting_it_up:_Operation_not_permitted"),
            "{reason}"
        );

        // Who insists on it is told why not.
        let output = kelvin(&["serve", "--listen", "127.0.0.1:0", "--io", "uring"]).output();
        let output = output.expect("kelvin runs");
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("setting it up: Operation not permitted"), "{said}");
    });
}

#[test]
fn a_server_that_cannot_start_keeps_the_records_that_it_has_read() {
    without(libc::SYS_io_uring_setup, || {
        let directory = Directory::new("kept");
        let (socket, file) = (directory.path("socket"), directory.path("records"));
        let flags = ["--unix", &socket, "--restart-file", &file, "--io"];
        let serve = || Serving::start(&[&flags[..], &["epoll"]].concat());
        let mut serving = serve();
        driver_of(&socket);
        serving.signal("TERM");
        assert_eq!(serving.wait(), Some(0));
        let arguments = [&["serve"][..], &flags[..], &["uring"]].concat();
        let output = kelvin(&arguments).output().expect("kelvin runs");
        assert_eq!(output.status.code(), Some(1));
        let serving = serve();
        let mut client = UnixStream::connect(&socket).expect("it listens");
        client.set_read_timeout(Some(crate::process::PATIENCE)).expect("a socket");
        client.write_all(b"get a\r\n").expect("it reads");
        let mut reply = [0; b"VALUE a 0 1\r\nx\r\nEND\r\n".len()];
        client.read_exact(&mut reply).expect("the record is there");
        assert_eq!(&reply, b"VALUE a 0 1\r\nx\r\nEND\r\n");
        drop(serving);
    });
}

#[test]
fn where_a_ring_can_be_set_up_and_not_used_auto_serves_on_epoll_and_says_so() {
    for (number, failed) in [
        (libc::SYS_io_uring_register, "registering_buffers"),
        (libc::SYS_io_uring_enter, "an_empty_operation"),
    ] {
        without(number, move || {
            let directory = Directory::new(failed);
            let socket = directory.path("socket");
            let flags = ["--listen", "127.0.0.1:0", "--unix", &socket, "--io", "auto"];
            let _serving = Serving::start(&flags);
            let (driver, reason) = driver_of(&socket);
            assert_eq!(driver, "epoll");
            let expected = format!("no_io_uring:_{failed}:_Operation_not_permitted");
            assert!(reason.starts_with(&expected), "{reason}");
        });
    }
}

#[test]
fn the_driver_is_the_one_asked_for_or_else_what_suits_the_listeners() {
    const TCP: [&str; 2] = ["--listen", "127.0.0.1:0"];
    for (io, listen, driver, reason) in [
        ("uring", &[][..], "io_uring", "asked_for"),
        ("epoll", &TCP, "epoll", "asked_for"),
        ("auto", &TCP, "io_uring", "all_that_is_needed_works"),
        ("auto", &[], "epoll", "better_over_Unix_sockets"),
    ] {
        let directory = Directory::new("asked");
        let socket = directory.path("socket");
        let flags = [&["--unix", &socket, "--io", io][..], listen].concat();
        let _serving = Serving::start(&flags);
        assert_eq!(driver_of(&socket), (driver.to_owned(), reason.to_owned()), "{flags:?}");
    }
}
