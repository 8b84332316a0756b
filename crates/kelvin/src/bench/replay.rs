//! `kelvin bench --trace`: which server has more of what a trace asks for.

use std::{
    io::{Write, stdout},
    sync::atomic::Ordering,
};

use anyhow::{Context, Result, bail};
use bench::{ReplayPlan, Server};
use clap::{Arg, ArgMatches};
use trace::Source;

use crate::{
    flags::{option, value, write_file},
    progress::{Progress, stop_by_signal},
};

pub(super) const TRACE: &str = "trace";

/// What says how a load is made or measured that a trace is not.
const FLAGS_OF_LOADS: [&str; 26] = [
    "protocol",
    "unverified",
    "connections",
    "depth",
    "keys",
    "popularity",
    "key-size",
    "value-size",
    "key-prefix",
    "mix",
    "rate",
    "arrivals",
    "no-load",
    "loaded",
    "each",
    "device",
    "no-verify",
    "threads",
    "cpus",
    "spin",
    "rounds",
    "duration",
    "warm-up",
    "no-ceiling",
    "svg",
    "record",
];

pub(super) fn args() -> Vec<Arg> {
    vec![
        option(
            TRACE,
            "TRACE",
            "Replay a trace on each server and count hits: a file or generator of `kelvin sim`",
        )
        .conflicts_with_all(FLAGS_OF_LOADS)
        .value_parser(|text: &str| text.parse::<Source>()),
        option("copies", "N", "Replay the trace so many times at once, each with keys of its own")
            .default_value("1")
            .requires(TRACE)
            .value_parser(clap::value_parser!(u32).range(1..)),
    ]
}

pub(super) fn run(matches: &ArgMatches, servers: Vec<Server>) -> Result<()> {
    let plan = ReplayPlan {
        servers,
        source: value(matches, TRACE),
        copies: value(matches, "copies"),
        seed: value(matches, "seed"),
        patience: value(matches, "timeout"),
    };
    let stop = stop_by_signal()?;
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let outcome = bench::replay(&plan, &stop, &mut |text| progress.show(text));
    progress.clear();
    let outcome = outcome?;
    let table = bench::replay_table(&plan, &outcome);
    write!(stdout(), "{table}").context("writing the table")?;
    write_file(matches, "json", || bench::replay_json(&plan, &outcome))?;
    let wrong: u64 = outcome.sides.iter().map(|side| side.counts.wrong).sum();
    if wrong > 0 {
        bail!("{wrong} values were not those that were written");
    }
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
