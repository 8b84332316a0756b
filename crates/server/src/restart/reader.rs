//! Reading the file, whoever wrote it and whatever became of it since.

use std::io::{ErrorKind, Read};

use super::format::{
    CHECKSUM_BYTES, CHUNK_BYTES_MAX, CHUNK_HEAD_BYTES, Flaw, HEADER_BYTES, Header,
    RECORD_HEAD_BYTES, RecordHead, checksum, u32_at, u64_at,
};

/// Reads records from a file, in order. Only bytes whose checksum is right are ever shown.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    header: Header,
    /// The chunk at hand, with its head and checksum.
    chunk: Vec<u8>,
    /// What of it has been read, and where what it carries ends.
    at: usize,
    end: usize,
    chunks: u64,
    /// Bytes of the file up to the end of the chunk.
    position: u64,
    /// Bytes that the chunks behind this one carry.
    payload_left: u64,
    records: u64,
}

/// A record of the file; its value comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// Opaque to the store.
    pub client_flags: u32,
    /// Bytes of the value.
    pub value_len: u32,
    /// When it expires, in milliseconds since the Unix epoch on the wall clock; 0 is never.
    pub expiry_ms: u64,
    /// Its CAS token.
    pub token: u64,
    /// It was marked stale.
    pub stale: bool,
    /// A client was told to recache it.
    pub win_sent: bool,
    /// It was read since it was stored.
    pub fetched: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`Flaw`].
    pub fn new(mut source: R) -> Result<Self, Flaw> {
        let mut bytes = [0; HEADER_BYTES];
        match source.read_exact(&mut bytes) {
            Ok(()) => {}
            // What is too short for a header never had one.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(Flaw::Foreign),
            Err(error) => return Err(error.into()),
        }
        let header = Header::read(&bytes)?;
        Ok(Self {
            source,
            header,
            chunk: Vec::new(),
            at: 0,
            end: 0,
            chunks: 0,
            position: HEADER_BYTES as u64,
            payload_left: header.payload_bytes,
            records: 0,
        })
    }

    /// Records that the file says it has.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.header.records
    }

    /// Of these, records that have not been read.
    pub(super) fn records_left(&self) -> u64 {
        self.header.records.saturating_sub(self.records)
    }

    /// The greatest token that had been given out when it was written.
    #[must_use]
    pub fn last_token(&self) -> u64 {
        self.header.last_token
    }

    /// When it was finished, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn saved_ms(&self) -> u64 {
        self.header.saved_ms
    }

    /// Bytes of the file that are not needed any more.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next record, if there is one. Its value is to be read before the next call.
    ///
    /// # Errors
    /// [`Flaw`]; there is nothing more to be read then.
    pub fn next_record(&mut self) -> Result<Option<Record>, Flaw> {
        if self.at == self.end && self.payload_left == 0 {
            return match self.records == self.header.records {
                true => Ok(None),
                false => Err(Flaw::Malformed(self.position)),
            };
        }
        let mut bytes = [0; RECORD_HEAD_BYTES];
        self.fill(&mut bytes)?;
        let head = RecordHead::read(&bytes).ok_or(Flaw::Malformed(self.position))?;
        let mut key = vec![0; head.key_len.into()];
        self.fill(&mut key)?;
        self.records += 1;
        Ok(Some(Record {
            key,
            client_flags: head.client_flags,
            value_len: head.value_len,
            expiry_ms: head.expiry_ms,
            token: head.token,
            stale: head.stale,
            win_sent: head.win_sent,
            fetched: head.fetched,
        }))
    }

    /// Shows `visit` the next `len` bytes, which are a value, in slices.
    ///
    /// # Errors
    /// [`Flaw`]; what was shown before is part of a value that never comes.
    pub fn value(&mut self, len: u32, mut visit: impl FnMut(&[u8])) -> Result<(), Flaw> {
        let mut left = len as usize;
        while left > 0 {
            let slice = self.some(left)?;
            visit(slice);
            left -= slice.len();
        }
        Ok(())
    }

    /// What the chunks carry behind the last value, piece by piece.
    pub(super) fn rest(&mut self) -> Result<Option<&[u8]>, Flaw> {
        if self.at == self.end && self.payload_left == 0 {
            return Ok(None);
        }
        self.some(CHUNK_BYTES_MAX).map(Some)
    }

    fn fill(&mut self, mut bytes: &mut [u8]) -> Result<(), Flaw> {
        while !bytes.is_empty() {
            let slice = self.some(bytes.len())?;
            let (now, later) = bytes.split_at_mut(slice.len());
            now.copy_from_slice(slice);
            bytes = later;
        }
        Ok(())
    }

    /// At least one byte of what the chunks carry, at most `most`.
    fn some(&mut self, most: usize) -> Result<&[u8], Flaw> {
        if self.at == self.end {
            self.next_chunk()?;
        }
        let start = self.at;
        self.at = self.end.min(start + most);
        Ok(&self.chunk[start..self.at])
    }

    fn next_chunk(&mut self) -> Result<(), Flaw> {
        let start = self.position;
        if self.payload_left == 0 {
            return Err(Flaw::Malformed(start));
        }
        self.chunk.resize(CHUNK_HEAD_BYTES, 0);
        read(&mut self.source, &mut self.chunk)?;
        let len = u32_at(&self.chunk, 8) as usize;
        // Before the checksum is known: memory for a length that cannot be is not asked for.
        if !(1..=CHUNK_BYTES_MAX).contains(&len) || len as u64 > self.payload_left {
            return Err(Flaw::Damaged(start));
        }
        let end = CHUNK_HEAD_BYTES + len;
        self.chunk.resize(end + CHECKSUM_BYTES, 0);
        read(&mut self.source, &mut self.chunk[CHUNK_HEAD_BYTES..])?;
        let is_whole = checksum(&self.chunk[..end]) == u64_at(&self.chunk, end);
        if !is_whole || u64_at(&self.chunk, 0) != self.chunks {
            return Err(Flaw::Damaged(start));
        }
        self.chunks += 1;
        self.payload_left -= len as u64;
        self.position += self.chunk.len() as u64;
        (self.at, self.end) = (CHUNK_HEAD_BYTES, end);
        Ok(())
    }
}

fn read(source: &mut impl Read, bytes: &mut [u8]) -> Result<(), Flaw> {
    source.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => Flaw::Truncated,
        _ => error.into(),
    })
}
