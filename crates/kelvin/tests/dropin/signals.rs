//! What ends a server, and how it ends then.

use super::servers::{Directory, Program, Server, eventually, on_both};

#[test]
fn signals_end_it_well() {
    for name in ["TERM", "INT", "USR1"] {
        on_both(&["-s", "{dir}/socket"], |server| {
            server.ask(b"set key 0 0 1\r\nv\r\n", b"STORED\r\n");
            let mut idle = server.connect();
            server.signal(name);
            let code = server.wait().and_then(|status| status.code());
            assert_eq!(code, Some(0), "SIG{name}");
            assert_eq!(idle.read_to_close(), b"");
            code
        });
    }
}

#[test]
fn a_hangup_reads_the_users_again_and_ends_nothing() {
    on_both(&["-s", "{dir}/socket"], |server| {
        server.signal("HUP");
        server.ask(b"set key 0 0 1\r\nv\r\n", b"STORED\r\n");
    });
    let dir = Directory::new();
    dir.file("users", "one:first\n");
    let options = ["-Y", "{dir}/users", "-s", "{dir}/socket"];
    let server = Server::start_in(dir, &Program::Kelvin, &options);
    let login = |password: &str| {
        let request = format!("set login 0 0 {}\r\none {password}\r\n", password.len() + 4);
        let (reply, _) =
            server.connect().exchange(&[request.as_bytes()], |got| got.ends_with(b"\r\n"));
        reply == b"STORED\r\n"
    };
    assert!(login("first") && !login("second"));
    server.dir().file("users", "one:second\n");
    server.signal("HUP");
    eventually("the new password is the right one", || login("second"));
    // A file that cannot be understood changes nothing.
    server.dir().file("users", "nobody");
    server.signal("HUP");
    eventually("it says so", || server.log().contains("the users stay who they were"));
    assert!(login("second") && !login("first"));
}

#[test]
fn shutdown_ends_it_if_allowed() {
    for command in [&b"shutdown\r\n"[..], b"shutdown graceful\r\n"] {
        on_both(&["-A", "-s", "{dir}/socket"], |server| {
            server.connect().send(command);
            server.wait().and_then(|status| status.code())
        });
    }
    on_both(&["-s", "{dir}/socket"], |server| {
        let words = match server.program() {
            Program::Kelvin => "SERVER_ERROR: shutdown not enabled\r\n",
            Program::Memcached(_) => "ERROR: shutdown not enabled\r\n",
        };
        server.ask(b"shutdown\r\n", words.as_bytes());
    });
}

#[test]
fn verbosity_says_what_is_logged_from_then_on() {
    // Whether changes of state are logged, and whether each end of a connection is.
    for (options, command, tells) in [
        (&[][..], "", [false, false]),
        (&[], "verbosity 1", [true, false]),
        (&[], "verbosity 2", [true, true]),
        (&["-v"], "", [true, false]),
        (&["-v"], "verbosity 0", [false, false]),
        (&["-v"], "verbosity 2", [true, true]),
        (&["-vv"], "", [true, true]),
        (&["-vv"], "verbosity 1", [true, false]),
        (&["-vv"], "verbosity 0", [false, false]),
    ] {
        let mut server = Server::start(&Program::Kelvin, options);
        // It ends after the change, with the server at the latest.
        let mut conn = server.connect();
        match command {
            "" => conn.ask(b"mn\r\n", b"MN\r\n"),
            _ => conn.ask(format!("{command}\r\n").as_bytes(), b"OK\r\n"),
        }
        server.signal("TERM");
        assert!(server.wait().is_some_and(|status| status.success()));
        let log = server.log();
        let told = ["INFO stopped", "a connection has ended"].map(|line| log.contains(line));
        assert_eq!(told, tells, "{options:?} {command}: {log}");
    }
}

#[test]
fn verbosity_is_shown() {
    for options in [&[][..], &["-v"], &["-vvv"]] {
        on_both(options, |server| {
            let at_start = server.stat("settings", "verbosity");
            server.ask(b"verbosity 1\r\n", b"OK\r\n");
            server.ask(b"verbosity 9 noreply\r\nmn\r\n", b"MN\r\n");
            (at_start, server.stat("settings", "verbosity"))
        });
    }
}
