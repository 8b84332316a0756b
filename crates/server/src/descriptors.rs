//! File descriptors: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;

/// Descriptors beside connections, for each data thread: an epoll and an eventfd.
const PER_THREAD: usize = 2;

/// Descriptors for the rest: standard streams, listeners, the acceptor, the log, and connections
/// that are about to be turned away.
const REST: usize = 128;

/// Raises the soft limit as far as `config` needs and the hard limit allows. When it does not
/// suffice, accepting pauses at the limit.
pub(crate) fn provide_for(config: &Config, threads: usize) {
    let needed = (config.max_connections + threads * PER_THREAD + REST) as u64;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return;
    }
    let allowed = needed.min(limit.maximum.unwrap_or(u64::MAX));
    let raised = Rlimit { current: Some(allowed), maximum: limit.maximum };
    let outcome = setrlimit(Resource::Nofile, raised);
    if outcome.is_err() || allowed < needed {
        tracing::warn!(
            needed,
            allowed = if outcome.is_ok() { allowed } else { current },
            "file descriptors do not suffice for max_connections"
        );
    }
}
