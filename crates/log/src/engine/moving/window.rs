//! What is read of a segment that is moved, and when.
//!
//! While the records of one window are copied the next one is read, and the next piece of the
//! footer when it comes to an end: the device is not to wait for the copies, nor they for it. One
//! read is out at a time. Buffers are used again, as memory that is new to the process may take
//! milliseconds to come.

use super::{Compaction, Engine, Moving, Next};
use crate::{
    engine::read::Reading,
    format::{
        KeyHash,
        segment::{Listed, Trailer, decode_footer_block, footer_blocks},
    },
    keys::Keys,
    plan::{Action, Buffer, Outcome},
    position::SizeClass,
};

/// Bytes of records that are read at once, unless one record has more: no more than this part of a
/// segment, an eighth. As one read is out at a time, moves come to what each takes beside its
/// bytes: by half as many, they are slower by a tenth, and so is what waits for them.
const READ_BYTES: u64 = 1 << 20;
const READ_PART: u64 = 8;

/// Records that are read at once.
const READ_RECORDS: usize = 2048;

/// Windows that were read and are not copied before another one is read.
pub(in crate::engine) const WINDOWS_AHEAD: usize = 2;

/// Buffers that are kept: of those windows, one of which may be a read that is out, and short ones
/// of a piece of a footer and of another read. With more the shortest goes.
const BUFFERS_KEPT: usize = WINDOWS_AHEAD + 2;

/// Bytes of a footer that are read at once, some 2,000 records, and of small segments this part.
const FOOTER_BYTES: u64 = 64 << 10;
const FOOTER_PART: u64 = 16;

/// The next piece of the footer is read when no more records than this are to be moved that are in
/// no window yet.
const LISTED_LOW: usize = READ_RECORDS;

/// Reads that stop short, or of a footer that is damaged, before a segment is left as it is.
const SHORT_READS_MAX: u32 = 64;

/// What a read is of.
#[derive(Debug)]
pub(super) enum Awaited {
    Trailer,
    Footer {
        blocks: u64,
    },
    /// The next `count` records of those that are to be moved.
    Window {
        from: u64,
        end: u64,
        count: usize,
    },
    Head(KeyHash, Box<Reading>),
}

/// What is to be read next.
pub(super) enum Wanted {
    Trailer,
    Window,
    Footer { from: u64, blocks: u64 },
}

/// Records that were read: the first of those that are to be moved.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) end: u64,
    /// How many of them are not copied.
    pub(super) count: usize,
    pub(super) buffer: Buffer,
}

/// Blocks of a footer that were read. One is decoded at a time: that takes some microseconds, and
/// nobody else has the log meanwhile.
#[derive(Debug)]
pub(super) struct Piece {
    buffer: Buffer,
    /// How many there are, with those that are decoded, and how many are not.
    all: u64,
    pub(super) blocks: u64,
}

impl Window {
    /// What lies at an offset of the segment, up to the end of the window.
    pub(super) fn bytes_at(&self, offset: u64) -> &[u8] {
        let at = usize::try_from(offset.saturating_sub(self.from)).unwrap_or(usize::MAX);
        let end = usize::try_from(self.end - self.from).unwrap_or(usize::MAX);
        self.buffer.as_slice().get(at..end).unwrap_or_default()
    }
}

impl Moving {
    /// Whether it was read again too often.
    pub(super) fn is_unreadable(&self) -> bool {
        self.short_reads > SHORT_READS_MAX
    }
}

/// Where a record ends at most.
pub(super) fn end_of(listed: &Listed) -> u64 {
    let class = SizeClass::from_bits(listed.class).unwrap_or(SizeClass::LARGEST);
    listed.offset() + u64::from(class.bytes())
}

impl<K: Keys> Engine<K> {
    /// The next read, if there is one that need not wait for what is to be copied.
    pub(super) fn next_read(&mut self, moving: &mut Moving) -> Option<Next> {
        let shape = self.manifest.shape;
        let block = u64::from(shape.block_bytes);
        Some(match self.wants_read(moving)? {
            Wanted::Trailer => {
                let from = shape.segment_bytes - block;
                self.read_of(moving, from, from + block, Awaited::Trailer)
            }
            Wanted::Window => self.read_window(moving),
            Wanted::Footer { from, blocks } => {
                self.read_of(moving, from, from + blocks * block, Awaited::Footer { blocks })
            }
        })
    }

