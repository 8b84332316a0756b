//! Who may write the file: a server that ends says so before another one can take its place, which
//! then waits for the records.
//!
//! The file is written under another name, and locked from then on. What has that name and is not
//! locked was left by a server that was killed. Only who holds the lock of the file that has the
//! name gives the name away, so nobody loses it to another server, however two of them meet. A file
//! that was locked after another one got its name is of no use, and let go.
//!
//! On a file system that refuses locks, a file counts as left when it was not written to for a
//! while ([`LEFT_TIME`]).

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use base::clock::Stopwatch;
use rustix::{
    fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with},
    io::Errno,
};

/// Others than the owner have no business with the values.
const MODE: u32 = 0o600;

/// How often a claim is made: another server that starts may look at a new file, or take it for an
/// old one, in the moment before it is locked.
const ATTEMPTS_MAX: usize = 8;

/// Time between two attempts, and two looks whether another server has written its file.
const POLL: Duration = Duration::from_millis(10);

/// How long another server's file is waited for while it does not grow: what systemd gives one
/// that is to end.
pub(super) const STILL_TIME_MAX: Duration = Duration::from_secs(90);

/// Time between two words that it is waited for.
const REMINDER_INTERVAL: Duration = Duration::from_secs(10);

/// Where nothing can be locked, a file that was not written to for so long was left.
const LEFT_TIME: Duration = Duration::from_secs(60);

const _: () = assert!(LEFT_TIME.as_secs() < STILL_TIME_MAX.as_secs());

/// Asks for a lock.
type Ask<'a> = &'a mut dyn FnMut(&File, FlockOperation) -> rustix::io::Result<()>;

/// The right to write the file. One that is not used leaves nothing.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
    unfinished: PathBuf,
    is_used: bool,
    /// Why it is not locked, if the file system refuses that.
    refused: Option<Errno>,
}

impl Claim {
    /// Claims the file at `path`.
    ///
    /// # Errors
    /// It could not be written, or another server is at it.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        Self::by(path, &mut ask)
    }

    fn by(path: &Path, ask: Ask<'_>) -> io::Result<Self> {
        let unfinished = unfinished(path);
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                thread::sleep(POLL);
            }
            if !remove_left(&unfinished, ask)? {
                continue;
            }
            let file =
                match File::options().write(true).create_new(true).mode(MODE).open(&unfinished) {
                    Ok(file) => file,
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                    Err(error) => return Err(error),
                };
            let refused = match lock(&file, FlockOperation::NonBlockingLockExclusive, ask) {
                Lock::Held => None,
                Lock::Others => continue,
                Lock::Refused(errno) => Some(errno),
            };
            if is_at(&file, &unfinished) {
                return Ok(Self { file, unfinished, is_used: false, refused });
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, "another server writes it"))
    }

    /// What is written.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// What is written is complete, and takes its place: an empty one, or that of `replaced`.
    ///
    /// # Errors
    /// Its name is another file's meanwhile, its place is taken by the records of another server,
    /// or it cannot be renamed.
    pub(super) fn publish(mut self, path: &Path, replaced: Option<&File>) -> io::Result<()> {
        if !is_at(&self.file, &self.unfinished) {
            let shown = self.unfinished.display();
            let what = format!("{shown} was removed or replaced while it was written");
            return Err(io::Error::other(what));
        }
        match replaced {
            Some(file) if is_at(file, path) => fs::rename(&self.unfinished, path),
            _ => rename_to_nothing(&self.unfinished, path),
        }?;
        self.is_used = true;
        Ok(())
    }
}

