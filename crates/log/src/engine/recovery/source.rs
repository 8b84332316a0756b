//! Reading while a log is opened: whole ranges, whatever short reads come.

use crate::plan::{Action, Buffer, Disk, Failure, File, Found, Outcome};

use super::super::chain::describe;
use crate::error::Error;

/// A disk to read from, and the memory to read into.
pub(super) struct Source<'a> {
    pub(super) disk: &'a mut dyn Disk,
    block_bytes: usize,
    /// What was read last lies in it. Who keeps that takes it, and gives it back.
    pub(super) buffer: Option<Buffer>,
    /// Bytes that were read so far.
    pub(super) bytes_read: u64,
}

impl<'a> Source<'a> {
    pub(super) fn new(disk: &'a mut dyn Disk, block_bytes: u32) -> Self {
        Self { disk, block_bytes: block_bytes as usize, buffer: None, bytes_read: 0 }
    }

    pub(super) fn set_block_bytes(&mut self, block_bytes: u32) {
        self.block_bytes = block_bytes as usize;
    }

    /// Performs an action that reads nothing.
    pub(super) fn perform(&mut self, action: Action) -> Result<(), Error> {
        let (doing, file) = describe(&action);
        match self.disk.perform(action) {
            Outcome::Failed(failure, _) => Err(Error::Disk { doing, file, failure }),
            _ => Ok(()),
        }
    }

    pub(super) fn list(&mut self, action: Action) -> Result<Vec<Found>, Error> {
        let (doing, file) = describe(&action);
        match self.disk.perform(action) {
            Outcome::Listed(found) => Ok(found),
            Outcome::Failed(failure, _) => Err(Error::Disk { doing, file, failure }),
            _ => Ok(Vec::new()),
        }
    }

    /// Reads `bytes` bytes; fewer where the file ends.
    pub(super) fn read(&mut self, file: File, offset: u64, bytes: usize) -> Result<&[u8], Failure> {
        let mut kept = self.buffer.take();
        let read = self.read_to(&mut kept, file, offset, bytes);
        self.buffer = kept;
        let read = read?;
        Ok(self.buffer.as_ref().map_or(&[], |buffer| &buffer.as_slice()[..read]))
    }

    /// The same into memory of the caller's, or into new one where that is too small. Returns how
    /// many bytes there are.
    pub(super) fn read_to(
        &mut self,
        kept: &mut Option<Buffer>,
        file: File,
        offset: u64,
        bytes: usize,
    ) -> Result<usize, Failure> {
        let (mut buffer, mut have) = self.read_once(kept, file, offset, bytes)?;
        while have < bytes {
            // A read that stopped short, within a block perhaps: on from the block's start.
            let start = have - have % self.block_bytes;
            let from = offset + start as u64;
            let (more, count) = self.read_once(&mut None, file, from, bytes - start)?;
            if start + count <= have {
                break;
            }
            let part = &more.as_slice()[..count];
            buffer.as_mut_slice()[start..start + count].copy_from_slice(part);
            have = start + count;
        }
        self.bytes_read += have as u64;
        *kept = Some(buffer);
        Ok(have)
    }

    fn read_once(
        &mut self,
        kept: &mut Option<Buffer>,
        file: File,
        offset: u64,
        bytes: usize,
    ) -> Result<(Buffer, usize), Failure> {
        let large_enough = kept.take().filter(|buffer| buffer.as_slice().len() >= bytes);
        let buffer = large_enough.unwrap_or_else(|| Buffer::new(bytes));
        match self.disk.perform(Action::Read { file, offset, buffer, bytes }) {
            Outcome::Read(buffer, count) => Ok((buffer, count.min(bytes))),
            Outcome::Failed(failure, buffer) => {
                *kept = buffer;
                Err(failure)
            }
            _ => Err(Failure::NotFound),
        }
    }
}
