//! `kelvin log`: looks into logs, copies them, and takes their records out and in.
//!
//! All but `load` and `compact` open a log only to look into it: nothing of it is changed. Whoever
//! has a log open has it alone.

mod backup;
mod compact;
mod dump;
mod load;
mod source;
mod stats;
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, Command};

pub(crate) const NAME: &str = "log";

/// What a command ends with when something in the log is damaged.
const DAMAGED: u8 = 3;

pub(crate) fn command() -> Command {
    Command::new(NAME)
        .about("Check, dump, load, copy and compact logs that nobody has open")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(verify::command())
        .subcommand(stats::command())
        .subcommand(dump::command())
        .subcommand(load::command())
        .subcommand(backup::command())
        .subcommand(compact::command())
        .after_help(
            "Exit codes: 0 done, and nothing is damaged; 1 it could not be done; 2 the command \
             line is wrong; 3 something in the log is damaged.",
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let is_whole = match matches.subcommand() {
        Some((verify::NAME, matches)) => verify::run(matches)?,
        Some((stats::NAME, matches)) => stats::run(matches)?,
        Some((dump::NAME, matches)) => dump::run(matches)?,
        Some((load::NAME, matches)) => load::run(matches)?,
        Some((backup::NAME, matches)) => backup::run(matches)?,
        Some((compact::NAME, matches)) => compact::run(matches)?,
        _ => unreachable!("invariant: clap accepts no other subcommand"),
    };
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}
