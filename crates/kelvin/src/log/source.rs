//! A log that a command line names, opened to be looked into.

use std::{
    collections::BTreeSet,
    io::{Write as _, stderr},
    path::PathBuf,
};

use ::log::{
    Log, Options,
    engine::{Damage, Progress as Opening, Report, Wrong},
    format::{
        LogId,
        manifest::{IndexKind, Manifest},
    },
    index::{IndexLimits, Keyed},
    keys::{IndexFull, MakeKeys},
    plan::{Disk, File},
};
use anyhow::{Context as _, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, builder::ValueParser};

use crate::{
    flags::{option, switch},
    progress::Progress,
};

/// Keys that a log of strings may have. The index takes memory for those that it has, and 7 MB.
const KEYS_MAX: u64 = 1 << 30;

/// What an index is made for: a range of integers stays as it is.
pub(super) const LIMITS: IndexLimits = IndexLimits { kmax_limit: 0, entries_max: KEYS_MAX };

/// Records between two looks at the clock.
pub(super) const PROGRESS_RECORDS: u64 = 4096;

/// Bytes of records that are read or written at once.
pub(super) const IO_BYTES: usize = 1 << 18;

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

/// How the log in the directories is opened. An existing one knows its own shape.
pub(super) fn options(matches: &ArgMatches) -> Options {
    let options = Options::new("", IndexKind::Hash { seeds: [0; 128] }, 0);
    let directories = matches.get_many("directory").into_iter().flatten().cloned().collect();
    Options { directories, ..options }
}

/// A log that is looked into, and what was found when it was opened.
pub(super) struct Looked {
    pub(super) log: Log<Keyed>,
    pub(super) report: Report,
}

pub(super) fn look(matches: &ArgMatches, progress: &mut Progress) -> Result<Looked> {
    look_by(LIMITS, matches, progress)
}

/// The same, with a look at every segment, also after a stop in order.
pub(super) fn look_at_all(matches: &ArgMatches, progress: &mut Progress) -> Result<Looked> {
    look_by(FromAll, matches, progress)
}

fn look_by(
    make: impl MakeKeys<Keyed>,
    matches: &ArgMatches,
    progress: &mut Progress,
) -> Result<Looked> {
    let mut show = |opening: Opening| progress.show(&describe("looked into", opening));
    let options = options(matches);
    let (log, report) = Log::inspect(&options, make, &mut show)
        .with_context(|| format!("cannot open the log in {}", named(&options.directories)))?;
    progress.clear();
    Ok(Looked { log, report })
}

/// Opens a log to write to it, or makes one of the shape in `options` when `id` is given. Says
/// whether nothing in it was found damaged.
pub(super) fn open(
    options: &Options,
    id: Option<LogId>,
    progress: &mut Progress,
) -> Result<(Log<Keyed>, bool)> {
    let home = options.directories.first().context("a log has a directory")?;
    match (id, home.join("manifest").exists()) {
        (Some(_), true) => bail!("there is a log in {} already", home.display()),
        (None, false) => bail!("there is no log in {}; `load --create` makes one", home.display()),
        (Some(_), false) | (None, true) => {}
    }
    let mut show = |opening| progress.show(&describe("opened", opening));
    let (log, report) = Log::open(options, id.unwrap_or(LogId(0)), LIMITS, &mut show)
        .with_context(|| format!("cannot open the log in {}", named(&options.directories)))?;
    progress.clear();
    let mut damaged = Named::default();
    damaged.warn(&log, &report);
    Ok((log, damaged.count() == 0))
}

/// The directories, for messages.
fn named(directories: &[PathBuf]) -> String {
    let paths: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

pub(super) fn describe(
    what: &str,
    Opening { segments_done, segments, records }: Opening,
) -> String {
    format!("{what}: {segments_done} of {segments} segments, {records} records")
}

/// Damages that were named, each record once: a head may be found damaged twice.
#[derive(Debug, Default)]
pub(super) struct Named {
    records: BTreeSet<(File, u64)>,
    count: u64,
}

/// The most records whose places are kept, so that none is named twice: some 100 MB.
const PLACES_MAX: usize = 1 << 20;

impl Named {
    /// The damage as a line, unless it was named before.
    pub(super) fn line(&mut self, log: &Log<Keyed>, damage: &Damage) -> Option<String> {
        let Damage { file, offset, bytes, what } = damage;
        let is_record = matches!(what, Wrong::Records | Wrong::Named(_));
        let is_kept = is_record && self.records.len() < PLACES_MAX;
        if is_kept && !self.records.insert((*file, *offset)) {
            return None;
        }
        self.count += 1;
        let path = log.path(*file);
        Some(format!("{}: offset {offset}, {bytes} bytes: {what}", path.display()))
    }

    /// Writes the damage on standard error, unless it was named before.
    pub(super) fn warn_of(&mut self, log: &Log<Keyed>, damage: &Damage) {
        if let Some(line) = self.line(log, damage) {
            // If nobody reads it, the exit code still tells.
            let _ = writeln!(stderr(), "damaged: {line}");
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Writes on standard error what was found damaged when the log was opened.
    pub(super) fn warn(&mut self, log: &Log<Keyed>, report: &Report) {
        report.damages.iter().for_each(|damage| self.warn_of(log, damage));
        self.count += report.unlisted;
    }
}

/// Has an index be made from all of the log, so that all of it is looked at; the one that was saved
/// is looked at, too.
#[derive(Debug)]
struct FromAll;

impl MakeKeys<Keyed> for FromAll {
    fn empty(&mut self, manifest: &Manifest) -> Result<Keyed, IndexFull> {
        LIMITS.clone().empty(manifest)
    }

    fn saved(
        &mut self,
        manifest: &Manifest,
        disk: &mut dyn Disk,
    ) -> Result<Option<Keyed>, ::log::error::Error> {
        LIMITS.clone().saved(manifest, disk).map(|_| None)
    }
}
