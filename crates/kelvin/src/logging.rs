//! The log on standard error. Clients of `kelvin memcached` may change its level while it runs, as
//! those of memcached may; what `kelvin serve` logs is its operator's to say.

use std::{
    io::{IsTerminal, stderr},
    sync::OnceLock,
};

use server::config::LogLevel;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer as _, Registry, fmt, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

/// Changes the level of what is logged.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Logs from here on, from this level up. To be called once.
pub(crate) fn begin(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let (level, handle) = reload::Layer::new(level);
    let lines = fmt::layer()
        .with_target(false)
        .with_ansi(stderr().is_terminal())
        .with_writer(stderr)
        // Else a log that cannot be written would be reported on standard error, in vain, which
        // panics: whoever reads the log may go away before the server does.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(level)).init();
    // It is empty: there is one log.
    let _ = LEVEL.set(handle);
}

/// The level of memcached's `verbosity` and `-v` that says most of what this one logs.
pub(crate) fn verbosity(level: LogLevel) -> u64 {
    match level {
        LogLevel::Error | LogLevel::Warn => 0,
        LogLevel::Info => 1,
        LogLevel::Debug => 2,
    }
}

/// Logs what `verbosity` asks for: problems, as without `-v`, changes of state, or everything.
pub(crate) fn set_verbosity(verbosity: u64) {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    if let Some(handle) = LEVEL.get() {
        // It fails if the log has ended, and then nothing is logged.
        let _ = handle.modify(|now| *now = level);
    }
}
