//! Servers started by memcached's options, and scripts that run against them.
#![allow(dead_code, reason = "each subject uses its own part")]

use std::{
    fmt::Debug,
    fs::{self, File},
    io::Read,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::harness::{
    conn::Conn,
    log_directory::make_log,
    own_name,
    server::{Serving, Table},
};

/// Longer than anything here may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at something that is awaited.
const POLL: Duration = Duration::from_millis(5);

/// What stands for the server's directory in options.
pub(crate) const DIR: &str = "{dir}";

/// Directory of a table that has one, in the server's own.
const DATA: &str = "data";

/// What makes a table one that spills, into a ring that has room for all that a script stores.
const SPILL: &str = "table_kind=spill,spill_size=256MiB";

/// Memory of a table with a directory where the options name none: the least, so that of what a
/// script stores beyond a few records most is on the disk only; and what values may take of it.
const LITTLE_MEMORY: [&str; 4] = ["-m", "2", "-I", "512k"];

/// Where a server writes the ports that the system chose.
const PORTS_VARIABLE: &str = "MEMCACHED_PORT_FILENAME";

/// A program that has memcached's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `kelvin memcached`.
    Kelvin,
    /// A memcached.
    Memcached(PathBuf),
}

impl Program {
    /// The memcached of the system.
    pub(crate) fn installed() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|dir| dir.join("memcached"))
            .find(|file| file.is_file())
            .map(Self::Memcached)
            .expect("no memcached in PATH: `cargo xtask setup` installs it")
    }

    /// The memcached 1.6.45 of whoever runs the tests, if there is one.
    pub(crate) fn recent() -> Option<Self> {
        std::env::var_os("KELVIN_PEER_MEMCACHED").map(PathBuf::from).map(Self::Memcached)
    }

    /// The command with these options. The superuser has to name a user: itself, unless the
    /// options do.
    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let mut command = match self {
            Self::Kelvin => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
                command.arg("memcached");
                command
            }
            Self::Memcached(path) => Command::new(path),
        };
        if is_root() && !options.iter().any(|option| option.starts_with("-u")) {
            command.args(["-u", "root"]);
        }
        command.args(options).stdin(Stdio::null()).env_remove(PORTS_VARIABLE);
        command
    }

    /// Runs it to its end: the exit code, standard output and standard error.
    pub(crate) fn run(&self, options: &[&str]) -> (Option<i32>, String, String) {
        let mut command = self.command(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server's program runs");
        let status = wait_for_exit(&mut child);
        let mut said = (String::new(), String::new());
        if status.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let output = child.stdout.take().expect("it is piped").read_to_string(&mut said.0);
        let errors = child.stderr.take().expect("it is piped").read_to_string(&mut said.1);
        assert!(output.is_ok() && errors.is_ok(), "{self:?} {options:?} says no text");
        let status = status.unwrap_or_else(|| panic!("{self:?} {options:?} serves: {}", said.1));
        (status.code(), said.0, said.1)
    }
}

/// Whether the tests run as the superuser.
pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("the system tells who runs");
    status.lines().any(|line| line.split_ascii_whitespace().take(3).eq(["Uid:", "0", "0"]))
}

/// Runs `script` against kelvin and the memcached of the system, each started with `options`, and
/// asserts that it returns the same.
pub(crate) fn on_both<T: PartialEq + Debug>(options: &[&str], script: impl Fn(&mut Server) -> T) {
    compare(&[Program::Kelvin, Program::installed()], options, script);
}

/// Runs `script` against kelvin and the 1.6.45 that `KELVIN_PEER_MEMCACHED` names, if it does.
pub(crate) fn on_recent<T: PartialEq + Debug>(options: &[&str], script: impl Fn(&mut Server) -> T) {
    let programs: Vec<_> = std::iter::once(Program::Kelvin).chain(Program::recent()).collect();
    compare(&programs, options, script);
}

/// Runs `script` against kelvin.
pub(crate) fn on_kelvin<T>(options: &[&str], script: impl FnOnce(&mut Server) -> T) -> T {
    script(&mut Server::start(&Program::Kelvin, options))
}

/// Whether the table is a durable one, which does not answer as memcached does where a test asks
/// this: `docs/memcached.md` says that of it in these words.
pub(crate) fn is_durable(but: &str) -> bool {
    has_disk(but) && super::ON_DISK.is_some_and(|serving| serving.table.is_durable())
}

