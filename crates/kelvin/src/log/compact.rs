//! `kelvin log compact`: gives back the space of what is dead.

use std::{
    io::{Write as _, stdout},
    sync::atomic::Ordering,
};

use ::log::{Compacting, engine::Mode};
use anyhow::{Context as _, Result};
use clap::{ArgMatches, Command, value_parser};

use super::source::{args, close, open, options};
use crate::{
    flags::{option, value},
    progress::{Progress, stop_by_signal},
};

pub(super) const NAME: &str = "compact";

pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Give back the space of what was overwritten or removed")
        .args(args())
        .arg(
            option("space-percent", "N", "What the log may take, in percent of what lives in it")
                .default_value("110")
                .value_parser(value_parser!(u32).range(110..=1000)),
        )
        .after_help("A signal ends it early, and in order: what was won stays.")
}

/// Says whether nothing is damaged.
pub(super) fn run(matches: &ArgMatches) -> Result<bool> {
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let stop = stop_by_signal()?;
    let mut options = options(matches);
    options.settings.mode = Mode::Async;
    options.settings.space_target_percent = value(matches, "space-percent");
    let (log, is_whole) = open(&options, None, &mut progress)?;
    let before = log.space();
    let mut show = |Compacting { space, counts }: Compacting| {
        let (mib, freed) = (space.bytes >> 20, counts.segments_freed);
        let moved = counts.moved_bytes >> 20;
        let line = format!("compacted: {mib} MiB left, {moved} moved, {freed} segments freed");
        progress.show(&line);
        !stop.load(Ordering::Relaxed)
    };
    let compacted = log.compact(&mut show);
    progress.clear();
    let compacted = compacted.context("the log cannot be compacted")?;
    let closed = close(log, &options.directories);
    let Compacting { space, counts } = compacted;
    writeln!(
        stdout(),
        "{} bytes before, {} bytes now; {} bytes moved out of {} segments, {} segments freed, {} \
         files removed; what is in use is {} percent of what lives in it",
        before.bytes,
        space.bytes,
        counts.moved_bytes,
        counts.segments_moved,
        counts.segments_freed,
        counts.files_removed,
        space.used_percent()
    )
    .context("writing the summary")?;
    closed?;
    Ok(is_whole)
}
