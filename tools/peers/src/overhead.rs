//! Bytes a record beyond its key and value.
//!
//! For this repository's cache: the smallest memory budget at which every one of the records can
//! be read back and none was evicted, found by bisection. For all engines: resident bytes of a
//! process of their own that holds the records.

use std::{
    io::{self, Error},
    process::Command,
};

use crate::{
    engine::{Engine, Kelvin, Moka, Quick, QuickInline, Session, ShardedLru},
    load::{BURST, Key, NAME_LEN_MAX, ValueBuffer},
    machine::resident_bytes,
    options::{OverheadOptions, ResidentOptions},
    random::Random,
};

/// Bytes of a key.
const KEY_BYTES: usize = 12;

/// The search ends when the budget is known to this many bytes: one block of the arena.
const BUDGET_STEP_BYTES: u64 = 64 << 10;

/// Where the search starts from above: this much a record beyond key and value, and as much
/// again for what does not depend on the number of records.
const BEYOND_MAX_BYTES: u64 = 200;
const FIXED_MAX_BYTES: u64 = 64 << 20;

/// Room that peers bounded by records are given beyond the records, in percent: shards fill
/// unevenly, so each is given the least of these at which nothing is lost.
const HEADROOM_PERCENT: [u64; 4] = [0, 1, 5, 25];

/// Lengths of values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values {
    Fixed31,
    Uniform10To300,
}

impl Values {
    const ALL: [Self; 2] = [Self::Fixed31, Self::Uniform10To300];

    fn name(self) -> &'static str {
        match self {
            Self::Fixed31 => "31",
            Self::Uniform10To300 => "10-300",
        }
    }

    fn len(self, record: u32) -> usize {
        match self {
            Self::Fixed31 => 31,
            Self::Uniform10To300 => 10 + (Random::new(u64::from(record)).next() % 291) as usize,
        }
    }

    /// The value of a record.
    fn fill(self, record: u32, out: &mut ValueBuffer) {
        let mut random = Random::new(u64::from(record) << 32);
        for part in out.room(self.len(record)).chunks_mut(8) {
            part.copy_from_slice(&random.next().to_le_bytes()[..part.len()]);
        }
    }

    /// Bytes of all keys and values.
    fn payload_bytes(self, records: u32) -> u64 {
        (0..records).map(|record| (KEY_BYTES + self.len(record)) as u64).sum()
    }
}

/// What one engine takes for one kind of values.
#[derive(Debug, serde::Serialize)]
struct Row {
    engine: &'static str,
    values: &'static str,
    records: u32,
    payload_bytes: u64,
    /// Smallest budget, where the engine has one.
    budget_bytes: Option<u64>,
    /// Resident bytes that building the empty engine added to the process.
    empty_bytes: u64,
    /// Resident bytes that the full engine added to the process.
    resident_bytes: u64,
}

impl Row {
    fn per_record(&self, bytes: u64) -> f64 {
        (bytes as f64 - self.payload_bytes as f64) / f64::from(self.records)
    }
}

/// Measures and prints.
///
/// # Errors
/// When a child fails or the JSON file cannot be written.
pub(crate) fn run(options: &OverheadOptions) -> io::Result<()> {
    let mut rows = Vec::new();
    for values in Values::ALL {
        for &engine in &options.engines {
            let fits = engine != "quick_inline" || values == Values::Fixed31;
            if fits {
                rows.push(measure(engine, values, options.records)?);
            }
        }
    }
    println!(
        "Bytes a record beyond key ({KEY_BYTES} bytes) and value, {} records\n\
         {:<14}{:>8}{:>10}{:>16}{:>12}{:>22}",
        options.records,
        "engine",
        "values",
        "budget",
        "budget - empty",
        "resident",
        "budget in all"
    );
    for row in &rows {
        let text = |bytes: Option<f64>| bytes.map_or_else(String::new, |b| format!("{b:.2}"));
        println!(
            "{:<14}{:>8}{:>10}{:>16}{:>12.2}{:>22}",
            row.engine,
            row.values,
            text(row.budget_bytes.map(|bytes| row.per_record(bytes))),
            text(row.budget_bytes.map(|bytes| row.per_record(bytes - row.empty_bytes))),
            row.per_record(row.resident_bytes),
            row.budget_bytes.map_or_else(String::new, |bytes| bytes.to_string())
        );
    }
    match &options.json {
        Some(path) => std::fs::write(path, serde_json::to_string_pretty(&rows)?),
        None => Ok(()),
    }
}

fn measure(engine: &'static str, values: Values, records: u32) -> io::Result<Row> {
    let payload_bytes = values.payload_bytes(records);
    let mut row = Row {
        engine,
        values: values.name(),
        records,
        payload_bytes,
        budget_bytes: None,
        empty_bytes: 0,
        resident_bytes: 0,
    };
    if engine == "kelvin" {
        let budget = smallest_budget(values, records, payload_bytes);
        // Shards fill unevenly, and differently in every process: the figure is a budget that was
        // enough twice.
        for extra in 0..EXTRA_BLOCKS_MAX {
            let budget = budget + extra * BLOCK_BYTES;
            if let Some((empty, full)) = resident_of_child(&row, budget)? {
                row.budget_bytes = Some(budget);
                (row.empty_bytes, row.resident_bytes) = (empty, full);
                return Ok(row);
            }
        }
        return Err(Error::other("a budget that held all records lost some"));
    }
    for percent in HEADROOM_PERCENT {
        let bound = u64::from(records) * (100 + percent) / 100;
        if let Some((empty, full)) = resident_of_child(&row, bound)? {
            (row.empty_bytes, row.resident_bytes) = (empty, full);
            return Ok(row);
        }
    }
    Err(Error::other(format!("{engine} never kept all records")))
}

