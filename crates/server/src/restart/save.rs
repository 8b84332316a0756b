//! Writing the file.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use cache::{Cache, TakeOut, Taken};

use super::{
    Claim, Progress, Reader,
    format::{
        CHECKSUM_BYTES, CHUNK_BYTES_MAX, CHUNK_HEAD_BYTES, HEADER_BYTES, Header, RecordHead,
        checksum,
    },
};
use crate::Error;

/// Moves all records from a cache that nobody uses any more to the file at `path`, which is there
/// when it is complete.
pub(crate) fn save(path: &Path, cache: &Cache, claim: Claim) -> Result<(), Error> {
    save_before(path, cache, claim, None, |_| Ok(()))
}

/// The same, and then what `rest` adds, in the place of the file that this is the rest of.
pub(super) fn save_before(
    path: &Path,
    cache: &Cache,
    claim: Claim,
    replaced: Option<&File>,
    rest: impl FnOnce(&mut Writer<&File>) -> io::Result<()>,
) -> Result<(), Error> {
    let failed = |source| Error::Restart { path: path.to_owned(), what: "writing", source };
    let mut worker = cache.worker()?;
    let mut progress = Progress::new("records are being written");
    let written = Writer::new(claim.file()).and_then(|mut writer| {
        let mut place = TakeOut::default();
        while worker.take_out(&mut place, |taken| writer.record(taken, cache))? {
            progress.show(writer.header.records);
        }
        rest(&mut writer)?;
        writer.header.saved_ms = cache.clock().wall_ms();
        writer.header.last_token = cache.last_token();
        writer.finish()
    });
    let Header { records, payload_bytes, .. } = written
        .and_then(|header| claim.publish(path, replaced).map(|()| header))
        .map_err(failed)?;
    tracing::info!(records, bytes = payload_bytes, path = %path.display(), "records kept");
    Ok(())
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Writer<W> {
    target: W,
    header: Header,
    /// The chunk at hand: its head, and what it carries so far.
    chunk: Vec<u8>,
    chunks: u64,
}

impl<W: Write + Seek> Writer<W> {
    pub(super) fn new(mut target: W) -> io::Result<Self> {
        // Zeros until it is complete.
        target.write_all(&[0; HEADER_BYTES])?;
        let mut chunk = Vec::with_capacity(CHUNK_HEAD_BYTES + CHUNK_BYTES_MAX + CHECKSUM_BYTES);
        chunk.resize(CHUNK_HEAD_BYTES, 0);
        Ok(Self { target, header: Header::default(), chunk, chunks: 0 })
    }

    pub(super) fn record(&mut self, taken: &Taken<'_>, cache: &Cache) -> io::Result<()> {
        let (clock, meta) = (cache.clock(), taken.meta);
        // What waits to be flushed must not come back for good.
        let ends = [meta.expiry_ms, cache.flush_due_ms()].into_iter().filter(|at_ms| *at_ms != 0);
        let expiry_ms = ends.min().map_or(0, |at_ms| {
            at_ms.saturating_sub(clock.now_ms()).saturating_add(clock.wall_ms())
        });
        let head = RecordHead {
            key_len: u8::try_from(taken.key.len()).expect("invariant: at most 250 bytes"),
            stale: meta.stale,
            win_sent: meta.win_sent,
            fetched: meta.fetched,
            client_flags: meta.client_flags,
            value_len: meta.value_len,
            expiry_ms,
            token: meta.token,
        };
        self.push(&head.write())?;
        self.push(taken.key)?;
        taken.value(|slice| self.push(slice))?;
        self.header.records += 1;
        Ok(())
    }

    /// Adds what `reader` has not read, as it is; `done` hears up to where its file is not needed
    /// any more. What is damaged ends it, and will be found to be missing.
    pub(super) fn push_rest(
        &mut self,
        reader: &mut Reader<impl Read>,
        mut done: impl FnMut(u64),
    ) -> io::Result<()> {
        self.header.records += reader.records_left();
        loop {
            match reader.rest() {
                Ok(Some(slice)) => self.push(slice)?,
                Ok(None) => return Ok(()),
                Err(flaw) => {
                    tracing::warn!("the rest of the restart file is lost: {flaw}");
                    return Ok(());
                }
            }
            done(reader.position());
        }
    }

    fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = CHUNK_HEAD_BYTES + CHUNK_BYTES_MAX - self.chunk.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if now.len() == room {
                self.end_chunk()?;
            }
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        let len = self.chunk.len() - CHUNK_HEAD_BYTES;
        if len == 0 {
            return Ok(());
        }
        let len_field = u32::try_from(len).expect("invariant: at most 256 KiB");
        self.chunk[..8].copy_from_slice(&self.chunks.to_le_bytes());
        self.chunk[8..12].copy_from_slice(&len_field.to_le_bytes());
        let sum = checksum(&self.chunk);
        self.chunk.extend_from_slice(&sum.to_le_bytes());
        self.target.write_all(&self.chunk)?;
        self.chunk.truncate(CHUNK_HEAD_BYTES);
        self.chunks += 1;
        self.header.payload_bytes += len as u64;
        Ok(())
    }

    /// Writes the header, which makes the file one.
    pub(super) fn finish(mut self) -> io::Result<Header> {
        self.end_chunk()?;
        self.target.seek(SeekFrom::Start(0))?;
        self.target.write_all(&self.header.write())?;
        self.target.flush()?;
        Ok(self.header)
    }
}
