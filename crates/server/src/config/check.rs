//! What values must be, alone and together.

use std::ops::RangeInclusive;

use base::size::ByteSize;
use cache::VALUE_SIZE_MAX_LIMIT_BYTES;

use super::{Budget, Config, Duration, Effective, NET_THREADS_MAX, Origin, TableKind, Threads};
use crate::Error;

/// Most connections of a server.
const CONNECTIONS_MAX: usize = reactor::CONNECTIONS_MAX;

/// Smallest longest value, as in memcached.
pub(super) const VALUE_SIZE_MAX_LEAST_BYTES: u64 = 1 << 10;

/// The part of the records' memory that one value may take.
pub(crate) const VALUE_SHARE_DIVISOR: u64 = 4;

/// Longest timeout in milliseconds: a hundred years, which can be added to any time of day.
const TIMEOUT_MAX_MS: u64 = 36_500 * 86_400_000;

/// Bytes that a table may spill: sixteen segments of 1 MiB, and what the log's index tells apart.
pub(super) const SPILL_SIZES: RangeInclusive<ByteSize> = ByteSize(16 << 20)..=ByteSize(4 << 40);

/// Longest value of a table that spills, or of one in memory beside others: it is put together in
/// memory that each thread has 32 MiB of.
pub(super) const GATHERED_VALUE_SIZE_MAX: ByteSize = ByteSize(16 << 20);

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
        self.check_table()?;
        let budget = Budget::new(config, config.threads())?;
        self.check_value_size_max(&budget)
    }

    fn check_table(&self) -> Result<(), Error> {
        let config = self.config();
        if config.flush_durable && (config.data_dir.is_none() || config.spills()) {
            let message = "is of a durable table: any other one is flushed without, but for one \
                           with `spill_recover`, which cannot be";
            return Err(self.wrong("flush_durable", message));
        }
        self.check_of_no_use()?;
        match (config.table_kind, &config.data_dir) {
            (TableKind::Durable, None) => {
                return Err(self.wrong("table_kind", "a durable table has a `data_dir`"));
            }
            (TableKind::Volatile, Some(_)) if config.logs() == 0 => {
                let message = "a volatile table has no use for `data_dir`";
                return Err(self.wrong("table_kind", message));
            }
            (TableKind::Spill, None) => {
                return Err(self.wrong("table_kind", "a table that spills has a `data_dir`"));
            }
            (TableKind::Spill, Some(_)) => self.check_spill()?,
            _ => {}
        }
        self.check_tables()?;
        let table = match (config.tables.is_empty(), config.spills()) {
            (false, _) => "a server with several tables",
            (true, _) if !config.has_log() => return Ok(()),
            (true, true) => "a table that spills, as of `data_dir`,",
            (true, false) => "a durable table, as of `data_dir`,",
        };
        if !config.has_log() && config.value_size_max > GATHERED_VALUE_SIZE_MAX {
            let message = format!(
                "a volatile table beside others has values of {GATHERED_VALUE_SIZE_MAX} at most"
            );
            return Err(self.wrong("value_size_max", message));
        }
        let wrongs = [
            ("listen_udp", !config.listen_udp.is_empty(), "datagrams"),
            ("restart_file", config.restart_file.is_some(), "a file that keeps records"),
            ("evictions", !config.evictions, "memory that keeps all"),
            ("cas_tokens", !config.cas_tokens, "records without tokens"),
        ];
        match wrongs.into_iter().find(|(_, is_wrong, _)| *is_wrong) {
            Some((name, _, what)) => Err(self.wrong(name, format!("{table} has not {what}"))),
            None => Ok(()),
        }
    }

    /// Settings that mean nothing to the table that is asked for: who sets them expects another.
    fn check_of_no_use(&self) -> Result<(), Error> {
        let (config, default) = (self.config(), Config::default());
        let of_spill = "means something to a table that spills, as of `table_kind`";
        let of_disk = "means something to a table that has a `data_dir`";
        let (spills, has_disk) = (config.spills(), config.data_dir.is_some());
        let settings = [
            ("spill_size", spills, config.spill_size == default.spill_size, of_spill),
            ("spill_recover", spills, config.spill_recover == default.spill_recover, of_spill),
            (
                "spill_admission",
                spills,
                config.spill_admission == default.spill_admission,
                of_spill,
            ),
            ("write_mode", has_disk, config.write_mode == default.write_mode, of_disk),
        ];
        // Of several tables each has them of its own, and from here what it does not say.
        let has_several = !config.tables.is_empty();
        for (name, has_use, is_default, what) in settings {
            // A file may have all settings: that is what `kelvin config print` makes.
            let is_told = match self.origin(name) {
                Origin::Default => false,
                Origin::File(_) => !is_default,
                Origin::Environment | Origin::Flag | Origin::Memcached => true,
            };
            if is_told && !has_use && !has_several {
                return Err(self.wrong(name, what));
            }
        }
        Ok(())
    }

    fn check_spill(&self) -> Result<(), Error> {
        let config = self.config();
        if !SPILL_SIZES.contains(&config.spill_size) {
            let (least, most) = (SPILL_SIZES.start(), SPILL_SIZES.end());
            return Err(self.wrong("spill_size", format!("must be from {least} to {most}")));
        }
        if config.value_size_max > GATHERED_VALUE_SIZE_MAX {
            let message =
                format!("a table that spills has values of {GATHERED_VALUE_SIZE_MAX} at most");
            return Err(self.wrong("value_size_max", message));
        }
        if !config.spill_recover && *self.origin("write_mode") != Origin::Default {
            let message = "a table that spills and does not recover answers without the disk";
            return Err(self.wrong("write_mode", message));
        }
        Ok(())
    }

    fn check_value_size_max(&self, budget: &Budget) -> Result<(), Error> {
        let size = self.config().value_size_max;
        let (least, limit) =
            (ByteSize(VALUE_SIZE_MAX_LEAST_BYTES), ByteSize(VALUE_SIZE_MAX_LIMIT_BYTES));
        if !(least..=limit).contains(&size) {
            return Err(self.wrong("value_size_max", format!("must be from {least} to {limit}")));
        }
        let most = ByteSize(budget.record_bytes / VALUE_SHARE_DIVISOR);
        // Longer values than a record of a log may have are never in memory.
        if size > most && (!self.config().has_log() || self.config().spills()) {
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
    /// Whether it asks for a table that spills.
    #[must_use]
    pub fn spills(&self) -> bool {
        self.table_kind == TableKind::Spill
    }

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
