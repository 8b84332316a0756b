//! `me`.

use cache::{Change, Key};
use wire::memcached::{MetaKey, lines};

use super::{Expiries, facts};
use crate::memcached::{
    context::Context,
    record::{Replies, put_line},
    reports::CLASS,
};

/// Answers `me`.
pub(in crate::memcached) fn debug(
    context: &mut Context,
    key: Key<'_>,
    sent: &MetaKey<'_>,
    replies: &mut Replies,
) {
    let now_ms = context.worker.now_ms();
    let mut found = None;
    context
        .worker
        .update(key, |view| {
            found = view.map(|view| {
                let meta = view.meta();
                facts(&meta, Expiries::of(meta.expiry_ms, None), view.age_ms(), now_ms)
            });
            Change::Keep.into()
        })
        .expect("invariant: looking needs no memory");
    context.counters.cmd_meta.add(1);
    match found {
        None => replies.put(lines::META_DEBUG_MISS),
        Some(facts) => {
            let size = key.bytes().len() as u64 + u64::from(facts.value_len);
            put_line(replies, |writer| writer.meta_debug(sent, &facts, CLASS, size));
        }
    }
}
