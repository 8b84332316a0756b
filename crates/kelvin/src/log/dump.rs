//! `kelvin log dump`: writes all records.

use std::{
    fs::File,
    io::{BufWriter, Write, stderr, stdout},
    path::PathBuf,
};

use ::log::{
    Order, Records, Shown,
    dump::{Entry, Form, Key, Writer},
    engine::Stored,
    error::Error,
    format::manifest::IndexKind,
    index::Keyed,
};
use anyhow::{Context as _, Result};
use clap::{ArgMatches, Command};

use super::source::{IO_BYTES, Looked, Named, PROGRESS_RECORDS, args, look, path, with_paths};
use crate::{flags::option, progress::Progress};

pub(super) const NAME: &str = "dump";

pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Write all records of a log")
        .args(args())
        .arg(path("output", "FILE", "Where to write to, a new file [default: standard output]"))
        .arg(
            option("format", "FORMAT", "lines of JSON, or binary")
                .default_value("lines")
                .value_parser(["lines", "binary"]),
        )
        .arg(
            option("order", "ORDER", "As they were inserted, or of integers by key")
                .default_value("insertion")
                .value_parser(["insertion", "key"]),
        )
        .after_help("kelvin log dump /var/lib/kelvin/users | zstd > users.jsonl.zst")
}

/// Says whether nothing is damaged.
pub(super) fn run(matches: &ArgMatches) -> Result<bool> {
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let looked = look(matches, &mut progress)?;
    let mut named = Named::default();
    named.warn(&looked.log, &looked.report);
    let is = |flag, value: &str| matches.get_one::<String>(flag).is_some_and(|got| got == value);
    let form = if is("format", "binary") { Form::Binary } else { Form::Lines };
    let order = if is("order", "key") { Order::Key } else { Order::Insertion };
    let mut records = looked.log.iterate(order, None).context("reading the records")?;
    let damaged = match matches.get_one::<PathBuf>("output") {
        None => write(&mut records, stdout().lock(), form, &looked, &mut progress),
        Some(path) => {
            let file = File::create_new(path);
            let file = file.with_context(|| format!("cannot make {}", path.display()))?;
            let damaged = write(&mut records, &file, form, &looked, &mut progress);
            let written = damaged.and_then(|damaged| {
                file.sync_all()?;
                Ok(damaged)
            });
            written.with_context(|| format!("{} is not whole", path.display()))
        }
    };
    progress.clear();
    Ok(damaged? + named.count() == 0)
}

/// Writes all that can be read. Says how many could not.
fn write(
    records: &mut Records<'_, Keyed>,
    out: impl Write,
    form: Form,
    looked: &Looked,
    progress: &mut Progress,
) -> Result<u64> {
    let are_integers = matches!(looked.log.shape().index, IndexKind::Flat { .. });
    let directories = &looked.directories;
    let out = BufWriter::with_capacity(IO_BYTES, out);
    let mut writer = Writer::new(out, form).context("writing records")?;
    let mut damaged = 0;
    while let Some(shown) = records.next() {
        let shown = match shown {
            Ok(shown) => shown,
            // What is behind it can be read.
            Err(error) => {
                warn(&error, directories);
                damaged += 1;
                continue;
            }
        };
        // A large value is written while it is read: first it is read to see whether it can be.
        let is_large = shown.stored.parts.is_some();
        let read = if is_large { records.read_value(&shown, |_| Ok(())) } else { Ok(()) };
        if let Err(error) = read {
            warn(&error, directories);
            damaged += 1;
            continue;
        }
        write_one(records, &shown, are_integers, &mut writer)?;
        if writer.records().is_multiple_of(PROGRESS_RECORDS) {
            progress.show(&format!("dumped: {} records", writer.records()));
        }
    }
    writer.finish().context("writing records")?;
    Ok(damaged)
}

fn write_one(
    records: &Records<'_, Keyed>,
    shown: &Shown,
    are_integers: bool,
    writer: &mut Writer<impl Write>,
) -> Result<()> {
    let entry = entry(&shown.key, &shown.stored, are_integers);
    if shown.stored.parts.is_none() {
        return writer.write(&entry, &shown.stored.value).context("writing records");
    }
    writer.begin(&entry, shown.value_bytes()).context("writing records")?;
    records.read_value(shown, |part| writer.push(part).context("writing records"))?;
    writer.end().context("writing records")
}

fn entry(key: &[u8], stored: &Stored, are_integers: bool) -> Entry {
    let key = match key.try_into() {
        Ok(bytes) if are_integers => Key::Integer(u64::from_le_bytes(bytes)),
        _ => Key::Bytes(key.to_vec()),
    };
    Entry {
        key,
        flags: stored.flags,
        expiry_ms: stored.expiry_ms,
        token: stored.token,
        tags: stored.tags.clone(),
        is_stale: stored.is_stale,
        is_recached: stored.is_recached,
    }
}

fn warn(error: &Error, directories: &[PathBuf]) {
    // If nobody reads it, the exit code still tells.
    let _ = writeln!(stderr(), "damaged: {}", with_paths(error, directories));
}
