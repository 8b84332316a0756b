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

/// A chunk is closed when one of so many shares of what may be at risk was written over in it: it
/// is on its way before all of them are, and nobody has to wait.
const SHARES: u64 = 4;

impl<K: Keys> Engine<K> {
    /// Puts a record over the one that the key has, if that is where it can be written over, and
    /// nothing has to be waited for. The record's token is 0 when none is set.
    ///
    /// # Errors
    /// When all sequences are used up.
    #[inline]
    pub(super) fn overwrite(
        &mut self,
        hash: KeyHash,
        record: &Record<'_>,
    ) -> Result<Option<Wrote>, Error> {
        let Some(entry) = self.index.get(hash).filter(|entry| !entry.class.is_tombstone()) else {
            return Ok(None);
        };
        let (segment, offset) = self.place(entry.position);
        match &self.open {
            Some(tail) if tail.segment == segment => self.overwrite_at(offset, record),
            _ => Ok(None),
        }
    }

    /// The same of what lies in the open segment.
    fn overwrite_at(&mut self, offset: u64, record: &Record<'_>) -> Result<Option<Wrote>, Error> {
        // By its token a record may be longer.
        let sequence = self.next_sequence;
        let token = if record.token == 0 { sequence } else { record.token };
        let record = Record { sequence, token, ..*record };
        let found = self.open.as_ref().and_then(|tail| tail.takes_over(&record, offset));
        let Some(at) = found.filter(|_| self.may_overwrite(record.bytes() as u64)) else {
            return Ok(None);
        };
        let drawn = self.draw()?;
        debug_assert_eq!(drawn, sequence, "it is the next one");
        let mark = Mark(self.next_ticket);
        self.next_ticket += 1;
        self.counts.overwritten += 1;
        let tail = self.open.as_mut().expect("invariant: the value was found in it");
        let overwritten_bytes = tail.overwrite(&record, (offset, at), &mut self.spare);
        let is_async = self.settings.mode == Mode::Async;
        if is_async && overwritten_bytes >= self.settings.at_risk_bytes_max / SHARES {
            self.close_chunk();
        }
        Ok(Some(Wrote::Done { sequence, mark }))
    }

    /// Whether nothing has to be done or awaited before so many bytes more are at risk.
    fn may_overwrite(&self, bytes: u64) -> bool {
        let is_wiping = self.is_wiping_soon() && !base::mutant!("log_overwritten_while_wiping");
        let is_at_risk = self.is_at_risk(bytes) && !base::mutant!("log_overwritten_at_risk");
        let is_held = self.durable_below() < self.held_below;
        let is_held = is_held && !base::mutant!("log_overwritten_while_held");
        !is_wiping && !is_at_risk && !is_held && self.stranded.is_empty()
    }
}
