//! Kelvin as a process: started, listened to, signalled.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStderr, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// Longer than anything here may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The command `kelvin` with these arguments, and without settings from this process.
pub(crate) fn kelvin(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KELVIN_") {
            command.env_remove(name);
        }
    }
    command
}

/// Makes `command` run with at most `count` open descriptors.
pub(crate) fn limit_descriptors(command: &mut Command, count: usize) {
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit -n {count} && exec \"$0\" \"$@\""));
    limited.arg(command.get_program()).args(command.get_args());
    limited.stdin(Stdio::null()).stderr(Stdio::piped());
    *command = limited;
}

/// A directory of the test's own.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("kelvin-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Writes a file; returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("the directory can be written");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that has begun to listen.
pub(crate) struct Serving {
    child: Child,
    /// None when nobody reads it any more.
    log: Option<BufReader<ChildStderr>>,
    read: String,
}

impl Serving {
    /// Starts `kelvin serve` with these flags, on a port of loopback unless they name an address.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_with(flags, |_| ())
    }

    pub(crate) fn start_with(flags: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let mut arguments = vec!["serve"];
        if !flags.iter().any(|flag| ["--listen", "--unix"].contains(flag)) {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend(flags);
        let mut command = kelvin(&arguments);
        command.stderr(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().expect("kelvin starts");
        let log = child.stderr.take().map(BufReader::new);
        let mut serving = Self { child, log, read: String::new() };
        serving.wait_for_log("listening");
        serving
    }

    /// Reads the log up to the line that contains `text`; returns all of it so far. It blocks:
    /// the test runner's timeout is the limit.
    pub(crate) fn log_until(&mut self, text: &str) -> &str {
        while !self.read.contains(text) {
            let mut line = String::new();
            let log = self.log.as_mut().expect("it has not been closed");
            let count = log.read_line(&mut line).expect("the log is text");
            assert!(count > 0, "the server ended without `{text}`; it said: {}", self.read);
            self.read.push_str(&line);
        }
        &self.read
    }

    pub(crate) fn wait_for_log(&mut self, text: &str) {
        self.log_until(text);
    }

    /// Goes away as the reader of the log.
    pub(crate) fn close_log(&mut self) {
        self.log = None;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid();
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
        assert!(sent.expect("sh runs").success(), "SIG{name} could not be sent to {pid}");
    }

    /// Waits for the end; returns the exit code, if it has one.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            if let Some(log) = &mut self.log {
                let _ = log.read_to_string(&mut self.read);
            }
            eprintln!("the server's log:\n{}", self.read);
        }
    }
}
