//! `kelvin serve`: runs a server in the foreground until SIGTERM or SIGINT.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result};
use base::clock::Clock;
use clap::{ArgMatches, Command};
use server::{
    Running, Stop,
    config::{Config, LogLevel},
    users::Users,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
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
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("catching signals")?;
    if let Some(running) = start(effective.config(), &mut signals)? {
        act_on(signals, &running)?;
        running.wait()?;
    }
    Ok(())
}

/// Starts a server, unless a signal stops it before it serves.
pub(crate) fn start(
    config: &Config,
    signals: &mut Signals,
) -> Result<Option<Running>, server::Error> {
    let mut users_changed = false;
    let running = Running::start_unless(config, &Clock::system(), || {
        signals.pending().fold(false, |stops, signal| {
            users_changed |= signal == SIGHUP;
            stops || signal != SIGHUP
        })
    })?;
    if users_changed && let Some(users) = running.as_ref().and_then(Running::users) {
        reload(users);
    }
    Ok(running)
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

/// Has SIGHUP read the file of users again. Other signals stop the server: the first one when
/// clients have their replies, a second one without waiting.
pub(crate) fn act_on(mut signals: Signals, running: &Running) -> Result<()> {
    let (control, users) = (running.control(), running.users().cloned());
    let act = move || {
        for signal in signals.forever() {
            if signal != SIGHUP {
                tracing::info!(signal, "asked to stop");
                control.stop(Stop::Graceful);
                continue;
            }
            if let Some(users) = &users {
                reload(users);
            }
        }
    };
    let name = "signals".to_owned();
    std::thread::Builder::new().name(name).spawn(act).context("starting a thread")?;
    Ok(())
}

fn reload(users: &Users) {
    match users.reload() {
        Ok(()) => tracing::info!(path = %users.path().display(), "users read again"),
        Err(error) => tracing::error!(%error, "the users stay who they were"),
    }
}
