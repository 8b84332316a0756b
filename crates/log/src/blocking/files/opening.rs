//! Which files are open, and what happens when the system has no descriptor for another one.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use base::clock::Stopwatch;
use rustix::{
    fs::{Mode, OFlags, openat},
    io::Errno,
};

use super::{Files, device, failure};
use crate::plan::{Failure, File};

/// The most files that are kept open, unless the owner says otherwise: half of the 1,024 that a
/// process may have by default.
pub const OPEN_FILES_MAX: usize = 512;

/// How long who blocks waits for a descriptor when the process, or the system, has none left.
const DESCRIPTOR_WAIT_NS: u64 = 10_000_000_000;

/// How often he looks.
const DESCRIPTOR_NAP: Duration = Duration::from_millis(1);

impl Files {
    /// An open file, for who reads and writes it by himself. Whoever keeps it asks again before the
    /// next use: of a file that was removed, or has got another name, there is another one.
    ///
    /// # Errors
    /// When it cannot be opened. If there is no descriptor left ([`lacks_descriptor`]) whoever lets
    /// one go and asks again may get it: here all are in use, or others were quicker.
    pub fn descriptor(&self, file: File) -> Result<Arc<OwnedFd>, Failure> {
        self.file_with(file, |flags| self.open_file(file, flags)).map_err(failure)
    }

    /// How many files have been removed or made, or have lost their name to others: as long as this
    /// is the same, each that was current is.
    #[must_use]
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Closes the next file that nobody has but this. False if there is none.
    fn close_unused(&self) -> bool {
        let mut files = self.files();
        let closed = files.take_next(|fd| Arc::strong_count(fd) == 1);
        drop(files);
        // After the lock is released: it may take the system a while.
        closed.is_some()
    }

    /// Whether `fd` is what [`Files::descriptor`] would say, without opening anything.
    #[must_use]
    pub fn is_current(&self, file: File, fd: &Arc<OwnedFd>) -> bool {
        self.files().get(file).is_some_and(|open| Arc::ptr_eq(open, fd))
    }

    pub(in crate::blocking) fn file(&self, file: File) -> Result<Arc<OwnedFd>, Errno> {
        self.file_with(file, |flags| self.open_patiently(file, flags))
    }

    fn file_with(
        &self,
        file: File,
        open: impl FnOnce(OFlags) -> Result<Arc<OwnedFd>, Errno>,
    ) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(fd) = self.files().get(file) {
            return Ok(Arc::clone(fd));
        }
        let fd = open(OFlags::empty())?;
        self.keep(file, &fd);
        Ok(fd)
    }

    /// Keeps a file open in place of another one if need be; what is in use stays open in any case.
    pub(super) fn keep(&self, file: File, fd: &Arc<OwnedFd>) {
        let mut files = self.files();
        let is_full = files.count() >= self.open_max && files.get(file).is_none();
        let closed = is_full.then(|| files.take_next(|_| true));
        let closed = (closed, files.insert(file, Arc::clone(fd)));
        drop(files);
        drop(closed);
    }

    /// Opens a file, and waits where there is no descriptor for it.
    pub(super) fn open_patiently(&self, file: File, flags: OFlags) -> Result<Arc<OwnedFd>, Errno> {
        let watch = Stopwatch::start();
        loop {
            match self.open_file(file, flags) {
                Err(Errno::MFILE | Errno::NFILE) if watch.elapsed_ns() < DESCRIPTOR_WAIT_NS => {
                    thread::sleep(DESCRIPTOR_NAP);
                }
                other => return other,
            }
        }
    }

    /// Opens a file. Where there is no descriptor left, files that nobody uses are closed for it,
    /// one by one: what is closed others may take, and then it cannot be opened again.
    fn open_file(&self, file: File, flags: OFlags) -> Result<Arc<OwnedFd>, Errno> {
        let mut opened = self.try_open(file, flags);
        let mut closed = 0;
        while matches!(opened, Err(Errno::MFILE | Errno::NFILE))
            && closed < self.open_max
            && self.close_unused()
        {
            closed += 1;
            opened = self.try_open(file, flags);
        }
        opened
    }

    fn try_open(&self, file: File, flags: OFlags) -> Result<Arc<OwnedFd>, Errno> {
        let directory = self.directory(file.directory)?;
        let access = if self.is_read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let flags = flags | access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = file.name.to_string();
        let mode = Mode::RUSR | Mode::WUSR;
        let open = |flags| openat(directory.as_fd(), name.as_str(), flags, mode).map(Arc::new);
        if !self.is_direct {
            return open(flags);
        }
        match open(flags | OFlags::DIRECT) {
            Ok(fd) if device::takes((self.alignment)(&fd), self.block_bytes) => return Ok(fd),
            Ok(_) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
        self.is_refused.store(true, Ordering::Relaxed);
        // The file was created in spite of the refusal.
        open(flags.difference(OFlags::EXCL))
    }
}

/// Whether something has failed because the process, or the system, has no descriptor left.
#[must_use]
pub fn lacks_descriptor(failure: &Failure) -> bool {
    let lacks = [Errno::MFILE, Errno::NFILE];
    matches!(failure, Failure::Io { code, .. } if lacks.iter().any(|it| it.raw_os_error() == *code))
}
