//! Who may write the file: a server that ends says so before another one can take its place, which
//! then waits for the records.
//!
//! The file is written under another name, and locked from then on. What has that name and is not
//! locked was left by a server that was killed.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

/// Others than the owner have no business with the values.
const MODE: u32 = 0o600;

/// How often a claim is made: another server that starts may look at a new file, or take it for an
/// old one, in the moment before it is locked.
const ATTEMPTS_MAX: usize = 8;

/// Time between two attempts, and two looks whether another server has written its file.
const POLL: Duration = Duration::from_millis(10);

/// The right to write the file. One that is not used leaves nothing.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
    unfinished: PathBuf,
    is_used: bool,
}

impl Claim {
    /// Claims the file at `path`.
    ///
    /// # Errors
    /// It could not be written, or another server is at it.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let unfinished = unfinished(path);
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                thread::sleep(POLL);
            }
            if is_locked(&unfinished)? {
                continue;
            }
            let file = create(&unfinished)?;
            let is_ours = try_lock(&file)? && is_at(&file, &unfinished);
            if is_ours {
                return Ok(Self { file, unfinished, is_used: false });
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, "another server writes it"))
    }

    /// What is written.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// What is written is complete.
    pub(super) fn publish(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.unfinished, path)?;
        self.is_used = true;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_used {
            // It takes memory, and is of no use to anybody.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Waits until no other server writes the file at `path`, or `stops` says so. Returns whether the
/// file may be used.
pub(super) fn await_others(path: &Path, mut stops: impl FnMut() -> bool) -> io::Result<bool> {
    let unfinished = unfinished(path);
    let mut is_told = false;
    while is_locked(&unfinished)? {
        if !is_told {
            tracing::warn!(path = %path.display(), "another server is still writing its records");
            is_told = true;
        }
        if stops() {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
    Ok(true)
}

/// Finds out whether the file can be written when the server ends. Takes away what a server that
/// was killed has left of one.
pub(super) fn try_out(path: &Path) -> io::Result<()> {
    let unfinished = unfinished(path);
    drop(create(&unfinished)?);
    fs::remove_file(unfinished)
}

/// A new file, never what somebody else has put there: values are for its owner alone.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    File::options().write(true).create_new(true).mode(MODE).open(path)
}

/// Whether another server of this user is at an unfinished file.
fn is_locked(unfinished: &Path) -> io::Result<bool> {
    // What others have put there is not waited for, whatever it is.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(file) = File::options().read(true).custom_flags(flags.bits() as i32).open(unfinished)
    else {
        return Ok(false);
    };
    let metadata = file.metadata()?;
    let is_own = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    Ok(is_own && !try_lock(&file)?)
}

fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a file is the one that has this name.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: io::Result<fs::Metadata>| {
        metadata.map(|metadata| (metadata.dev(), metadata.ino())).ok()
    };
    let named = identity(path.symlink_metadata());
    named.is_some() && named == identity(file.metadata())
}

/// Where the file is while it is being written.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}
