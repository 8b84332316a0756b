//! A disk in memory that keeps its promises to the letter, and no more.
//!
//! Owns files, names and faults. What a flush has answered is certain; of the rest a crash keeps
//! any part: each sector written since is there, not there, or torn; each length and each name
//! likewise; and no order holds between any two of them. One seed decides everything. For one
//! thread. The rules are those of POSIX and of a device with a volatile cache, taken at their word;
//! a failed flush is Linux's: its pages are dropped and marked clean.
//!
//! Invariants:
//! 1. What was flushed changes by [`Kind`]s that [take it](Kind::takes_what_was_flushed) only.
//! 2. A read that succeeds shows what was written last, but for those kinds and failed flushes.
//! 3. Whatever happens is counted.

mod directory;
mod file;
mod harm;

use base::random::Random;

use crate::fault::{Counts, Kind, Rates};
use directory::Directory;
use file::File;
pub use file::Moment;
pub use harm::Full;

/// What a device writes whole or not at all, unless it is torn.
pub const SECTOR_BYTES: usize = 512;

/// A file, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) usize);

/// A directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub usize);

/// What a request ends with when it does not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The device failed (EIO).
    Io,
    /// There is no room (ENOSPC).
    NoSpace,
    /// There is no such name (ENOENT).
    NotFound,
    /// There is such a name already (EEXIST).
    Exists,
}

/// The disk.
#[derive(Clone, Debug)]
pub struct Disk {
    random: Random,
    rates: Rates,
    counts: Counts,
    files: Vec<Option<File>>,
    /// The directory that each file was made in.
    homes: Vec<DirectoryId>,
    directories: Vec<Directory>,
    /// Bytes that the files of each directory may take: directories are devices.
    capacities_bytes: Vec<usize>,
    /// Whether a directory has no room for any write, also of what takes no more than it did.
    refuses_writes: Vec<bool>,
    /// Whether no file can be removed.
    refuses_removals: bool,
    /// The flush of something that fails, counted from now.
    failing_flush: Option<u32>,
    /// What a request that ends early has done a multiple of.
    block_bytes: usize,
}

impl Disk {
    /// An empty disk with this many directories, which are there for good, each with so much room.
    #[must_use]
    pub fn new(seed: u64, directories: usize, capacity_bytes: usize) -> Self {
        Self {
            random: Random::new(seed, DISK_STREAM),
            rates: Rates::none(),
            counts: Counts::default(),
            files: Vec::new(),
            homes: Vec::new(),
            directories: vec![Directory::default(); directories],
            capacities_bytes: vec![capacity_bytes; directories],
            refuses_writes: vec![false; directories],
            refuses_removals: false,
            failing_flush: None,
            block_bytes: SECTOR_BYTES,
        }
    }

    /// From now on faults strike so often.
    pub fn set_rates(&mut self, rates: Rates) {
        self.rates = rates;
    }

    /// From now on no segment's file can be removed, or each can be again.
    pub fn refuse_removals(&mut self, refuses: bool) {
        self.refuses_removals = refuses;
    }

    /// One flush fails, of those of something: that after so many others, or none.
    pub fn fail_flush_after(&mut self, others: Option<u32>) {
        self.failing_flush = others;
    }

    /// Whether this one does.
    fn is_failing_flush(&mut self) -> bool {
        let fails = self.failing_flush == Some(0);
        self.failing_flush = self.failing_flush.and_then(|others| others.checked_sub(1));
        if fails {
            self.counts.add(Kind::FlushError);
        }
        fails
    }

    /// From now on a directory has so much room; what is there already stays.
    pub fn set_capacity(&mut self, directory: DirectoryId, capacity_bytes: usize) {
        self.capacities_bytes[directory.0] = capacity_bytes;
    }

