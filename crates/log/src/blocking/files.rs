//! Files and directories of the operating system.
//!
//! Thread safety: any number of threads perform actions at once. A file stays open once it is
//! named, but no more than a process may usually have are, or their owner says.
//!
//! No action fails because a descriptor is lacking for a while: a write or a flush that has failed
//! is never tried again by the log, and a second one makes it read-only.

mod kept;
mod opening;

use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{
        Access, Advice, AtFlags, Dir, FallocateFlags, FlockOperation, Mode, OFlags, accessat,
        fadvise, fallocate, fdatasync, flock, fsync, ftruncate, open, renameat, statat, unlinkat,
    },
    io::{Errno, pread, pwrite, retry_on_intr},
};

use super::device;
use crate::{
    error::Error,
    format::BLOCK_BYTES,
    plan::{Action, DirectoryId, Disk, Failure, File, Found, Outcome, SharedDisk},
};
pub use kept::Kept;
pub use opening::{OPEN_FILES_MAX, lacks_descriptor};

/// Calls in a row for one read that get no block further: a file system may stop short each time,
/// but within a block not again and again.
const READS_MAX: usize = 64;

/// The directories of a log, locked, and their files.
#[derive(Debug)]
pub struct Files {
    directories: Vec<(PathBuf, Arc<OwnedFd>)>,
    open: Mutex<Kept<Arc<OwnedFd>>>,
    open_max: usize,
    /// How many names have been taken from files.
    removals: AtomicU64,
    is_direct: bool,
    /// Whether nothing may be changed.
    is_read_only: bool,
    /// What is read and written are multiples of this.
    block_bytes: u32,
    /// What a file asks of direct I/O.
    pub(super) alignment: fn(&OwnedFd) -> Option<u32>,
    /// Whether a file is used through the page cache although direct I/O was asked for.
    is_refused: AtomicBool,
}

