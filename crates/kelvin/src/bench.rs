//! `kelvin bench`: loads servers of memcached's protocols and measures them.

mod replay;
mod sweep;

use std::{
    io::{Write, stdout},
    sync::atomic::Ordering,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use bench::{Address, Load, Outcome, Pace, Plan, Popularity, Protocol, Server, Shape, Sizes};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::{
    flags::{file, option, switch, value, write_file},
    progress::{Progress, stop_by_signal},
};

pub(crate) const NAME: &str = "bench";

/// Rounds when none are asked for: one server, several servers.
const ROUNDS: u32 = 5;
const ROUNDS_AGAINST: u32 = 10;

pub(crate) fn command() -> Command {
    Command::new(NAME)
        .about("Load servers of memcached's protocols and measure them")
        .args_override_self(true)
        .args(server_args())
        .args(load_args())
        .args(round_args())
        .args(sweep::args())
        .args(replay::args())
        .args(output_args())
        .after_help(
            "kelvin bench 127.0.0.1:11211\n\
             kelvin bench unix:/run/a --against unix:/run/b --connections 16,64 --depth 1,16\n\
             kelvin bench 127.0.0.1:11211 --rate 50000 --svg latency.svg\n\
             kelvin bench 127.0.0.1:11211 --keys 1000000 --value-size 4KiB --each set,get\n\
             kelvin bench 127.0.0.1:11211 --against 127.0.0.1:11212 --trace web07.trace.xz\n\n\
             It sets every key once before it measures (--no-load leaves that out), and fails \
             when a get returns what was not written.",
        )
}

fn server_args() -> Vec<Arg> {
    let address = |text: &str| text.parse::<Address>();
    let pid = clap::value_parser!(u32);
    vec![
        Arg::new("address")
            .value_name("ADDR")
            .required(true)
            .value_parser(address)
            .help("The server: HOST:PORT or unix:/PATH"),
        option(
            "server-pid",
            "PID",
            "The server's process, whose CPU time is measured [default: found out]",
        )
        .value_parser(pid),
        option("against", "ADDR", "A further server, measured in turn with the first; repeatable")
            .action(ArgAction::Append)
            .value_parser(address),
        option("against-pid", "PID", "The process of the --against at the same place")
            .action(ArgAction::Append)
            .requires("against")
            .value_parser(pid),
        option("unverified", "ADDR", "Do not compare what this server returns; repeatable")
            .action(ArgAction::Append)
            .value_parser(address),
        option("protocol", "NAME", "text or meta")
            .default_value("text")
            .value_parser(|text: &str| text.parse::<Protocol>()),
    ]
}

fn load_args() -> Vec<Arg> {
    let many = |arg: Arg| arg.value_delimiter(',').action(ArgAction::Append);
    vec![
        many(option("connections", "N,...", "Connections, over all threads"))
            .default_value("16")
            .value_parser(clap::value_parser!(u32).range(1..)),
        many(option("depth", "N,...", "Most requests under way on each connection"))
            .default_value("1")
            .value_parser(clap::value_parser!(u32).range(1..)),
        option("keys", "N", "Number of keys")
            .default_value("500000")
            .value_parser(clap::value_parser!(u32).range(1..)),
        option("popularity", "KIND", "uniform, zipf:EXPONENT, or hot:KEYS%:ACCESSES%")
            .default_value("zipf:0.99")
            .value_parser(|text: &str| text.parse::<Popularity>()),
        option("key-size", "SIZES", "BYTES, MIN..MAX, log:MIN..MAX, exp:MEAN, etc or usr")
            .default_value("16")
            .value_parser(Sizes::for_keys),
        option("value-size", "SIZES", "BYTES, MIN..MAX, log:MIN..MAX, exp:MEAN, etc or usr")
            .default_value("32")
            .value_parser(Sizes::for_values),
        option("key-prefix", "TEXT", "What keys begin with").default_value("key:"),
        option("mix", "GET:SET", "How many gets to how many sets")
            .default_value("90:10")
            .value_parser(gets_share),
        option("rate", "N", "Open loop: so many requests a second, whatever the server does")
            .value_parser(rate),
        option("arrivals", "KIND", "Gaps between requests in an open loop")
            .default_value("random")
            .value_parser(["random", "even"]),
        option("seed", "N", "Repeats keys, sizes, order and arrivals")
            .default_value("1")
            .value_parser(clap::value_parser!(u64)),
        switch("no-load", "Do not set every key once at the beginning"),
        switch(
            "loaded",
            "Nor do that: an earlier run with the same sizes, prefix and seed has set them all",
        )
        .conflicts_with("no-load"),
        switch("no-verify", "Do not compare values with what was written"),
    ]
}

fn round_args() -> Vec<Arg> {
    vec![
        option("threads", "N", "Threads of the generator")
            .default_value("1")
            .value_parser(clap::value_parser!(u32).range(1..)),
        option("cpus", "LIST", "CPUs that its threads run on, one each, as 1,3 or 4-7")
            .value_parser(cpus),
        switch("spin", "Look for replies all the time instead of sleeping until they come"),
        option("rounds", "N", "Rounds of each cell [default: 5; 10 with --against]")
            .value_parser(clap::value_parser!(u32).range(1..)),
        option("duration", "TIME", "Of each round").default_value("2s").value_parser(time),
        option("warm-up", "TIME", "Before each round").default_value("500ms").value_parser(time),
        option("timeout", "TIME", "Give up when a server answers nothing for so long")
            .default_value("10s")
            .value_parser(time),
        option("device", "PATH", "Count what the disk does on which this is")
            .value_parser(clap::builder::ValueParser::path_buf()),
        switch("no-ceiling", "Do not measure the generator against a null responder"),
    ]
}

fn output_args() -> Vec<Arg> {
    vec![
        file("json", "Write everything as JSON"),
        file("svg", "Write charts"),
        file("record", "Write every single latency as comma-separated values"),
        switch("quiet", "Show no progress"),
    ]
}

pub(crate) fn run(matches: &ArgMatches) -> Result<()> {
    if matches.contains_id(replay::TRACE) {
        return replay::run(matches, servers(matches)?);
    }
    let plan = plan(matches)?;
    if matches.contains_id(sweep::EACH) {
        return sweep::run(matches, &plan);
    }
    let stop = stop_by_signal()?;
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let outcome = bench::run(&plan, &stop, &mut |text| progress.show(text));
    progress.clear();
    let outcome = outcome?;
    write!(stdout(), "{}", bench::table(&plan, &outcome)).context("writing the table")?;
    write_files(matches, &plan, &outcome)?;
    match (bench::faults(&outcome), outcome.error) {
        (_, Some(error)) => Err(anyhow!(error).context("the bench ended early")),
        (0, None) if stop.load(Ordering::Relaxed) => bail!("interrupted"),
        (0, None) => Ok(()),
        (faults, None) => bail!("{faults} values were not those that were written"),
    }
}

fn write_files(matches: &ArgMatches, plan: &Plan, outcome: &Outcome) -> Result<()> {
    write_file(matches, "json", || bench::json(plan, outcome))?;
    write_file(matches, "svg", || bench::svg(plan, outcome))?;
    write_file(matches, "record", || bench::recording(outcome))
}

/// The servers in the order of the command line.
fn servers(matches: &ArgMatches) -> Result<Vec<Server>> {
    let many = |name| matches.get_many::<Address>(name).into_iter().flatten();
    let pid = |name, place| matches.get_many::<u32>(name).and_then(|mut pids| pids.nth(place));
    let first = (value::<Address>(matches, "address"), pid("server-pid", 0));
    let against = many("against").enumerate();
    let others = against.map(|(place, address)| (address.clone(), pid("against-pid", place)));
    let mut servers: Vec<Server> = std::iter::once(first)
        .chain(others)
        .map(|(address, pid)| Server {
            address,
            pid: pid.copied(),
            verifies: !matches.get_flag("no-verify"),
        })
        .collect();
    for unverified in many("unverified") {
        let Some(server) = servers.iter_mut().find(|server| server.address == *unverified) else {
            bail!("--unverified {unverified}: this server is not measured");
        };
        server.verifies = false;
    }
    Ok(servers)
}

fn plan(matches: &ArgMatches) -> Result<Plan> {
    let servers = servers(matches)?;
    let list = |name: &str| matches.get_many::<u32>(name).into_iter().flatten().copied();
    let shapes = list("connections").flat_map(|connections| {
        list("depth").map(move |depth| Shape { connections, depth: depth as usize })
    });
    let pace = matches.get_one::<f64>("rate").map_or(Pace::Closed, |rate| Pace::Open {
        rate: *rate,
        is_poisson: value::<String>(matches, "arrivals") == "random",
    });
    let rounds = if servers.len() > 1 { ROUNDS_AGAINST } else { ROUNDS };
    Ok(Plan {
        shapes: shapes.collect(),
        servers,
        protocol: value(matches, "protocol"),
        keys: value(matches, "keys"),
        popularity: value(matches, "popularity"),
        key_prefix: value(matches, "key-prefix"),
        key_sizes: value(matches, "key-size"),
        value_sizes: value(matches, "value-size"),
        gets: value(matches, "mix"),
        pace,
        threads: value(matches, "threads"),
        cpus: matches.get_one::<Vec<usize>>("cpus").cloned().unwrap_or_default(),
        rounds: matches.get_one("rounds").copied().unwrap_or(rounds),
        warm_up: value(matches, "warm-up"),
        duration: value(matches, "duration"),
        spins: matches.get_flag("spin"),
        patience: value(matches, "timeout"),
        seed: value(matches, "seed"),
        load: match () {
            () if matches.get_flag("loaded") => Load::Earlier,
            () if matches.get_flag("no-load") => Load::Unknown,
            () => Load::Sets,
        },
        finds_ceiling: !matches.get_flag("no-ceiling"),
        records: matches.contains_id("record"),
        device: matches.get_one("device").cloned(),
    })
}

/// `90:10` as 0.9.
fn gets_share(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no mix: write gets and sets, as 90:10");
    let (gets, sets) = text.split_once(':').ok_or_else(wrong)?;
    let gets: u32 = gets.parse().map_err(|_| wrong())?;
    let sets: u32 = sets.parse().map_err(|_| wrong())?;
    let all = f64::from(gets) + f64::from(sets);
    if all > 0.0 { Ok(f64::from(gets) / all) } else { Err(wrong()) }
}

/// `50000`, `50k` or `1.5M` a second.
fn rate(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.chars().next_back() {
        Some('k') => (&text[..text.len() - 1], 1e3),
        Some('M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let rate = number.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    let rate =
        rate.ok_or_else(|| format!("`{text}` is no rate: write requests a second, as 50k"))?;
    Ok(rate * unit)
}

fn time(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("`{text}` is not a time: write a whole number and ms, s or m");
    let number: u32 = number.parse().map_err(|_| wrong())?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => return Err(wrong()),
    };
    Ok(Duration::from_millis(u64::from(number) * unit_ms))
}

fn cpus(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("`{text}` is no list of CPUs: write numbers and ranges, as 1,3 or 4-7");
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u16 = first.trim().parse().map_err(|_| wrong())?;
        let last: u16 = last.trim().parse().map_err(|_| wrong())?;
        if first > last {
            return Err(wrong());
        }
        all.extend((first..=last).map(usize::from));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{Duration, command, cpus, gets_share, rate, time};

    #[test]
    fn flags_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn reads_mixes_rates_times_and_cpus() {
        assert_eq!(gets_share("90:10"), Ok(0.9));
        assert_eq!(gets_share("0:1"), Ok(0.0));
        assert_eq!(rate("50k"), Ok(50_000.0));
        assert_eq!(rate("1.5M"), Ok(1_500_000.0));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(cpus("1,4-6"), Ok(vec![1, 4, 5, 6]));
    }

    #[test]
    fn refuses_what_is_none() {
        for text in ["90", "0:0", "a:b", "-1:2"] {
            assert!(gets_share(text).is_err(), "{text}");
        }
        for text in ["", "0", "k", "-5", "inf", "5x"] {
            assert!(rate(text).is_err(), "{text}");
        }
        for text in ["", "5", "s", "1h", "1.5s"] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["", "a", "3-1", "1,,2"] {
            assert!(cpus(text).is_err(), "{text}");
        }
    }
}
