//! A record on its way into a slot.

use base::sync::atomic::{Ordering, fence};

use super::victims::AsOf;
use crate::{
    Key, Put, Token, extent,
    geometry::BLOCK_WORDS,
    index::{Entry, Tag},
    record::{Layout, WordSink},
    table::Table,
};

/// What goes behind the front of a record.
pub(super) enum Body<'v> {
    /// The bytes of an inline value.
    Inline(&'v [u8]),
    /// Where the parts of a large one are.
    Parts(extent::Parts),
}

impl Body<'_> {
    #[inline(always)]
    fn write(&self, sink: &mut WordSink<'_>) {
        match self {
            Self::Inline(value) => sink.push_bytes(value),
            Self::Parts(parts) => parts.write(sink),
        }
    }
}

/// A record to be stored, but for its value.
#[derive(Clone, Copy)]
pub(super) struct Draft<'k> {
    pub(super) key: &'k Key<'k>,
    pub(super) layout: Layout,
    token: Token,
    /// The value counts as read.
    pub(super) fetched: bool,
    /// Flushes there are to have been when it is stored, if not those that there have.
    flushes: Option<u64>,
}

impl<'k> Draft<'k> {
    #[inline]
    pub(super) fn new(key: &'k Key<'k>, put: &Put<'_>, value_len: usize) -> Self {
        let layout = Layout {
            key_len: key.bytes.len(),
            value_len,
            client_flags: put.client_flags,
            expiry_ms: put.expiry_ms,
            stale: put.stale,
            win_sent: put.win_sent,
            in_parts: false,
        };
        Self { key, layout, token: put.token, fetched: false, flushes: None }
    }

    /// What it is stored with, to be drawn as [`Stamp`] says.
    #[inline(always)]
    pub(super) fn stamp(&self, table: &Table) -> Stamp {
        let memory = &table.memory;
        // In this order: see `begin_generation`.
        let marks = match self.flushes {
            None => memory.marks(),
            Some(flushes) => memory.marks_of(flushes),
        };
        Stamp { marks, sequence: table.draw() }
    }

    /// An entry that leads to it in the key's first bucket.
    #[inline]
    pub(super) fn entry(&self, location: usize) -> Entry {
        Entry::new(location, Tag::of(self.key.hash)).with_fetched(self.fetched)
    }

    /// The same record, its value in parts or read already.
    pub(super) fn with(self, in_parts: bool, fetched: bool) -> Self {
        Self { layout: Layout { in_parts, ..self.layout }, fetched, ..self }
    }

    /// The same record as it was looked at before, if it was.
    pub(super) fn of(self, as_of: Option<AsOf>) -> Self {
        let Some(AsOf { flushes, fetched }) = as_of else { return self };
        Self { flushes: Some(flushes), fetched: self.fetched || fetched, ..self }
    }
}

/// Where a record is in the order of all writes, and its flush generation.
///
/// Drawn under the key's lock. Or sooner, if the bucket is then locked at a version that was taken
/// before: whoever has written the key until then has drawn before an unlock that this version, or
/// that of a bucket which the entry has come from, is no older than; and whoever writes it later
/// draws under, or at, a version that this lock has made. After a flush between the two the put
/// counts as before it: what it replaces is as dead, and nobody has written the key since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) marks: u64,
    sequence: u64,
}

/// Writes a record into a slot, by a sink at its start, under the lock of its key's bucket. Returns
/// its token.
#[inline(always)]
pub(super) fn write_record(
    table: &Table,
    location: usize,
    Stamp { marks, sequence }: Stamp,
    (draft, body): (&Draft<'_>, &Body<'_>),
    mut sink: WordSink<'_>,
) -> u64 {
    // A reader may still be copying the record that was here. It must see the version that the
    // removal of that record left, or this key's odd one, before it sees a word of this one.
    if !base::mutant!("no_fence") {
        fence(Ordering::Release);
    }
    let token = match draft.token {
        Token::Fresh => sequence,
        Token::Given(token) => token,
    };
    let layout = &draft.layout;
    layout.write_front(&mut sink, draft.key, token, marks);
    body.write(&mut sink);
    sink.finish();
    table.memory.blocks.note_write(location / BLOCK_WORDS, sequence, layout.expiry_ms);
    token
}
