//! Room for records: in the chunk at hand, in the segment, in memory, and in what may be lost.

use super::{
    Engine, Mode, REWRITE_CHUNKS, Settings, chunk::Allowance, failure::TOKEN_BYTES_MAX,
    space::Taken, tail::Tail,
};
use crate::{
    error::Error,
    format::{
        record::HEADER_BYTES,
        segment::{HEADER_COPIES, footer_blocks},
    },
    keys::Keys,
    position::UNIT_BYTES,
};

/// What a record is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Put,
    Remove,
    Rewrite,
}

/// Bytes of the smallest record that decides: the header, and a key of a byte.
pub(super) const RECORD_BYTES_MIN: usize = (HEADER_BYTES + 1).next_multiple_of(UNIT_BYTES as usize);

/// What room is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) bytes: usize,
    pub(super) records: usize,
}

impl Needed {
    pub(super) fn one(bytes: usize) -> Self {
        Self { bytes, records: 1 }
    }

    /// All that chunks can hold, in the smallest records.
    pub(super) fn most(settings: &Settings) -> Self {
        let chunks = usize::from(settings.chunks) - REWRITE_CHUNKS;
        let bytes = chunks * settings.chunk_bytes as usize;
        Self { bytes, records: bytes / RECORD_BYTES_MIN }
    }
}

/// Whether a record can be appended now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Ready,
    Wait,
}

impl<K: Keys> Engine<K> {
    /// Sees to it that records can be appended side by side.
    pub(super) fn make_room(&mut self, needed: Needed, purpose: Purpose) -> Result<Room, Error> {
        let is_rewrite = purpose == Purpose::Rewrite;
        let waits = match is_rewrite {
            true => self.is_wiping() && !base::mutant!("log_rewritten_while_wiping"),
            false => self.is_wiping_soon() && !base::mutant!("log_put_while_wiping"),
        };
        if waits {
            return Ok(Room::Wait);
        }
        if is_rewrite && self.is_wipe_unsure() {
            return Err(Error::ReadOnly);
        }
        if self.next_sequence + needed.records as u64 > self.sequence_end() {
            return Err(Error::SequencesUsedUp);
        }
        if purpose == Purpose::Put && self.is_ready(needed.bytes) {
            return Ok(Room::Ready);
        }
        if !is_rewrite {
            if !self.stranded.is_empty() {
                return self.check_rewriting().map(|()| Room::Wait);
            }
            let is_held = self.durable_below() < self.held_below;
            if is_held
                || self.is_at_risk(needed.bytes as u64)
                || self.is_too_much_to_rewrite(needed)
            {
                // Whatever the bounds are, what is in the way is on its way.
                self.drain_below = self.drain_below.max(self.next_ticket);
                if needed.bytes as u64 > self.settings.at_risk_bytes_max {
                    self.held_below = self.next_ticket;
                }
                return Ok(Room::Wait);
            }
        }
        if self.open.as_ref().is_some_and(|tail| !tail.has_room(needed)) && !self.close_tail() {
            return Ok(Room::Wait);
        }
        if self.open.is_none() {
            match self.take_segment(purpose)? {
                Taken::Taken => {}
                Taken::Wait => return Ok(Room::Wait),
            }
        }
        let is_put = purpose == Purpose::Put;
        if is_put && !self.is_open_for_puts()? {
            return Ok(Room::Wait);
        }
        match self.open.as_ref().and_then(|tail| tail.chunk_takes(needed.bytes)) {
            Some(true) if is_put => return Ok(self.go_on_in_chunk(needed.bytes)),
            Some(true) => {
                self.open.iter_mut().for_each(|tail| tail.let_pass(needed.bytes));
                return Ok(Room::Ready);
            }
            Some(false) => self.close_chunk(),
            None => {}
        }
        self.begin_chunk(needed, purpose)
    }

    /// Whether a put for which the chunk has room may be made.
    fn go_on_in_chunk(&mut self, bytes: usize) -> Room {
        if self.open.as_ref().is_some_and(|tail| tail.is_paid(bytes)) {
            return Room::Ready;
        }
        // It may be enough for this put.
        self.take_back_allowance();
        let allowance = self.allowance(bytes);
        if allowance == Allowance::Nothing {
            return Room::Wait;
        }
        self.pay(allowance);
        Room::Ready
    }

    fn begin_chunk(&mut self, needed: Needed, purpose: Purpose) -> Result<Room, Error> {
        let is_put = purpose == Purpose::Put;
        // What is no put costs nothing; the next put is to ask.
        let allowance = if is_put { self.allowance(needed.bytes) } else { Allowance::Nothing };
        if is_put && allowance == Allowance::Nothing {
            return Ok(Room::Wait);
        }
        self.reclaim();
        let kept = if purpose == Purpose::Rewrite { 0 } else { REWRITE_CHUNKS };
        if self.buffers.len() <= kept {
            // What has them is on its way, however little it is.
            self.drain_below = self.drain_below.max(self.next_ticket);
            return Ok(Room::Wait);
        }
        // The chunk that was closed may have taken the segment's last block.
        if self.open.as_ref().is_some_and(|tail| !tail.has_room(needed)) {
            return self.make_room(needed, purpose);
        }
        let (next_ticket, now_ms) = (self.next_ticket, self.now_ms);
        if let (Some(tail), Some(buffer)) = (&mut self.open, self.buffers.pop()) {
            tail.fill(buffer, next_ticket, now_ms);
        }
        self.pay(allowance);
        if !is_put {
            self.open.iter_mut().for_each(|tail| tail.let_pass(needed.bytes));
        }
        Ok(Room::Ready)
    }

