//! A table whose disk is full, and others.

use std::path::Path;

use crate::{
    harness::{
        log_directory::{Directory, make_log},
        server::Io,
        small_disk::on_small_disk,
    },
    serving::{Section, ask, serve},
};

const VALUE_BYTES: usize = 16 << 10;

#[test]
fn a_full_disk_of_one_table_does_not_stop_another() {
    let name = "a_full_disk_of_one_table_does_not_stop_another";
    on_small_disk(module_path!(), name, "24m", fill);
}

fn fill(path: &Path) {
    for io in Io::BOTH {
        let directory = Directory::new();
        let full = path.join(format!("{io:?}"));
        make_log(&full);
        let more = format!("directory = {full:?}").leak();
        let sections = [
            Section { more, ..Section::new("full", "f:", "durable") },
            Section::new("other", "o:", "durable"),
            Section::new("fast", "m:", "volatile"),
        ];
        let server = serve(&directory, io, "volatile", &sections, &[]);
        let conn = &mut server.connect();
        let value = "v".repeat(VALUE_BYTES);
        let set = |key: &str| format!("set {key} 0 0 {VALUE_BYTES}\n{value}\n");
        let mut stored = 0;
        loop {
            let reply = ask(conn, &set(&format!("f:{stored}")));
            if reply != "STORED\n" {
                assert_eq!(reply, "SERVER_ERROR the disk is full\n");
                break;
            }
            stored += 1;
            assert!(stored < 10_000, "the disk does not become full");
        }
        for at in 0..200 {
            assert_eq!(ask(conn, &set(&format!("o:{at}"))), "STORED\n", "another's disk is full");
            assert_eq!(ask(conn, &set(&format!("m:{at}"))), "STORED\n");
        }
        // What the full one has is there.
        for at in [0, stored / 2, stored - 1] {
            let got = ask(conn, &format!("get o:{at} f:{at} m:none\n"));
            assert!(got.contains(&format!("VALUE f:{at} ")), "{at} of {stored} is lost");
        }
        drop(server);
        std::fs::remove_dir_all(&full).expect("it has ended");
    }
}
