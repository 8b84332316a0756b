//! The file of `-P`: the number of the process, while it serves.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, test_kill_process};

/// The file, removed when dropped if it still has our number.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file, complete from the moment that it is there. One that cannot be written is
    /// no reason not to serve.
    pub(super) fn write(path: &str) -> Option<Self> {
        let path = PathBuf::from(path);
        if let Some(pid) = running(&path) {
            tracing::warn!(path = %path.display(), pid, "the pid file has a running process");
        }
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(".tmp");
        let written = fs::write(&unfinished, format!("{}\n", std::process::id()))
            .and_then(|()| fs::rename(&unfinished, &path));
        match written {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the pid file cannot be written");
                None
            }
        }
    }
}

/// The process that the file names, if there is one.
fn running(path: &Path) -> Option<i32> {
    let pid = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    match test_kill_process(Pid::from_raw(pid).filter(|_| pid > 0)?) {
        Ok(()) => Some(pid),
        Err(error) if io::Error::from(error).kind() == io::ErrorKind::PermissionDenied => Some(pid),
        Err(_) => None,
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another process may have written its own there.
        if running(&self.0) == i32::try_from(std::process::id()).ok()
            && let Err(error) = fs::remove_file(&self.0)
        {
            tracing::warn!(path = %self.0.display(), %error, "the pid file cannot be removed");
        }
    }
}
