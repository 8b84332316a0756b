//! Kelvin beside others: the DRAM tier beside bounded caches (speed in one interleaved run, bytes a
//! record), the log beside other stores, the server beside other servers, and a server that does
//! nothing but answer, which shows the machine's limit.
//!
//! `README.md` says what is compared, how, and what is fair about it.

mod bare;
mod contestant;
mod disk;
mod engine;
mod hits;
mod load;
mod machine;
mod options;
mod overhead;
mod random;
mod report;
mod server;
mod speed;
mod tiers;
mod wire;
mod workload;

use std::process::ExitCode;

use options::{Command, USAGE};

/// One allocator for all engines. The peers allocate on every put; this cache does not, so a
/// slower allocator would only flatter it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match options::parse(&args) {
        Ok(Command::Speed(options)) => speed::run(&options),
        Ok(Command::Overhead(options)) => overhead::run(&options),
        Ok(Command::Resident(options)) => {
            overhead::resident(&options);
            Ok(())
        }
        Ok(Command::Wire(options)) => wire::run(&options),
        Ok(Command::Hits(options)) => hits::run(&options),
        Ok(Command::Disk(options)) => disk::run(&options),
        Ok(Command::Tables(options)) => disk::run_tables(&options),
        Ok(Command::Churn(options)) => disk::run_churn(&options),
        Ok(Command::Tiers(options)) => tiers::run(&options),
        Ok(Command::Bare(options)) => bare::run(&options),
        Ok(Command::Help) => {
            print!("{USAGE}");
            Ok(())
        }
        Err(error) => {
            eprint!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
