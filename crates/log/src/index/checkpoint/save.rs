//! Writing a checkpoint.

use std::sync::Arc;

use super::{BLOCK_BYTES, CheckpointError, HEADER_BYTES, Header, Kind, Stamp, Table};
use crate::{
    index::{
        Index,
        blocks::BLOCK_WORDS,
        line::{LINE_WORDS, Line, VERSION_BITS},
    },
    plan::{Action, Buffer, DirectoryId, Disk, Failure, File, FileName, Outcome},
};

/// Bytes that are written at a time, where there are as many: enough for a device's full rate.
/// Whole blocks, and so are those of a buffer for less.
const WRITE_BYTES: usize = 16 * BLOCK_BYTES;

const _: () = assert!(cfg!(any(loom, shuttle, miri)) || BLOCK_WORDS * 8 == BLOCK_BYTES);

/// Saves an index that nobody changes meanwhile, under the name [`FileName::Index`].
///
/// # Errors
/// [`CheckpointError::Disk`] with the action that failed; what was there before is still there
/// then, unless it was the directory's flush that failed, and what was written of the new one is
/// given back. [`CheckpointError::NotLoaded`].
pub fn save(
    index: &Index,
    stamp: Stamp,
    home: DirectoryId,
    disk: &mut impl Disk,
) -> Result<(), CheckpointError> {
    let blocks = index.blocks();
    if blocks.awaited() != 0 {
        return Err(CheckpointError::NotLoaded { blocks: blocks.awaited() });
    }
    let file = File { directory: home, name: FileName::IndexNew };
    let mut writer = Writer { disk, file, offset: 0 };
    let saved = write(index, stamp, &mut writer);
    if saved.is_err() {
        // A full disk's allocation keeps what it got. What else fails now changes nothing.
        let _ = writer.act(Action::Truncate { file, bytes: 0 });
        let _ = writer.act(Action::Remove { file });
    }
    saved
}

fn write<D: Disk>(
    index: &Index,
    stamp: Stamp,
    writer: &mut Writer<'_, D>,
) -> Result<(), CheckpointError> {
    let (blocks, file) = (index.blocks(), writer.file);
    writer.create()?;
    let mut header = header_of(index, stamp, blocks.all().count());
    writer.act(Action::Allocate { file, bytes: header.file_bytes() })?;

    let mut table = Table::default();
    let room = (header.blocks as usize * BLOCK_BYTES).clamp(BLOCK_BYTES, WRITE_BYTES);
    let mut buffer = Arc::new(Buffer::new(room));
    let mut filled = 0;
    writer.offset = HEADER_BYTES as u64;
    for (number, lines) in blocks.all() {
        let block = &mut own(&mut buffer)[filled..filled + BLOCK_BYTES];
        encode(lines, is_lone(index), block);
        table.push(number, crc32c::crc32c(block));
        filled += BLOCK_BYTES;
        if filled == room {
            writer.write(&buffer, filled)?;
            filled = 0;
        }
    }
    writer.write(&buffer, filled)?;
    for part in table.encode().chunks(room) {
        header.table_crc = crc32c::crc32c_append(header.table_crc, part);
        own(&mut buffer)[..part.len()].copy_from_slice(part);
        writer.write(&buffer, part.len())?;
    }
    own(&mut buffer)[..HEADER_BYTES].copy_from_slice(&header.encode());
    writer.offset = 0;
    writer.write(&buffer, HEADER_BYTES)?;

    writer.act(Action::Flush { file })?;
    writer.act(Action::Rename { file, to: FileName::Index })?;
    writer.act(Action::FlushDirectory { directory: file.directory })
}

fn header_of(index: &Index, stamp: Stamp, blocks: usize) -> Header {
    let kind = match index {
        Index::Flat(flat) => {
            let range = flat.range();
            Kind::Flat { entry_bytes: range.entry_bytes, kmin: range.kmin, kmax: range.kmax }
        }
        Index::Hash(hash) => Kind::Hash { buckets: hash.buckets() },
    };
    let blocks = u32::try_from(blocks).expect("invariant: no index has so many blocks");
    Header { stamp, kind, entries: index.len(), blocks, table_crc: 0 }
}

/// Whether words of lines stand for themselves.
fn is_lone(index: &Index) -> bool {
    matches!(index, Index::Flat(flat) if flat.range().entry_bytes == 8)
}

/// The image of a block: no versions, no locks.
fn encode<'a>(lines: impl Iterator<Item = &'a Line>, is_lone: bool, block: &mut [u8]) {
    const VERSION: u64 = (1 << VERSION_BITS) - 1;
    const LOCK: u64 = 1 << 63;
    let (words, _) = block.as_chunks_mut();
    for (line, image) in lines.zip(words.chunks_mut(LINE_WORDS)) {
        for (at, word) in image.iter_mut().enumerate() {
            let mask = match (is_lone, at) {
                (true, _) => !LOCK,
                (false, 0) => !VERSION,
                (false, _) => u64::MAX,
            };
            *word = (line.word(at) & mask).to_le_bytes();
        }
    }
}

/// A buffer's bytes; another buffer's if a driver has kept that one.
fn own(buffer: &mut Arc<Buffer>) -> &mut [u8] {
    if Arc::get_mut(buffer).is_none() {
        let mut copy = Buffer::new(buffer.as_slice().len());
        copy.as_mut_slice().copy_from_slice(buffer.as_slice());
        *buffer = Arc::new(copy);
    }
    Arc::get_mut(buffer).expect("invariant: a new buffer has one owner").as_mut_slice()
}

struct Writer<'a, D> {
    disk: &'a mut D,
    file: File,
    offset: u64,
}

impl<D: Disk> Writer<'_, D> {
    /// Makes the file. One that a stop before this one did not finish is removed.
    fn create(&mut self) -> Result<(), CheckpointError> {
        let file = self.file;
        match self.disk.perform(Action::Create { file }) {
            Outcome::Failed(Failure::Exists, _) => {
                self.act(Action::Remove { file })?;
                self.act(Action::Create { file })
            }
            outcome => self.done(outcome),
        }
    }

    fn act(&mut self, action: Action) -> Result<(), CheckpointError> {
        let outcome = self.disk.perform(action);
        self.done(outcome)
    }

    fn done(&self, outcome: Outcome) -> Result<(), CheckpointError> {
        match outcome {
            Outcome::Failed(failure, _) => Err(self.failed(failure)),
            _ => Ok(()),
        }
    }

    fn failed(&self, failure: Failure) -> CheckpointError {
        CheckpointError::Disk { file: self.file, offset: self.offset, failure }
    }

    /// Writes the first bytes of a buffer where the last write ended.
    fn write(&mut self, buffer: &Arc<Buffer>, bytes: usize) -> Result<(), CheckpointError> {
        let mut from = 0;
        // Each turn writes something, so there are no more than blocks of the device.
        while from < bytes {
            let (file, offset, buffer) = (self.file, self.offset, Arc::clone(buffer));
            let rest = bytes - from;
            let action = Action::Write { file, offset, buffer, from, bytes: rest };
            match self.disk.perform(action) {
                Outcome::Wrote(wrote) if (1..=rest).contains(&wrote) => {
                    from += wrote;
                    self.offset += wrote as u64;
                }
                Outcome::Failed(failure, _) => return Err(self.failed(failure)),
                _ => {
                    let text = "a write that wrote nothing".to_owned();
                    return Err(self.failed(Failure::Io { code: 0, text }));
                }
            }
        }
        Ok(())
    }
}
