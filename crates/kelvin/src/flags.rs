//! Flags as several subcommands have them.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, builder::ValueParser};

/// A flag with a value.
pub(crate) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// A flag with the path of a file to be written.
pub(crate) fn file(name: &'static str, help: &'static str) -> Arg {
    option(name, "FILE", help).value_parser(ValueParser::path_buf())
}

/// A flag without a value.
pub(crate) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// The value of a flag that is required or has a default.
pub(crate) fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> T {
    matches.get_one::<T>(name).cloned().expect("invariant: required, or has a default")
}

/// Writes the file that a flag names, if it was given.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write_file(
    matches: &ArgMatches,
    name: &str,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let Some(path) = matches.get_one::<PathBuf>(name) else { return Ok(()) };
    fs::write(path, text()).with_context(|| format!("cannot write {}", path.display()))
}
