//! A server process of the test's own, on loopback, killed when dropped.

use super::conn::Conn;
use super::log_directory::make_log;
use super::own_name;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A server that does not answer within this time has failed to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Another process may take the free port between the look and the start: try a few.
const START_ATTEMPTS: usize = 5;

/// Memory and values of a durable table: the least memory for records that there is, and values
/// that are not in parts, or that are.
const OF_DURABLE: [&str; 4] = ["--memory", "2MiB", "--value-size-max", "256KiB"];
const OF_DURABLE_LARGE: [&str; 4] = ["--memory", "2MiB", "--value-size-max", "1MiB"];

/// The same of one that spills, whose longest value is a quarter of the memory, into a ring that
/// has room for all that a test stores.
const OF_SPILL: [&str; 8] = [
    "--memory",
    "2MiB",
    "--value-size-max",
    "512KiB",
    "--table-kind",
    "spill",
    "--spill-size",
    "512MiB",
];
const OF_SPILL_LARGE: [&str; 8] = [
    "--memory",
    "8MiB",
    "--value-size-max",
    "1MiB",
    "--table-kind",
    "spill",
    "--spill-size",
    "512MiB",
];

/// What kelvin reads and writes its sockets by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    Uring,
    Epoll,
}

impl Io {
    /// Both drivers.
    pub(crate) const BOTH: [Self; 2] = [Self::Uring, Self::Epoll];

    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        }
    }
}

/// Where kelvin has its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// In memory alone.
    Volatile,
    /// On the disk, and copies in memory.
    Durable,
    /// In memory, and on the disk what memory has no room for.
    Spill,
}

impl Table {
    /// Whether a disk has what memory has no room for.
    pub(crate) const fn has_disk(self) -> bool {
        !matches!(self, Self::Volatile)
    }

    pub(crate) const fn is_durable(self) -> bool {
        matches!(self, Self::Durable)
    }
}

/// How kelvin serves: by which driver, and from which table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serving {
    pub(crate) io: Io,
    pub(crate) table: Table,
    /// Where the table has a disk, values may be longer than what is one record there.
    has_large_values: bool,
}

impl Serving {
    pub(crate) const fn from_memory(io: Io) -> Self {
        Self::from(io, Table::Volatile)
    }

    /// From a durable table in the server's own directory, whatever memory it is to have: with the
    /// least for records that there is, so that most of what a test stores is on the disk only.
    pub(crate) const fn from_disk(io: Io) -> Self {
        Self::from(io, Table::Durable)
    }

    /// The same from a table that spills.
    pub(crate) const fn spilling(io: Io) -> Self {
        Self::from(io, Table::Spill)
    }

    pub(crate) const fn from(io: Io, table: Table) -> Self {
        Self { io, table, has_large_values: false }
    }

    /// With values of up to 1 MiB, as a server takes by default. A table that spills has them in
    /// memory alone, of which there is more then.
    pub(crate) const fn of_large_values(self) -> Self {
        Self { has_large_values: true, ..self }
    }
}

/// Bytes of a value that is a large one where it is stored.
pub(crate) const fn large_bytes(serving: Serving) -> usize {
    if serving.table.has_disk() && !serving.has_large_values { 250_000 } else { 1_000_000 }
}

impl From<Io> for Serving {
    fn from(io: Io) -> Self {
        Self::from_memory(io)
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// memcached serves TCP or a Unix socket, not both: this one serves the latter.
    unix_child: Option<Child>,
    addr: SocketAddr,
    dir: PathBuf,
}

impl Server {
    /// Starts kelvin, with 64 MiB and the given further arguments.
    pub(crate) fn kelvin(serving: impl Into<Serving>, arguments: &[&str]) -> Self {
        match super::under_test() {
            Some(binary) => Self::memcached(&binary, &[]),
            None => Self::kelvin_with_memory(serving, "64MiB", arguments),
        }
    }

    /// Starts kelvin, with the given memory and further arguments.
    pub(crate) fn kelvin_with_memory(
        serving: impl Into<Serving>,
        memory: &str,
        arguments: &[&str],
    ) -> Self {
        Self::kelvin_by(&[], serving, memory, arguments)
    }

    /// The same, run by a program that becomes it.
    pub(crate) fn kelvin_by(
        by: &[&str],
        serving: impl Into<Serving>,
        memory: &str,
        arguments: &[&str],
    ) -> Self {
        let Serving { io, table, has_large_values } = serving.into();
        Self::start(|dir, port| {
            let program = [by, &[env!("CARGO_BIN_EXE_kelvin")]].concat();
            let mut command = Command::new(program[0]);
            command.args(&program[1..]);
            // The environment of whoever runs the tests configures no server of theirs.
            for (name, _) in std::env::vars_os() {
                let is_mutant = name == base::mutants::VARIABLE;
                if name.as_encoded_bytes().starts_with(b"KELVIN_") && !is_mutant {
                    command.env_remove(name);
                }
            }
            command.arg("serve").args(["--listen", &format!("127.0.0.1:{port}")]);
            command.arg("--unix").arg(dir.join("socket"));
            let of_table = match table {
                Table::Volatile => ["--memory", memory].to_vec(),
                Table::Durable if has_large_values => OF_DURABLE_LARGE.to_vec(),
                Table::Durable => OF_DURABLE.to_vec(),
                Table::Spill if has_large_values => OF_SPILL_LARGE.to_vec(),
                Table::Spill => OF_SPILL.to_vec(),
            };
            command.args(of_table);
            if table.has_disk() {
                let data = dir.join("data");
                if table.is_durable() {
                    make_log(&data);
                }
                command.args(["--memory-use", "records", "--net-threads", "2"]);
                command.arg("--data-dir").arg(data);
            }
            command.args(["--io", io.setting()]).args(arguments);
            (command, None)
        })
    }