/// Blocks added to the budget of one process until it is enough for another.
const EXTRA_BLOCKS_MAX: u64 = 32;
const BLOCK_BYTES: u64 = 64 << 10;

/// Bisects. What a budget holds is assumed to grow with it.
fn smallest_budget(values: Values, records: u32, payload_bytes: u64) -> u64 {
    let mut too_small = payload_bytes;
    let mut enough = payload_bytes + u64::from(records) * BEYOND_MAX_BYTES + FIXED_MAX_BYTES;
    assert!(holds(&Kelvin::new(enough), values, records), "the search starts too low");
    while enough - too_small > BUDGET_STEP_BYTES {
        let middle = too_small + (enough - too_small) / 2;
        let held = holds(&Kelvin::new(middle), values, records);
        eprintln!("  kelvin, values {}: {middle} bytes: {}", values.name(), held);
        if held {
            enough = middle;
        } else {
            too_small = middle;
        }
    }
    enough
}

/// Stores all records and reads them back; true when every one was there.
fn holds<E: Engine<KEY_BYTES>>(engine: &E, values: Values, records: u32) -> bool {
    let (mut session, mut value, mut out) =
        (engine.session(), ValueBuffer::new(), ValueBuffer::new());
    for record in 0..records {
        values.fill(record, &mut value);
        session.put(&Key::of(record), value.value());
        if (record as usize).is_multiple_of(BURST) {
            session.burst_end();
        }
        if record.is_multiple_of(65_536)
            && engine.evictions().is_some_and(|evictions| evictions > 0)
        {
            return false;
        }
    }
    let all = (0..records).all(|record| {
        values.fill(record, &mut value);
        session.get(&Key::of(record), &mut out) && out.value() == value.value()
    });
    all && engine.evictions().is_none_or(|evictions| evictions == 0)
}

/// Runs [`resident`] in a process of its own, so that what an allocator keeps of one engine is
/// not counted for the next. `None` when the engine lost records.
fn resident_of_child(row: &Row, bound: u64) -> io::Result<Option<(u64, u64)>> {
    eprintln!("  {}, values {}: resident bytes, bound {bound}", row.engine, row.values);
    let out = Command::new(std::env::current_exe()?)
        .args(["resident", "--engine", row.engine, "--values", row.values])
        .args(["--records", &row.records.to_string(), "--bound", &bound.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(empty)), Some(Ok(full))) => Ok(Some((empty, full))),
        _ if text.trim() == LOST => Ok(None),
        _ => Err(Error::other(String::from_utf8_lossy(&out.stderr).into_owned())),
    }
}

/// What a child prints when its engine lost records.
const LOST: &str = "lost";

/// Prints the resident bytes that an engine adds to this process, empty and full.
pub(crate) fn resident(options: &ResidentOptions) {
    let values = Values::ALL.into_iter().find(|values| values.name() == options.values);
    let values = values.unwrap_or(Values::Fixed31);
    let (bound, records) = (options.bound as usize, options.records);
    match options.engine {
        "kelvin" => resident_of(|| Kelvin::new(options.bound), values, records),
        "moka" => resident_of(|| Moka::new(bound), values, records),
        "quick_cache" => resident_of(|| Quick::new(bound), values, records),
        "quick_inline" => {
            assert!(values.len(0) <= NAME_LEN_MAX, "its values are short");
            resident_of(|| QuickInline::new(bound), values, records);
        }
        _ => resident_of(|| ShardedLru::new(bound), values, records),
    }
}

fn resident_of<E: Engine<KEY_BYTES>>(build: impl Fn() -> E, values: Values, records: u32) {
    let before = resident_bytes();
    let engine = build();
    let empty = resident_bytes() - before;
    if holds(&engine, values, records) {
        println!("{empty} {}", resident_bytes() - before);
    } else {
        println!("{LOST}");
    }
}

#[cfg(test)]
mod tests {
    use super::{Values, holds};
    use crate::engine::{Quick, ShardedLru};

    #[test]
    fn a_lost_record_is_noticed() {
        assert!(holds(&ShardedLru::new(2000), Values::Fixed31, 1000));
        assert!(!holds(&ShardedLru::new(900), Values::Fixed31, 1000));
        assert!(holds(&Quick::new(2000), Values::Uniform10To300, 1000));
    }

    #[test]
    fn lengths_are_what_they_are_called() {
        let lens: Vec<usize> = (0..100_000).map(|r| Values::Uniform10To300.len(r)).collect();
        assert_eq!((lens.iter().min(), lens.iter().max()), (Some(&10), Some(&300)));
        assert_eq!(Values::Fixed31.payload_bytes(10), 430);
        let mean = lens.iter().sum::<usize>() as f64 / 100_000.0;
        assert!((mean - 155.0).abs() < 1.0, "{mean}");
    }
}