/// Whether the table is one that spills.
pub(crate) fn spills() -> bool {
    super::ON_DISK.is_some_and(|serving| serving.table == Table::Spill)
}

/// The same as [`is_durable`] of a table that spills, too.
pub(crate) fn has_disk(but: &str) -> bool {
    let has_disk = super::ON_DISK.is_some();
    if has_disk {
        let path = crate::harness::repository().join("docs/memcached.md");
        let text = fs::read_to_string(path).expect("it is there");
        let (_, rest) = text.split_once("\n## A durable table\n").expect("it has a heading");
        let text = rest.split_once("\n## ").map_or(rest, |(section, _)| section);
        assert!(text.contains(but), "docs/memcached.md does not say: {but}");
    }
    has_disk
}

/// Adds a table with this directory to the options, and makes it unless it is there.
fn add_table(data: &str, serving: Serving, options: &mut Vec<String>) {
    if !Path::new(data).exists() {
        match serving.table {
            Table::Durable => make_log(Path::new(data)),
            Table::Spill | Table::Volatile => {
                fs::create_dir(data).expect("the directory can be written");
            }
        }
    }
    // Whom the server is to become has to have it.
    let user = options.iter().position(|option| option == "-u").map(|at| &options[at + 1]);
    if let Some(user) = user {
        let status = Command::new("chown").args(["-R", user, data]).status();
        assert!(status.is_ok_and(|status| status.success()), "chown {user}");
    }
    options.extend(["-o".to_owned(), format!("data_dir={data},io={}", serving.io.setting())]);
    if serving.table == Table::Spill {
        // What a script says of it comes behind this, and counts.
        options.splice(0..0, ["-o".to_owned(), SPILL.to_owned()]);
    }
    if !options.iter().any(|option| option == "-m") {
        options.extend(LITTLE_MEMORY.map(str::to_owned));
    }
}

fn compare<T: PartialEq + Debug>(
    programs: &[Program],
    options: &[&str],
    script: impl Fn(&mut Server) -> T,
) {
    let run = |program: &Program| script(&mut Server::start(program, options));
    let verdicts: Vec<T> = programs.iter().map(run).collect();
    for (program, verdict) in programs.iter().zip(&verdicts) {
        assert_eq!(&verdicts[0], verdict, "kelvin, and {program:?}, with {options:?}");
    }
}

/// A server of the test's own, in a directory of its own; both are gone when it is dropped.
pub(crate) struct Server {
    program: Program,
    child: Child,
    dir: Directory,
    unix: Option<PathBuf>,
}

impl Server {
    /// Starts a server and waits until it listens. `{dir}` in the options is its directory. When
    /// they name no port, the system chooses those of TCP (and of UDP behind `-U -1`), on loopback.
    pub(crate) fn start(program: &Program, options: &[&str]) -> Self {
        Self::start_in(Directory::new(), program, options)
    }

    /// Starts a server in a directory that was made before, for files that it is to find there.
    pub(crate) fn start_in(dir: Directory, program: &Program, options: &[&str]) -> Self {
        Self::start_with(dir, program, options, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn start_with(
        dir: Directory,
        program: &Program,
        options: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut options: Vec<String> =
            options.iter().map(|option| option.replace(DIR, &dir.path(""))).collect();
        let place = options.iter().position(|option| option == "-s");
        let unix = place.and_then(|at| options.get(at + 1)).map(PathBuf::from);
        if unix.is_none() {
            for (option, value) in [("-p", "-1"), ("-l", "127.0.0.1")] {
                if !options.iter().any(|given| given.starts_with(option)) {
                    options.extend([option.to_owned(), value.to_owned()]);
                }
            }
        }
        if let (Some(serving), Program::Kelvin) = (super::ON_DISK, program) {
            add_table(&dir.path(DATA), serving, &mut options);
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut command = program.command(&options);
        let log = File::create(dir.path("log")).expect("the temporary directory can be written");
        command.stdout(log.try_clone().expect("a file can be duplicated")).stderr(log);
        command.env(PORTS_VARIABLE, dir.path("ports")).envs(variables.iter().copied());
        let child = command.spawn().unwrap_or_else(|e| panic!("cannot run {program:?}: {e}"));
        let mut server = Self { program: program.clone(), child, dir, unix };
        server.wait_until_it_listens();
        server
    }

    fn wait_until_it_listens(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let listens = match &self.unix {
                Some(path) => UnixStream::connect(path).is_ok(),
                None => self.ports().is_some(),
            };
            // A daemon's first process ends early, and well.
            let ended = self.child.try_wait().expect("a child can be waited for");
            let failed = ended.is_some_and(|status| !status.success());
            if listens && !failed {
                return;
            }
            let late = Instant::now() > deadline;
            assert!(!failed && !late, "{:?} does not start: {}", self.program, self.log());
            std::thread::sleep(POLL);
        }
    }

    /// The file of ports, once it is complete.
    fn ports(&self) -> Option<String> {
        fs::read_to_string(self.dir.path("ports")).ok()
    }

    fn port(&self, kind: &str) -> u16 {
        let ports = self.ports().expect("the server listens to ports");
        let line = ports.lines().find_map(|line| line.strip_prefix(kind));
        let port = line.unwrap_or_else(|| panic!("no {kind} in {ports}")).trim();
        port.parse().expect("a port is a number")
    }

    /// The address of the first TCP listener on IPv4.
    pub(crate) fn tcp(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port("TCP INET:")).into()
    }

    /// The address of the first UDP listener on IPv4.
    pub(crate) fn udp(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port("UDP INET:")).into()
    }

