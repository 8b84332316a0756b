//! A log that a command line names, opened to be looked into.

use std::{
    collections::BTreeSet,
    io::{Write as _, stderr},
    path::PathBuf,
};

use ::log::{
    Log, Options,
    engine::{Damage, Progress as Opening, Report},
    format::manifest::IndexKind,
    index::{IndexLimits, Keyed},
    plan::File,
};
use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgMatches, builder::ValueParser};

use crate::{
    flags::{option, switch},
    progress::Progress,
};

/// Keys that a log of strings may have. The index takes memory for those that it has, and 7 MB.
const KEYS_MAX: u64 = 1 << 30;

/// What an index is made for: a range of integers stays as it is.
pub(super) const LIMITS: IndexLimits = IndexLimits { kmax_limit: 0, entries_max: KEYS_MAX };

/// The flags that every command has.
pub(super) fn args() -> [Arg; 2] {
    let directories = Arg::new("directory")
        .value_name("DIRECTORY")
        .required(true)
        .action(ArgAction::Append)
        .value_parser(ValueParser::path_buf())
        .help("The log's directory; of several all of them, its home first");
    [directories, switch("quiet", "Show no progress")]
}

/// A flag that names a file.
pub(super) fn path(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    option(name, value, help).value_parser(ValueParser::path_buf())
}

pub(super) fn directories(matches: &ArgMatches) -> Vec<PathBuf> {
    matches.get_many("directory").into_iter().flatten().cloned().collect()
}

/// How the log in the directories is opened. An existing one knows its own shape.
pub(super) fn options(matches: &ArgMatches) -> Options {
    let options = Options::new("", IndexKind::Hash { seeds: [0; 128] }, 0);
    Options { directories: directories(matches), ..options }
}

/// A log that is looked into, and what was found when it was opened.
pub(super) struct Looked {
    pub(super) log: Log<Keyed>,
    pub(super) report: Report,
}

pub(super) fn look(matches: &ArgMatches, progress: &mut Progress) -> Result<Looked> {
    let mut show = |opening: Opening| progress.show(&describe("looked into", opening));
    let (log, report) = Log::inspect(&options(matches), LIMITS, &mut show)
        .with_context(|| format!("cannot open the log in {}", named(matches)))?;
    progress.clear();
    Ok(Looked { log, report })
}

/// The directories, for messages.
pub(super) fn named(matches: &ArgMatches) -> String {
    let paths = directories(matches);
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

pub(super) fn describe(
    what: &str,
    Opening { segments_done, segments, records }: Opening,
) -> String {
    format!("{what}: {segments_done} of {segments} segments, {records} records")
}

/// Damages that were named, each once.
#[derive(Debug, Default)]
pub(super) struct Named {
    places: BTreeSet<(File, u64)>,
    unlisted: u64,
}

/// The most damages whose places are kept, so that none is named twice: some 100 MB.
const PLACES_MAX: usize = 1 << 20;

impl Named {
    /// The damage as a line, unless its place was named before.
    pub(super) fn line(&mut self, log: &Log<Keyed>, damage: &Damage) -> Option<String> {
        let Damage { file, offset, bytes, what } = damage;
        let is_kept = self.places.len() < PLACES_MAX;
        if !is_kept || self.places.insert((*file, *offset)) {
            self.unlisted += u64::from(!is_kept);
            let path = log.path(*file);
            return Some(format!("{}: offset {offset}, {bytes} bytes: {what}", path.display()));
        }
        None
    }

    pub(super) fn count(&self) -> u64 {
        self.places.len() as u64 + self.unlisted
    }

    /// Writes on standard error what was found damaged when the log was opened.
    pub(super) fn warn(&mut self, looked: &Looked) {
        for damage in &looked.report.damages {
            if let Some(line) = self.line(&looked.log, damage) {
                // If nobody reads it, the exit code still tells.
                let _ = writeln!(stderr(), "damaged: {line}");
            }
        }
        self.unlisted += looked.report.unlisted;
    }
}
