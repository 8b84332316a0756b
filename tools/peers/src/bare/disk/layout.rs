//! Where records lie in the file, and replies in the buffers that they are read to. Pure.

use std::ops::Range;

use super::BUFFER_BYTES;

/// What a store has beside a value on the disk: header and key, about.
pub(super) const HEADER_BYTES: usize = 40;

/// What is read past the page cache begins and ends on these.
const BLOCK_BYTES: usize = 4096;

/// Behind the value in a reply.
const END: &[u8] = b"\r\nEND\r\n";

/// Records of one size, side by side from the start of the file.
#[derive(Debug)]
pub(super) struct Layout {
    value_bytes: usize,
    keys: u64,
    /// Before the value in a reply: over the record's header where it was read to.
    head: Vec<u8>,
}

/// The blocks that a record lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) bytes: usize,
    /// Where its value begins, from `at`.
    pub(super) value_at: usize,
}

impl Span {
    /// With a block behind, for the end of the reply.
    pub(super) fn bytes_max(self) -> usize {
        self.bytes + BLOCK_BYTES
    }
}

impl Layout {
    pub(super) fn new(value_bytes: usize, keys: u32) -> Self {
        let head = format!("VALUE bare 0 {value_bytes}\r\n").into_bytes();
        assert!(head.len() <= HEADER_BYTES, "it is written over the header");
        Self { value_bytes, keys: keys.into(), head }
    }

    pub(super) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.value_bytes
    }

    /// Of all records, and what is written at a time.
    pub(super) fn file_bytes(&self) -> u64 {
        (self.keys * self.record_bytes() as u64).next_multiple_of(BUFFER_BYTES as u64)
    }

    /// What a read and its reply need.
    pub(super) fn buffer_bytes(&self) -> usize {
        (BLOCK_BYTES - 1 + self.record_bytes()).next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES
    }

    pub(super) fn reply_bytes(&self) -> usize {
        self.head.len() + self.value_bytes + END.len()
    }

    /// What has to be read for a key.
    pub(super) fn span(&self, key: u64) -> Span {
        let record_at = key % self.keys * self.record_bytes() as u64;
        let before = (record_at % BLOCK_BYTES as u64) as usize;
        Span {
            at: record_at - before as u64,
            bytes: (before + self.record_bytes()).next_multiple_of(BLOCK_BYTES),
            value_at: before + HEADER_BYTES,
        }
    }

    /// Where in its buffer the reply lies.
    pub(super) fn reply(&self, span: Span) -> Range<usize> {
        let start = span.value_at - self.head.len();
        start..start + self.reply_bytes()
    }

    /// Writes what a reply has around a value that was read to `buffer`.
    pub(super) fn dress(&self, buffer: &mut [u8], span: Span) {
        let reply = &mut buffer[self.reply(span)];
        reply[..self.head.len()].copy_from_slice(&self.head);
        reply[self.head.len() + self.value_bytes..].copy_from_slice(END);
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, HEADER_BYTES, Layout};

    #[test]
    fn records_lie_side_by_side_on_whole_blocks() {
        for value_bytes in [1, 1024, 4096, 65_536, 1 << 20] {
            let layout = Layout::new(value_bytes, 1000);
            let mut expected = HEADER_BYTES as u64;
            let mut blocks_max = 0;
            for key in 0..1000 {
                let span = layout.span(key);
                assert_eq!(span.at + span.value_at as u64, expected);
                assert_eq!((span.at % BLOCK_BYTES as u64, span.bytes % BLOCK_BYTES), (0, 0));
                assert!(span.value_at + value_bytes <= span.bytes);
                assert!(span.value_at + value_bytes + BLOCK_BYTES > span.bytes);
                assert!(span.at + span.bytes as u64 <= layout.file_bytes());
                assert!(span.bytes_max() <= layout.buffer_bytes());
                blocks_max = blocks_max.max(span.bytes / BLOCK_BYTES);
                expected += (HEADER_BYTES + value_bytes) as u64;
            }
            if value_bytes == 4096 {
                assert_eq!(blocks_max, 3);
            }
            assert_eq!(layout.span(1007), layout.span(7));
        }
    }

    #[test]
    fn a_reply_is_around_the_value() {
        let layout = Layout::new(5, 1000);
        for key in [0, 91] {
            let span = layout.span(key);
            let mut buffer = vec![b'x'; span.bytes_max()];
            buffer[span.value_at..][..5].copy_from_slice(b"value");
            layout.dress(&mut buffer, span);
            assert_eq!(&buffer[layout.reply(span)], b"VALUE bare 0 5\r\nvalue\r\nEND\r\n");
        }
    }
}
