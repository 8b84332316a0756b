//! Puts, gets, removes, a batch, a large value and errors in a log of strings.
//!
//! `cargo run -p kelvin-log --example store [DIRECTORY]`

use std::{env, error, fs, path::PathBuf};

use log::{
    Log, Options,
    engine::{Change, Put},
    error::Error,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
    random,
};

fn main() -> Result<(), Box<dyn error::Error>> {
    let directory =
        env::args_os().nth(1).map_or_else(|| env::temp_dir().join("store"), PathBuf::from);
    fs::create_dir_all(&directory)?;

    // What a new log is made with; one that is there keeps its own. Both are to be random: the
    // identity tells logs apart, the seeds keep others from choosing keys that collide.
    let id = LogId(u128::from_le_bytes(random()?));
    let options = Options::new(&directory, IndexKind::Hash { seeds: random()? }, 0);
    let limits = IndexLimits { kmax_limit: 0, entries_max: 1_000_000 };
    let (log, report) = Log::<Keyed>::open(&options, id, limits, &mut |_| {})?;
    println!("opened for the {}. time, {} places are damaged", report.run, report.damages.len());

    // `safe`, the default: durable when it returns.
    log.put(&Put { key: b"greeting", value: b"hello", flags: 7, ..Put::default() })?;
    if let Some(stored) = log.get(b"greeting")? {
        println!("{} with flags {}", String::from_utf8_lossy(&stored.value), stored.flags);
    }

    // Gone in a minute, by the clock of the options.
    let expiry_ms = options.clock.wall_ms() + 60_000;
    log.put(&Put { key: b"session", value: b"...", expiry_ms, ..Put::default() })?;

    // Up to 1 GiB; above 256 KiB a value lies in parts.
    let large = vec![42; 3 << 20];
    log.put(&Put { key: b"large", value: &large, ..Put::default() })?;
    let stored = log.get(b"large")?.ok_or("it was put just now")?;
    println!("{} bytes came back", stored.value.len());

    // All of it or nothing, also through a crash, and one flush for all.
    let changes = [
        Change::Put(Put { key: b"a", value: b"1", ..Put::default() }),
        Change::Put(Put { key: b"b", value: b"2", ..Put::default() }),
        Change::Remove(b"greeting"),
    ];
    println!("the batch removed {} keys", log.write_batch(&changes)?);
    println!("it was there: {}", log.remove(b"large")?);

    // What is refused says why.
    if let Err(error) = log.put(&Put { key: b"", value: b"nameless", ..Put::default() }) {
        println!("{error}: {}", advice(&error));
    }

    // A stop in order: the next open need not read the log.
    log.close()?;
    Ok(())
}

/// What a program can do about an error.
fn advice(error: &Error) -> &'static str {
    match error {
        Error::NoRoom | Error::PositionsUsedUp { .. } | Error::IndexFull(_) => {
            "remove something, or make room, and try again"
        }
        Error::ReadOnly | Error::Unflushed | Error::SequencesUsedUp => "open the log anew",
        Error::Damaged { .. } | Error::Unreadable { .. } | Error::Unreachable { .. } => {
            "this value is lost, and only this"
        }
        _ => "ask for something else",
    }
}
