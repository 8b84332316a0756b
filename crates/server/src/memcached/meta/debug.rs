//! `me`.

use cache::Change;
use wire::memcached::{KeyRoom, MetaKey, limits::KEY_LEN_MAX, lines};

use super::{Expiries, facts};
use crate::memcached::{
    context::Context,
    record::{Replies, put_line},
    reports::CLASS,
};

/// Answers `me`.
pub(in crate::memcached) fn debug(context: &mut Context, key: &MetaKey<'_>, replies: &mut Replies) {
    let mut room: KeyRoom = [0; KEY_LEN_MAX];
    let bytes = key.bytes(&mut room);
    let now_ms = context.worker.now_ms();
    let mut found = None;
    context
        .worker
        .update(context.worker.key(bytes), |view| {
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
            let size = bytes.len() as u64 + u64::from(facts.value_len);
            put_line(replies, |writer| writer.meta_debug(key, &facts, CLASS, size));
        }
    }
}
