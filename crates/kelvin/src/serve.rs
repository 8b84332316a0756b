//! `kelvin serve`: runs a server in the foreground until SIGTERM or SIGINT.

use anyhow::{Context, Result};
use base::clock::Clock;
use clap::{ArgMatches, Command};
use server::{Running, Stop, config::Config, users::Users};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{logging, settings};

pub(crate) const NAME: &str = "serve";

pub(crate) fn command() -> Command {
    settings::with_flags(Command::new(NAME).about("Serve memcached clients"))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<()> {
    let effective = settings::effective(matches)?;
    let level = effective.config().log;
    logging::begin(level);
    server::abort_on_panic();
    for name in settings::unknown_variables() {
        tracing::warn!(name, "this environment variable sets nothing");
    }
    // Signals are caught before anything starts, so that none is lost.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("catching signals")?;
    if let Some(running) = start(effective.config(), &mut signals)? {
        // Clients may ask for another level, and are shown it, but the log stays as configured:
        // a line for each connection fills a disk, and one that is left out tells nobody.
        running.stats().begin_verbosity(logging::verbosity(level), |_| ());
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