    /// From now on what ends early ends after a multiple of this, as it does on a file system with
    /// such blocks.
    pub fn set_block_bytes(&mut self, block_bytes: usize) {
        self.block_bytes = block_bytes;
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Counts what happens beside the disk, such as a process that stops.
    pub fn count(&mut self, kind: Kind) {
        self.counts.add(kind);
    }

    /// How many directories there are.
    #[must_use]
    pub fn directories(&self) -> usize {
        self.directories.len()
    }

    /// Bytes that the files of a directory may take.
    #[must_use]
    pub fn capacity_bytes(&self, directory: DirectoryId) -> usize {
        self.capacities_bytes[directory.0]
    }

    /// Whether a file still has a name, or may have one after a crash.
    #[must_use]
    pub fn is_there(&self, file: FileId) -> bool {
        self.files.get(file.0).is_some_and(Option::is_some)
    }

    /// Bytes of the files that have a name in a directory.
    #[must_use]
    pub fn used_bytes(&self, directory: DirectoryId) -> usize {
        self.directories[directory.0].names().map(|(_, file)| self.len(file)).sum()
    }

    /// The names in a directory, in their order, each with its file.
    #[must_use]
    pub fn list(&self, directory: DirectoryId) -> Vec<(String, FileId)> {
        let names = self.directories[directory.0].names();
        names.map(|(name, file)| (name.to_owned(), file)).collect()
    }

    /// The file of that name.
    ///
    /// # Errors
    /// [`Refusal::NotFound`].
    pub fn open(&self, directory: DirectoryId, name: &str) -> Result<FileId, Refusal> {
        self.directories[directory.0].find(name).ok_or(Refusal::NotFound)
    }

    /// A new, empty file of that name.
    ///
    /// # Errors
    /// [`Refusal::Exists`], [`Refusal::NoSpace`].
    pub fn create(&mut self, directory: DirectoryId, name: &str) -> Result<FileId, Refusal> {
        if self.directories[directory.0].find(name).is_some() {
            return Err(Refusal::Exists);
        }
        if self.strikes(Kind::NoSpace) {
            return Err(Refusal::NoSpace);
        }
        let file = FileId(self.files.len());
        self.files.push(Some(File::default()));
        self.homes.push(directory);
        self.directories[directory.0].link(name, file);
        Ok(file)
    }

    /// Gives a file another name and takes the name from whatever had it.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`Refusal::NoSpace`].
    pub fn rename(&mut self, at: DirectoryId, from: &str, to: &str) -> Result<(), Refusal> {
        let file = self.open(at, from)?;
        if self.strikes(Kind::NoSpace) {
            return Err(Refusal::NoSpace);
        }
        self.directories[at.0].rename(from, to, file);
        self.forget_nameless();
        Ok(())
    }

    /// Takes a name away.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`Refusal::Io`].
    pub fn remove(&mut self, directory: DirectoryId, name: &str) -> Result<(), Refusal> {
        self.open(directory, name)?;
        let is_kept = self.refuses_removals && name.ends_with(".segment");
        if is_kept {
            self.counts.add(Kind::RemoveError);
        }
        if is_kept || self.strikes(Kind::RemoveError) {
            return Err(Refusal::Io);
        }
        self.directories[directory.0].unlink(name);
        self.forget_nameless();
        Ok(())
    }

    /// Makes names certain.
    ///
    /// # Errors
    /// [`Refusal::Io`]; then nobody knows which of them are.
    pub fn flush_directory(&mut self, directory: DirectoryId) -> Result<(), Refusal> {
        if self.strikes(Kind::DirectoryFlushError) {
            return Err(Refusal::Io);
        }
        self.directories[directory.0].flush();
        self.forget_nameless();
        Ok(())
    }

    /// The length of a file in bytes.
    #[must_use]
    pub fn len(&self, file: FileId) -> usize {
        self.file(file).len()
    }

    /// Makes the file at least so long, with zeros, and its bytes its own.
    ///
    /// # Errors
    /// [`Refusal::NoSpace`]; then the file may have grown by a part of what was asked for.
    pub fn allocate(&mut self, file: FileId, len: usize) -> Result<(), Refusal> {
        let old = self.len(file);
        if len <= old {
            return Ok(());
        }
        let wanted = len - old;
        let unlucky = self.strikes(Kind::NoSpace);
        let room = self.room(file);
        if !unlucky && wanted <= room {
            self.file_mut(file).set_len(len);
            return Ok(());
        }
        if !unlucky {
            self.counts.add(Kind::NoSpace);
        }
        let most = u32::try_from(wanted.min(room) / SECTOR_BYTES).unwrap_or(u32::MAX);
        let kept = self.random.below(most + 1) as usize * SECTOR_BYTES;
        if kept > 0 && kept < wanted {
            self.counts.add(Kind::AllocationCut);
            self.file_mut(file).set_len(old + kept);
        }
        Err(Refusal::NoSpace)
    }

    /// Makes the file so long: cuts it, or adds zeros that take no room yet.
    ///
    /// # Errors
    /// [`Refusal::NoSpace`].
    pub fn set_len(&mut self, file: FileId, len: usize) -> Result<(), Refusal> {
        if len > self.len(file) && self.strikes(Kind::NoSpace) {
            return Err(Refusal::NoSpace);
        }
        self.file_mut(file).set_len(len);
        Ok(())
    }

    /// Reads into `bytes`, and says how many; none at the end of the file.
    ///
    /// # Errors
    /// [`Refusal::Io`].
    pub fn read(
        &mut self,
        file: FileId,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<usize, Refusal> {
        if self.strikes(Kind::ReadError) || self.file(file).is_bad(offset, bytes.len()) {
            return Err(Refusal::Io);
        }
        let seen = self.file(file).seen();
        let end = (offset + bytes.len()).min(seen.len());
        let mut count = end.saturating_sub(offset);
        if count > self.block_bytes && self.strikes(Kind::ShortRead) {
            count = self.fewer(count);
        }
        if count > 0 {
            bytes[..count].copy_from_slice(&self.file(file).seen()[offset..][..count]);
        }
        Ok(count)
    }

    /// Writes `bytes`, and says how many of them.
    ///
    /// # Errors
    /// [`Refusal::NoSpace`]; [`Refusal::Io`], and then some of them may be written.
    pub fn write(&mut self, file: FileId, offset: usize, bytes: &[u8]) -> Result<usize, Refusal> {
        let grows = (offset + bytes.len()).saturating_sub(self.len(file));
        let is_refused = self.refuses_writes[self.homes[file.0].0];
        if grows > 0 || is_refused {
            if is_refused || grows > self.room(file) {
                self.counts.add(Kind::NoSpace);
                return Err(Refusal::NoSpace);
            }
            if self.strikes(Kind::NoSpace) {
                return Err(Refusal::NoSpace);
            }
        }
        if self.strikes(Kind::WriteError) {
            self.write_some(file, offset, bytes);
            return Err(Refusal::Io);
        }
        if self.strikes(Kind::Vanished) {
            return Ok(bytes.len());
        }
        if self.rates.of(Kind::Misdirected) > 0
            && let Some((elsewhere, at)) = self.elsewhere(file, offset, bytes.len())
            && self.strikes(Kind::Misdirected)
        {
            self.file_mut(elsewhere).write(at, bytes);
            return Ok(bytes.len());
        }
        let mut count = bytes.len();
        if count > self.block_bytes && self.strikes(Kind::ShortWrite) {
            count = self.fewer(count);
        }
        self.file_mut(file).write(offset, &bytes[..count]);
        Ok(count)
    }

    /// Makes a file's content and length certain; its name is the directory's matter.
    ///
    /// # Errors
    /// [`Refusal::Io`]; then some of it is certain, and the next flush will not speak of the rest.
    pub fn flush(&mut self, file: FileId) -> Result<(), Refusal> {
        self.flush_since(file, self.moment(file))
    }

    /// Where a flush begins that begins now.
    #[must_use]
    pub fn moment(&self, file: FileId) -> Moment {
        self.file(file).moment()
    }

    /// As [`Self::flush`], for a flush that began some time ago: what was written since may be
    /// certain or not.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub fn flush_since(&mut self, file: FileId, since: Moment) -> Result<(), Refusal> {
        if self.file(file).is_dirty() && (self.is_failing_flush() || self.strikes(Kind::FlushError))
        {
            let found = self.files[file.0].as_mut().expect("invariant: an open file is there");
            found.fail_flush(since, &mut self.random, &mut self.counts);
            return Err(Refusal::Io);
        }
        self.file_mut(file).flush(since);
        Ok(())
    }

    /// What reads of the whole file would show, without any fault.
    #[must_use]
    pub fn content(&self, file: FileId) -> &[u8] {
        self.file(file).seen()
    }

    /// What files may still grow by on the device of this one.
    fn room(&self, file: FileId) -> usize {
        let home = self.homes[file.0];
        self.capacity_bytes(home).saturating_sub(self.used_bytes(home))
    }

    /// Files without a name, seen or possible, take no room any more. Nobody reads a file that
    /// was removed: a log does not remove what it still uses.
    fn forget_nameless(&mut self) {
        for (number, file) in self.files.iter_mut().enumerate() {
            let referred = || self.directories.iter().any(|it| it.refers_to(FileId(number)));
            if file.is_some() && !referred() {
                *file = None;
            }
        }
    }

    fn file(&self, file: FileId) -> &File {
        self.files[file.0].as_ref().expect("invariant: an open file is there")
    }

    fn file_mut(&mut self, file: FileId) -> &mut File {
        self.files[file.0].as_mut().expect("invariant: an open file is there")
    }
}

/// The stream of random numbers that decides what the disk does.
const DISK_STREAM: u64 = 1;

#[cfg(test)]
mod tests;
