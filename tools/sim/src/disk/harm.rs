//! What a disk suffers: crashes, stored bits that change, and requests that go wrong.

use super::{DirectoryId, Disk, FileId, SECTOR_BYTES, file::File};
use crate::fault::Kind;

/// How full a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// It has room for small files, and not for one of so many bytes.
    Below(usize),
    /// Nothing grows.
    Growth,
    /// And nothing is written to either: each write takes other blocks than those that were there.
    Writes,
}

impl Disk {
    /// From now on the device of a directory is full.
    pub fn fill(&mut self, directory: DirectoryId, full: Full) {
        let used = self.used_bytes(directory);
        let capacity_bytes = match full {
            Full::Below(bytes) => used + bytes - 1,
            Full::Growth | Full::Writes => 0,
        };
        self.set_capacity(directory, capacity_bytes);
        self.refuses_writes[directory.0] = full == Full::Writes;
    }

    /// From now on the device of a directory has that much room.
    pub fn empty(&mut self, directory: DirectoryId, capacity_bytes: usize) {
        self.set_capacity(directory, capacity_bytes);
        self.refuses_writes[directory.0] = false;
    }

    /// The machine stops and starts: what was not flushed is kept, lost or torn.
    pub fn crash(&mut self) {
        const SURVIVES_OF_256: [u32; 5] = [0, 32, 128, 224, 256];
        self.counts.add(Kind::MachineCrash);
        // Devices do not share a cache: one may lose all of it and another one nothing.
        for directory in (0..self.directories.len()).map(DirectoryId) {
            let mut survives = || {
                let which = self.random.below(SURVIVES_OF_256.len() as u32);
                SURVIVES_OF_256[which as usize]
            };
            let (of_names, of_files) = (survives(), survives());
            let names = &mut self.directories[directory.0];
            names.crash(of_names, &mut self.random, &mut self.counts);
            self.forget_nameless();
            for (file, home) in self.files.iter_mut().zip(&self.homes) {
                if let Some(file) = file.as_mut().filter(|_| *home == directory) {
                    file.crash(of_files, &mut self.random, &mut self.counts);
                }
            }
        }
    }

    /// Forgets what only a cache still has of pages that a failed flush has dropped: a process that
    /// begins anew reads past that.
    pub fn evict(&mut self) {
        self.files.iter_mut().flatten().for_each(File::evict);
    }

    /// Changes a bit of a stored file.
    pub fn flip(&mut self, file: FileId, offset: usize, bit: u32) {
        self.counts.add(Kind::Flip);
        self.file_mut(file).flip(offset, bit);
    }

    /// Makes the sector of this offset unreadable until it is written.
    pub fn spoil(&mut self, file: FileId, offset: usize) {
        self.counts.add(Kind::BadSector);
        self.file_mut(file).make_bad(offset / SECTOR_BYTES);
    }

    /// Random sectors of the write, as a device that fails in its midst leaves them.
    pub(super) fn write_some(&mut self, file: FileId, offset: usize, bytes: &[u8]) {
        for (at, sector) in (offset..).step_by(SECTOR_BYTES).zip(bytes.chunks(SECTOR_BYTES)) {
            if self.random.below(2) == 0 {
                self.file_mut(file).write(at, sector);
            }
        }
    }

    /// A place of that length, whole sectors apart, that is not the one meant.
    pub(super) fn elsewhere(
        &mut self,
        file: FileId,
        offset: usize,
        len: usize,
    ) -> Option<(FileId, usize)> {
        let number = self.random.below(u32::try_from(self.files.len()).ok()?) as usize;
        let room = self.files[number].as_ref()?.len().checked_sub(len)? / SECTOR_BYTES;
        let sector = self.random.below(u32::try_from(room).ok()? + 1) as usize;
        let at = sector * SECTOR_BYTES + offset % SECTOR_BYTES;
        let fits = at + len <= self.files[number].as_ref()?.len();
        (fits && (number, at) != (file.0, offset)).then_some((FileId(number), at))
    }

    /// Less than `count` and more than nothing; whole blocks.
    pub(super) fn fewer(&mut self, count: usize) -> usize {
        let blocks = u32::try_from((count - 1) / self.block_bytes).unwrap_or(u32::MAX);
        (1 + self.random.below(blocks)) as usize * self.block_bytes
    }

    pub(super) fn strikes(&mut self, kind: Kind) -> bool {
        let rate = self.rates.of(kind);
        let strikes = rate > 0 && self.random.below(1_000_000) < rate;
        if strikes {
            self.counts.add(kind);
        }
        strikes
    }
}