    /// What is to be read next, though there may be something to be copied.
    pub(super) fn wants_read(&self, moving: &Moving) -> Option<Wanted> {
        let shape = &self.manifest.shape;
        let block = u64::from(shape.block_bytes);
        let Some((records_end, blocks)) = moving.footer else { return Some(Wanted::Trailer) };
        if moving.unplanned() > 0 && moving.windows.len() < WINDOWS_AHEAD {
            return Some(Wanted::Window);
        }
        let left = blocks - moving.next_block;
        let is_whole = self.drops_whole() && moving.piece.is_none();
        let is_low = (!moving.has_entries() || is_whole) && moving.unplanned() <= LISTED_LOW;
        if left == 0 || !is_low || moving.has_many_larges() {
            return None;
        }
        let at_once = self.footer_bytes() / block;
        let from = records_end + moving.next_block * block;
        Some(Wanted::Footer { from, blocks: at_once.max(1).min(left) })
    }

    /// Reads the next records that are to be moved, with what lies between.
    fn read_window(&mut self, moving: &mut Moving) -> Next {
        let shape = &self.manifest.shape;
        let block = u64::from(shape.block_bytes);
        let (mut from, mut end, mut count) = (0, 0, 0);
        for listed in moving.listed.range(moving.planned..).take(READ_RECORDS) {
            if count == 0 {
                from = listed.offset() - listed.offset() % block;
            } else if listed.offset() < from || end_of(listed) > from + self.window_bytes() {
                break;
            }
            end = end.max(end_of(listed));
            count += 1;
        }
        let end = end.next_multiple_of(block).min(shape.segment_bytes);
        moving.planned += count;
        self.read_of(moving, from, end, Awaited::Window { from, end, count })
    }

    fn window_bytes(&self) -> u64 {
        READ_BYTES.min(self.manifest.shape.segment_bytes / READ_PART)
    }

    fn footer_bytes(&self) -> u64 {
        FOOTER_BYTES.min(self.manifest.shape.segment_bytes / FOOTER_PART)
    }

    fn read_of(&mut self, moving: &Moving, from: u64, end: u64, awaited: Awaited) -> Next {
        let bytes = usize::try_from(end - from).unwrap_or(usize::MAX);
        let buffer = self.buffer_of(bytes);
        Next::Read(Action::Read { file: moving.file, offset: from, buffer, bytes }, awaited)
    }

    /// A buffer of so many bytes, or more. What is short has a short one, and leaves those of
    /// windows to windows: else there would be more of them.
    pub(super) fn buffer_of(&mut self, bytes: usize) -> Buffer {
        let [short, window] = [self.footer_bytes(), self.window_bytes()]
            .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let is_short = bytes <= short && !base::mutant!("log_footers_have_windows");
        let most = if is_short { short } else { window.max(bytes) };
        let kept = &mut self.compaction.buffers;
        let longest = if is_short { short } else { usize::MAX };
        let at = kept.iter().position(|kept| (bytes..=longest).contains(&kept.as_slice().len()));
        at.map_or_else(|| Buffer::new(most), |at| kept.swap_remove(at))
    }

    /// Takes what came of a read.
    pub(in crate::engine) fn report_move(&mut self, outcome: Outcome) {
        let awaited = self.compaction.reading.take();
        let (Some(mut moving), Some(awaited)) = (self.compaction.moving.take(), awaited) else {
            return self.compaction.keep_buffer_of(outcome);
        };
        if self.is_pinned(moving.victim) {
            self.compaction.keep_buffer_of(outcome);
            self.compaction.moving = Some(moving);
            return self.cancel_moves();
        }
        let planned = if let Awaited::Window { count, .. } = awaited { count } else { 0 };
        // A footer is taken when it is decoded.
        let is_footer = matches!(awaited, Awaited::Footer { .. });
        let is_taken = match outcome {
            Outcome::Read(buffer, bytes) => self.take_read(&mut moving, awaited, buffer, bytes),
            outcome => {
                self.compaction.keep_buffer_of(outcome);
                None
            }
        };
        if is_taken.is_some() {
            moving.short_reads = if is_footer { moving.short_reads } else { 0 };
        } else {
            moving.short_reads += 1;
            // They are read again.
            moving.planned -= if base::mutant!("log_short_window_skipped") { 0 } else { planned };
        }
        if moving.is_unreadable() {
            self.leave(moving);
        } else {
            self.compaction.moving = Some(moving);
        }
    }

