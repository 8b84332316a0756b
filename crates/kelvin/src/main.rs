//! The `kelvin` command: one file per subcommand.
#![forbid(unsafe_code)]

mod bench;
mod config;
mod flags;
mod import;
mod log;
mod logging;
mod memcached;
mod progress;
mod serve;
mod settings;
mod sim;

use std::{io::Write, process::ExitCode};

use clap::Command;

fn main() -> ExitCode {
    if let Some(arguments) = memcached::arguments(std::env::args_os()) {
        return memcached::run(&arguments);
    }
    let matches = Command::new("kelvin")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A key-value store that serves memcached's clients")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve::command())
        .subcommand(memcached::command())
        .subcommand(import::command())
        .subcommand(bench::command())
        .subcommand(sim::command())
        .subcommand(crate::log::command())
        .subcommand(config::command())
        .get_matches();
    let outcome = match matches.subcommand() {
        Some((serve::NAME, matches)) => serve::run(matches),
        Some((import::NAME, matches)) => import::run(matches),
        Some((bench::NAME, matches)) => bench::run(matches),
        Some((sim::NAME, matches)) => sim::run(matches),
        Some((config::NAME, matches)) => config::run(matches),
        Some((crate::log::NAME, matches)) => return end(crate::log::run(matches)),
        _ => unreachable!("invariant: clap accepts no other subcommand"),
    };
    end(outcome.map(|()| ExitCode::SUCCESS))
}

fn end(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        // If nobody reads it, the exit code still tells.
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}
