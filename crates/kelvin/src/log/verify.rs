//! `kelvin log verify`: reads everything, and names what is damaged.

use std::{
    collections::BTreeSet,
    io::{Write as _, stdout},
};

use anyhow::{Context as _, Result};
use clap::{ArgMatches, Command};

use super::source::{Looked, Named, args, describe, foreign_path, look_at_all};
use crate::progress::Progress;

pub(super) const NAME: &str = "verify";

pub(super) fn command() -> Command {
    Command::new(NAME).about("Read all of a log and name what is damaged").args(args())
}

/// Says whether nothing is damaged.
pub(super) fn run(matches: &ArgMatches) -> Result<bool> {
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let Looked { log, report, directories } = look_at_all(matches, &mut progress)?;
    let (mut named, mut lines) = (Named::default(), Vec::new());
    for damage in &report.damages {
        lines.extend(named.line(&log, damage));
    }
    // Nothing is wrong with these, but whoever put them there may want to know.
    for name in &report.foreign {
        lines.push(format!("{}: none of the log's", foreign_path(name, &directories)));
    }
    let mut out = stdout().lock();
    let mut written = lines.iter().try_for_each(|line| writeln!(out, "{line}"));
    let verified = log.verify(
        &mut |verifying| progress.show(&describe("verified", verifying)),
        &mut |damage| {
            if let Some(line) = named.line(&log, &damage)
                && written.is_ok()
            {
                written = writeln!(out, "{line}");
            }
        },
    )?;
    progress.clear();
    written.context("writing what is damaged")?;
    let damaged = named.count() + report.unlisted;
    let torn: BTreeSet<_> = report.torn.iter().map(|torn| torn.file).collect();
    writeln!(
        out,
        "{} segments, {} of them sealed, with {} records; {damaged} places are damaged, {} \
         segments end as a crash leaves them, with {} records",
        report.segments,
        verified.segments,
        verified.records,
        torn.len(),
        report.tail_records
    )
    .context("writing the summary")?;
    Ok(damaged == 0)
}
