//! Shows the records of a log of integers by key and in the order of insertion, with a pause.
//!
//! `cargo run -p kelvin-log --example iterate [DIRECTORY]`

use std::{env, error, fs, path::PathBuf};

use log::{
    Cursor, Log, Options, Order,
    engine::{Mode, Put},
    error::Error,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
    random,
};

fn main() -> Result<(), Box<dyn error::Error>> {
    let directory =
        env::args_os().nth(1).map_or_else(|| env::temp_dir().join("iterate"), PathBuf::from);
    fs::create_dir_all(&directory)?;
    // Keys from 0 to below 1000, five bytes of memory for each.
    let mut options = Options::new(&directory, IndexKind::Flat { kmin: 0, kmax: 1000 }, 5);
    // Acknowledged before the flush: what may be lost is bounded in bytes and in time.
    options.settings.mode = Mode::Async;
    let limits = IndexLimits { kmax_limit: 1000, entries_max: 0 };
    let id = LogId(u128::from_le_bytes(random()?));
    let (log, _) = Log::<Keyed>::open(&options, id, limits, &mut |_| {})?;
    for number in 0..20_u64 {
        let key = (number * 7 % 20).to_le_bytes();
        let value = format!("value {number}");
        log.put(&Put { key: &key, value: value.as_bytes(), ..Put::default() })?;
    }

    // Five of them; then the cursor is kept, as bytes, for another day.
    let mut records = log.iterate(Order::Insertion, None)?;
    for shown in records.by_ref().take(5) {
        let shown = shown?;
        println!("{:?} {}", shown.key, String::from_utf8_lossy(&shown.stored.value));
    }
    let kept = records.cursor().encode();
    drop(records);

    let cursor = Cursor::decode(&kept).ok_or("these bytes are a cursor")?;
    let rest = log.iterate(Order::Insertion, Some(&cursor))?.count();
    println!("and {rest} more");

    // By key; a large value comes part by part.
    let mut records = log.iterate(Order::Key, None)?;
    while let Some(shown) = records.next() {
        let shown = shown?;
        let mut bytes = 0;
        records.read_value(&shown, |part| {
            bytes += part.len();
            Ok::<(), Error>(())
        })?;
        println!("{:?}: {bytes} bytes", shown.key);
    }
    drop(records);
    log.close()?;
    Ok(())
}
