//! The login of the text protocol.

use super::servers::{Directory, Program, Server, eventually};

const USERS: &str = "foo:bar\nbaaaz:quux\n";

/// A server with users.
fn guarded(program: &Program) -> Server {
    let dir = Directory::new();
    dir.file("users", USERS);
    Server::start_in(dir, program, &["-Y", "{dir}/users"])
}

/// The programs to be compared.
fn programs() -> Vec<Program> {
    [Program::Kelvin, Program::installed()].into_iter().chain(Program::recent()).collect()
}

#[test]
fn nothing_is_served_before_a_login() {
    for program in programs() {
        let server = guarded(&program);
        let mut conn = server.connect();
        conn.ask(b"get foo\r\n", b"CLIENT_ERROR unauthenticated\r\n");
        conn.ask(b"version\r\n", b"CLIENT_ERROR unauthenticated\r\n");
        conn.ask(b"set k 0 0 7\r\nfoo bab\r\n", b"CLIENT_ERROR authentication failure\r\n");
        conn.ask(
            b"set k 0 0 4\r\nfoo\xff\r\n",
            b"CLIENT_ERROR bad authentication token format\r\n",
        );
        conn.ask(b"set k 0 0 7\r\nfoo barxx", b"CLIENT_ERROR bad command line termination\r\n");
        if program != Program::installed() {
            conn.ask(b"set k 0 0 16385\r\n", b"CLIENT_ERROR auth token too long\r\n");
        }
        conn.ask(b"set any-key 0 0 7\r\nfoo bar\r\n", b"STORED\r\n");
        conn.ask(b"get any-key\r\n", b"END\r\n");
        conn.ask(b"set foo 0 0 2\r\nhi\r\n", b"STORED\r\n");
        conn.ask(b"get foo\r\n", b"VALUE foo 0 2\r\nhi\r\nEND\r\n");
        let mut other = server.connect();
        other.ask(b"get foo\r\n", b"CLIENT_ERROR unauthenticated\r\n");
        other.ask(b"set k 0 0 10\r\nbaaaz quux\r\n", b"STORED\r\n");
        other.ask(b"get foo\r\n", b"VALUE foo 0 2\r\nhi\r\nEND\r\n");
        if program != Program::installed() {
            let mut short = server.connect();
            short.send(b"mn\r\n");
            assert_eq!(short.read_to_close(), b"", "{program:?}");
        }
    }
}

#[test]
fn logins_are_counted() {
    for program in programs() {
        let server = guarded(&program);
        let mut conn = server.connect();
        conn.ask(b"set k 0 0 7\r\nfoo bab\r\n", b"CLIENT_ERROR authentication failure\r\n");
        conn.ask(b"set k 0 0 7\r\nfoo bar\r\n", b"STORED\r\n");
        let (reply, _) = conn.exchange(&[b"stats\r\n"], |got| got.ends_with(b"END\r\n"));
        let text = String::from_utf8_lossy(&reply);
        for line in ["STAT auth_cmds 2\r\n", "STAT auth_errors 1\r\n"] {
            assert!(text.contains(line), "{program:?}: {text}");
        }
    }
}

#[test]
fn users_are_read_again_on_sighup() {
    for program in programs() {
        let server = guarded(&program);
        let login = |user: &str| {
            let value = format!("{user} pass");
            let request = format!("set k 0 0 {}\r\n{value}\r\n", value.len());
            let (reply, _) =
                server.connect().exchange(&[request.as_bytes()], |got| got.ends_with(b"\n"));
            reply == b"STORED\r\n"
        };
        assert!(!login("new"));
        server.dir().file("users", "new:pass\n");
        server.signal("HUP");
        eventually("the new user can log in", || login("new"));
        server.dir().file("users", "newer:pass\nnobody\n");
        server.signal("HUP");
        server.dir().file("users", "newest:pass\n");
        server.signal("HUP");
        eventually("the newest user can log in", || login("newest"));
        assert!(!login("new") && !login("newer"), "{program:?}");
    }
}

#[test]
fn a_file_that_is_wrong_is_refused_at_start() {
    let dir = Directory::new();
    let wrong = dir.file("wrong", "nobody\n");
    let missing = dir.path("missing");
    for program in programs() {
        for path in [&wrong, &missing] {
            let (code, _, said) = program.run(&["-Y", path, "-p", "-1", "-l", "127.0.0.1"]);
            assert_eq!(code, Some(1), "{program:?}: {said}");
            assert!(!said.is_empty());
        }
        for options in [&["-B", "binary"][..], &["-U", "11211"]] {
            let path = dir.file("users", USERS);
            let options = [&["-Y", &path], options].concat();
            let (code, _, said) = program.run(&options);
            assert_eq!(code, Some(64), "{program:?} {options:?}: {said}");
        }
    }
}
