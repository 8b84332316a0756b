//! A directory for a log, and servers that have their durable table there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{
    conn::Conn,
    server::{Io, Server},
};

/// The least memory for records that there is: what tests store is many times as much.
pub(crate) const MEMORY: &str = "2MiB";

/// What goes with it.
pub(crate) const OF_MEMORY: [&str; 4] = ["--memory-use", "records", "--value-size-max", "256KiB"];

/// Segments of logs, which have seven of them when they are new.
const SEGMENT: &str = "1MiB";

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// It is gone when the value is dropped.
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// With a new log of short segments, which takes little of the disk.
    pub(crate) fn with_log() -> Self {
        let directory = Self::new();
        make_log(&directory.0);
        directory
    }

    pub(crate) fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("durable-{}-{number}", std::process::id());
        // Where there is a file system that takes direct I/O.
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("a directory can be made");
        Self(path)
    }

    /// A server that has its table there.
    pub(crate) fn serve(&self, io: Io, arguments: &[&str]) -> Server {
        serve(&self.0, io, arguments)
    }

    /// The same, which may have yet to open the log.
    pub(crate) fn begin(&self, io: Io, arguments: &[&str]) -> Server {
        begin(&self.0, io, arguments)
    }

    /// The same, that takes values of so many bytes.
    pub(crate) fn serve_values(&self, io: Io, size_max: &str, arguments: &[&str]) -> Server {
        serve_values(&self.0, io, size_max, arguments)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes a log of strings with short segments, in a directory that is made unless it is there.
pub(crate) fn make_log(path: &Path) {
    fs::create_dir_all(path).expect("a directory can be made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    command.args(["log", "load", "--quiet", "--create", "strings", "--segment", SEGMENT]).arg(path);
    let output = command.stdin(Stdio::null()).output().expect("kelvin runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A server over a log, with little memory and two threads. It has opened the log: that is later
/// than it listens.
pub(crate) fn serve(path: &Path, io: Io, arguments: &[&str]) -> Server {
    opened(begin(path, io, arguments))
}

fn serve_values(path: &Path, io: Io, size_max: &str, arguments: &[&str]) -> Server {
    opened(begin_with(path, io, size_max, arguments))
}

fn opened(server: Server) -> Server {
    server.connect().ask(b"mn\r\n", b"MN\r\n");
    server
}

fn begin(path: &Path, io: Io, arguments: &[&str]) -> Server {
    begin_with(path, io, "256KiB", arguments)
}

fn begin_with(path: &Path, io: Io, size_max: &str, arguments: &[&str]) -> Server {
    let path = path.to_str().expect("a path of the tests' own");
    let [use_name, memory_use, size_name, _] = OF_MEMORY;
    let own = [use_name, memory_use, size_name, size_max];
    let own = own.into_iter().chain(["--net-threads", "2", "--data-dir", path]);
    let all: Vec<&str> = own.chain(arguments.iter().copied()).collect();
    Server::kelvin_with_memory(io, MEMORY, &all)
}

/// What `stats` says under a name, a number.
pub(crate) fn stat(conn: &mut Conn, name: &str) -> u64 {
    let (reply, _) = conn.exchange(&[b"stats\r\n"], |got| got.ends_with(b"END\r\n"));
    let text = String::from_utf8(reply).expect("text");
    let line = format!("STAT {name} ");
    let found = text.lines().find_map(|it| it.strip_prefix(&line));
    found.unwrap_or_else(|| panic!("no {name}: {text}")).parse().expect("a number")
}

/// `set` of a value.
pub(crate) fn set(key: &str, flags: u32, value: &[u8]) -> Vec<u8> {
    let head = format!("set {key} {flags} 0 {}\r\n", value.len());
    [head.as_bytes(), value, b"\r\n"].concat()
}

/// The record of a key in a retrieval.
pub(crate) fn record(key: &str, flags: u32, value: &[u8]) -> Vec<u8> {
    let head = format!("VALUE {key} {flags} {}\r\n", value.len());
    [head.as_bytes(), value, b"\r\n"].concat()
}
