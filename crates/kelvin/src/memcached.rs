//! `kelvin memcached`, also under the name `memcached`: a server by memcached's command line.
//!
//! ```text
//! arguments -> command_line -> options -> meaning: settings -> daemon, identity -> serve
//! ```
//!
//! The behaviour is that of memcached 1.6.45, from its manual and from what it was seen to do;
//! `docs/memcached.md` has the table.

mod command_line;
mod daemon;
mod identity;
mod limits;
mod listen;
mod meaning;
mod memory_file;
mod number;
mod options;
mod page;
mod pid_file;
mod ports;
mod refusal;
mod suboptions;

use std::{
    ffi::OsString,
    io::Write,
    process::{ExitCode, ExitStatus},
};

use clap::{Arg, ArgAction, Command};
use server::config::{Config, Effective, Layer};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1},
    iterator::Signals,
};

use crate::{logging, serve};
use options::Options;
use pid_file::PidFile;
use refusal::Refusal;

pub(crate) const NAME: &str = "memcached";

/// For the list of subcommands; its own arguments are not clap's.
pub(crate) fn command() -> Command {
    Command::new(NAME)
        .about("Serve memcached clients, with memcached's options (-h lists them)")
        .disable_help_flag(true)
        .arg(
            Arg::new("options")
                .action(ArgAction::Append)
                .num_args(0..)
                .allow_hyphen_values(true)
                .trailing_var_arg(true),
        )
}

/// The options, if these arguments of the program are those of memcached: it is called by that
/// name, or by that subcommand.
pub(crate) fn arguments(all: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let mut all = all.into_iter();
    let program = std::path::PathBuf::from(all.next()?);
    if program.file_name().is_some_and(|name| name == NAME) {
        return Some(all.collect());
    }
    all.next().filter(|first| first == NAME).map(|_| all.collect())
}

/// Serves until told to stop.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let arguments: Vec<String> =
        arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match serve_by(&arguments) {
        Ok(code) => code,
        Err(refusal) => {
            // If nobody reads it, the exit code still tells.
            let _ = writeln!(std::io::stderr(), "{refusal}");
            ExitCode::from(refusal.code)
        }
    }
}

fn serve_by(arguments: &[String]) -> Result<ExitCode, Refusal> {
    let mut options = Options::from_given(command_line::parse(arguments)?)?;
    if let Some(page) = options.page {
        // Nobody may want to read it to its end.
        let _ = std::io::stdout().write_all(page::text(page).as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let settings = meaning::settings(&mut options)?;
    let effective = Layer::from_memcached(&settings)
        .and_then(|layer| Effective::new([layer]))
        .map_err(|error| Refusal::usage(chain(&error)))?;
    if options.daemon && !daemon::is_background() {
        let ended = daemon::start()?;
        return Ok(ended.map_or(ExitCode::SUCCESS, code_of));
    }
    logging::begin(effective.config().log);
    server::abort_on_panic();
    for warning in &options.warnings {
        tracing::warn!("{warning}");
    }
    if options.core_files {
        limits::allow_core_files()?;
    }
    server::provide_descriptors(effective.config());
    identity::assume(options.user.as_deref())?;
    if options.daemon {
        daemon::detach(options.core_files)?;
    }
    serve(&options, effective.config())?;
    Ok(ExitCode::SUCCESS)
}

/// The code that a process which should serve in the background ended with.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.filter(|code| *code != 0).unwrap_or(1))
}

/// Serves from here to the end.
fn serve(options: &Options, config: &Config) -> Result<(), Refusal> {
    // Signals are caught before anything starts, so that none is lost.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP])
        .map_err(|error| Refusal::system(format!("catching signals: {error}")))?;
    memory_file::check(options.memory_file.as_deref())?;
    let running = serve::start(config, &mut signals).map_err(|error| {
        let refuse = match error {
            server::Error::ReadUsers { .. } | server::Error::Users { .. } => Refusal::failure,
            _ => Refusal::system,
        };
        refuse(chain(&error))
    })?;
    let Some((running, hung_up)) = running else { return Ok(()) };
    let stats = running.stats();
    stats.hide_names(options.maintainer);
    stats.enable_crawler(options.crawler);
    if options.sizes {
        stats.track_sizes();
    }
    stats.begin_verbosity(options.verbosity.into(), logging::set_verbosity);
    ports::write(running.addresses(), running.udp_addresses());
    if options.lock_memory {
        limits::lock_memory();
    }
    let pid_file = options.pid_file.as_deref().and_then(PidFile::write);
    serve::act_on((signals, hung_up), &running, || None)
        .map_err(|error| Refusal::failure(format!("{error:#}")))?;
    if options.daemon {
        daemon::tell(options.verbosity > 0);
    }
    let outcome = running.wait().map_err(|error| Refusal::failure(chain(&error)));
    drop(pid_file);
    outcome
}

/// An error with what caused it.
fn chain(error: &server::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
