//! Running in the background, as `-d` says.
//!
//! The program starts itself anew, for a fork would need unsafe code, and waits until that process
//! listens. So whoever started it hears what keeps it from serving, on standard error and by the
//! exit code; memcached ends at once and well, whatever becomes of its child.

use std::{
    ffi::{CString, OsString},
    fs::File,
    io::{Read, Write, stderr, stdout},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use rustix::{process, stdio, thread};

use super::refusal::Refusal;

/// Tells the process that it is the one in the background.
const VARIABLE: &str = "MEMCACHED_IN_BACKGROUND";

/// What the process in the background writes to its standard output when it listens.
const LISTENS: &[u8] = b"\n";

/// Whether this is the process in the background.
pub(super) fn is_background() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Starts the process in the background with the arguments of this one, and waits until it
/// listens or has ended. `None` means that it listens.
///
/// # Errors
/// It cannot be started.
pub(super) fn start() -> Result<Option<ExitStatus>, Refusal> {
    let failed = |error: std::io::Error| {
        Refusal::failure(format!("failed to daemon() in order to daemonize: {error}"))
    };
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| OsString::from(super::NAME));
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .arg0(name)
        .args(arguments)
        .env(VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut word = Vec::new();
    let mut output = child.stdout.take().expect("invariant: it is piped");
    // It ends when the process closes its output, which it does once it listens, or has ended.
    output.read_to_end(&mut word).map_err(failed)?;
    if word == LISTENS { Ok(None) } else { child.wait().map(Some).map_err(failed) }
}

/// Leaves the session of whoever started the program. `stays` means that the working directory is
/// kept, for core files.
///
/// # Errors
/// The system refuses.
pub(super) fn detach(stays: bool) -> Result<(), Refusal> {
    let failed = |error: rustix::io::Errno| {
        Refusal::failure(format!("failed to daemon() in order to daemonize: {error}"))
    };
    process::setsid().map_err(failed)?;
    let name = std::env::args_os().next().unwrap_or_default();
    if let Some(name) = Path::new(&name).file_name().and_then(|name| name.to_str()) {
        // The name by which the program was called, not that of its file, which may differ.
        let name = CString::new(name).expect("invariant: arguments have no NUL");
        thread::set_name(&name).map_err(failed)?;
    }
    if stays { Ok(()) } else { process::chdir("/").map_err(failed) }
}

/// Says that it listens, and closes the standard streams; `keeps_log` keeps standard error, and
/// has standard output be that.
pub(super) fn tell(keeps_log: bool) {
    let told = stdout().write_all(LISTENS).and_then(|()| stdout().flush());
    let closed = File::options().read(true).write(true).open("/dev/null").and_then(|null| {
        stdio::dup2_stdin(&null)?;
        if !keeps_log {
            stdio::dup2_stderr(&null)?;
        }
        Ok(())
    });
    // The last of them, whatever came of the others: the first process ends by this, and who saw
    // that finds those closed.
    let released = stdio::dup2_stdout(stderr()).map_err(Into::into);
    if let Err(error) = told.and(closed).and(released) {
        tracing::warn!(%error, "not all of the standard streams are closed");
    }
}
