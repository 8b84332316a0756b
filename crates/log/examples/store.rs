//! Puts, gets, removes and a batch in a log of strings.
//!
//! `cargo run -p kelvin-log --example store [DIRECTORY]`

use std::{env, error, fs, path::PathBuf};

use log::{
    Log, Options,
    engine::{Change, Put},
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};

fn main() -> Result<(), Box<dyn error::Error>> {
    let directory =
        env::args_os().nth(1).map_or_else(|| env::temp_dir().join("store"), PathBuf::from);
    fs::create_dir_all(&directory)?;

    // What a new log is made with; one that is there keeps its own. Give real ones random bytes:
    // the identity tells logs apart, the seeds keep others from choosing keys that collide.
    let options = Options::new(&directory, IndexKind::Hash { seeds: [7; 128] }, 0);
    let limits = IndexLimits { kmax_limit: 0, entries_max: 1_000_000 };
    let (log, report) = Log::<Keyed>::open(&options, LogId(42), limits, &mut |_| {})?;
    println!("opened for the {}. time, {} places are damaged", report.run, report.damages.len());

    // `safe`, the default: durable when it returns.
    log.put(&Put { key: b"greeting", value: b"hello", flags: 7, ..Put::default() })?;
    if let Some(stored) = log.get(b"greeting")? {
        println!("{} with flags {}", String::from_utf8_lossy(&stored.value), stored.flags);
    }

    // All of it or nothing, also through a crash, and one flush for all.
    let changes = [
        Change::Put(Put { key: b"a", value: b"1", ..Put::default() }),
        Change::Put(Put { key: b"b", value: b"2", ..Put::default() }),
        Change::Remove(b"greeting"),
    ];
    println!("the batch removed {} keys", log.write_batch(&changes)?);

    // A stop in order: the next open need not read the log.
    log.close()?;
    Ok(())
}
