//! Reading a checkpoint.

use std::{ops::Range, thread};

use super::{BLOCK_BYTES, CheckpointError, Flaw, HEADER_BYTES, Header, Kind, Stamp, Table};
use crate::{
    index::{FlatIndex, FlatRange, HashIndex, Index, IndexError, line::LINE_WORDS},
    plan::{Action, Buffer, DirectoryId, Disk, Failure, File, FileName, Outcome},
};

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 * BLOCK_BYTES;

/// Threads that load an index: a device that is asked for several things at once gives more, and
/// checking and copying takes about as long as reading.
const LOAD_THREADS: usize = 4;

/// Times that a read which came back short is asked for: what was interrupted comes back whole
/// soon, what is at the end of the file never does.
const READ_ATTEMPTS: u32 = 8;

/// What the index is to be, as the log's manifest and options have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// A flat index. `kmax` is the checkpoint's, if that is greater.
    Flat(FlatRange),
    /// A hash index for at most so many entries.
    Hash {
        /// The number.
        entries_max: u64,
    },
}

/// Where the blocks of an index are that are not loaded yet.
#[derive(Debug)]
pub struct Loader {
    file: File,
    table: Table,
}

/// Opens a checkpoint: the index as it was saved, none of its blocks loaded, and what loads them.
/// Reads the header and the table.
///
/// # Errors
/// [`CheckpointError::Disk`], [`CheckpointError::Damaged`].
pub fn open(
    limits: Limits,
    stamp: Stamp,
    home: DirectoryId,
    disk: &mut impl Disk,
) -> Result<(Index, Loader), CheckpointError> {
    let file = File { directory: home, name: FileName::Index };
    let mut reader = Reader::new(disk, file, HEADER_BYTES);
    let damaged = |offset, flaw| CheckpointError::Damaged { file, offset, flaw };

    let first = reader.read(0, HEADER_BYTES)?;
    let first = first.try_into().expect("invariant: a header was asked for");
    let header = Header::parse(first).map_err(|flaw| damaged(0, flaw))?;
    let empty = empty_index(&header, limits, stamp).map_err(|flaw| damaged(0, flaw))?;

    let table_at = header.table_offset();
    let mut table = Vec::new();
    let mut left = header.table_bytes() as usize;
    let mut reader = Reader::new(reader.disk, file, left.clamp(HEADER_BYTES, READ_BYTES));
    while left > 0 {
        let bytes = left.min(READ_BYTES);
        table.extend_from_slice(reader.read(table_at + table.len() as u64, bytes)?);
        left -= bytes;
    }
    let table = Table::parse(&table, &header, empty.blocks_max);
    let table = table.map_err(|flaw| damaged(table_at, flaw))?;
    reader.expect_end(header.file_bytes())?;
    let awaited: Vec<u32> = table.blocks().collect();
    let index = (empty.make)(header.entries, &awaited).map_err(|_| damaged(0, Flaw::OtherIndex))?;
    Ok((index, Loader { file, table }))
}

type Make = Box<dyn Fn(u64, &[u32]) -> Result<Index, IndexError>>;

/// An index that a header tells of.
struct Empty {
    blocks_max: u64,
    make: Make,
}

fn empty_index(header: &Header, limits: Limits, stamp: Stamp) -> Result<Empty, Flaw> {
    if header.stamp.log_id != stamp.log_id {
        return Err(Flaw::OtherLog);
    }
    if header.stamp.run != stamp.run {
        return Err(Flaw::OtherRun { got: header.stamp.run, expected: stamp.run });
    }
    match (header.kind, limits) {
        (Kind::Flat { entry_bytes, kmin, kmax }, Limits::Flat(range))
            if (entry_bytes, kmin) == (range.entry_bytes, range.kmin) =>
        {
            let range = FlatRange { kmax: kmax.max(range.kmax), ..range };
            let saved = FlatRange { kmax, kmax_limit: kmax, ..range };
            let blocks_max = FlatIndex::blocks_of(saved).ok_or(Flaw::OtherIndex)?;
            let make: Make = Box::new(move |entries, awaited| {
                FlatIndex::awaiting(range, entries, awaited).map(Index::Flat)
            });
            Ok(Empty { blocks_max, make })
        }
        (Kind::Hash { buckets }, Limits::Hash { entries_max }) => {
            let blocks_max = HashIndex::blocks_of(buckets).ok_or(Flaw::Header)?;
            let make: Make = Box::new(move |entries, awaited| {
                HashIndex::awaiting(entries_max, buckets, entries, awaited).map(Index::Hash)
            });
            Ok(Empty { blocks_max, make })
        }
        _ => Err(Flaw::OtherIndex),
    }
}

impl Loader {
    /// The next block that is not loaded, from block `from` on.
    #[must_use]
    pub fn next(&self, index: &Index, from: u32) -> Option<u32> {
        index.blocks().first_awaited(from)
    }

    /// Which file a block is in, and where: [`BLOCK_BYTES`] from there are to be read for
    /// [`Loader::accept`]. None for a block that is not in the checkpoint.
    #[must_use]
    pub fn place(&self, block: u32) -> Option<(File, u64)> {
        let (row, _) = self.table.find(block)?;
        Some((self.file, Table::offset(row)))
    }

