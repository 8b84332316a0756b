//! File descriptors: each connection is one, and each file of a log.
//!
//! A log must not run out of them because clients hold connections: writing would stop until some
//! are closed. So it has a share of its own, and what the system does not give is taken from
//! connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{config::Config, durable::carriage::FILES_KEPT_MAX};

/// Descriptors beside connections, for each data thread: an epoll and an eventfd.
const PER_THREAD: usize = 2;

/// Descriptors for the rest: standard streams, listeners, the acceptor, the log, and connections
/// that are about to be turned away.
const REST: usize = 128;

/// Files that a log keeps open where the system gives enough descriptors: 1 TiB of segments of
/// 64 MiB.
const LOG_FILES_MAX: usize = 16 << 10;

/// Of how many descriptors a log has one where they do not suffice, and all threads together.
const LOG_DIVISOR: usize = 4;

/// Files of which a thread keeps at least as many at hand.
const KEPT_LEAST: usize = 4;

/// Who may have how many descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Connections.
    pub(crate) connections: usize,
    /// Files that logs keep open.
    pub(crate) log_files: usize,
    /// Files that each thread keeps at hand, and that the log may have let go.
    pub(crate) kept: usize,
}

impl Shares {
    /// What one of so many logs has.
    pub(crate) fn of_each(self, logs: usize) -> Self {
        let part = |count: usize| (count / logs.max(1)).max(1);
        Self { log_files: part(self.log_files), kept: part(self.kept), ..self }
    }
}

/// Raises the limit on descriptors to what `config` needs: the soft one as far as the hard one
/// allows, and the hard one, too, for who may, so call it before privileges are given up. When that
/// does not suffice, accepting pauses at the limit, or fewer connections are accepted where there
/// is a log.
pub fn provide_for(config: &Config) {
    let _ = provide(config);
}

/// The same. Says who gets how many.
pub(crate) fn provide(config: &Config) -> Shares {
    let (threads, has_log) = (config.threads(), config.logs() > 0);
    let others = threads * PER_THREAD + REST;
    let (kept, least, most) = match has_log {
        true => (threads * FILES_KEPT_MAX, log::OPEN_FILES_MAX, LOG_FILES_MAX),
        false => (0, 0, 0),
    };
    let needed = config.max_connections + others + kept + least;
    let allowed = raise(needed as u64, (needed - least + most) as u64);
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    let shares = match has_log {
        true => share(config.max_connections, threads, others, allowed),
        false => Shares { connections: config.max_connections, log_files: 0, kept: 0 },
    };
    if allowed < needed {
        let connections = shares.connections;
        tracing::warn!(
            needed,
            allowed,
            connections,
            "file descriptors do not suffice for max_connections"
        );
    }
    shares
}

/// Has the process get `wanted` descriptors if that is possible, else `needed`. Says how many it
/// gets.
fn raise(needed: u64, wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return current;
    }
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let raise = |current, maximum| {
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).is_ok()
    };
    if hard < needed && raise(needed, Some(needed)) {
        return needed;
    }
    let allowed = wanted.min(hard).max(current);
    if raise(allowed, limit.maximum) { allowed } else { current }
}

/// Divides so many descriptors.
fn share(connections: usize, threads: usize, others: usize, allowed: usize) -> Shares {
    let left = allowed.saturating_sub(others);
    let full = Shares { connections, log_files: log::OPEN_FILES_MAX, kept: FILES_KEPT_MAX };
    let kept = threads * FILES_KEPT_MAX;
    match left.checked_sub(connections + kept) {
        Some(log_files) if log_files >= full.log_files => {
            return Shares { log_files: log_files.min(LOG_FILES_MAX), ..full };
        }
        _ => {}
    }
    let part = left / LOG_DIVISOR;
    let (log_files, kept) =
        (part.clamp(1, full.log_files), (part / threads.max(1)).clamp(KEPT_LEAST, FILES_KEPT_MAX));
    let connections = left.saturating_sub(log_files + threads * kept).clamp(1, connections.max(1));
    Shares { connections, log_files, kept }
}

#[cfg(test)]
mod tests {
    use super::{FILES_KEPT_MAX, LOG_FILES_MAX, Shares, share};

    #[test]
    fn a_log_has_its_share_before_connections() {
        for (allowed, shares) in [
            // Enough for all, and for a larger log.
            (1 << 20, (1024, LOG_FILES_MAX, FILES_KEPT_MAX)),
            (132 + 1024 + 512 + 512, (1024, 512, FILES_KEPT_MAX)),
            // Where they do not suffice it has a quarter, and all threads together another one.
            (132 + 1024 + 512 + 511, (1024, 511, 255)),
            (1024, (892 - 223 - 222, 223, 111)),
            (256, (124 - 31 - 30, 31, 15)),
            (140, (1, 2, 4)),
            (0, (1, 1, 4)),
        ] {
            let (connections, log_files, kept) = shares;
            let expected = Shares { connections, log_files, kept };
            assert_eq!(share(1024, 2, 132, allowed), expected, "{allowed}");
        }
        for allowed in 0..5000 {
            let Shares { connections, log_files, kept } = share(1024, 2, 132, allowed);
            assert!(connections <= 1024 && connections > 0 && log_files > 0 && kept > 0);
            let all = 132 + connections + log_files + 2 * kept;
            assert!(all <= allowed.max(143), "{allowed} are divided into {all}");
        }
    }
}
