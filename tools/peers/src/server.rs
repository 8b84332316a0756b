//! Servers as child processes, pinned, on loopback or a Unix socket, ended when dropped.

use std::{
    io,
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::machine;

/// How long a server may take until it accepts connections, and how often that is tried.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const START_LOOK: Duration = Duration::from_millis(20);

/// A program that serves.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
}

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kelvin,
    Memcached,
    Pogocache,
    /// This program as `bare`.
    Bare,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kelvin => "Kelvin",
            Self::Memcached => "memcached",
            Self::Pogocache => "Pogocache",
            Self::Bare => "bare",
        }
    }

    /// Where its path is given, if it is built by hand.
    pub(crate) fn variable(self) -> Option<&'static str> {
        match self {
            Self::Memcached => Some("KELVIN_PEER_MEMCACHED"),
            Self::Pogocache => Some("KELVIN_PEER_POGOCACHE"),
            Self::Kelvin | Self::Bare => None,
        }
    }

    /// One thread; everything else as it comes, but for the memory.
    fn arguments(self, at: &At, setup: &Setup) -> Vec<String> {
        let Setup { memory_mib: memory, value_bytes, keys, .. } = setup;
        let text = match (self, at) {
            (Self::Kelvin, At::Tcp(port)) => {
                format!("serve --net-threads 1 --memory {memory}MiB --listen 127.0.0.1:{port}")
            }
            (Self::Kelvin, At::Unix(path)) => {
                format!("serve --net-threads 1 --memory {memory}MiB --unix {}", path.display())
            }
            (Self::Memcached, At::Tcp(port)) => {
                format!("-u root -t 1 -m {memory} -U 0 -l 127.0.0.1 -p {port}")
            }
            (Self::Memcached, At::Unix(path)) => {
                format!("-u root -t 1 -m {memory} -s {}", path.display())
            }
            (Self::Pogocache, At::Tcp(port)) => {
                format!("--threads 1 --maxmemory {memory}mb -h 127.0.0.1 -p {port}")
            }
            (Self::Pogocache, At::Unix(path)) => {
                format!("--threads 1 --maxmemory {memory}mb -p 0 -s {}", path.display())
            }
            (Self::Bare, At::Tcp(port)) => {
                format!("bare --value-bytes {value_bytes} --keys {keys} --listen 127.0.0.1:{port}")
            }
            (Self::Bare, At::Unix(path)) => {
                let path = path.display();
                format!("bare --value-bytes {value_bytes} --keys {keys} --io epoll --unix {path}")
            }
        };
        text.split(' ').map(str::to_owned).collect()
    }
}

/// Builds Kelvin; returns the path of its program.
pub(crate) fn build_kelvin() -> io::Result<PathBuf> {
    eprintln!("building kelvin");
    let out = Command::new("cargo")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["build", "--release", "--package", "kelvin", "--bin", "kelvin"])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter_map(|message| Some(message["executable"].as_str()?.into()));
    programs
        .next_back()
        .filter(|_| out.status.success())
        .ok_or_else(|| io::Error::other("no kelvin"))
}

/// What can be run, Kelvin first, and a line for each server that cannot.
pub(crate) fn programs(kelvin: &Path) -> io::Result<(Vec<Program>, Vec<String>)> {
    let mut programs = vec![Program { kind: Kind::Kelvin, path: kelvin.to_owned() }];
    let mut absent = Vec::new();
    for kind in [Kind::Memcached, Kind::Pogocache] {
        let variable = kind.variable().expect("invariant: both are built by hand");
        match std::env::var_os(variable).map(PathBuf::from) {
            Some(path) if path.is_file() => programs.push(Program { kind, path }),
            Some(path) => absent.push(format!(
                "{} is left out: {variable} is {}, which is no file",
                kind.name(),
                path.display()
            )),
            None => absent.push(format!("{} is left out: {variable} is not set", kind.name())),
        }
    }
    programs.push(Program { kind: Kind::Bare, path: std::env::current_exe()? });
    Ok((programs, absent))
}

/// How a server is started.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// On a Unix socket, else on loopback.
    pub(crate) is_unix: bool,
    pub(crate) memory_mib: u64,
    /// Of what `bare` answers with.
    pub(crate) value_bytes: usize,
    pub(crate) keys: u32,
    /// Where it runs; anywhere if there are none.
    pub(crate) cpus: Vec<usize>,
}

/// A port of loopback that nobody has.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Where a server listens.
#[derive(Clone, Debug)]
enum At {
    Tcp(u16),
    Unix(PathBuf),
}

impl At {
    /// A port that nobody has, or a path in `directory`.
    fn free(program: &Program, setup: &Setup, directory: &Path) -> io::Result<Self> {
        if setup.is_unix {
            return Ok(Self::Unix(directory.join(program.kind.name())));
        }
        Ok(Self::Tcp(free_port()?))
    }

    fn accepts(&self) -> bool {
        match self {
            Self::Tcp(port) => TcpStream::connect(("127.0.0.1", *port)).is_ok(),
            Self::Unix(path) => UnixStream::connect(path).is_ok(),
        }
    }
}

/// A server that accepts connections.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    served: Served,
}

/// A process that accepts connections.
pub(crate) struct Served {
    at: At,
    child: Child,
}

impl Server {
    /// Starts a program; its socket, if it is one, is made in `directory`.
    ///
    /// # Errors
    /// When it cannot be started, or ends, or does not listen.
    pub(crate) fn start(program: &Program, setup: &Setup, directory: &Path) -> io::Result<Self> {
        let at = At::free(program, setup, directory)?;
        let mut command = Command::new(&program.path);
        command.args(program.kind.arguments(&at, setup));
        let served = Served::start(program.kind.name(), command, at, &setup.cpus)?;
        Ok(Self { kind: program.kind, served })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.served.pid()
    }

    /// As `kelvin bench` reads it.
    pub(crate) fn address(&self) -> String {
        self.served.address()
    }
}

impl Served {
    /// Starts a program on a port of loopback that nobody has; `arguments` are what it is told.
    ///
    /// # Errors
    /// When it cannot be started, or ends, or does not listen.
    pub(crate) fn on_loopback(
        name: &str,
        path: &Path,
        arguments: impl FnOnce(u16) -> Vec<String>,
        cpus: &[usize],
    ) -> io::Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(path);
        command.args(arguments(port));
        Self::start(name, command, At::Tcp(port), cpus)
    }

    fn start(name: &str, mut command: Command, at: At, cpus: &[usize]) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A process runs where the thread does that starts it.
        let started = thread::scope(|scope| {
            let start = || machine::pin(cpus).and_then(|()| command.spawn());
            scope.spawn(start).join().expect("starting does not panic")
        });
        let mut server = Self { at, child: started? };
        let begun = Instant::now();
        while !server.at.accepts() {
            if begun.elapsed() > START_TIMEOUT {
                return Err(io::Error::other(format!("{name} does not listen")));
            }
            thread::sleep(START_LOOK);
        }
        // If it has ended, somebody else listens there.
        match server.child.try_wait()? {
            None => Ok(server),
            Some(status) => Err(io::Error::other(format!("{name} has ended: {status}"))),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As `kelvin bench` reads it.
    pub(crate) fn address(&self) -> String {
        match &self.at {
            At::Tcp(port) => format!("127.0.0.1:{port}"),
            At::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
