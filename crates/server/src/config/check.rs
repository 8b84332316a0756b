//! What values must be, alone and together.

use base::size::ByteSize;
use cache::VALUE_SIZE_MAX_LIMIT_BYTES;

use super::{Budget, Config, Duration, Effective, NET_THREADS_MAX, Origin, Threads};
use crate::Error;

/// Most connections of a server.
const CONNECTIONS_MAX: usize = reactor::CONNECTIONS_MAX;

/// Smallest longest value, as in memcached.
const VALUE_SIZE_MAX_LEAST_BYTES: u64 = 1 << 10;

/// The part of the records' memory that one value may take.
pub(crate) const VALUE_SHARE_DIVISOR: u64 = 4;

/// Longest timeout in milliseconds: a hundred years, which can be added to any time of day.
const TIMEOUT_MAX_MS: u64 = 36_500 * 86_400_000;

/// Most listeners: each is looked at by name.
const LISTENERS_MAX: usize = 64;

impl Effective {
    /// Looks for values that cannot work.
    pub(super) fn check(&self) -> Result<(), Error> {
        let config = self.config();
        let is_nowhere =
            config.listen.is_empty() && config.unix.is_none() && config.listen_udp.is_empty();
        // memcached serves nobody if it is told to.
        if is_nowhere && *self.origin("listen") != Origin::Memcached {
            return Err(self.wrong("listen", "there is nothing to listen on"));
        }
        if config.listen.len() > LISTENERS_MAX {
            return Err(self.wrong("listen", format!("more than {LISTENERS_MAX} addresses")));
        }
        if config.listen_udp.len() > LISTENERS_MAX {
            return Err(self.wrong("listen_udp", format!("more than {LISTENERS_MAX} addresses")));
        }
        if !config.listen_udp.is_empty() && config.users.is_some() {
            let message = "over UDP nobody can log in, which `users` asks for";
            return Err(self.wrong("listen_udp", message));
        }
        if !(1..=CONNECTIONS_MAX).contains(&config.max_connections) {
            let message = format!("must be from 1 to {CONNECTIONS_MAX}");
            return Err(self.wrong("max_connections", message));
        }
        if config.turn_commands_max == 0 {
            return Err(self.wrong("turn_commands_max", "must be at least 1"));
        }
        if !(1..=i32::MAX as u32).contains(&config.backlog) {
            return Err(self.wrong("backlog", format!("must be from 1 to {}", i32::MAX)));
        }
        let timeouts =
            [("idle_timeout", config.idle_timeout), ("drain_timeout", config.drain_timeout)];
        for (name, timeout) in timeouts {
            if timeout.0 > TIMEOUT_MAX_MS {
                let message = format!("must be at most {}", Duration(TIMEOUT_MAX_MS));
                return Err(self.wrong(name, message));
            }
        }
        if config.memory_max.0 != 0 && config.memory_max < config.memory {
            let message = format!("must be 0, or at least `memory`, which is {}", config.memory);
            return Err(self.wrong("memory_max", message));
        }
        let budget = Budget::new(config, config.threads())?;
        self.check_value_size_max(&budget)
    }

    fn check_value_size_max(&self, budget: &Budget) -> Result<(), Error> {
        let size = self.config().value_size_max;
        let (least, limit) =
            (ByteSize(VALUE_SIZE_MAX_LEAST_BYTES), ByteSize(VALUE_SIZE_MAX_LIMIT_BYTES));
        if !(least..=limit).contains(&size) {
            return Err(self.wrong("value_size_max", format!("must be from {least} to {limit}")));
        }
        let most = ByteSize(budget.record_bytes / VALUE_SHARE_DIVISOR);
        if size > most {
            let message = format!(
                "{size} is more than a quarter of the {} for records: at most {most}, or more \
                 `memory`",
                ByteSize(budget.record_bytes)
            );
            return Err(self.wrong("value_size_max", message));
        }
        Ok(())
    }
}

impl Config {
    /// Data threads to start.
    #[must_use]
    pub fn threads(&self) -> usize {
        match self.net_threads {
            Threads::Count(count) => count,
            Threads::Auto if !self.cpus.0.is_empty() => self.cpus.0.len().min(NET_THREADS_MAX),
            Threads::Auto => {
                std::thread::available_parallelism().map_or(1, usize::from).min(NET_THREADS_MAX)
            }
        }
    }
}
