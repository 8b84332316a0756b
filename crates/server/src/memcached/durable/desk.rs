//! What a data thread has for its sessions beside the table itself.

use std::fmt;

use base::sync::Arc;
use cache::Cache;
use wire::memcached::{Expiry, Limits};

use crate::{
    memcached::{
        TURN_COMMANDS_MAX, context::Control, deadline::deadline_ms, dialect::Access, tokens::Tokens,
    },
    stats::{Counters, ServerStats},
    users::Login,
};

/// Counters, settings, and who may log in.
pub(crate) struct Desk {
    pub(super) counters: Arc<Counters>,
    pub(super) server: Arc<ServerStats>,
    pub(super) control: Arc<dyn Control>,
    pub(super) cache: Cache,
    pub(super) access: Access,
    pub(super) limits: Limits,
    /// Most commands of a connection before others have their turn.
    pub(super) turn_commands_max: usize,
    /// The time on the cache's clock.
    pub(super) now_ms: u64,
    /// When it was last logged that a log refuses something.
    pub(super) complained_ms: u64,
}

/// Tokens are always served: they are sequences of the log.
pub(super) const TOKENS: Tokens = Tokens::Served;

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Desk {
    /// That of the calling thread; `cache` is the default table's.
    #[must_use]
    pub(crate) fn new(
        cache: Cache,
        server: &Arc<ServerStats>,
        control: Arc<dyn Control>,
        access: Access,
    ) -> Self {
        Self {
            counters: server.thread(),
            server: Arc::clone(server),
            control,
            now_ms: cache.clock().now_ms(),
            cache,
            access,
            limits: Limits::default(),
            turn_commands_max: server.settings().turn_commands_max.unwrap_or(TURN_COMMANDS_MAX),
            complained_ms: 0,
        }
    }

    /// The thread's counters.
    #[must_use]
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The time on the cache's clock, as of when the thread began with what it does.
    #[must_use]
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// What `expiry` means now, in milliseconds on the cache's clock; 0 is never.
    pub(super) fn deadline_ms(&self, expiry: Expiry) -> u64 {
        deadline_ms(expiry, self.cache.clock(), self.now_ms)
    }

    /// Whether a client may log in by the text protocol. Counts the attempt.
    pub(super) fn logs_in(&self, user: &[u8], password: &[u8]) -> bool {
        let users = self.access.users.as_ref();
        let admitted = users.is_some_and(|users| users.admits(user, password, Login::Text));
        self.counters.auth_cmds.add(1);
        self.counters.auth_errors.add(u64::from(!admitted));
        admitted
    }

    /// Counts a retrieval, or a touch.
    pub(super) fn count_retrieval(&self, key: &[u8], touches: bool, hit: bool) {
        let counters = &self.counters;
        let (commands, hits, misses) = if touches {
            (&counters.cmd_touch, &counters.touch_hits, &counters.touch_misses)
        } else {
            (&counters.cmd_get, &counters.get_hits, &counters.get_misses)
        };
        commands.add(1);
        if hit {
            hits.add(1)
        } else {
            misses.add(1)
        }
        self.server.prefixes().count(key, |counts| {
            counts.gets += 1;
            counts.hits += u64::from(hit);
        });
    }

    /// Counts a delete.
    pub(super) fn count_delete(&self, hit: bool) {
        let counters = &self.counters;
        if hit { counters.delete_hits.add(1) } else { counters.delete_misses.add(1) }
    }
}
