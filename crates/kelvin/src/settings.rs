//! Settings from the file, the environment and the flags of a command.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, builder::ValueParser};
use server::config::{Effective, Layer, SETTINGS, Setting};

const FILE: &str = "config";
const FILE_VARIABLE: &str = "KELVIN_CONFIG";

/// `command` with a flag for each setting, and one for the file.
pub(crate) fn with_flags(command: Command) -> Command {
    let file = Arg::new(FILE)
        .long(FILE)
        .value_name("FILE")
        .value_parser(ValueParser::path_buf())
        .help("Configuration file, TOML [env: KELVIN_CONFIG]");
    command.arg(file).args(SETTINGS.iter().map(flag)).after_help(
        "Each flag is also a key of the file, with _ for -, and an environment variable: \
         KELVIN_NET_THREADS is --net-threads.\n\
         Flags override the environment, which overrides the file.",
    )
}

fn flag(setting: &Setting) -> Arg {
    let help: Vec<&str> = setting.help.iter().map(|line| line.trim()).collect();
    Arg::new(setting.name)
        .long(setting.flag())
        .value_name(setting.value_name)
        .help(help.join(" "))
        .action(ArgAction::Append)
}

/// The configuration that a command's flags, the environment and the file give together.
pub(crate) fn effective(matches: &ArgMatches) -> Result<Effective> {
    let file = matches
        .get_one::<PathBuf>(FILE)
        .cloned()
        .or_else(|| std::env::var_os(FILE_VARIABLE).map(PathBuf::from));
    let mut layers = Vec::new();
    if let Some(path) = file {
        layers.push(Layer::from_file(&path)?);
    }
    layers.push(Layer::from_environment(|name| std::env::var_os(name))?);
    layers.push(Layer::from_flags(|setting| {
        let texts = matches.get_many::<String>(setting.name)?;
        Some(texts.cloned().collect())
    })?);
    Ok(Effective::new(layers)?)
}

/// Variables of the environment that look like settings and are none: misspelt, perhaps.
pub(crate) fn unknown_variables() -> Vec<String> {
    let known: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("KELVIN_") && name != FILE_VARIABLE)
        .filter(|name| !known.contains(name))
        .collect()
}
