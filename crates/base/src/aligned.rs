//! Memory that direct I/O can use.
//!
//! Thread safety: plain values; a shared buffer is not written.
//!
//! Invariant: its memory lies where it lay when it was made, wherever the buffer itself goes.

use std::{fmt, num::NonZeroU32, ops::Range};

/// Buffers begin at a multiple of this, which every device's alignment divides.
pub const ALIGNMENT_BYTES: usize = 4096;

/// Zeroed bytes whose first one lies at a multiple of 4096. They never move: a buffer is neither
/// resized nor copied.
pub struct Buffer {
    /// Larger than asked for by the alignment, so that an aligned stretch lies within.
    memory: Box<[u8]>,
    start: usize,
    bytes: usize,
    number: Option<u16>,
    rack: Option<Rack>,
}

/// The set that a buffer is one of, and the margins that all of it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rack {
    /// Which set: no two in a process have the same number.
    pub number: NonZeroU32,
    /// Bytes before the buffer's own; a multiple of [`ALIGNMENT_BYTES`].
    pub head_bytes: u32,
    /// Bytes behind them.
    pub tail_bytes: u32,
}

impl Buffer {
    /// A buffer of `bytes` bytes that belongs to no pool.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self::with_margins(0, bytes, 0)
    }

    /// Buffer `number` of a pool, of `bytes` bytes.
    #[must_use]
    pub fn of_pool(number: u16, bytes: usize) -> Self {
        Self { number: Some(number), ..Self::new(bytes) }
    }

    /// Buffer `number` of a rack, of `bytes` bytes and the rack's margins.
    ///
    /// # Panics
    /// Panics when what lies before its bytes would keep them from being aligned.
    #[must_use]
    pub fn of_rack(rack: Rack, number: u16, bytes: usize) -> Self {
        let (head_bytes, tail_bytes) = (rack.head_bytes as usize, rack.tail_bytes as usize);
        assert!(head_bytes.is_multiple_of(ALIGNMENT_BYTES), "{head_bytes} bytes before a page");
        let buffer = Self::with_margins(head_bytes, bytes, tail_bytes);
        Self { number: Some(number), rack: Some(rack), ..buffer }
    }

    fn with_margins(head_bytes: usize, bytes: usize, tail_bytes: usize) -> Self {
        let all_bytes = head_bytes + bytes + tail_bytes + ALIGNMENT_BYTES;
        let memory = vec![0; all_bytes].into_boxed_slice();
        let start = memory.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES) + head_bytes;
        Self { memory, start, bytes, number: None, rack: None }
    }

    /// Has the system provide its memory now: else the first to write to a page waits for that, and
    /// where the system hands out memory in larger pieces, for up to some milliseconds.
    pub fn touch(&mut self) {
        for page in self.memory.chunks_mut(ALIGNMENT_BYTES) {
            page[0] = std::hint::black_box(page[0]);
        }
    }

    /// Its number in its pool or rack.
    #[must_use]
    pub fn number(&self) -> Option<u16> {
        self.number
    }

    /// The rack that it is of.
    #[must_use]
    pub fn rack(&self) -> Option<Rack> {
        self.rack
    }

    /// Its bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }

    /// Its bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }

    /// Its bytes with the margins of its rack: what lies before them, they, what lies behind.
    #[must_use]
    pub fn whole(&self) -> &[u8] {
        let (from, to) = self.ends();
        &self.memory[from..to]
    }

    /// The same, to be written.
    pub fn whole_mut(&mut self) -> &mut [u8] {
        let (from, to) = self.ends();
        &mut self.memory[from..to]
    }

    /// Writes `before` and `behind` around the bytes `middle` of its own, into its margins and over
    /// whatever else is there. Where all of it is, in [`Buffer::whole`]; nothing, and nothing is
    /// written, where there is no room for it.
    ///
    /// # Panics
    /// Panics when `middle` is not within its bytes.
    pub fn wrap(
        &mut self,
        middle: Range<usize>,
        before: &[u8],
        behind: &[u8],
    ) -> Option<Range<usize>> {
        assert!(middle.start <= middle.end && middle.end <= self.bytes, "{middle:?}");
        let head_bytes = self.rack.map_or(0, |rack| rack.head_bytes as usize);
        let whole = self.whole_mut();
        let (start, end) = (head_bytes + middle.start, head_bytes + middle.end);
        let (from, to) = (start.checked_sub(before.len())?, end + behind.len());
        whole.get_mut(end..to)?.copy_from_slice(behind);
        whole[from..start].copy_from_slice(before);
        Some(from..to)
    }

    fn ends(&self) -> (usize, usize) {
        let (head_bytes, tail_bytes) =
            self.rack.map_or((0, 0), |rack| (rack.head_bytes as usize, rack.tail_bytes as usize));
        (self.start - head_bytes, self.start + self.bytes + tail_bytes)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("bytes", &self.bytes)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::{Buffer, Rack};

    /// How often the calling thread has waited for memory to be provided.
    #[cfg(not(miri))]
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a thread has one");
        let behind_the_name = stat.rsplit(") ").next().expect("a name has an end");
        behind_the_name.split(' ').nth(7).and_then(|it| it.parse().ok()).expect("a count")
    }

    #[cfg(not(miri))]
    #[test]
    fn who_writes_to_a_touched_buffer_waits_for_no_memory() {
        let mut buffer = Buffer::new(64 << 20);
        let untouched = faults();
        buffer.touch();
        let touched = faults();
        buffer.as_mut_slice().fill(1);
        let (first, then) = (touched - untouched, faults() - touched);
        assert!(then < first / 4, "{then} faults after {first}");
    }

    #[test]
    fn buffers_are_aligned_zeroed_and_of_their_size() {
        for bytes in [512, 4096, 1 << 20] {
            let mut buffer = Buffer::of_pool(3, bytes);
            assert_eq!(buffer.as_slice(), vec![0; bytes]);
            assert_eq!(buffer.as_mut_slice().as_ptr().align_offset(4096), 0);
            assert_eq!((buffer.number(), buffer.rack()), (Some(3), None));
            assert_eq!(buffer.whole().len(), bytes);
        }
    }

    #[test]
    fn margins_lie_around_aligned_bytes() {
        let rack = Rack { number: NonZeroU32::MIN, head_bytes: 4096, tail_bytes: 64 };
        let mut buffer = Buffer::of_rack(rack, 9, 8192);
        assert_eq!((buffer.number(), buffer.rack()), (Some(9), Some(rack)));
        assert_eq!(buffer.as_slice().as_ptr().align_offset(4096), 0);
        assert_eq!((buffer.as_slice().len(), buffer.whole().len()), (8192, 4096 + 8192 + 64));
        buffer.as_mut_slice().fill(1);
        let is_own = |(at, byte): (usize, &u8)| (*byte == 1) == (4096..4096 + 8192).contains(&at);
        assert!(buffer.whole().iter().enumerate().all(is_own));
        buffer.whole_mut().fill(2);
        assert_eq!(buffer.as_slice(), [2; 8192]);
    }

    #[test]
    fn what_is_wrapped_lies_around_its_middle_or_nothing_is_written() {
        let rack = Rack { number: NonZeroU32::MIN, head_bytes: 4096, tail_bytes: 4 };
        let mut buffer = Buffer::of_rack(rack, 9, 4096);
        let content: Vec<u8> = (0..4096).map(|at| (at % 251) as u8).collect();
        for middle in [0..4096, 0..1, 4095..4096, 700..1700, 5..5] {
            buffer.as_mut_slice().copy_from_slice(&content);
            let all = buffer.wrap(middle.clone(), b"before", b"end").expect("there is room");
            let expected = [b"before", &content[middle], b"end"].concat();
            assert_eq!(buffer.whole()[all], expected);
        }
        for (before, behind) in [(4097, 0), (0, 5), (4097, 5)] {
            buffer.whole_mut().fill(1);
            let wrapped = buffer.wrap(0..4096, &vec![2; before], &vec![2; behind]);
            assert_eq!(wrapped, None, "{before} before, {behind} behind");
            assert!(buffer.whole().iter().all(|byte| *byte == 1), "something was written");
        }
        let mut plain = Buffer::new(8);
        assert_eq!(plain.wrap(2..8, b"ab", b""), Some(0..8), "within its own bytes");
        assert_eq!(plain.wrap(2..8, b"ab", b"c"), None);
    }
}