    /// Whether records of so many bytes can be put, and nothing is to be done before: what nearly
    /// every put finds, by a short look at what [`Engine::make_room`] looks at in full.
    #[inline]
    pub(super) fn is_ready(&self, bytes: usize) -> bool {
        let Some(tail) = self.open.as_ref().filter(|tail| tail.is_for_puts && tail.takes(bytes))
        else {
            return false;
        };
        // What is being sealed is flushed.
        let durable_below = tail.first_unflushed().unwrap_or(self.next_ticket);
        let has_heads = self.heads.last().is_some_and(|(ticket, _)| *ticket >= durable_below);
        let is_alone = self.closing.is_empty() && self.stranded.is_empty() && !has_heads;
        let is_held = durable_below < self.held_below;
        let settings = &self.settings;
        let is_within = settings.mode == Mode::Safe || base::mutant!("log_ready_at_risk") || {
            let at_risk = tail.at_risk_bytes();
            let since_ms = tail.waits_since_ms().unwrap_or(self.now_ms);
            at_risk == 0
                || at_risk + bytes as u64 <= settings.at_risk_bytes_max
                    && self.now_ms.saturating_sub(since_ms) < settings.at_risk_ms_max
        };
        is_alone && !is_held && is_within && !self.may_outgrow_segment
    }

    /// The most bytes of what lies side by side: it fits into a chunk, and into an empty segment.
    pub(super) fn records_bytes_max(&self) -> usize {
        let shape = &self.manifest.shape;
        // Two blocks of header, one of footer, the trailer.
        let segment = shape.segment_bytes - 4 * u64::from(shape.block_bytes);
        let chunk = u64::from(self.settings.chunk_bytes);
        usize::try_from(segment.min(chunk)).unwrap_or(usize::MAX)
    }

    /// Whether records, written again with their new tokens, fit into one empty segment with their
    /// footer: on a full disk one is kept for that. Of two chunks that follow one another the
    /// second is begun because what comes next does not fit into the first, so there are fewer
    /// than twice as many as bytes for them and two, and each may end with a block that is not
    /// full.
    pub(super) fn fits_a_segment(&self, needed: Needed) -> bool {
        let shape = &self.manifest.shape;
        let block = u64::from(shape.block_bytes);
        let bytes = (needed.bytes + needed.records * TOKEN_BYTES_MAX) as u64;
        let chunks = 2 * (bytes / u64::from(self.settings.chunk_bytes)) + 2;
        let footer = footer_blocks(needed.records, shape.block_bytes);
        bytes + (HEADER_COPIES + chunks + footer + 1) * block <= shape.segment_bytes
    }

    /// Whether more would wait for its flush than can be written again if that fails.
    fn is_too_much_to_rewrite(&self, needed: Needed) -> bool {
        if !self.may_outgrow_segment || base::mutant!("log_rewrite_unbounded") {
            return false;
        }
        let bytes: u64 = self.own_tails().map(Tail::unflushed_bytes).sum();
        let overwritten: u64 = self.own_tails().map(|tail| tail.overwritten().records).sum();
        let records = self.next_ticket - self.durable_below() - overwritten;
        let all = Needed {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX / 2) + needed.bytes,
            records: usize::try_from(records).unwrap_or(usize::MAX / 2) + needed.records,
        };
        bytes > 0 && !self.fits_a_segment(all)
    }

    /// Whether a record more would be more than may be lost.
    pub(super) fn is_at_risk(&self, bytes: u64) -> bool {
        if self.settings.mode == Mode::Safe {
            return false;
        }
        let (mut in_tails, mut oldest_ms) = (0, u64::MAX);
        for tail in self.own_tails() {
            in_tails += tail.at_risk_bytes();
            oldest_ms = oldest_ms.min(tail.waits_since_ms().unwrap_or(u64::MAX));
        }
        let at_risk = in_tails + self.large_bytes_at_risk();
        let is_too_much = at_risk + bytes > self.settings.at_risk_bytes_max;
        let age_ms = self.now_ms.saturating_sub(oldest_ms);
        let is_too_old =
            age_ms >= self.settings.at_risk_ms_max && !base::mutant!("log_async_never_due");
        in_tails > 0 && (is_too_much || is_too_old)
    }

    /// Bytes that are acknowledged and not flushed, if the mode is `Async`.
    pub(super) fn at_risk_bytes(&self) -> u64 {
        let in_tails: u64 = self.own_tails().map(Tail::at_risk_bytes).sum();
        in_tails + self.large_bytes_at_risk()
    }

    pub(super) fn close_chunk(&mut self) {
        self.take_back_allowance();
        let next_ticket = self.next_ticket;
        if let Some(tail) = self.open.as_mut().filter(|tail| tail.is_filling()) {
            let before = tail.end();
            tail.close_chunk(next_ticket, &mut self.spare);
            self.counts.commits += 1;
            self.counts.commit_bytes += tail.end() - before;
        }
    }
}