    /// Starts a memcached with 64 MiB and the given further arguments.
    pub(crate) fn memcached(binary: &Path, arguments: &[&str]) -> Self {
        Self::start(|dir, port| {
            let common = |command: &mut Command| {
                command.args(["-U", "0", "-m", "64", "-t", "1", "-u", "root"]).args(arguments);
            };
            let mut tcp = Command::new(binary);
            tcp.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
            common(&mut tcp);
            let mut unix = Command::new(binary);
            unix.arg("-s").arg(dir.join("socket"));
            common(&mut unix);
            (tcp, Some(unix))
        })
    }

    fn start(commands: impl Fn(&Path, u16) -> (Command, Option<Command>)) -> Self {
        let dir = std::env::temp_dir().join(own_name("kelvin"));
        for _ in 0..START_ATTEMPTS {
            // Each time: a server that did not start took its directory with it.
            fs::create_dir_all(&dir).expect("the temporary directory can be written");
            let port = free_port();
            let (command, unix) = commands(&dir, port);
            let mut server = Server {
                child: spawn(command, &dir.join("log")),
                unix_child: unix.map(|u| spawn(u, &dir.join("log.unix"))),
                addr: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                dir: dir.clone(),
            };
            if server.wait_until_ready() {
                return server;
            }
            let log = server.log();
            if !log.contains("in use") {
                panic!("the server did not start; it said: {log}");
            }
        }
        panic!("no free port in {START_ATTEMPTS} attempts");
    }

    fn wait_until_ready(&mut self) -> bool {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            let ready = TcpStream::connect(self.addr).is_ok()
                && UnixStream::connect(self.dir.join("socket")).is_ok();
            if self.child.try_wait().expect("a child can be waited for").is_some() {
                return false;
            }
            if ready {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// The address of the TCP listener.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The path of the Unix socket.
    pub(crate) fn unix_path(&self) -> PathBuf {
        self.dir.join("socket")
    }

    /// A new TCP connection.
    pub(crate) fn connect(&self) -> Conn {
        Conn::tcp(TcpStream::connect(self.addr).expect("the server accepts connections"))
    }

    /// A new connection over the Unix socket.
    pub(crate) fn connect_unix(&self) -> Conn {
        Conn::unix(UnixStream::connect(self.unix_path()).expect("the server accepts connections"))
    }

    /// The resident set of the process, in bytes, as the kernel counts it.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// The most that it was since [`Server::forget_peak`].
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// The resident set is the most that there was, as from now on.
    pub(crate) fn forget_peak(&self) {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        fs::write(path, "5").expect("the server runs, and is the test's own");
    }

    fn status_bytes(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .expect("the server runs, so it has a status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it is given");
        let kib = line.trim().trim_end_matches(" kB").parse::<u64>();
        kib.expect("a number of kB") * 1024
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the process has said.
    pub(crate) fn log(&self) -> String {
        let of = |name| fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        of("log") + &of("log.unix")
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends the signal of this name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id();
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
        assert!(sent.expect("sh runs").success(), "SIG{name} could not be sent to {pid}");
    }

    /// How the process ended, if it does within `timeout`.
    pub(crate) fn wait_for_end(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            let status = self.child.try_wait().expect("a child can be waited for");
            if status.is_some() || Instant::now() > deadline {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asserts that the process runs and answers a new client.
    pub(crate) fn assert_serves(&mut self) {
        let ended = self.child.try_wait().expect("a child can be waited for");
        assert!(ended.is_none(), "the server ended: {ended:?}");
        let mut conn = self.connect();
        conn.ask(b"set alive 0 0 3\r\nyes\r\n", b"STORED\r\n");
        conn.ask(b"get alive\r\n", b"VALUE alive 0 3\r\nyes\r\nEND\r\n");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in std::iter::once(&mut self.child).chain(&mut self.unix_child) {
            // Both fail only if the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn spawn(mut command: Command, log: &Path) -> Child {
    let file = File::create(log).expect("the temporary directory can be written");
    let errors = file.try_clone().expect("a file can be duplicated");
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let program = command.get_program().to_owned();
    command.spawn().unwrap_or_else(|e| panic!("cannot run {program:?}: {e}"))
}

fn free_port() -> u16 {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    probe.local_addr().expect("a bound socket has an address").port()
}