impl Files {
    /// Locks the directories, which must be there. `is_direct` asks for direct I/O; a file system
    /// that refuses it is used through the page cache.
    ///
    /// # Errors
    /// When one cannot be opened, or somebody has it.
    pub fn lock(directories: &[PathBuf], is_direct: bool) -> Result<Self, Error> {
        let lock = |path: &PathBuf| {
            let directory = path.clone();
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let fd = open(path, flags, Mode::empty()).map_err(|errno| Error::Directory {
                directory: directory.clone(),
                failure: failure(errno),
            })?;
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok((directory, Arc::new(fd))),
                Err(Errno::WOULDBLOCK) => Err(Error::InUse { directory }),
                Err(errno) => Err(Error::Directory { directory, failure: failure(errno) }),
            }
        };
        let directories: Result<Vec<_>, Error> = directories.iter().map(lock).collect();
        Ok(Self {
            directories: directories?,
            open: Mutex::default(),
            open_max: OPEN_FILES_MAX,
            removals: AtomicU64::new(0),
            is_direct,
            is_read_only: false,
            block_bytes: *BLOCK_BYTES.end(),
            alignment: device::alignment,
            is_refused: AtomicBool::new(false),
        })
    }

    /// Says which blocks are going to be read and written: where the device's are larger, files
    /// are used through the page cache.
    pub fn use_blocks_of(&mut self, block_bytes: u32) {
        self.block_bytes = block_bytes;
    }

    /// Keeps up to so many files open, at least one: each is a descriptor. What others keep that
    /// have asked for one is not counted.
    pub fn keep_open(&mut self, most: usize) {
        self.open_max = most.max(1);
    }

    /// The directories as they are locked: nobody else gets the log as long as one of these is
    /// open anywhere, in the kernel too, unless it is unlocked.
    pub fn locks(&self) -> impl Iterator<Item = Arc<OwnedFd>> {
        self.directories.iter().map(|(_, fd)| Arc::clone(fd))
    }

    /// Lets others have the log, although copies of a lock may be open: a child that was forked has
    /// them until it becomes another program. No action is under way, in the kernel either.
    pub(super) fn unlock(&self) {
        for (_, fd) in &self.directories {
            // It cannot fail for a descriptor that was locked; if it did, the lock goes with that.
            let _ = flock(fd, FlockOperation::Unlock);
        }
    }

    /// Has everything that would change a file or a directory fail.
    pub fn forbid_changes(&mut self) {
        self.is_read_only = true;
    }

    /// Makes sure that files may be made in all directories.
    ///
    /// # Errors
    /// When they may not in one: it is somebody else's, or on a file system without writes.
    pub(super) fn check_writable(&self) -> Result<(), Error> {
        self.directories.iter().try_for_each(|(directory, fd)| {
            let allowed = accessat(fd, ".", Access::WRITE_OK, AtFlags::empty());
            let directory = directory.clone();
            allowed.map_err(|errno| Error::Directory { directory, failure: failure(errno) })
        })
    }

    /// Whether nothing may be changed.
    pub(super) fn forbids_changes(&self) -> bool {
        self.is_read_only
    }

    /// Whether direct I/O was asked for.
    pub(super) fn asks_for_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether all files that were opened so far are used directly.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct && !self.is_refused.load(Ordering::Relaxed)
    }

    /// How many directories there are.
    pub(super) fn count(&self) -> u16 {
        u16::try_from(self.directories.len()).unwrap_or(u16::MAX)
    }

    /// Where a file is.
    #[must_use]
    pub fn path(&self, file: File) -> PathBuf {
        let directory = self.directories.get(usize::from(file.directory.0));
        let directory = directory.map_or_else(PathBuf::new, |(path, _)| path.clone());
        directory.join(file.name.to_string())
    }

    /// Performs an action and waits for it.
    pub fn perform(&self, action: Action) -> Outcome {
        match action {
            Action::Read { .. } | Action::List { .. } => {}
            _ if self.is_read_only => return failed(Errno::ROFS),
            _ => {}
        }
        match action {
            Action::Read { file, offset, mut buffer, bytes } => {
                match self.read(file, offset, &mut buffer.as_mut_slice()[..bytes]) {
                    Ok(bytes) => Outcome::Read(buffer, bytes),
                    Err(errno) => Outcome::Failed(failure(errno), Some(buffer)),
                }
            }
            Action::Write { file, offset, buffer, from, bytes } => {
                let place = &buffer.as_slice()[from..from + bytes];
                let fd = self.file(file);
                let wrote = fd.and_then(|fd| retry_on_intr(|| pwrite(&fd, place, offset)));
                wrote.map_or_else(failed, Outcome::Wrote)
            }
            Action::List { directory } => self.list(directory).map_or_else(failed, Outcome::Listed),
            other => self.change(other).map_or_else(failed, |()| Outcome::Done),
        }
    }

    fn read(&self, file: File, offset: u64, place: &mut [u8]) -> Result<usize, Errno> {
        let fd = self.file(file)?;
        read_on(place, self.block_bytes as usize, |place, from| {
            retry_on_intr(|| pread(&fd, &mut *place, offset + from as u64))
        })
    }

    fn change(&self, action: Action) -> Result<(), Errno> {
        match action {
            Action::Create { file } => {
                let fd = self.open_patiently(file, OFlags::CREATE | OFlags::EXCL)?;
                self.keep(file, &fd);
                // Who opened the one of this name that was removed before may have it still.
                self.removals.fetch_add(1, Ordering::Release);
                Ok(())
            }
            Action::Allocate { file, bytes } => {
                let fd = self.file(file)?;
                match retry_on_intr(|| fallocate(&fd, FallocateFlags::empty(), 0, bytes)) {
                    // Then a full disk is found out when it is written to.
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => ftruncate(&fd, bytes),
                    other => other,
                }
            }
            Action::Truncate { file, bytes } => ftruncate(self.file(file)?, bytes),
            Action::Flush { file } => self.flush(file),
            Action::Rename { file, to } => {
                let directory = self.directory(file.directory)?;
                let to = File { name: to, ..file };
                let (from, name) = (file.name.to_string(), to.name.to_string());
                renameat(directory, from, directory, name)?;
                let mut files = self.files();
                match files.remove(file) {
                    Some(fd) => files.insert(to, fd),
                    None => files.remove(to),
                };
                self.removals.fetch_add(1, Ordering::Release);
                Ok(())
            }
            Action::Remove { file } => {
                let name = file.name.to_string();
                unlinkat(self.directory(file.directory)?, name, AtFlags::empty())?;
                self.files().remove(file);
                self.removals.fetch_add(1, Ordering::Release);
                Ok(())
            }
            Action::FlushDirectory { directory } => fsync(self.directory(directory)?),
            Action::Read { .. } | Action::Write { .. } | Action::List { .. } => Ok(()),
        }
    }

    fn flush(&self, file: File) -> Result<(), Errno> {
        let fd = self.file(file)?;
        fdatasync(&fd).inspect_err(|_| forget_unflushed(&fd))
    }

    pub(super) fn list(&self, directory: DirectoryId) -> Result<Vec<Found>, Errno> {
        let fd = self.directory(directory)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(fd)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let bytes = match statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => u64::try_from(stat.st_size).unwrap_or(0),
                // Somebody has removed it meanwhile.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno),
            };
            found.push(Found { name: name.to_string_lossy().into_owned(), bytes });
        }
        Ok(found)
    }

    pub(super) fn directory(&self, id: DirectoryId) -> Result<&OwnedFd, Errno> {
        self.directories.get(usize::from(id.0)).map(|(_, fd)| &**fd).ok_or(Errno::NOENT)
    }

    fn files(&self) -> MutexGuard<'_, Kept<Arc<OwnedFd>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for &Files {
    fn perform(&mut self, action: Action) -> Outcome {
        Files::perform(self, action)
    }

    fn shared(&self) -> Option<&dyn SharedDisk> {
        Some(*self)
    }
}

