//! What a data thread has for all of its sessions.

use std::fmt;

use base::sync::Arc;
use cache::{Dead, Key, Worker};
use reactor::ConnId;
use wire::memcached::{Expiry, KeyRoom, Limits, MetaKey, limits::KEY_LEN_MAX};

use super::{TURN_COMMANDS_MAX, deadline::deadline_ms, dialect::Access, tokens::Tokens};
use crate::{
    stats::{Counters, ServerStats},
    users::Login,
    watch::Rouse,
};

/// What a session may ask of the server.
pub trait Control: Send + Sync {
    /// Ends the server: `graceful` lets clients finish first.
    fn shutdown(&self, graceful: bool);
}

/// Wakes nobody.
struct Deaf;

impl Rouse for Deaf {
    fn rouse(&self, _connection: ConnId) {}
}

/// A thread's access to the cache, its counters, and the server.
pub struct Context {
    pub(super) worker: Worker,
    pub(super) counters: Arc<Counters>,
    pub(super) server: Arc<ServerStats>,
    pub(super) control: Arc<dyn Control>,
    pub(super) limits: Limits,
    pub(super) access: Access,
    pub(super) tokens: Tokens,
    /// Whether the session at work waits for memory to be unpinned that others' replies hold. One
    /// that has waited long enough misses instead.
    pub(super) waits_for_pins: bool,
    /// Most commands of a connection before others have their turn.
    pub(super) turn_commands_max: usize,
    /// What wakes sessions of this thread.
    pub(super) rouse: Arc<dyn Rouse>,
    /// Logs that somebody follows, as of when the group at work began.
    pub(super) watched: u16,
    /// The number of the connection at work.
    pub(super) client: u64,
    /// Bytes of replies that memcached would have sent by now, of those that the session at work
    /// has not: commands that need the connection for themselves are refused behind others.
    pub(super) unsent_before: usize,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl Context {
    /// The context of the calling thread.
    #[must_use]
    pub fn new(worker: Worker, server: &Arc<ServerStats>, control: Arc<dyn Control>) -> Self {
        Self {
            rouse: Arc::new(Deaf),
            watched: 0,
            client: 0,
            worker,
            counters: server.thread(),
            server: Arc::clone(server),
            control,
            limits: Limits::default(),
            access: Access::default(),
            tokens: if server.settings().tokens_off { Tokens::Off } else { Tokens::Served },
            turn_commands_max: server.settings().turn_commands_max.unwrap_or(TURN_COMMANDS_MAX),
            waits_for_pins: true,
            unsent_before: 0,
        }
    }

    /// The same, for clients that `access` lets in.
    #[must_use]
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// The same with something that wakes the sessions of the thread: without it, one that watches
    /// is served when its client sends something.
    #[must_use]
    pub fn with_rouse(self, rouse: Arc<dyn Rouse>) -> Self {
        Self { rouse, ..self }
    }

    /// Counts a miss that was a record which had died.
    #[inline]
    pub(super) fn count_dead(&self) {
        match self.worker.take_dead() {
            None => {}
            Some(Dead::Expired) => self.counters.get_expired.add(1),
            Some(Dead::Flushed) => self.counters.get_flushed.add(1),
        }
    }

    /// Announces that the thread holds nothing of the cache, and looks which logs are followed. To
    /// be called before each group of requests, with the time on the cache's clock.
    pub(crate) fn begin_group(&mut self, now_ms: u64) {
        self.worker.quiesce_at(now_ms);
        self.watched = self.server.watchers().logs();
    }

    /// The thread's access to the cache.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// The thread's counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.worker.key(bytes)
    }

    /// Runs `run` with the key of a command: `known` if it was hashed before, else `sent`, decoded
    /// if need be.
    #[inline]
    pub(super) fn with_key<R>(
        &mut self,
        known: Option<&Key<'_>>,
        sent: &MetaKey<'_>,
        run: impl FnOnce(&mut Self, &Key<'_>) -> R,
    ) -> R {
        // `run` is called in one place: twice it would be compiled apart.
        let (mut room, made): (KeyRoom, _);
        let key = match known {
            Some(key) => key,
            None => {
                room = [0; KEY_LEN_MAX];
                made = self.key(sent.bytes(&mut room));
                &made
            }
        };
        run(self, key)
    }

    /// Whether a client may log in by the text protocol. Counts the attempt.
    pub(super) fn logs_in(&self, user: &[u8], password: &[u8]) -> bool {
        let users = self.access.users.as_ref();
        let admitted = users.is_some_and(|users| users.admits(user, password, Login::Text));
        self.counters.auth_cmds.add(1);
        self.counters.auth_errors.add(u64::from(!admitted));
        admitted
    }

    /// What `expiry` means now, in milliseconds on the cache's clock; 0 is never.
    pub(super) fn deadline_ms(&self, expiry: Expiry) -> u64 {
        deadline_ms(expiry, self.worker.cache().clock(), self.worker.now_ms())
    }
}
