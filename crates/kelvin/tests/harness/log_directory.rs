//! A directory for a log, and servers that have their durable table there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    conn::Conn,
    own_name,
    server::{Io, Server},
};

/// The least memory for records that there is: what tests store is many times as much.
const MEMORY: &str = "2MiB";

/// Steps of the lengths of small values that take all memory, so that there are some of each size
/// of slot; beside them, values of more than a slot, and in pieces.
const CROWD_STEP_BYTES: usize = 12;
const CROWD_SMALL_MAX_BYTES: usize = 420;
const CROWD_OTHERS_BYTES: [usize; 2] = [4085, 70_000];
/// Bytes of records of a length: in sum, more than the memory.
const CROWD_BYTES_EACH: usize = 140_000;
/// Of these so many at a time, that none is evicted faster than the disk takes it.
const CROWD_TOGETHER_BYTES: usize = 200_000;
/// What a record has beside its value, about.
const HEADER_BYTES: usize = 40;

/// Longer than the disk takes for what waits for it.
const SETTLED_MAX: Duration = Duration::from_secs(30);

/// Segments of logs, which have seven of them when they are new.
const SEGMENT: &str = "1MiB";

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
        // Where there is a file system that takes direct I/O.
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(own_name("durable"));
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
    let own = ["--memory-use", "records", "--value-size-max", size_max, "--net-threads", "2"];
    let own = own.into_iter().chain(["--data-dir", path]);
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

/// Waits until no record waits for the disk that it is spilled to.
pub(crate) fn settle(conn: &mut Conn) {
    let deadline = Instant::now() + SETTLED_MAX;
    while stat(conn, "table_spills_waiting") > 0 {
        assert!(Instant::now() < deadline, "it is not written");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Has a table that spills keep nothing in memory of what it was told before, and waits until the
/// disk has it. The lengths matter: a record goes for others of about its own.
pub(crate) fn crowd_out(server: &Server) {
    let mut conn = server.connect();
    let small = (1..CROWD_SMALL_MAX_BYTES).step_by(CROWD_STEP_BYTES);
    for bytes in small.chain(CROWD_OTHERS_BYTES) {
        let value = "c".repeat(bytes);
        let count = CROWD_BYTES_EACH / (bytes + HEADER_BYTES) + 2;
        let keys: Vec<usize> = (0..count).collect();
        for some in keys.chunks((CROWD_TOGETHER_BYTES / (bytes + HEADER_BYTES)).max(1)) {
            let set = |key| format!("set crowd{bytes}.{key} 0 0 {bytes} noreply\r\n{value}\r\n");
            let request = some.iter().map(set).collect::<String>() + "mn\r\n";
            conn.exchange(&[request.as_bytes()], |got| got.ends_with(b"MN\r\n"));
            settle(&mut conn);
        }
    }
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
