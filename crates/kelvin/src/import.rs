//! `kelvin import`: copies the records of a live memcached into a server that runs.
//!
//! One connection to the source lists keys, another one reads records, batch by batch, and a third
//! adds them to the target. A record is added only where there is none, so what clients have
//! written to the target meanwhile stays, and importing again copies what is missing, of which what
//! they have deleted is a part. Memory is bounded by one batch of keys and one value.
//!
//! A memcached that lists its keys leaves out those that somebody else uses at that moment, so the
//! list is gone through again to see whether the target has them all, and what it has not is copied
//! then.

mod copy;
mod link;
mod listing;
mod place;

use std::{
    io::{Write as _, stderr, stdout},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, Result, bail};
use base::clock::Stopwatch;
use bench::Address;
use clap::{Arg, ArgMatches, Command};

use self::{
    copy::{Copier, Counts},
    link::Link,
    listing::Listing,
    place::{Login, Place},
};
use crate::{
    flags::{file, option, switch, value},
    progress::{Progress, stop_by_signal},
};

pub(crate) const NAME: &str = "import";

/// The flags that name files with logins.
const SOURCE_LOGIN: &str = "login";
const TARGET_LOGIN: &str = "into-login";

/// Times that the keys are listed at most: to copy, and again to find what was left out. A
/// memcached that is read from moves its records from list to list: of 100,000, four lists were
/// seen to leave out 202, which is one in five each time. Of a thousand million, fourteen leave out
/// none. Where clients go on writing, there is always more to be found.
const PASSES_MAX: u32 = 16;

/// Lists in a row that have nothing new: what is left out of one is in another. Of the keys that
/// one list in five leaves out, one in six hundred is in none of four.
const IDLE_PASSES: u32 = 4;

/// Nanoseconds of a second.
const NS_PER_S: u64 = 1_000_000_000;

const LOGIN_HELP: &str =
    "File with a line `user:password`, for a memcached that asks for a login by text (-Y)";

pub(crate) fn command() -> Command {
    Command::new(NAME)
        .about("Copy the records of a live memcached into a running server")
        .arg(
            Arg::new("source")
                .value_name("ADDR")
                .required(true)
                .value_parser(|text: &str| text.parse::<Address>())
                .help("The memcached to copy from: HOST:PORT or unix:/PATH"),
        )
        .arg(
            option(
                "into",
                "ADDR",
                "The server to copy to, which stays as it is where it has a key",
            )
            .default_value("127.0.0.1:11211")
            .value_parser(|text: &str| text.parse::<Address>()),
        )
        .arg(file(SOURCE_LOGIN, LOGIN_HELP))
        .arg(file(TARGET_LOGIN, "The same for the server to copy to"))
        .arg(switch("quiet", "Show no progress"))
        .after_help(
            "kelvin import old-cache:11211 --into unix:/run/kelvin.sock\n\n\
             Values, flags and the time that is left are copied, the time to a second and what \
             the slowest batch took, which is told in the end. The source must list its keys \
             (memcached 1.6.10 or later, without -X) and goes on serving. One that asks for a \
             login by SASL speaks the binary protocol only, which cannot list keys. To import \
             again copies only what the target lacks: what clients have written \
             to it stays, and what they have deleted from it comes back if the source has it.",
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<()> {
    let source = place(matches, "source", SOURCE_LOGIN)?;
    let target = place(matches, "into", TARGET_LOGIN)?;
    if source.address == target.address {
        bail!("{} cannot be copied into itself", source.address);
    }
    let stop = stop_by_signal()?;
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let outcome = import(&source, &target, &stop, &mut progress);
    progress.clear();
    let Outcome { counts, evicted, is_complete } = outcome?;
    writeln!(stdout(), "{counts}").context("writing the summary")?;
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted: import again to copy the rest");
    }
    if evicted > 0 {
        let target = target.address;
        bail!("{target} has too little room: it evicted {evicted} records meanwhile");
    }
    if !is_complete {
        let what = "clients go on writing to it; import again to copy what came since";
        writeln!(stderr(), "{}: {what}", source.address).context("writing a note")?;
    }
    match counts.first_refusal {
        Some(refusal) => bail!("{} records were refused, the first one: {refusal}", counts.refused),
        None => Ok(()),
    }
}

/// A server that flags name.
fn place(matches: &ArgMatches, address: &str, login_flag: &'static str) -> Result<Place> {
    let path = matches.get_one::<PathBuf>(login_flag);
    let login = path.map(|path| Login::read(path)).transpose()?;
    Ok(Place { address: value(matches, address), login, login_flag })
}

struct Outcome {
    counts: Counts,
    /// Records that the target evicted meanwhile.
    evicted: u64,
    /// The last lists had nothing new.
    is_complete: bool,
}

fn import(
    source: &Place,
    target: &Place,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Result<Outcome> {
    let mut values = Link::connect(source)?;
    let total = values.stat("curr_items")?;
    let mut copier = Copier::new(values, Link::connect(target)?);
    let evictions_before = copier.evictions()?;
    let (mut idle_passes, mut evicted) = (0, 0);
    for pass in 0..PASSES_MAX {
        let before = copier.counts().copied;
        let (mut done, clock) = (0_u64, Stopwatch::start());
        let mut listing = Listing::begin(source)?;
        while !stop.load(Ordering::Relaxed)
            && let Some(keys) = listing.batch()?
        {
            if pass == 0 {
                copier.copy(keys)?;
            } else {
                copier.copy_missing(keys)?;
            }
            done += keys.len();
            let rate = done.saturating_mul(NS_PER_S) / clock.elapsed_ns().max(1);
            let what = if pass == 0 { "copied" } else { "verified" };
            progress.show(&format!("{what}: {done} of {} records, {rate}/s", total.max(done)));
        }
        idle_passes = if copier.counts().copied == before { idle_passes + 1 } else { 0 };
        // What a target evicts would be found missing and copied again, in the place of more.
        evicted = copier.evictions()?.saturating_sub(evictions_before);
        if evicted > 0 || idle_passes == IDLE_PASSES || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let counts = copier.counts().clone();
    Ok(Outcome { counts, evicted, is_complete: idle_passes == IDLE_PASSES })
}
