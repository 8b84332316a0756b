//! A log that a command line names, opened to be looked into.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write as _, stderr},
    path::{Path, PathBuf},
};

use ::log::{
    Log, Options,
    engine::{Damage, Progress as Opening, Report, Wrong},
    error::Error as Failed,
    format::{
        LogId,
        manifest::{IndexKind, Manifest},
    },
    index::{IndexLimits, Keyed},
    keys::{IndexFull, MakeKeys},
    plan::{Disk, File},
};
use anyhow::{Context as _, Result, anyhow, bail};
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
    pub(super) directories: Vec<PathBuf>,
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
    if let Some(home) = options.directories.first()
        && home.is_dir()
        && !home.join("manifest").exists()
    {
        bail!("there is no log in {}: it has no manifest", home.display());
    }
    let looked = Log::inspect(&options, make, &mut show);
    progress.clear();
    let (log, report) = looked.map_err(|error| cannot_open(&error, &options.directories))?;
    Ok(Looked { log, report, directories: options.directories })
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
        (Some(_), false) => {
            for path in &options.directories {
                make(path).with_context(|| format!("cannot make {}", path.display()))?;
            }
        }
        (None, true) => {}
    }
    let mut show = |opening| progress.show(&describe("opened", opening));
    let opened = Log::open(options, id.unwrap_or(LogId(0)), LIMITS, &mut show);
    progress.clear();
    let (log, report) = opened.map_err(|error| cannot_open(&error, &options.directories))?;
    let mut damaged = Named::default();
    damaged.warn(&log, &report);
    Ok((log, damaged.count() == 0))
}

/// Makes a directory, durable, so that a log in it is.
pub(super) fn make(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
        }
    }
}

/// Stops a log that was written to. What was done to it before is there, whatever this says.
pub(super) fn close(log: Log<Keyed>, directories: &[PathBuf]) -> Result<()> {
    log.close().map_err(|error| {
        let why = with_paths(&error, directories);
        anyhow!("the log could not be stopped in order, and the next open reads all of it: {why}")
    })
}

fn cannot_open(error: &Failed, directories: &[PathBuf]) -> anyhow::Error {
    let paths: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
    // Only what writes asks for a log that keeps what it has.
    let advice = match error {
        Failed::Purpose { .. } => "; only a server whose table spills writes to it",
        _ => "",
    };
    let why = with_paths(error, directories);
    anyhow!("cannot open the log in {}: {why}{advice}", paths.join(", "))
}

/// What an error says, with paths where it has files and the numbers of directories.
pub(super) fn with_paths(error: &Failed, directories: &[PathBuf]) -> String {
    let place = |text: String, file: File| {
        text.replace(&file.to_string(), &path_of(file, directories).display().to_string())
    };
    error.files().into_iter().fold(error.to_string(), place)
}

fn path_of(File { directory, name }: File, directories: &[PathBuf]) -> PathBuf {
    let directory = directories.get(usize::from(directory.0));
    directory.cloned().unwrap_or_default().join(name.to_string())
}

/// The path of a name that is none of the log's.
pub(super) fn foreign_path(name: &str, directories: &[PathBuf]) -> String {
    let split = name.rsplit_once(" of directory ");
    let found =
        split.and_then(|(name, at)| Some((name, directories.get(at.parse::<usize>().ok()?)?)));
    found.map_or_else(|| name.to_owned(), |(name, path)| path.join(name).display().to_string())
}

/// What is wrong at a place that is named already.
fn flaw(what: &Wrong) -> String {
    match what {
        Wrong::Named(Failed::Damaged { flaw, .. }) => flaw.to_string(),
        Wrong::Named(Failed::SavedIndex { flaw, .. }) => flaw.clone(),
        Wrong::Named(Failed::Unreadable { failure, .. } | Failed::Disk { failure, .. }) => {
            format!("it cannot be read: {failure}")
        }
        what => what.to_string(),
    }
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
        let (path, flaw) = (log.path(*file), flaw(what));
        // A file that is missing has no places.
        let place = match (what, bytes) {
            (Wrong::Missing, _) => String::new(),
            (_, 0) => format!(" offset {offset}:"),
            _ => format!(" offset {offset}, {bytes} bytes:"),
        };
        Some(format!("{}:{place} {flaw}", path.display()))
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

    fn saved(&mut self, manifest: &Manifest, disk: &mut dyn Disk) -> Result<Option<Keyed>, Failed> {
        LIMITS.clone().saved(manifest, disk).map(|_| None)
    }
}
