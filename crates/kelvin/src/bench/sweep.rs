//! `kelvin bench --each`: every key once, in passes; what is kept of what was stored?

use std::{
    io::{Write, stdout},
    sync::atomic::Ordering,
};

use anyhow::{Context, Result, anyhow, bail};
use bench::{Pass, Plan};
use clap::{Arg, ArgAction, ArgMatches};

use crate::{
    flags::{option, write_file},
    progress::{Progress, stop_by_signal},
};

pub(super) const EACH: &str = "each";

/// What says how rounds are made, of which there are none.
const FLAGS_OF_ROUNDS: [&str; 12] = [
    "popularity",
    "mix",
    "rate",
    "arrivals",
    "no-load",
    "rounds",
    "duration",
    "warm-up",
    "no-ceiling",
    "svg",
    "record",
    "copies",
];

pub(super) fn args() -> Vec<Arg> {
    let each = option(
        EACH,
        "PASS,...",
        "Ask for every key once in each pass, and do nothing else: set, get, or mend, which adds \
         what is not there",
    );
    vec![
        each.conflicts_with_all(FLAGS_OF_ROUNDS)
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(|text: &str| text.parse::<Pass>()),
    ]
}

pub(super) fn run(matches: &ArgMatches, plan: &Plan) -> Result<()> {
    let passes: Vec<Pass> = matches.get_many(EACH).into_iter().flatten().copied().collect();
    let stop = stop_by_signal()?;
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let outcome = bench::sweep(plan, &passes, &stop, &mut |text| progress.show(text));
    progress.clear();
    let outcome = outcome?;
    write!(stdout(), "{}", bench::sweep_table(plan, &outcome)).context("writing the table")?;
    write_file(matches, "json", || bench::sweep_json(plan, &outcome))?;
    let faults = outcome.faults();
    match outcome.error {
        Some(error) => Err(anyhow!(error).context("the bench ended early")),
        None if stop.load(Ordering::Relaxed) => bail!("interrupted"),
        None if faults > 0 => bail!("{faults} values were not those that were written"),
        None => Ok(()),
    }
}
