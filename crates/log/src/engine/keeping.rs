//! What a clean stop leaves of where the parts of large values lie, and the next open takes.

use std::sync::Arc;

use super::{Engine, chain::Chain};
use crate::{
    error::Error,
    format::{
        manifest::Manifest,
        parts::{self, HEADER_BYTES, Header, PIECE_BYTES, PIECE_WORDS, Places},
    },
    keys::Keys,
    plan::{Action, Buffer, DirectoryId, Disk, Failure, File, FileName},
};

const HOME: DirectoryId = DirectoryId(0);

/// Pieces that are written or read at once: a megabyte.
const PIECES_AT_ONCE: usize = 16;

pub(super) const PARTS: File = File { directory: HOME, name: FileName::Parts };
pub(super) const PARTS_NEW: File = File { directory: HOME, name: FileName::PartsNew };

impl<K: Keys> Engine<K> {
    /// Saves where the parts of large values lie. Says how many values there are.
    pub(super) fn save_parts(&self, disk: &mut dyn Disk) -> Result<u64, Error> {
        if self.larges.is_empty() {
            return Ok(0);
        }
        let header = Header::of(self.manifest.log, self.manifest.run, &self.larges);
        self.write_parts(&header, disk).inspect_err(|_| {
            // A full disk's allocation keeps what it got. What else fails now changes nothing.
            disk.perform(Action::Truncate { file: PARTS_NEW, bytes: 0 });
            disk.perform(Action::Remove { file: PARTS_NEW });
        })?;
        Ok(header.values)
    }

    fn write_parts(&self, header: &Header, disk: &mut dyn Disk) -> Result<(), Error> {
        let file = PARTS_NEW;
        let mut chain = Chain::default();
        chain.push_tolerant(Action::Remove { file });
        chain.push(Action::Create { file });
        let bytes = header.file_bytes().expect("invariant: they are in memory");
        chain.push(Action::Allocate { file, bytes });
        let mut first = Buffer::new(HEADER_BYTES);
        header.encode(first.as_mut_slice());
        push_write(&mut chain, 0, first, HEADER_BYTES);
        chain.perform(disk)?;
        let mut words = parts::words(&self.larges);
        let (mut number, mut offset) = (0, HEADER_BYTES as u64);
        while number < header.pieces() {
            let pieces = PIECES_AT_ONCE.min((header.pieces() - number) as usize);
            let mut buffer = Buffer::new(pieces * PIECE_BYTES);
            let mut filled = 0;
            for piece in buffer.as_mut_slice().chunks_exact_mut(PIECE_BYTES) {
                let some: Vec<u64> = words.by_ref().take(PIECE_WORDS).collect();
                if some.is_empty() {
                    break;
                }
                header.encode_piece(number, &some, piece);
                (number, filled) = (number + 1, filled + PIECE_BYTES);
            }
            let mut chain = Chain::default();
            push_write(&mut chain, offset, buffer, filled);
            chain.perform(disk)?;
            offset += filled as u64;
        }
        let mut chain = Chain::default();
        chain.push(Action::Flush { file });
        chain.push(Action::Rename { file, to: FileName::Parts });
        chain.push(Action::FlushDirectory { directory: HOME });
        chain.perform(disk)
    }
}

fn push_write(chain: &mut Chain, offset: u64, buffer: Buffer, bytes: usize) {
    let buffer = Arc::new(buffer);
    chain.push(Action::Write { file: PARTS_NEW, offset, buffer, from: 0, bytes });
}

/// Where the parts lie of the large values that a clean manifest counts; of none, nothing is read.
/// `read` reads a range, or less where the file ends.
///
/// # Errors
/// When that is not what the stop has saved.
pub(super) fn read_parts(
    manifest: &Manifest,
    mut read: impl FnMut(File, u64, usize) -> Result<Vec<u8>, Failure>,
) -> Result<Places, Error> {
    if manifest.large_values == 0 {
        return Ok(Places::new());
    }
    let damaged = |offset| {
        let flaw = "it does not say where the parts of large values lie".to_owned();
        Error::SavedIndex { file: PARTS, offset, flaw }
    };
    let mut read = |offset, bytes| {
        let failed = |failure| Error::Disk { doing: "read", file: PARTS, failure };
        read(PARTS, offset, bytes).map_err(failed)
    };
    let header = Header::decode(&read(0, HEADER_BYTES)?).ok_or(damaged(0))?;
    let found = (header.log, header.run, header.values);
    let is_of_another = found != (manifest.log, manifest.run, manifest.large_values);
    if is_of_another && !base::mutant!("log_parts_of_another_stop") {
        return Err(damaged(0));
    }
    let mut words = Vec::new();
    let (mut number, mut offset) = (0, HEADER_BYTES as u64);
    while number < header.pieces() {
        let pieces = (header.pieces() - number).min(PIECES_AT_ONCE as u64) as usize;
        let bytes = read(offset, pieces * PIECE_BYTES)?;
        for at in 0..pieces {
            let piece = bytes.get(at * PIECE_BYTES..(at + 1) * PIECE_BYTES).unwrap_or_default();
            let some = header.decode_piece(number, piece).ok_or(damaged(offset))?;
            words.extend(some);
            (number, offset) = (number + 1, offset + PIECE_BYTES as u64);
        }
    }
    let places = parts::places(&words).filter(|places| places.len() as u64 == header.values);
    places.ok_or(damaged(HEADER_BYTES as u64))
}