/// Renames a file to what no file is named.
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    let renamed = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that can only replace: one that comes between is lost.
        Err(Errno::INVAL | Errno::NOSYS) => match to.symlink_metadata() {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => fs::rename(from, to),
            Err(error) => Err(error),
        },
        renamed => renamed.map_err(io::Error::from),
    };
    renamed.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let what = format!("{} has the records of another server", to.display());
            io::Error::new(ErrorKind::AlreadyExists, what)
        }
        _ => error,
    })
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_used && is_at(&self.file, &self.unfinished) {
            // It takes memory, and is of no use to anybody.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Waits until no other server writes the file at `path`, or `stops` says so. Returns whether the
/// file may be used.
///
/// # Errors
/// The file is still another server's, and has not grown for `still_max`.
pub(super) fn await_others(
    path: &Path,
    still_max: Duration,
    stops: impl FnMut() -> bool,
) -> io::Result<bool> {
    await_by(path, still_max, stops, &mut ask)
}

fn await_by(
    path: &Path,
    still_max: Duration,
    mut stops: impl FnMut() -> bool,
    ask: Ask<'_>,
) -> io::Result<bool> {
    let unfinished = unfinished(path);
    let mut told: Option<Stopwatch> = None;
    let (mut grown, mut len) = (Stopwatch::start(), 0);
    while let Some(len_now) = others_len(&unfinished, ask)? {
        if len_now != len {
            (grown, len) = (Stopwatch::start(), len_now);
        }
        if has_passed(&grown, still_max) {
            let what = format!("another server is at it, and wrote nothing for {still_max:?}");
            return Err(io::Error::new(ErrorKind::TimedOut, what));
        }
        if told.as_ref().is_none_or(|told| has_passed(told, REMINDER_INTERVAL)) {
            let path = path.display();
            tracing::warn!(%path, bytes = len, "another server is still writing its records");
            told = Some(Stopwatch::start());
        }
        if stops() {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
    Ok(true)
}

fn has_passed(since: &Stopwatch, time: Duration) -> bool {
    u128::from(since.elapsed_ns()) >= time.as_nanos()
}

/// Finds out whether the file can be written when the server ends. Takes away what a server that
/// was killed has left of one.
pub(super) fn try_out(path: &Path) -> io::Result<()> {
    let claim = Claim::new(path)?;
    if let Some(error) = claim.refused {
        let path = path.display();
        tracing::warn!(
            %path, %error, "its file system has no locks: two servers must not share the file"
        );
    }
    Ok(())
}

/// Removes an unfinished file that a killed server has left. Returns whether the name is free.
fn remove_left(unfinished: &Path, ask: Ask<'_>) -> io::Result<bool> {
    let in_the_way = |error: io::Error| {
        let what = format!("{} is in the way: {error}", unfinished.display());
        io::Error::new(error.kind(), what)
    };
    // Locks that go over a network are for those who may write.
    let file = match open(unfinished, true) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(in_the_way(error)),
    };
    if !file.metadata()?.is_file() {
        return Err(in_the_way(io::Error::new(ErrorKind::InvalidInput, "it is no file")));
    }
    if is_others(&file, FlockOperation::NonBlockingLockExclusive, ask)? || !is_at(&file, unfinished)
    {
        return Ok(false);
    }
    match fs::remove_file(unfinished) {
        // Without locks.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        removed => removed.map(|()| true).map_err(in_the_way),
    }
}

/// The length of an unfinished file that another server is at.
fn others_len(unfinished: &Path, ask: Ask<'_>) -> io::Result<Option<u64>> {
    // What cannot be opened is in the way of a claim, which says so.
    let Ok(file) = open(unfinished, false) else { return Ok(None) };
    let metadata = file.metadata()?;
    // Shared: servers that wait do not take each other for one that writes.
    let is_others =
        metadata.is_file() && is_others(&file, FlockOperation::NonBlockingLockShared, ask)?;
    Ok(is_others.then_some(metadata.len()))
}

/// Opens what has a name, whatever it is, without waiting and without following a link.
fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    File::options().read(true).write(write).custom_flags(flags.bits() as i32).open(path)
}

/// Whether another server is at a file; if not, it is locked now.
fn is_others(file: &File, operation: FlockOperation, ask: Ask<'_>) -> io::Result<bool> {
    match lock(file, operation, ask) {
        Lock::Held => Ok(false),
        Lock::Others => Ok(true),
        // One whose time is still to come was written to just now, by another clock.
        Lock::Refused(_) => {
            let age = file.metadata()?.modified()?.elapsed();
            Ok(age.map_or(true, |age| age < LEFT_TIME))
        }
    }
}

/// What became of a wish to lock a file.
enum Lock {
    Held,
    /// Another server has it.
    Others,
    /// The file system has no locks.
    Refused(Errno),
}

fn lock(file: &File, operation: FlockOperation, ask: Ask<'_>) -> Lock {
    match ask(file, operation) {
        Ok(()) => Lock::Held,
        Err(Errno::WOULDBLOCK) => Lock::Others,
        Err(errno) => Lock::Refused(errno),
    }
}

fn ask(file: &File, operation: FlockOperation) -> rustix::io::Result<()> {
    flock(file, operation)
}

/// Whether a file is the one that has this name.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
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

#[cfg(test)]
mod tests;