    /// A new connection: over the Unix socket if the options name one, else over TCP.
    pub(crate) fn connect(&self) -> Conn {
        match &self.unix {
            Some(path) => Conn::unix(UnixStream::connect(path).expect("it accepts connections")),
            None => Conn::tcp(TcpStream::connect(self.tcp()).expect("it accepts connections")),
        }
    }

    /// Asserts that a new connection is told `reply` to `request`.
    pub(crate) fn ask(&self, request: &[u8], reply: &[u8]) {
        self.connect().ask(request, reply);
    }

    /// The value of `name` in the report `stats` or `stats <report>`.
    pub(crate) fn stat(&self, report: &str, name: &str) -> Option<String> {
        let request = format!("stats {report}").trim_end().to_owned() + "\r\n";
        let (reply, _) =
            self.connect().exchange(&[request.as_bytes()], |got| got.ends_with(b"END\r\n"));
        let text = String::from_utf8(reply).expect("reports are text");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
    }

    /// Which program it is.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Its directory.
    pub(crate) fn dir(&self) -> &Directory {
        &self.dir
    }

    /// The process that was started: of a daemon, the first one.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path("log")).unwrap_or_default()
    }

    /// Sends a signal, by name.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for its end: the status, if it ends in time.
    pub(crate) fn wait(&mut self) -> Option<ExitStatus> {
        wait_for_exit(&mut self.child)
    }

    /// Ends it by a signal, waits, and returns its directory, for another start.
    pub(crate) fn end_by(mut self, name: &str) -> Directory {
        self.signal(name);
        assert!(self.wait().is_some(), "it does not end: {}", self.log());
        let _ = fs::remove_file(self.dir.path("ports"));
        std::mem::take(&mut self.dir)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{:?} said:\n{}", self.program, self.log());
        }
    }
}

/// Sends a signal to a process of the test's own.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(sent.expect("sh runs").success(), "SIG{name} could not be sent to {pid}");
}

fn wait_for_exit(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = child.try_wait().expect("a child can be waited for");
        if status.is_some() || Instant::now() > deadline {
            return status;
        }
        std::thread::sleep(POLL);
    }
}

/// Waits until `holds`; panics with `what` if it never does.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(POLL);
    }
}

/// A directory of the test's own, gone when dropped. The default is none.
#[derive(Default)]
pub(crate) struct Directory(Option<PathBuf>);

impl Directory {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(own_name("kelvin-dropin"));
        fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self(Some(path))
    }

    /// The path of a file in it, as text.
    pub(crate) fn path(&self, name: &str) -> String {
        let dir = self.0.as_deref().unwrap_or(Path::new("/nonexistent"));
        dir.join(name).to_string_lossy().trim_end_matches('/').to_owned()
    }

    /// Lets other users make files in it.
    pub(crate) fn open_to_all(&self) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(self.path(""), mode).expect("it is the test's own");
    }

    /// Writes a file; returns its path.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("the directory can be written");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_dir_all(path);
        }
    }
}
