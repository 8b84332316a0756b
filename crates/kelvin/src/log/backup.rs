//! `kelvin log backup`: copies a log.

use std::{
    io::{Write as _, stdout},
    path::PathBuf,
    slice,
};

use ::log::{engine::Copying, error::Error as Failed};
use anyhow::{Context as _, Result, anyhow};
use clap::{ArgMatches, Command};

use super::source::{Named, args, look, make, path, with_paths};
use crate::{flags::value, progress::Progress};

pub(super) const NAME: &str = "backup";

pub(super) fn command() -> Command {
    let to = path("to", "DIRECTORY", "Where to, a directory that is empty or not there yet");
    Command::new(NAME).about("Copy a log").args(args()).arg(to.required(true))
}

/// Says whether nothing is damaged.
pub(super) fn run(matches: &ArgMatches) -> Result<bool> {
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let to: PathBuf = value(matches, "to");
    let looked = look(matches, &mut progress)?;
    let mut named = Named::default();
    named.warn(&looked.log, &looked.report);
    make(&to).with_context(|| format!("cannot make {}", to.display()))?;
    let mut show = |copying: Copying| {
        let done = copying.bytes_done >> 20;
        progress.show(&format!("copied: {done} of {} MiB", copying.bytes >> 20));
    };
    let mut damaged = |damage| named.warn_of(&looked.log, &damage);
    let copied = looked.log.backup(&to, &mut show, &mut damaged);
    progress.clear();
    let copied = copied.map_err(|error| {
        let (why, to) = (with_paths(&error, slice::from_ref(&to)), to.display());
        // One that was there before is left alone.
        let rest = if matches!(error, Failed::NotEmpty | Failed::InUse { .. }) {
            String::new()
        } else {
            "; what was copied is no log, and can be removed".to_owned()
        };
        anyhow!("cannot copy to {to}: {why}{rest}")
    })?;
    let (segments, bytes) = (copied.segments_done, copied.bytes_done);
    writeln!(stdout(), "{segments} segments, {bytes} bytes").context("writing the summary")?;
    Ok(named.count() == 0)
}
