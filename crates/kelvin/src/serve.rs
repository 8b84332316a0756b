//! `kelvin serve`: runs a server in the foreground until SIGTERM or SIGINT.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result};
use base::clock::Clock;
use clap::{ArgMatches, Command};
use server::{Running, Stop, StopControl, config::LogLevel};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use tracing::level_filters::LevelFilter;

use crate::settings;

pub(crate) const NAME: &str = "serve";

pub(crate) fn command() -> Command {
    settings::with_flags(Command::new(NAME).about("Serve memcached clients"))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<()> {
    let effective = settings::effective(matches)?;
    log_to_stderr(effective.config().log);
    server::abort_on_panic();
    for name in settings::unknown_variables() {
        tracing::warn!(name, "this environment variable sets nothing");
    }
    // Signals are caught before anything starts, so that none is lost.
    let signals = Signals::new([SIGTERM, SIGINT]).context("catching signals")?;
    let running = Running::start(effective.config(), &Clock::system())?;
    stop_on(signals, running.control())?;
    running.wait()?;
    Ok(())
}

pub(crate) fn log_to_stderr(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(stderr().is_terminal())
        .with_writer(stderr)
        // Else a log that cannot be written would be reported on standard error, in vain, which
        // panics: whoever reads the log may go away before the server does.
        .log_internal_errors(false)
        .init();
}

/// Stops the server on the first signal, gracefully, and on the second without waiting.
pub(crate) fn stop_on(mut signals: Signals, control: StopControl) -> Result<()> {
    let forward = move || {
        for signal in signals.forever() {
            tracing::info!(signal, "asked to stop");
            control.stop(Stop::Graceful);
        }
    };
    let name = "signals".to_owned();
    std::thread::Builder::new().name(name).spawn(forward).context("starting a thread")?;
    Ok(())
}
