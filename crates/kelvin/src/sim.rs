//! `kelvin sim`: replays traces through policies and sizes of caches and shows what they miss.

use std::{
    io::{Write, stdout},
    sync::atomic::Ordering,
    thread,
};

use anyhow::{Context, Result, bail};
use base::size::ByteSize;
use clap::{Arg, ArgAction, ArgMatches, Command};
use sim::{Kind, Mode, Percent, Plan};
use trace::Source;

use crate::{
    flags::{file, option, switch, value, write_file},
    progress::{Progress, stop_by_signal},
};

pub(crate) const NAME: &str = "sim";

pub(crate) fn command() -> Command {
    Command::new(NAME)
        .about("Replay traces of requests and show what caches of several sizes miss")
        .args_override_self(true)
        .arg(
            Arg::new("trace")
                .value_name("TRACE")
                .required(true)
                .action(ArgAction::Append)
                .value_parser(|text: &str| text.parse::<Source>())
                .help("A file, FORMAT:FILE, or zipf:, loop:, scan: or drift: with parameters"),
        )
        .args(cell_args())
        .args(output_args())
        .after_help(
            "kelvin sim --unit-size web07.trace.xz\n\
             kelvin sim --unit-size --policies htr,lru,belady zipf:keys=100000,exponent=0.9\n\
             kelvin sim --sizes 1%,10% --svg curves.svg numbers:access.log.gz\n\n\
             Formats: lis, i32be, i64be, numbers, events, event-names and keys (a key a line); \
             files may be compressed by gzip, xz or zstd.",
        )
}

fn cell_args() -> Vec<Arg> {
    vec![
        switch("unit-size", "Count keys, each as one unit, instead of replaying the whole cache"),
        option(
            "sizes",
            "PERCENT,...",
            "Sizes of the cache, in percent of what all keys would take",
        )
        .default_value("1%,3%,10%,30%")
        .value_parser(sizes),
        option("policies", "NAME,...", "Policies [default: all of the mode]")
            .value_parser(|text: &str| Kind::parse_list(text)),
        option("seed", "N", "Repeats generated traces and sizes of values")
            .default_value("1")
            .value_parser(clap::value_parser!(u64)),
        option("shards", "N", "Parts that the keys are divided into by hash, with --unit-size")
            .default_value("1")
            .requires("unit-size")
            .value_parser(clap::value_parser!(u32).range(1..=SHARDS_MAX)),
        option("writers", "N", "Threads that the whole cache is laid out for")
            .default_value("1")
            .conflicts_with("unit-size")
            .value_parser(clap::value_parser!(u32).range(1..=64)),
        option("min-memory", "SIZE", "Least memory of a whole cache; traces are repeated for it")
            .default_value("64MiB")
            .conflicts_with("unit-size")
            .value_parser(|text: &str| text.parse::<ByteSize>()),
        option("threads", "N", "Threads that replay [default: one a CPU]")
            .value_parser(clap::value_parser!(u32).range(1..)),
    ]
}

/// Most shards: with more, those of a small trace hold a handful of keys.
const SHARDS_MAX: i64 = 4096;

fn output_args() -> Vec<Arg> {
    vec![
        file("json", "Write the cells as JSON"),
        file("svg", "Write the curves"),
        switch("quiet", "Show no progress"),
    ]
}

pub(crate) fn run(matches: &ArgMatches) -> Result<()> {
    let plan = plan(matches);
    let stop = stop_by_signal()?;
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let outcome = sim::run(&plan, &stop, &mut |text| progress.show(text));
    progress.clear();
    let outcome = outcome?;
    write!(stdout(), "{}", sim::table(&plan, &outcome)).context("writing the table")?;
    write_file(matches, "json", || sim::json(&outcome))?;
    write_file(matches, "svg", || sim::svg(&plan, &outcome))?;
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

fn plan(matches: &ArgMatches) -> Plan {
    let is_units = matches.get_flag("unit-size");
    let mode = if is_units {
        Mode::Units { shards: value(matches, "shards") }
    } else {
        Mode::Whole {
            memory_min_bytes: value::<ByteSize>(matches, "min-memory").0,
            writers: value::<u32>(matches, "writers") as usize,
        }
    };
    let threads = matches.get_one::<u32>("threads").map(|threads| *threads as usize);
    let policies = matches.get_one::<Vec<Kind>>("policies").cloned();
    Plan {
        sources: matches.get_many("trace").into_iter().flatten().cloned().collect(),
        mode,
        percents: value(matches, "sizes"),
        policies: policies.unwrap_or_else(|| if is_units { Kind::all() } else { Kind::products() }),
        seed: value(matches, "seed"),
        threads: threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// `1%,3%`, in ascending order.
fn sizes(text: &str) -> Result<Vec<Percent>, String> {
    let sizes: Result<Vec<Percent>, String> = text.split(',').map(str::parse).collect();
    let mut sizes = sizes?;
    sizes.sort_by(|a, b| a.value().total_cmp(&b.value()));
    sizes.dedup();
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::{command, sizes};

    #[test]
    fn flags_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn sizes_are_sorted_and_none_is_twice() {
        let read = sizes("10%,0.5,3 %,10%").expect("sizes");
        assert_eq!(read.iter().map(|size| size.value()).collect::<Vec<_>>(), [0.5, 3.0, 10.0]);
        for text in ["", "0%", "101%", "x", "1,,2", "-1", "nan"] {
            assert!(sizes(text).is_err(), "{text}");
        }
    }
}
