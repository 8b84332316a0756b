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
    if let Some((running, hung_up)) = start(effective.config(), &mut signals)? {
        // Clients may ask for another level, and are shown it, but the log stays as configured:
        // a line for each connection fills a disk, and one that is left out tells nobody.
        running.stats().begin_verbosity(logging::verbosity(level), |_| ());
        let matches = matches.clone();
        act_on((signals, hung_up), &running, move || Some(config_now(&matches)))?;
        running.wait()?;
    }
    Ok(())
}

/// Starts a server, unless a signal stops it before it serves. Says whether it has got SIGHUP by
/// then, which is to be acted on.
pub(crate) fn start(
    config: &Config,
    signals: &mut Signals,
) -> Result<Option<(Running, bool)>, server::Error> {
    let mut hung_up = false;
    let running = Running::start_unless(config, &Clock::system(), || {
        signals.pending().fold(false, |stops, signal| {
            hung_up |= signal == SIGHUP;
            stops || signal != SIGHUP
        })
    })?;
    Ok(running.map(|running| (running, hung_up)))
}

/// Has SIGHUP read the file of users again, and the write modes, if `read_config` knows where.
/// Other signals stop the server: the first one when clients have their replies, a second one
/// without waiting. `hung_up`: there was a SIGHUP before.
pub(crate) fn act_on(
    (mut signals, hung_up): (Signals, bool),
    running: &Running,
    read_config: impl Fn() -> Option<Result<Config>> + Send + 'static,
) -> Result<()> {
    let (control, users) = (running.control(), running.users().cloned());
    let write_modes = running.write_modes().cloned();
    let read_again = move || {
        if let Some(users) = &users {
            reload(users);
        }
        if let Some(modes) = &write_modes
            && let Some(read) = read_config()
        {
            match read {
                Ok(config) => modes.set(&config),
                Err(error) => tracing::error!("the write mode stays as it is: {error:#}"),
            }
        }
    };
    if hung_up {
        read_again();
    }
    let act = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                read_again();
                continue;
            }
            tracing::info!(signal, "asked to stop");
            control.stop(Stop::Graceful);
        }
    };
    let name = "signals".to_owned();
    std::thread::Builder::new().name(name).spawn(act).context("starting a thread")?;
    Ok(())
}

/// What the settings say now, of which only the file can have changed.
fn config_now(matches: &ArgMatches) -> Result<Config> {
    Ok(settings::effective(matches)?.config().clone())
}

fn reload(users: &Users) {
    match users.reload() {
        Ok(()) => tracing::info!(path = %users.path().display(), "users read again"),
        Err(error) => tracing::error!(%error, "the users stay who they were"),
    }
}
