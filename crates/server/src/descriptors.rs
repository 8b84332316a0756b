//! File descriptors: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;

/// Descriptors beside connections, for each data thread: an epoll and an eventfd.
const PER_THREAD: usize = 2;

/// Descriptors for the rest: standard streams, listeners, the acceptor, the log, and connections
/// that are about to be turned away.
const REST: usize = 128;

/// Raises the limit on descriptors to what `config` needs: the soft one as far as the hard one
/// allows, and the hard one, too, for who may, so call it before privileges are given up. When that
/// does not suffice, accepting pauses at the limit.
pub fn provide_for(config: &Config) {
    let needed = (config.max_connections + config.threads() * PER_THREAD + REST) as u64;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return;
    }
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let raise = |current, maximum| {
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).is_ok()
    };
    if hard < needed && raise(needed, Some(needed)) {
        return;
    }
    let allowed = needed.min(hard);
    let is_raised = raise(allowed, limit.maximum);
    if !is_raised || allowed < needed {
        let allowed = if is_raised { allowed } else { current };
        tracing::warn!(needed, allowed, "file descriptors do not suffice for max_connections");
    }
}
