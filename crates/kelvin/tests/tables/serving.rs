//! A server with tables, and what it is asked.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::harness::{
    conn::Conn,
    log_directory::{Directory, make_log},
    server::{Io, Server},
};

/// Whatever is to end ends before.
const END_MAX: Duration = Duration::from_secs(20);

/// Little memory, for each table.
const MEMORY: &str = "4MiB";

/// One table of a server.
#[derive(Clone, Copy)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) prefix: &'static str,
    pub(crate) kind: &'static str,
    /// More settings.
    pub(crate) more: &'static str,
}

impl Section {
    pub(crate) const fn new(name: &'static str, prefix: &'static str, kind: &'static str) -> Self {
        Self { name, prefix, kind, more: "" }
    }

    fn text(&self) -> String {
        let Self { name, prefix, kind, more } = self;
        format!(
            "[[table]]\nname = \"{name}\"\nprefix = \"{prefix}\"\nkind = \"{kind}\"\n\
             memory = \"{MEMORY}\"\n{more}\n"
        )
    }
}

/// Where tables lie.
pub(crate) fn data(directory: &Directory) -> PathBuf {
    directory.path().join("data")
}

/// Where a table lies.
pub(crate) fn home_of(directory: &Directory, name: &str) -> PathBuf {
    data(directory).join("tables").join(name)
}

/// A configuration file with this behind the place of tables.
fn configuration(directory: &Directory, text: &str) -> PathBuf {
    let file = directory.path().join("kelvin.toml");
    let text = format!("data_dir = {:?}\n{text}", data(directory));
    fs::write(&file, text).expect("a directory of the test's own");
    file
}

/// What a server says that does not start with one table, which has these settings.
pub(crate) fn refusal(directory: &Directory, settings: &str) -> String {
    let text = format!("table_kind = \"volatile\"\n[[table]]\n{settings}\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]);
    let output = command.arg(configuration(directory, &text)).output().expect("kelvin runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{settings} are served: {said}");
    said
}

/// A server with these tables, in a directory, beside a default one of the kind `default`.
pub(crate) fn serve(
    directory: &Directory,
    io: Io,
    default: &str,
    sections: &[Section],
    arguments: &[&str],
) -> Server {
    if default == "durable" {
        make_log_once(&data(directory), "strings");
    }
    for section in sections.iter().filter(|it| it.kind == "durable" && it.more.is_empty()) {
        make_log_once(&home_of(directory, section.name), "strings");
    }
    let sections: String = sections.iter().map(Section::text).collect();
    let file = configuration(directory, &format!("table_kind = \"{default}\"\n\n{sections}"));
    let file = file.to_str().expect("a path of the tests' own");
    let own = ["--memory-use", "records", "--net-threads", "2", "--config", file];
    let server = Server::kelvin_with_memory(io, MEMORY, &[&own, arguments].concat());
    // It listens before it has its logs.
    server.connect().ask(b"mn\r\n", b"MN\r\n");
    server
}

/// Makes a log of short segments, unless it is there.
pub(crate) fn make_log_once(path: &Path, keys: &str) {
    if path.read_dir().is_ok_and(|mut found| found.any(is_file)) {
        return;
    }
    if keys == "strings" {
        return make_log(path);
    }
    fs::create_dir_all(path).expect("a directory can be made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    command.args(["log", "load", "--quiet", "--create", keys, "--segment", "1MiB"]).arg(path);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.expect("kelvin runs").success());
}

fn is_file(entry: std::io::Result<fs::DirEntry>) -> bool {
    entry.is_ok_and(|entry| entry.file_type().is_ok_and(|it| it.is_file()))
}

pub(crate) fn stop(mut server: Server) {
    server.terminate();
    let ended = server.wait_for_end(END_MAX).expect("it ends");
    assert!(ended.success(), "{ended}: {}", server.log());
}

/// The reply to what ends with a line, or with `END`.
pub(crate) fn ask(conn: &mut Conn, request: &str) -> String {
    let request = request.replace('\n', "\r\n");
    let is_list =
        request.starts_with("get") || request.starts_with("gat") || request.starts_with("stats");
    let is_whole = |got: &[u8]| match is_list {
        true => {
            got.ends_with(b"END\r\n") || got.starts_with(b"CLIENT_ERROR") && got.ends_with(b"\r\n")
        }
        false => got.ends_with(b"\r\n"),
    };
    let (reply, _) = conn.exchange(&[request.as_bytes()], is_whole);
    String::from_utf8(reply).expect("text").replace("\r\n", "\n")
}

/// A value of `stats tables`.
pub(crate) fn of_table(conn: &mut Conn, name: &str) -> String {
    let report = ask(conn, "stats tables\n");
    let line = format!("STAT {name} ");
    let found = report.lines().find_map(|it| it.strip_prefix(&line));
    found.unwrap_or_else(|| panic!("no {name}: {report}")).to_owned()
}