    /// `None` when it has to be read again, or is damaged.
    fn take_read(
        &mut self,
        moving: &mut Moving,
        awaited: Awaited,
        buffer: Buffer,
        bytes: usize,
    ) -> Option<()> {
        let block = u64::from(self.manifest.shape.block_bytes);
        let read = &buffer.as_slice()[..bytes.min(buffer.as_slice().len())];
        let taken = match awaited {
            Awaited::Window { from, end, count } if read.len() as u64 >= end - from => {
                moving.windows.push_back(Window { from, end, count, buffer });
                return Some(());
            }
            Awaited::Footer { blocks } if read.len() as u64 >= blocks * block => {
                moving.next_block += blocks;
                moving.piece = Some(Piece { buffer, all: blocks, blocks });
                return Some(());
            }
            Awaited::Window { .. } | Awaited::Footer { .. } => None,
            Awaited::Trailer => self.take_trailer(moving, read),
            Awaited::Head(_, reading) if read.len() < reading.bytes() => None,
            Awaited::Head(hash, reading) => {
                self.move_head(moving, hash, &reading, read);
                Some(())
            }
        };
        self.compaction.keep_buffer(buffer);
        taken
    }

    fn take_trailer(&self, moving: &mut Moving, read: &[u8]) -> Option<()> {
        let shape = &self.manifest.shape;
        let block = u64::from(shape.block_bytes);
        let read = read.get(..shape.block_bytes as usize)?;
        let trailer = Trailer::decode(read, moving.seed, shape.segment_bytes - block)?;
        let entries = usize::try_from(trailer.entries).ok()?;
        let blocks = footer_blocks(entries, shape.block_bytes);
        moving.footer = Some((trailer.records_end, blocks));
        moving.record_bytes = (trailer.records_end / trailer.entries.max(1)).max(1);
        if self.drops_whole() {
            moving.entries.reserve_exact(entries);
        }
        Some(())
    }

    /// Decodes the next block of the footer, if it was read.
    pub(super) fn take_block(&mut self, moving: &mut Moving) {
        let block_bytes = self.manifest.shape.block_bytes as usize;
        let (Some(mut piece), Some((records_end, _))) = (moving.piece.take(), moving.footer) else {
            return;
        };
        let number = moving.next_block - piece.blocks;
        let offset = records_end + number * block_bytes as u64;
        let at = (piece.all - piece.blocks) as usize * block_bytes;
        let block = &piece.buffer.as_slice()[at..at + block_bytes];
        let entries = decode_footer_block(block, number, moving.seed, offset);
        let is_read = entries.is_some();
        moving.entries.extend(entries.into_iter().flatten());
        piece.blocks -= u64::from(is_read);
        if is_read && piece.blocks > 0 {
            moving.piece = Some(piece);
            return;
        }
        // What is damaged is read again.
        moving.next_block -= piece.blocks;
        moving.short_reads = if is_read { 0 } else { moving.short_reads + 1 };
        self.compaction.keep_buffer(piece.buffer);
    }
}

impl Compaction {
    /// Keeps what was read into for the next read.
    pub(super) fn keep_buffer(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
        if self.buffers.len() > BUFFERS_KEPT {
            let lengths = self.buffers.iter().map(|it| it.as_slice().len()).enumerate();
            let shortest = lengths.min_by_key(|(_, length)| *length).map(|(at, _)| at);
            shortest.into_iter().for_each(|at| drop(self.buffers.swap_remove(at)));
        }
    }

    fn keep_buffer_of(&mut self, outcome: Outcome) {
        if let Outcome::Read(buffer, _) | Outcome::Failed(_, Some(buffer)) = outcome {
            self.keep_buffer(buffer);
        }
    }

    /// What was being moved is no more.
    pub(super) fn end_moving(&mut self) {
        let Some(mut moving) = self.moving.take() else { return };
        moving.piece.take().into_iter().for_each(|it| self.keep_buffer(it.buffer));
        moving.windows.drain(..).for_each(|it| self.keep_buffer(it.buffer));
        self.lists = moving.into_lists();
    }
}
