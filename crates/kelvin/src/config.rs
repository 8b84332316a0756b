//! `kelvin config print` and `kelvin config check`.

use std::io::Write;

use anyhow::{Context, Result};
use clap::{ArgMatches, Command};

use crate::settings;

pub(crate) const NAME: &str = "config";
const PRINT: &str = "print";
const CHECK: &str = "check";

pub(crate) fn command() -> Command {
    let print = Command::new(PRINT)
        .about("Print every setting with its value and where the value comes from, as TOML");
    let check = Command::new(CHECK).about("Say whether a server could start with these settings");
    Command::new(NAME)
        .about("Show or check the configuration")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(settings::with_flags(print))
        .subcommand(settings::with_flags(check))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<()> {
    let (name, matches) = matches.subcommand().expect("invariant: clap requires a subcommand");
    let effective = settings::effective(matches)?;
    if name == PRINT {
        let mut out = std::io::stdout().lock();
        write!(out, "{effective}").context("writing to standard output")?;
    }
    Ok(())
}
