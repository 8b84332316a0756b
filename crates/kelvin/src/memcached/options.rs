//! memcached's options: one row each, from which parsing, the help and the tests follow.
//!
//! An option either changes what is asked for, or tunes something that does not exist here: then
//! its value is checked as memcached checks it, and one warning says what it would have done.

mod table;

use std::collections::BTreeMap;

use super::{command_line::Given, refusal::Refusal, suboptions};

pub(super) use table::OPTIONS;

/// Port that memcached clients expect.
const PORT: i32 = 11211;

/// Longest value unless `-I` says otherwise.
const VALUE_BYTES: i64 = 1 << 20;

/// What follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    None,
    /// An argument, and what stands for it in the help.
    Required(&'static str),
    /// One behind the long name and `=`, if any. It is ignored.
    LongOnly,
}

/// What an option does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// Changes what is asked for, whatever the argument.
    Set(fn(&mut Options, &str)),
    /// Changes what is asked for, unless the argument is wrong.
    Honoured(fn(&mut Options, &str) -> Result<(), Refusal>),
    /// Checks the argument; the text says what the option would have done.
    Accepted(fn(&str) -> Result<(), Refusal>, &'static str),
}

/// One option.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) short: char,
    /// Empty if there is only the short name.
    pub(super) long: &'static str,
    pub(super) argument: Argument,
    pub(super) help: &'static str,
    pub(super) effect: Effect,
}

/// What is shown instead of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Help,
    Licence,
    Version,
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Auto,
    Ascii,
    Binary,
}

impl Protocol {
    /// As a setting has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ascii => "ascii",
            Self::Binary => "binary",
        }
    }
}

/// What options ask for. The default is what memcached does without any.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) page: Option<Page>,
    /// TCP port; 0 for none, -1 for one that the system chooses.
    pub(super) port: i32,
    pub(super) port_given: bool,
    /// UDP port, likewise.
    pub(super) udp_port: i32,
    pub(super) udp_port_given: bool,
    pub(super) unix: Option<String>,
    pub(super) unix_mode: u32,
    pub(super) listen: Vec<String>,
    pub(super) memory_mib: i32,
    pub(super) evicts: bool,
    pub(super) connections_max: i32,
    pub(super) refuses_connections: bool,
    pub(super) threads: i32,
    pub(super) turn_commands_max: Option<i32>,
    pub(super) backlog: i32,
    pub(super) value_bytes_max: i64,
    pub(super) chunk_bytes_max: i64,
    pub(super) idle_timeout_s: i32,
    pub(super) shutdown: bool,
    pub(super) tokens: bool,
    pub(super) flush: bool,
    pub(super) dump: bool,
    pub(super) watch: bool,
    pub(super) delimiter: Option<char>,
    pub(super) protocol: Option<Protocol>,
    pub(super) sasl: bool,
    pub(super) auth_file: Option<String>,
    pub(super) memory_file: Option<String>,
    pub(super) daemon: bool,
    pub(super) core_files: bool,
    pub(super) lock_memory: bool,
    pub(super) user: Option<String>,
    pub(super) pid_file: Option<String>,
    pub(super) verbosity: u32,
    pub(super) napi_ids: i32,
    pub(super) hot_percent: i32,
    pub(super) warm_percent: i32,
    pub(super) temporary: bool,
    pub(super) maintainer: bool,
    /// `stats sizes` tells of sizes.
    pub(super) sizes: bool,
    /// `lru_crawler` may be used.
    pub(super) crawler: bool,
    /// What only this server has: settings by name.
    pub(super) own: BTreeMap<&'static str, String>,
    /// What is asked for in vain.
    pub(super) warnings: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            page: None,
            port: PORT,
            port_given: false,
            udp_port: 0,
            udp_port_given: false,
            unix: None,
            unix_mode: 0o700,
            listen: Vec::new(),
            memory_mib: 64,
            evicts: true,
            connections_max: 1024,
            refuses_connections: true,
            threads: 4,
            turn_commands_max: None,
            backlog: 1024,
            value_bytes_max: VALUE_BYTES,
            chunk_bytes_max: suboptions::CHUNK_BYTES,
            idle_timeout_s: 0,
            shutdown: false,
            tokens: true,
            flush: true,
            dump: true,
            watch: true,
            delimiter: None,
            protocol: None,
            sasl: false,
            auth_file: None,
            memory_file: None,
            daemon: false,
            core_files: false,
            lock_memory: false,
            user: None,
            pid_file: None,
            verbosity: 0,
            napi_ids: 0,
            hot_percent: 20,
            warm_percent: 40,
            temporary: false,
            maintainer: true,
            sizes: false,
            crawler: true,
            own: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }
}

impl Options {
    /// What `given` asks for, up to the first option that shows a page.
    ///
    /// # Errors
    /// A value that memcached refuses, too.
    pub(super) fn from_given(given: Vec<Given>) -> Result<Self, Refusal> {
        let mut options = Self::default();
        for (row, argument) in given {
            match row.effect {
                Effect::Set(set) => set(&mut options, &argument),
                Effect::Honoured(set) => set(&mut options, &argument)?,
                Effect::Accepted(check, would) => {
                    check(&argument)?;
                    options.warn(format!("-{} has no effect: {would}", row.short));
                }
            }
            if options.page.is_some() {
                break;
            }
        }
        Ok(options)
    }

    /// Adds a warning, once.
    pub(super) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

#[cfg(test)]
mod tests;
