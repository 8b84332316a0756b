//! A value that is put while the one before is still in the chunk that is being filled takes its
//! place: where few keys are written most often, less goes to the disk and less has to be moved.
//!
//! The record is of the same length and belongs to no batch, so nothing else in the chunk changes.
//! What the older one was is on no disk and never will be; whoever waits for it waits for the
//! chunk, and with that for a newer value of the key. A crash takes a chunk's records, or leaves
//! them, each by itself as before. What is lost with them is counted with what they replaced, so
//! the bounds of `Async` hold.

use super::{Engine, Mark, Mode, Wrote};
use crate::{
    error::Error,
    format::{KeyHash, record::Record},
    keys::Keys,
};

/// What part of what may be at risk a chunk is closed behind that has so much written over.
const CHUNK_SHARE: u64 = 4;

impl<K: Keys> Engine<K> {
    /// Puts a record over the one that the key has, if that is where it can be written over, and
    /// nothing has to be waited for. The record's token is 0 when none is set.
    ///
    /// # Errors
    /// When all sequences are used up.
    pub(super) fn overwrite(
        &mut self,
        hash: KeyHash,
        record: &Record<'_>,
    ) -> Result<Option<Wrote>, Error> {
        let Some(entry) = self.index.get(hash).filter(|entry| !entry.class.is_tombstone()) else {
            return Ok(None);
        };
        let (segment, offset) = self.place(entry.position);
        let tail = self.open.as_ref().filter(|tail| tail.segment == segment);
        let sequence = self.next_sequence;
        let token = if record.token == 0 { sequence } else { record.token };
        let record = Record { sequence, token, ..*record };
        let takes_over = tail.is_some_and(|tail| tail.takes_over(&record, offset));
        if !takes_over || !self.may_overwrite(record.bytes() as u64) {
            return Ok(None);
        }
        let sequence = self.draw()?;
        let mark = Mark(self.next_ticket);
        self.next_ticket += 1;
        self.counts.records += 1;
        self.counts.record_bytes += record.bytes() as u64;
        self.counts.overwritten += 1;
        let tail = self.open.as_mut().expect("invariant: the record was found in it");
        let overwritten_bytes = tail.overwrite(&record, offset);
        let is_async = self.settings.mode == Mode::Async;
        if is_async && overwritten_bytes >= self.settings.at_risk_bytes_max / CHUNK_SHARE {
            self.close_chunk();
        }
        Ok(Some(Wrote::Done { sequence, mark }))
    }

    /// Whether nothing has to be done or awaited before so many bytes more are at risk.
    fn may_overwrite(&self, bytes: u64) -> bool {
        let is_wiping = self.is_wiping_soon() && !base::mutant!("log_put_while_wiping");
        let is_at_risk = self.is_at_risk(bytes) && !base::mutant!("log_overwritten_at_risk");
        let is_held = self.durable_below() < self.held_below;
        !is_wiping && !is_at_risk && !is_held && self.stranded.is_empty()
    }
}
