//! What memcached's options mean as settings of this server, and which do not go together.

use std::collections::BTreeMap;

use base::size::ByteSize;
use server::config::{Budget, MemoryUse, NET_THREADS_MAX};

use super::{
    listen::{self, Place},
    options::{Options, Protocol},
    refusal::Refusal,
    suboptions::PAGE_BYTES,
};

/// A value may take a quarter of the memory for records.
const VALUE_SHARE_DIVISOR: i64 = 4;

/// Least and most bytes of the longest value.
const VALUE_BYTES_LEAST: i64 = 1 << 10;
const VALUE_BYTES_MOST: i64 = 1 << 30;

/// Longest that a stop waits for clients to take their last replies: memcached does not wait.
const DRAIN_TIMEOUT: &str = "1s";

/// Names the file of users for SASL.
const SASL_USERS: &str = "MEMCACHED_SASL_PWDB";

/// Settings by name.
pub(super) type Settings = BTreeMap<&'static str, String>;

/// Checks the options together, and says them as settings. What cannot be had is warned of.
///
/// # Errors
/// Options that memcached refuses.
pub(super) fn settings(options: &mut Options) -> Result<Settings, Refusal> {
    check(options)?;
    let places = listen::places(options)?;
    let datagram_places = listen::datagram_places(options)?;
    warn_of_places(options, &places, &datagram_places);
    let mut settings = Settings::new();
    settings.insert("listen", addresses(&places));
    settings.insert("listen_udp", addresses(&datagram_places));
    if let Some(path) = &options.unix {
        settings.insert("unix", path.clone());
        settings.insert("unix_mode", format!("{:o}", options.unix_mode & 0o777));
    }
    access(options, &mut settings)?;
    let (memory_mib, value_bytes_max) = memory(options);
    settings.insert("memory", ByteSize((memory_mib as u64) << 20).to_string());
    settings.insert("memory_use", "records".to_owned());
    settings.insert("value_size_max", value_bytes_max.to_string());
    settings.insert("net_threads", options.threads.to_string());
    settings.insert("max_connections", options.connections_max.to_string());
    settings.insert("backlog", options.backlog.max(1).to_string());
    settings.insert("idle_timeout", format!("{}s", options.idle_timeout_s.max(0)));
    settings.insert("drain_timeout", DRAIN_TIMEOUT.to_owned());
    settings.insert("connections_wait", (!options.refuses_connections).to_string());
    settings.insert("evictions", options.evicts.to_string());
    settings.insert("flush_command", options.flush.to_string());
    settings.insert("dump_commands", options.dump.to_string());
    settings.insert("watch_command", options.watch.to_string());
    if let Some(most) = options.turn_commands_max {
        settings.insert("turn_commands_max", most.to_string());
    }
    settings.insert("shutdown_command", options.shutdown.to_string());
    settings.insert("cas_tokens", options.tokens.to_string());
    let log = match options.verbosity {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    settings.insert("log", log.to_owned());
    if let Some(delimiter) = options.delimiter {
        settings.insert("prefix_delimiter", delimiter.to_string());
    }
    if let Some(path) = &options.memory_file {
        settings.insert("restart_file", path.clone());
    }
    settings.extend(options.own.clone());
    if let Some(directory) = settings.get_mut("data_dir") {
        // A daemon goes to another directory before it opens this one.
        *directory = std::path::absolute(&*directory)
            .map_err(|error| Refusal::system(format!("-o data_dir: {error}")))?
            .to_string_lossy()
            .into_owned();
    }
    if options.lock_memory {
        // All addresses count as locked, so there are none for memory to come.
        settings.insert("memory_max", settings["memory"].clone());
    }
    Ok(settings)
}

/// MiB for records and bytes of the longest value: what is asked for, as far as it can be had.
fn memory(options: &mut Options) -> (i64, i64) {
    let asked_mib = i64::from(options.memory_mib);
    let threads = usize::try_from(options.threads).unwrap_or(usize::MAX);
    let least_bytes = Budget::record_bytes_min(MemoryUse::Records, threads.min(NET_THREADS_MAX));
    let least_mib = i64::try_from(least_bytes >> 20).unwrap_or(i64::MAX);
    let memory_mib = asked_mib.max(least_mib);
    if memory_mib > asked_mib {
        options.warn(format!("-m {asked_mib}: records take {least_mib} MiB at least"));
    }
    let most = (memory_mib << 20) / VALUE_SHARE_DIVISOR;
    let value_bytes_max = options.value_bytes_max.min(most);
    if value_bytes_max < options.value_bytes_max {
        options.warn(format!(
            "-I {}: a value can take a quarter of the memory for records, which is {most} bytes",
            options.value_bytes_max
        ));
    }
    (memory_mib, value_bytes_max)
}

/// Refuses what memcached refuses, in its order.
fn check(options: &Options) -> Result<(), Refusal> {
    let usage = |wrong: bool, message: &str| match wrong {
        true => Err(Refusal::usage(message)),
        false => Ok(()),
    };
    let (value, chunk) = (options.value_bytes_max, options.chunk_bytes_max);
    if chunk == 0 {
        return Err(Refusal::failure("slab_chunk_max must be >= 0"));
    }
    if chunk > PAGE_BYTES {
        return Err(Refusal::failure("slab_chunk_max must be specified in kilobytes."));
    }
    usage(
        options.napi_ids > options.threads,
        "Number of napi_ids cannot be greater than number of threads",
    )?;
    usage(value < VALUE_BYTES_LEAST, "Item max size cannot be less than 1024 bytes.")?;
    usage(
        value > (i64::from(options.memory_mib) << 20) / 2,
        "Cannot set item size limit higher than 1/2 of memory max.",
    )?;
    usage(value > VALUE_BYTES_MOST, "Cannot set item size limit higher than a gigabyte.")?;
    usage(chunk > value, "slab_chunk_max cannot be larger than -I (item_size_max)")?;
    usage(value % chunk != 0, "-I (item_size_max) must be evenly divisible by slab_chunk_max")?;
    usage(
        PAGE_BYTES % chunk != 0,
        "slab_chunk_max must divide evenly into 1048576 (slab_page_size)",
    )?;
    usage(
        options.hot_percent + options.warm_percent > 80,
        "hot_lru_pct + warm_lru_pct cannot be more than 80% combined",
    )?;
    usage(
        options.temporary && !options.maintainer,
        "temporary_ttl requires lru_maintainer to be enabled",
    )?;
    check_login(options)?;
    listen::port(options.port)?;
    listen::port(options.udp_port).map(drop)
}

fn check_login(options: &Options) -> Result<(), Refusal> {
    let protocol = options.protocol;
    if options.sasl {
        if protocol.is_some_and(|protocol| protocol != Protocol::Binary) {
            return Err(Refusal::usage(
                "ERROR: You cannot allow the ASCII protocol while using SASL.",
            ));
        }
        if options.udp_port != 0 {
            return Err(Refusal::usage(
                "ERROR: Cannot enable UDP while using binary SASL authentication.",
            ));
        }
    }
    if options.auth_file.is_some() {
        if protocol.is_some_and(|protocol| protocol != Protocol::Ascii) {
            return Err(Refusal::usage(
                "ERROR: You cannot allow the BINARY protocol while using ascii authentication \
                 tokens.",
            ));
        }
        if options.udp_port != 0 {
            return Err(Refusal::usage(
                "Cannot use UDP with ascii authentication enabled (-U 0 to disable)",
            ));
        }
    }
    Ok(())
}

/// Which protocols are spoken, and by whom. Both logins have their users from one file, which SASL
/// finds where memcached's own SASL does. As in memcached, a file of users for text means text,
/// whatever is said of SASL, which is a matter of the binary protocol.
fn access(options: &mut Options, settings: &mut Settings) -> Result<(), Refusal> {
    let (protocol, users) = match (&options.auth_file, options.sasl) {
        (Some(path), _) => (Protocol::Ascii, Some(path.clone())),
        (None, true) => (Protocol::Binary, Some(std::env::var(SASL_USERS).unwrap_or_default())),
        (None, false) => (options.protocol.unwrap_or(Protocol::Auto), None),
    };
    if options.sasl && options.auth_file.is_some() {
        options.warn("-S: has no effect beside -Y, which lets in text clients only".to_owned());
    }
    settings.insert("protocol", protocol.name().to_owned());
    // A login that is asked for and not there must not be a warning.
    match users {
        Some(path) if path.is_empty() => Err(Refusal::usage(format!(
            "-S takes the users from the file that {SASL_USERS} names, with a line user:password \
             for each; there is no other"
        ))),
        Some(path) => {
            settings.insert("users", path);
            Ok(())
        }
        None => Ok(()),
    }
}

fn addresses(places: &[Place]) -> String {
    let shown = places.iter().map(|Place { address, protocol, .. }| match protocol {
        None => address.clone(),
        Some(protocol) => format!("{}@{address}", protocol.name()),
    });
    shown.collect::<Vec<_>>().join(",")
}

fn warn_of_places(options: &mut Options, places: &[Place], datagram_places: &[Place]) {
    if places.is_empty() && datagram_places.is_empty() && options.unix.is_none() {
        options.warn("-p 0: there is nothing to listen on, so nobody is served".to_owned());
    }
    if places.iter().any(|place| place.is_tagged) {
        options.warn("-l tag[]: has no effect: it would name the listener for a proxy".to_owned());
    }
}