impl SharedDisk for Files {
    fn perform(&self, action: Action) -> Outcome {
        Self::perform(self, action)
    }
}

/// Reads until all is there, or the file ends, and says how much is. The file ends where a read
/// gets no further than the one before; each goes on from the start of a block, where direct I/O
/// takes it. `read` is told where its place begins.
fn read_on(
    place: &mut [u8],
    block_bytes: usize,
    mut read: impl FnMut(&mut [u8], usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let (mut have, mut in_vain) = (0, 0);
    while in_vain < READS_MAX {
        let from = have - have % block_bytes;
        let end = from + read(&mut place[from..], from)?;
        if end == place.len() || end == have {
            return Ok(end);
        }
        in_vain = if end - end % block_bytes > from { 0 } else { in_vain + 1 };
        have = have.max(end);
    }
    Err(Errno::IO)
}

/// After a flush that has failed: pages that the kernel now takes for clean, and never wrote, must
/// not be read from the page cache by who opens the log next. What was not dropped is a second
/// failure.
pub fn forget_unflushed(fd: &OwnedFd) {
    let _ = fadvise(fd, 0, None, Advice::DontNeed);
}

fn failed(errno: Errno) -> Outcome {
    Outcome::Failed(failure(errno), None)
}

/// What the system says, as the log's engine is told.
#[must_use]
pub fn failure(errno: Errno) -> Failure {
    match errno {
        Errno::EXIST => Failure::Exists,
        Errno::NOENT => Failure::NotFound,
        Errno::NOSPC | Errno::DQUOT => Failure::Full,
        errno => Failure::Io { code: errno.raw_os_error(), text: errno.to_string() },
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// What comes of a read of 3,000 bytes in blocks of 512, with these answers of the system, and
    /// where they were asked from.
    fn read(answers: &[Result<usize, Errno>]) -> (Result<usize, Errno>, Vec<usize>) {
        let (mut answers, mut asked) = (answers.iter().copied(), Vec::new());
        let came = read_on(&mut [0; 3000], 512, |place, from| {
            assert_eq!(place.len(), 3000 - from);
            asked.push(from);
            answers.next().expect("it is asked too often")
        });
        (came, asked)
    }

    #[test]
    fn a_short_read_is_gone_on_with_until_the_file_ends() {
        assert_eq!(read(&[Ok(3000)]), (Ok(3000), vec![0]));
        assert_eq!(read(&[Ok(512), Ok(512), Ok(1976)]), (Ok(3000), vec![0, 512, 1024]));
        // Short in a block, and once more.
        assert_eq!(read(&[Ok(600), Ok(50), Ok(2488)]), (Ok(3000), vec![0, 512, 512]));
        // The end of the file, at a block and within one.
        assert_eq!(read(&[Ok(0)]), (Ok(0), vec![0]));
        assert_eq!(read(&[Ok(1024), Ok(0)]), (Ok(1024), vec![0, 1024]));
        assert_eq!(read(&[Ok(1100), Ok(76)]), (Ok(1100), vec![0, 1024]));
    }

    #[test]
    fn a_read_of_many_calls_ends_when_each_gets_further() {
        let bytes = 512 * (READS_MAX + 10);
        let read = read_on(&mut vec![0; bytes], 512, |_, _| Ok(512));
        assert_eq!(read, Ok(bytes));
    }

    #[test]
    fn what_cannot_be_read_behind_a_short_read_is_an_error() {
        assert_eq!(read(&[Ok(1024), Err(Errno::IO)]), (Err(Errno::IO), vec![0, 1024]));
        let endless = [[Ok(600)].as_slice(), &[Ok(50); READS_MAX]].concat();
        assert_eq!(read(&endless).0, Err(Errno::IO));
    }
}
