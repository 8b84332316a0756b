//! A record in a reply: its head, its value, a line end.

use cache::{Meta, Pinned};
use reactor::Output;
use wire::memcached::{
    lines::LAST_VALUE_END,
    reply::{LINE_BYTES_MAX, Writer},
};

use super::large::LargeValue;

/// Most bytes behind a value.
const TAIL_BYTES_MAX: usize = LAST_VALUE_END.len();

/// Replies of a connection.
pub(super) type Replies = Output<LargeValue>;

/// What comes before a value.
pub(super) trait Head {
    /// Writes it for a record, and says whether the value is to be sent at all.
    fn write(&self, meta: &Meta, writer: &mut Writer<'_>) -> bool;
}

impl<F: Fn(&Meta, &mut Writer<'_>) -> bool> Head for F {
    #[inline(always)]
    fn write(&self, meta: &Meta, writer: &mut Writer<'_>) -> bool {
        self(meta, writer)
    }
}

/// Writes a record into the room behind an output, without appending it yet: a read that starts
/// over writes it again.
#[derive(Debug)]
pub(super) struct Record<'o, H> {
    replies: &'o mut Replies,
    head: H,
    /// Bytes of the head, and of the value if it is to be sent.
    len: usize,
    with_value: bool,
}

impl<'o, H: Head> Record<'o, H> {
    pub(super) fn new(replies: &'o mut Replies, head: H) -> Self {
        Self { replies, head, len: 0, with_value: false }
    }

    /// Appends what the last read wrote, and behind the value `tail`, of at most
    /// [`TAIL_BYTES_MAX`].
    #[inline(always)]
    pub(super) fn finish(self, tail: &[u8]) {
        if self.with_value {
            self.replies.commit_with(self.len, tail);
        } else {
            self.replies.commit(self.len);
        }
    }

    /// Appends a record whose value stays where it is, and `tail` behind the value.
    pub(super) fn finish_large(self, pinned: Pinned, tail: &[u8]) {
        let mut writer = Writer::new(self.replies.room(LINE_BYTES_MAX));
        let with_value = self.head.write(pinned.meta(), &mut writer);
        let len = writer.len();
        self.replies.commit(len);
        if with_value {
            self.replies.attach(LargeValue::new(pinned));
            self.replies.put(tail);
        }
    }
}

impl<H: Head> cache::Output for Record<'_, H> {
    #[inline(always)]
    fn begin(&mut self, meta: &Meta) -> &mut [u8] {
        let value_len = meta.value_len as usize;
        let room = self.replies.room(LINE_BYTES_MAX + value_len + TAIL_BYTES_MAX);
        let mut writer = Writer::new(room);
        self.with_value = self.head.write(meta, &mut writer);
        let start = writer.len();
        self.len = if self.with_value { start + value_len } else { start };
        &mut room[start..]
    }
}

/// Where replies without a value go.
pub(super) trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends one line that a writer makes.
    fn put_line(&mut self, write: impl FnOnce(&mut Writer<'_>));
}

impl Sink for Replies {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        Output::put(self, bytes);
    }

    #[inline]
    fn put_line(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        let mut writer = Writer::new(self.room(LINE_BYTES_MAX));
        write(&mut writer);
        let len = writer.len();
        self.commit(len);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_line(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        // On the stack: a line is much shorter than it may be, and this may be kept for a while.
        let mut line = [0; LINE_BYTES_MAX];
        let mut writer = Writer::new(&mut line);
        write(&mut writer);
        let len = writer.len();
        self.extend_from_slice(&line[..len]);
    }
}

/// Appends one line that a writer makes.
#[inline]
pub(super) fn put_line(replies: &mut impl Sink, write: impl FnOnce(&mut Writer<'_>)) {
    replies.put_line(write);
}

/// Appends a reply, unless the client wants none.
#[inline]
pub(super) fn put_unless(noreply: bool, reply: &[u8], replies: &mut impl Sink) {
    if !noreply {
        replies.put(reply);
    }
}
