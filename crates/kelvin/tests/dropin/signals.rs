//! What ends a server, and how it ends then.

use crate::servers::{Program, on_both};

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
