//! Copies a log while it is written to, and restores it from the copy.
//!
//! `cargo run -p kelvin-log --example backup [DIRECTORY]`

use std::{
    env, error, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use log::{
    Log, Options,
    engine::Put,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
    random,
};

fn open(directory: &Path) -> Result<Log<Keyed>, Box<dyn error::Error>> {
    // A log that is there, as the copy is, keeps its own identity and seeds.
    let id = LogId(u128::from_le_bytes(random()?));
    let options = Options::new(directory, IndexKind::Hash { seeds: random()? }, 0);
    let limits = IndexLimits { kmax_limit: 0, entries_max: 1_000_000 };
    let (log, report) = Log::open(&options, id, limits, &mut |_| {})?;
    for damage in &report.damages {
        println!("lost: {} at {}", damage.what, damage.offset);
    }
    Ok(log)
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let directory =
        env::args_os().nth(1).map_or_else(|| env::temp_dir().join("backup"), PathBuf::from);
    let (original, copy) = (directory.join("original"), directory.join("copy"));
    fs::create_dir_all(&original)?;
    // A copy is made into an empty directory.
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir_all(&copy)?;

    let log = open(&original)?;
    log.put(&Put { key: b"before", value: b"is in the copy", ..Put::default() })?;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0_u64.. {
                let key = number.to_le_bytes();
                let put = Put { key: &key, value: b"some of these are", ..Put::default() };
                if is_done.load(Ordering::Relaxed) || log.put(&put).is_err() {
                    break;
                }
            }
        });
        let copied = log.backup(&copy, &mut |_| {}, &mut |damage| println!("lost: {damage:?}"));
        is_done.store(true, Ordering::Relaxed);
        copied
    })?;
    log.put(&Put { key: b"after", value: b"is not", ..Put::default() })?;
    log.close()?;

    // To restore is to open the copy, where it is or where it was moved to.
    fs::remove_dir_all(&original)?;
    fs::rename(&copy, &original)?;
    let restored = open(&original)?;
    let value = restored.get(b"before")?.ok_or("what was acknowledged before is in it")?.value;
    println!("before: {}", String::from_utf8_lossy(&value));
    println!("after: {}", if restored.get(b"after")?.is_some() { "there" } else { "not there" });
    restored.close()?;
    Ok(())
}
