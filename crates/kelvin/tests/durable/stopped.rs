//! A server that is stopped in order keeps everything, and the next one starts with it.

use std::time::{Duration, Instant};

use crate::{
    IO,
    harness::{
        conn::Conn,
        log_directory::{Directory, record, set, stat},
    },
};

const END_MAX: Duration = Duration::from_secs(20);

#[test]
fn everything_is_there_after_a_stop_in_order() {
    for mode in ["safe", "async"] {
        let directory = Directory::new();
        let mut server = directory.serve(IO, &["--write-mode", mode]);
        let mut conn = server.connect();
        let value = vec![b'v'; 3000];
        for key in 0..2000 {
            let request = [&set(&format!("k{key}"), key, &value)[..], b"mn\r\n"].concat();
            conn.ask(&request, b"STORED\r\nMN\r\n");
        }
        conn.ask(
            b"set soon 0 1 1\r\n1\r\nset later 7 1000 5\r\nlater\r\n",
            b"STORED\r\nSTORED\r\n",
        );
        conn.ask(b"delete k7\r\nincr none 1\r\n", b"DELETED\r\nNOT_FOUND\r\n");
        let told = |conn: &mut Conn| {
            let (reply, _) = conn.exchange(&[b"mg k8 c f s\r\n"], |got| got.ends_with(b"\r\n"));
            reply
        };
        let before = told(&mut conn);
        server.terminate();
        let ended = server.wait_for_end(END_MAX).expect("it ends");
        assert!(ended.success(), "{mode}: {ended}");
        drop(server);
        let begun = Instant::now();
        let server = directory.serve(IO, &[]);
        assert!(begun.elapsed() < Duration::from_secs(10), "the start takes long");
        let mut conn = server.connect();
        // One of them may be a tombstone.
        let entries = stat(&mut conn, "log_entries");
        assert!((2000..=2002).contains(&entries), "{entries} entries");
        std::thread::sleep(Duration::from_millis(1100));
        conn.ask(b"get k7 soon later\r\n", b"VALUE later 7 5\r\nlater\r\nEND\r\n");
        for key in (0..2000).filter(|key| *key != 7) {
            let expected = [&record(&format!("k{key}"), key, &value)[..], b"END\r\n"].concat();
            conn.ask(format!("get k{key}\r\n").as_bytes(), &expected);
        }
        assert_eq!(told(&mut conn), before, "token and flags stay");
    }
}
