//! `kelvin log load`: puts records into a log.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write as _, stdin, stdout},
    path::PathBuf,
};

use ::log::{
    Log,
    dump::{Dumped, End, Key, Reader},
    engine::{Mode, Put},
    format::{
        LogId,
        manifest::{IndexKind, Shape},
    },
    index::Keyed,
    random,
};
use anyhow::{Context as _, Result, bail};
use base::{clock::Clock, size::ByteSize};
use clap::{ArgMatches, Command};

use super::source::{self, IO_BYTES, PROGRESS_RECORDS, args, close, options, path};
use crate::{flags::option, progress::Progress};

pub(super) const NAME: &str = "load";

/// Bytes of an index's entry for an integer: 256 GiB of log.
const ENTRY_BYTES: u8 = 5;

const NO_RANDOM: &str = "the system gives no random bytes";

pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Put records into a log, as `dump` writes them")
        .args(args())
        .arg(path("input", "FILE", "Where to read from [default: standard input]"))
        .arg(
            option("create", "KEYS", "Make the log: strings, or integers:FROM-BELOW")
                .value_parser(|text: &str| parse_keys(text)),
        )
        .arg(
            option(
                "segment",
                "SIZE",
                "Bytes of a segment of the new log, 64KiB to 4GiB [default: 64MiB]",
            )
            .requires("create")
            .value_parser(|text: &str| text.parse::<ByteSize>()),
        )
        .after_help(
            "kelvin log load --create integers:0-100000000 /var/lib/kelvin/users < users.jsonl\n\n\
             A key that is there gets the loaded value. What has expired is left out.",
        )
}

/// Which keys a new log is for.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Strings,
    Integers { kmin: u64, kmax: u64 },
}

fn parse_keys(text: &str) -> Result<Keys, String> {
    let expected = || format!("`{text}` is neither `strings` nor `integers:FROM-BELOW`");
    if text == "strings" {
        return Ok(Keys::Strings);
    }
    let range = text.strip_prefix("integers:").and_then(|range| range.split_once('-'));
    let (from, below) = range.ok_or_else(expected)?;
    let parse = |number: &str| number.parse().map_err(|_| expected());
    let (kmin, kmax) = (parse(from)?, parse(below)?);
    if kmin < kmax { Ok(Keys::Integers { kmin, kmax }) } else { Err(expected()) }
}

/// Says whether nothing is damaged.
pub(super) fn run(matches: &ArgMatches) -> Result<bool> {
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let (log, is_whole) = open(matches, &mut progress)?;
    let directories = options(matches).directories;
    let loaded = match matches.get_one::<PathBuf>("input") {
        None => load(&log, stdin().lock(), &mut progress),
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()));
            file.and_then(|file| {
                let input = BufReader::with_capacity(IO_BYTES, file);
                load(&log, input, &mut progress).with_context(|| path.display().to_string())
            })
        }
    };
    progress.clear();
    // What was loaded stays, also when the rest cannot be.
    let closed = close(log, &directories);
    let loaded = loaded?;
    writeln!(stdout(), "{loaded}").context("writing the summary")?;
    closed?;
    Ok(is_whole)
}

/// The log, made if that is asked for, and whether nothing in it was found damaged.
fn open(matches: &ArgMatches, progress: &mut Progress) -> Result<(Log<Keyed>, bool)> {
    let mut options = options(matches);
    options.settings.mode = Mode::Async;
    let keys = matches.get_one::<Keys>("create");
    if let Some(keys) = keys {
        options.shape = shape(*keys, options.shape)?;
        if let Some(ByteSize(bytes)) = matches.get_one("segment") {
            options.shape.segment_bytes = *bytes;
        }
    }
    let id = keys.map(|_| random().map(u128::from_le_bytes)).transpose();
    let id = id.context(NO_RANDOM)?;
    source::open(&options, id.map(LogId), progress)
}

fn shape(keys: Keys, shape: Shape) -> Result<Shape> {
    let (index, entry_bytes) = match keys {
        Keys::Strings => (IndexKind::Hash { seeds: random().context(NO_RANDOM)? }, 0),
        Keys::Integers { kmin, kmax } => (IndexKind::Flat { kmin, kmax }, ENTRY_BYTES),
    };
    Ok(Shape { index, entry_bytes, ..shape })
}

/// Puts all records, and says how many.
fn load(log: &Log<Keyed>, input: impl BufRead, progress: &mut Progress) -> Result<String> {
    let mut reader = Reader::new(input).context("cannot read records")?;
    let are_integers = matches!(log.shape().index, IndexKind::Flat { .. });
    let (mut stored, mut expired) = (0_u64, 0_u64);
    let now_ms = Clock::system().wall_ms();
    let outcome = (|| {
        loop {
            let place = reader.place();
            let Some(dumped) = reader.read()? else { return anyhow::Ok(()) };
            let expiry_ms = dumped.entry.expiry_ms;
            if expiry_ms != 0 && expiry_ms <= now_ms {
                expired += 1;
                continue;
            }
            put(log, &dumped, are_integers).with_context(|| place.to_string())?;
            stored += 1;
            if stored.is_multiple_of(PROGRESS_RECORDS) {
                progress.show(&format!("loaded: {stored} records"));
            }
        }
    })();
    let is_flushed = log.flush().context("what was loaded is not durable");
    outcome.with_context(|| format!("stored {stored} records, and then"))?;
    is_flushed?;
    let rest = match reader.end() {
        Some(End::Whole) => "",
        Some(End::Unsaid) | None => "; no last line says whether these are all",
    };
    Ok(format!("{stored} records stored, {expired} left out because they have expired{rest}"))
}

fn put(log: &Log<Keyed>, dumped: &Dumped, are_integers: bool) -> Result<()> {
    let entry = &dumped.entry;
    let key = match &entry.key {
        Key::Integer(key) if are_integers => key.to_le_bytes().to_vec(),
        Key::Bytes(key) if !are_integers => key.clone(),
        Key::Integer(_) => bail!("an integer, and the log's keys are strings"),
        Key::Bytes(_) => bail!("a string, and the log's keys are integers"),
    };
    log.put(&Put {
        key: &key,
        value: &dumped.value,
        expiry_ms: entry.expiry_ms,
        flags: entry.flags,
        token: Some(entry.token).filter(|token| *token != 0),
        tags: &entry.tags,
        is_stale: entry.is_stale,
        is_recached: entry.is_recached,
    })?;
    Ok(())
}
