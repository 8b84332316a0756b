//! `watch`: a connection that has become a log, and the lines that requests write.

use std::fmt::Write as _;

use base::sync::Arc;
use cache::{Cache, Change, Key};
use reactor::{ConnId, OUTPUT_UNIT_BYTES_MAX};
use wire::memcached::{Request, dump::URI_KEY_LEN_MAX, lines, reply::Writer, watch};

use super::{
    context::Context,
    record::Replies,
    reports::CLASS,
    storage::{Condition, Order, Outcome, Side},
};
use crate::{
    stats::ServerStats,
    watch::{Rouse, Watcher},
};

/// Milliseconds of a second.
const SECOND_MS: u64 = 1000;

/// A connection that follows logs; dropped, it follows them no more.
#[derive(Debug)]
pub(super) struct Watch {
    server: Arc<ServerStats>,
    cache: Cache,
    watcher: Arc<Watcher>,
}

impl Watch {
    /// Begins to follow `logs`.
    ///
    /// # Errors
    /// The reply that says why not.
    pub(super) fn begin(
        context: &Context,
        logs: u16,
        replies: &Replies,
    ) -> Result<Self, &'static [u8]> {
        let server = Arc::clone(&context.server);
        if !server.settings().watch_allowed {
            return Err(lines::WATCH_NOT_ALLOWED);
        }
        if replies.len() > context.unsent_before {
            return Err(lines::WATCH_PIPELINED);
        }
        let rouse: Arc<dyn Rouse> = context.rouse.clone();
        let cache = context.worker.cache().clone();
        let follow = |logs| cache.follow_evictions(logs & watch::EVICTIONS != 0);
        let watcher = server.watchers().add(logs, rouse, follow).ok_or(lines::WATCHERS_TOO_MANY)?;
        Ok(Self { server, cache, watcher })
    }

    /// Says which connection it is.
    pub(super) fn settle(&self, connection: ConnId) {
        self.watcher.settle(connection);
    }

    /// Writes the lines that wait. False if there is no room for all of them.
    pub(super) fn write(&self, replies: &mut Replies) -> bool {
        while replies.has_room() {
            let lines = self.watcher.take(OUTPUT_UNIT_BYTES_MAX);
            if lines.is_empty() {
                return true;
            }
            replies.put(&lines);
        }
        false
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let follow = |logs| self.cache.follow_evictions(logs & watch::EVICTIONS != 0);
        self.server.watchers().remove(&self.watcher, follow);
    }
}

/// The bytes of a key as logs have them.
fn uri(key: &[u8]) -> String {
    let mut room = [0; URI_KEY_LEN_MAX];
    let mut writer = Writer::new(&mut room);
    writer.uri(key);
    let len = writer.len();
    String::from_utf8_lossy(&room[..len]).into_owned()
}

impl Context {
    fn is_watched(&self, log: u16) -> bool {
        self.watched & log != 0
    }

    fn log(&self, log: u16, write: impl FnOnce(&mut String)) {
        self.server.watchers().log(log, self.server.clock(), write);
    }

    /// Tells of a look for a key, and of the length of its value if it was found.
    #[cold]
    pub(super) fn log_fetch(&self, key: &[u8], found: Option<u32>) {
        let (status, class) = if found.is_some() { ("found", CLASS) } else { ("not_found", 0) };
        self.log(watch::FETCHERS, |line| {
            let (key, client, len) = (uri(key), self.client, found.unwrap_or(0));
            let _ = write!(
                line,
                "type=item_get key={key} status={status} clsid={class} cfd={client} size={len}"
            );
        });
    }

    /// Tells of the look that a command other than a retrieval takes. Returns the length of the
    /// value that is there.
    fn look(&mut self, key: Key<'_>) -> Option<u32> {
        let mut found = None;
        self.worker
            .update(key, |view| {
                found = view.map(|view| view.meta().value_len);
                Change::Keep.into()
            })
            .expect("invariant: looking needs no memory");
        if self.is_watched(watch::FETCHERS) {
            self.log_fetch(key.bytes(), found);
        }
        found
    }

    /// Looks at the record that a request is about to use. Returns its length.
    #[cold]
    pub(super) fn log_request(
        &mut self,
        request: &Request<'_>,
        known: Option<Key<'_>>,
    ) -> Option<u32> {
        match request {
            Request::MetaGet(meta)
            | Request::MetaDelete(meta)
            | Request::MetaArithmetic { meta, .. } => {
                self.with_key(known.as_ref(), &meta.key, |context, key| context.look(*key))
            }
            Request::Delete { key, .. }
            | Request::Touch { key, .. }
            | Request::Arithmetic { key, .. } => {
                let key = known.unwrap_or_else(|| self.key(key));
                self.look(key)
            }
            _ => None,
        }
    }

    /// Tells of a deletion by `command`, `delete` or `md`.
    #[cold]
    pub(super) fn log_deletion(&self, key: &[u8], command: &str, len: u32) {
        self.log(watch::DELETIONS, |line| {
            let key = uri(key);
            let _ = write!(line, "type=deleted key={key} cmd={command} clsid={CLASS} size={len}");
        });
    }

    /// Looks at the record that a store is about to replace, as memcached does.
    #[cold]
    pub(super) fn log_store_look(&mut self, key: &Key<'_>) {
        self.look(*key);
    }

    /// Tells of a store of a value of `len` bytes.
    #[cold]
    pub(super) fn log_store(&self, order: &Order<'_>, outcome: Outcome, len: u64) {
        let command = match order.terms.condition {
            Condition::Always => "set",
            Condition::Absent => "add",
            Condition::Present => "replace",
            Condition::Matching { .. } => "cas",
            Condition::Joined { side: Side::Back, .. } => "append",
            Condition::Joined { side: Side::Front, .. } => "prepend",
        };
        let (status, len) = match outcome {
            Outcome::Stored { value_len, .. } => ("stored", value_len),
            Outcome::NotStored => ("not_stored", len),
            Outcome::Exists => ("exists", len),
            Outcome::NotFound => ("not_found", len),
            Outcome::TooLarge => ("too_large", len),
            Outcome::NoMemory => ("no_memory", len),
        };
        let left_ms = order.terms.expiry_ms.saturating_sub(self.worker.now_ms());
        let ttl_s = left_ms.div_ceil(SECOND_MS);
        let (key, client) = (uri(order.key.bytes()), self.client);
        self.log(watch::MUTATIONS, |line| {
            let _ = write!(
                line,
                "type=item_store key={key} status={status} cmd={command} ttl={ttl_s} \
                 clsid={CLASS} cfd={client} size={len}"
            );
        });
    }

    /// Tells of the evictions that there have been, if somebody wants to know.
    pub fn log_evictions(&mut self) {
        if !self.is_watched(watch::EVICTIONS) {
            return;
        }
        let (evicted, lost) = self.worker.cache().take_evicted();
        self.server.watchers().note_lost(lost);
        let now_ms = self.worker.now_ms();
        for record in evicted {
            let meta = record.meta;
            let fetched = if meta.fetched { "yes" } else { "no" };
            let ttl_s = match meta.expiry_ms {
                0 => "-1".to_owned(),
                at_ms => (at_ms.saturating_sub(now_ms) / SECOND_MS).to_string(),
            };
            let age_s = self.worker.age_ms(&meta) / SECOND_MS;
            let (key, len) = (uri(&record.key), meta.value_len);
            self.log(watch::EVICTIONS, |line| {
                let _ = write!(
                    line,
                    "type=eviction key={key} fetch={fetched} ttl={ttl_s} la={age_s} \
                     clsid={CLASS} size={len}"
                );
            });
        }
    }
}
