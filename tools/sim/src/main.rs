//! `disk-sim`: runs of the simulated disk, and programs that are killed.
#![forbid(unsafe_code)]

use std::{path::Path, process::ExitCode};

use disk_sim::{
    kill::{self, Disk, Told},
    run::{Run, Summary},
    scenario::Scenario,
    store::{self, spilling},
};

const USAGE: &str = "\
usage: disk-sim --seed N [--count M] [--trace]
       disk-sim store --seed N [--count M] [--trace]
       disk-sim spill --seed N [--count M] [--trace]
       disk-sim kill --seed N --count M [--held]

The first form runs a log on a simulated disk:
  --seed N    the first run
  --count M   how many runs, each with the seed after the one before; 1
  --trace     tell what happens
The second one runs a durable table on one, memory and disk together, and the third one a table that
spills into a ring.
The last one starts a program that writes to a log in files, kills it and looks at the files:
  --seed N    what it writes, and when it is killed
  --count M   how many times
  --held      on a file system that loses what was not flushed (as root of a mount namespace of
              its own: unshare --mount, and --user --map-root-user where you are not root)
";

/// What was asked for.
#[derive(Default)]
struct Arguments {
    seed: u64,
    count: u64,
    trace: bool,
    held: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match &words[..] {
        ["victim", directory, seed, round] => match (seed.parse(), round.parse()) {
            (Ok(seed), Ok(round)) => kill::victim(Path::new(directory), seed, round),
            _ => return usage(),
        },
        ["store", rest @ ..] => match parse(rest) {
            Some(arguments) => store_all(&arguments, store::OPERATIONS, store::Run::new),
            None => return usage(),
        },
        ["spill", rest @ ..] => match parse(rest) {
            Some(arguments) => store_all(&arguments, spilling::OPERATIONS, store::Run::spilling),
            None => return usage(),
        },
        ["kill", rest @ ..] => match parse(rest) {
            Some(arguments) => kill_all(&arguments),
            None => return usage(),
        },
        rest => match parse(rest) {
            Some(arguments) => run_all(&arguments),
            None => return usage(),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("disk-sim: {what}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

fn parse(words: &[&str]) -> Option<Arguments> {
    let mut arguments = Arguments { count: 1, ..Arguments::default() };
    let mut words = words.iter();
    let mut has_seed = false;
    while let Some(word) = words.next() {
        match *word {
            "--seed" => {
                arguments.seed = words.next()?.parse().ok()?;
                has_seed = true;
            }
            "--count" => arguments.count = words.next()?.parse().ok()?,
            "--trace" => arguments.trace = true,
            "--held" => arguments.held = true,
            _ => return None,
        }
    }
    has_seed.then_some(arguments)
}

fn run_all(arguments: &Arguments) -> Result<(), String> {
    let (mut all, mut failed) = (Summary::default(), 0_u64);
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.count) {
        let run = Run::new(Scenario::new(seed));
        let run = if arguments.trace { run.traced() } else { run };
        match run.run() {
            Ok(summary) => all.merge(&summary),
            Err(violation) => {
                println!("{violation}");
                failed += 1;
            }
        }
    }
    print!("{all}");
    let count = arguments.count;
    println!("{count} runs, {failed} failed");
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs failed")) }
}

fn store_all(
    arguments: &Arguments,
    operations: u32,
    make: impl Fn(u64) -> store::Run,
) -> Result<(), String> {
    let mut all = store::Summary::default();
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.count) {
        let run = make(seed);
        let run = if arguments.trace { run.traced() } else { run };
        all.merge(&run.run(operations)?);
    }
    all.0.iter().for_each(|(what, count)| println!("{count:10} {what}"));
    Ok(())
}

fn kill_all(arguments: &Arguments) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let disk = if arguments.held { Disk::Held } else { Disk::Plain };
    let Told { answered, moved } = kill::rounds(&program, arguments.seed, arguments.count, disk)?;
    let rounds = arguments.count;
    println!("{rounds} victims, {answered} writes answered, {moved} records moved, nothing lost");
    Ok(())
}