    /// Checks what was read of a block, and puts it into the index. A block that is loaded already
    /// stays as it is.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`].
    pub fn accept(&self, index: &Index, block: u32, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.check(block, bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        let (lines, _) = words.as_chunks::<LINE_WORDS>();
        index.load(block, lines);
        Ok(())
    }

    fn check(&self, block: u32, bytes: &[u8]) -> Result<(), CheckpointError> {
        let damaged = |offset, flaw| CheckpointError::Damaged { file: self.file, offset, flaw };
        let (row, crc) = self.table.find(block).ok_or_else(|| damaged(0, Flaw::Table))?;
        if bytes.len() != BLOCK_BYTES {
            return Err(damaged(Table::offset(row), Flaw::Length));
        }
        if crc32c::crc32c(bytes) != crc && !base::mutant!("index_block_unchecked") {
            return Err(damaged(Table::offset(row), Flaw::BlockChecksum { block }));
        }
        Ok(())
    }

    /// Reads every block and checks it, without loading any: so that damage shows before the index
    /// is used, which may be long before it is loaded.
    ///
    /// # Errors
    /// [`CheckpointError::Disk`], [`CheckpointError::Damaged`].
    pub fn verify(&self, disk: &mut impl Disk) -> Result<(), CheckpointError> {
        self.each(disk, 0..1, |block, bytes| self.check(block, bytes))
    }

    /// Loads every block, in several threads if the disk can be shared.
    ///
    /// # Errors
    /// [`CheckpointError::Disk`], [`CheckpointError::Damaged`].
    pub fn load(&self, index: &Index, disk: &mut impl Disk) -> Result<(), CheckpointError> {
        let Some(shared) = disk.shared() else {
            return self.each(disk, 0..1, |block, bytes| self.accept(index, block, bytes));
        };
        let load = |thread| {
            let mut disk = shared;
            let turns = thread..LOAD_THREADS;
            self.each(&mut disk, turns, |block, bytes| self.accept(index, block, bytes))
        };
        thread::scope(|scope| {
            let spawn = |number| {
                let spawned = thread::Builder::new().spawn_scoped(scope, move || load(number));
                spawned.map_err(|_| number)
            };
            let threads: Vec<_> = (0..LOAD_THREADS).map(spawn).collect();
            threads.into_iter().try_for_each(|thread| match thread {
                Ok(thread) => thread.join().expect("invariant: loading does not panic"),
                // The system gives no more threads: this one does it.
                Err(number) => load(number),
            })
        })
    }

    /// Visits every block; of turns `first..of` that share them, those of the first.
    fn each(
        &self,
        disk: &mut impl Disk,
        turns: Range<usize>,
        mut visit: impl FnMut(u32, &[u8]) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let numbers: Vec<u32> = self.table.blocks().collect();
        let bytes = (numbers.len() * BLOCK_BYTES).min(READ_BYTES);
        let mut reader = Reader::new(disk, self.file, bytes);
        let pieces = numbers.chunks(READ_BYTES / BLOCK_BYTES).enumerate();
        for (turn, numbers) in pieces.skip(turns.start).step_by(turns.end) {
            let offset = Table::offset(turn * (READ_BYTES / BLOCK_BYTES));
            let bytes = reader.read(offset, numbers.len() * BLOCK_BYTES)?;
            for (&number, block) in numbers.iter().zip(bytes.chunks(BLOCK_BYTES)) {
                visit(number, block)?;
            }
        }
        Ok(())
    }
}

struct Reader<'a, D> {
    disk: &'a mut D,
    file: File,
    /// The most that is read at once.
    bytes_max: usize,
    /// Away only while a read is under way.
    buffer: Option<Buffer>,
}

impl<'a, D: Disk> Reader<'a, D> {
    fn new(disk: &'a mut D, file: File, bytes_max: usize) -> Self {
        Self { disk, file, bytes_max, buffer: None }
    }

    /// Reads `bytes` bytes, all of them.
    fn read(&mut self, offset: u64, bytes: usize) -> Result<&[u8], CheckpointError> {
        match self.try_read(offset, bytes)? {
            read if read == bytes => {
                let buffer = self.buffer.as_ref().map_or(&[][..], Buffer::as_slice);
                Ok(&buffer[..bytes])
            }
            read => Err(self.damaged(offset + read as u64)),
        }
    }

    /// That the file ends at `bytes`.
    fn expect_end(&mut self, bytes: u64) -> Result<(), CheckpointError> {
        match self.try_read(bytes, HEADER_BYTES)? {
            0 => Ok(()),
            _ => Err(self.damaged(bytes)),
        }
    }

    fn damaged(&self, offset: u64) -> CheckpointError {
        CheckpointError::Damaged { file: self.file, offset, flaw: Flaw::Length }
    }

    /// Reads up to `bytes` bytes, fewer only at the end of the file.
    fn try_read(&mut self, offset: u64, bytes: usize) -> Result<usize, CheckpointError> {
        let mut read = 0;
        for _ in 0..READ_ATTEMPTS {
            read = self.read_once(offset, bytes)?;
            if read == bytes {
                break;
            }
        }
        Ok(read)
    }

    fn read_once(&mut self, offset: u64, bytes: usize) -> Result<usize, CheckpointError> {
        let file = self.file;
        let buffer = self.buffer.take().unwrap_or_else(|| Buffer::new(self.bytes_max));
        match self.disk.perform(Action::Read { file, offset, buffer, bytes }) {
            Outcome::Read(buffer, read) if read <= bytes => {
                self.buffer = Some(buffer);
                Ok(read)
            }
            Outcome::Failed(failure, _) => Err(CheckpointError::Disk { file, offset, failure }),
            _ => {
                let failure = Failure::Io { code: 0, text: "a read that did not read".to_owned() };
                Err(CheckpointError::Disk { file, offset, failure })
            }
        }
    }
}
