//! `kelvin log stats`: what a log has and takes.

use std::io::{Write as _, stdout};

use ::log::{format::manifest::IndexKind, index::Keyed, keys::Keys as _};
use anyhow::{Context as _, Result};
use clap::{ArgMatches, Command};

use super::source::{Looked, Named, args, look};
use crate::progress::Progress;

pub(super) const NAME: &str = "stats";

pub(super) fn command() -> Command {
    Command::new(NAME).about("Say what a log has and how much of its space is live").args(args())
}

/// Says whether nothing is damaged.
pub(super) fn run(matches: &ArgMatches) -> Result<bool> {
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let looked = look(matches, &mut progress)?;
    let mut named = Named::default();
    named.warn(&looked.log, &looked.report);
    let Looked { log, report, .. } = &looked;
    let (space, shape) = (log.space(), log.shape());
    let keys = match shape.index {
        IndexKind::Flat { kmin, kmax } => format!("integers from {kmin} to below {kmax}"),
        IndexKind::Hash { .. } => "strings".to_owned(),
    };
    let (entries, index_bytes) = log.with_index(|index: &Keyed| (index.entries(), index.bytes()));
    let lines = [
        ("purpose", log.purpose().to_string()),
        ("keys", keys),
        // A removed key has an entry as long as its tombstone is needed.
        ("entries", entries.to_string()),
        ("index_bytes", index_bytes.to_string()),
        ("runs", report.run.to_string()),
        ("stopped_in_order", report.is_clean.to_string()),
        ("segment_bytes", shape.segment_bytes.to_string()),
        ("segments", report.segments.to_string()),
        ("segments_sealed", space.sealed.to_string()),
        ("segments_unlisted", space.unlisted.to_string()),
        ("segments_free", space.free.to_string()),
        ("segments_lost", space.lost.to_string()),
        ("bytes", space.bytes.to_string()),
        ("used_bytes", space.used_bytes.to_string()),
        ("live_bytes", space.live_bytes.to_string()),
        ("dead_bytes", space.dead_bytes().to_string()),
        // What `compact` brings down.
        ("space_percent", space.used_percent().to_string()),
        ("damaged", named.count().to_string()),
    ];
    let mut out = stdout().lock();
    for (name, value) in lines {
        writeln!(out, "{name} {value}").context("writing the figures")?;
    }
    Ok(named.count() == 0)
}
