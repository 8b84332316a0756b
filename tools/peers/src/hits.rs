//! Kelvin beside memcached: which has more of what a trace asks for, when both hold as many bytes?
//!
//! A cell is a trace and a size in percent of what all its keys would take. Kelvin is given that
//! much memory, `kelvin bench --trace` replays the trace, and what is resident then is the measure.
//! memcached is started anew with one budget after another (`-m`, whole MiB) and asked the same,
//! until its process is resident with as much, to one percent or one MiB: a budget counts other
//! things in each server, resident bytes are what a machine has to have. What it took beside its
//! budget in one cell is where the next one begins.

mod cell;

use std::{
    fs,
    io::{self, Error},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use trace::Source;

use self::cell::{Cell, cells};
use crate::{
    machine::{self, Machine},
    options::HitsOptions,
    server::{Kind, Program, Server, Setup, build_kelvin, programs},
};

/// Budgets of memcached that are tried. Its resident bytes are its budget, its hash table, which
/// depends little on it, and what it starts with: the second one fits nearly always, and the first
/// one in most cells but the first.
const ATTEMPTS_MAX: usize = 6;

/// How far resident bytes may lie apart: one part in this, but at least a MiB, the step of `-m`.
const TOLERANCE_DIVISOR: u64 = 100;
const MIB: u64 = 1 << 20;

/// A cell's figures.
#[derive(Clone, Debug, serde::Serialize)]
struct Row {
    trace: String,
    size_percent: f64,
    copies: u32,
    requests: u64,
    kelvin: Replayed,
    memcached: Replayed,
    /// Whether both are resident with as many bytes.
    is_equal: bool,
}

/// One server's.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Replayed {
    budget_mib: u64,
    resident_bytes: u64,
    hit_ratio: f64,
    refused: u64,
}

/// Replays all cells and prints what they gave.
///
/// # Errors
/// When memcached is not there, a trace cannot be read, a server or the bench fails, or the JSON
/// file cannot be written.
pub(crate) fn run(options: &HitsOptions) -> io::Result<()> {
    if options.traces.is_empty() {
        return Err(Error::other("no traces: name them with --trace"));
    }
    let mut machine = Machine::read();
    let kelvin = match &options.kelvin {
        Some(path) => path.clone(),
        None => build_kelvin()?,
    };
    let (programs, absent) = programs(&kelvin)?;
    let find = |kind| programs.iter().find(|program: &&Program| program.kind == kind);
    let subject = find(Kind::Kelvin).expect("invariant: always there");
    let Some(peer) = find(Kind::Memcached) else {
        return Err(Error::other(absent.join("; ")));
    };
    let directory = std::env::temp_dir().join(format!("peers-trace-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let mut bench = Bench { kelvin, directory, seed: options.seed, beside_mib: 0 };
    let mut rows = Vec::new();
    println!("{HEAD}");
    for name in &options.traces {
        let source: Source = name.parse().map_err(Error::other)?;
        for cell in cells(&source, options)? {
            if cell.requests > options.requests_max {
                eprintln!(
                    "{}, {} %: {} requests, left out",
                    cell.trace, cell.percent, cell.requests
                );
                continue;
            }
            let row = bench.compare(subject, peer, &source, &cell)?;
            println!("{}", line(&row));
            rows.push(row);
            // Hours of other cells may follow.
            write_json(options.json.as_deref(), &rows)?;
        }
    }
    let _ = fs::remove_dir_all(&bench.directory);
    machine.load_average_after = machine::load_average();
    println!("\n{}\n{}", verdict(&rows), machine.line());
    write_json(options.json.as_deref(), &rows)
}

fn write_json(path: Option<&Path>, rows: &[Row]) -> io::Result<()> {
    match path {
        Some(path) => fs::write(path, serde_json::to_string_pretty(rows)?),
        None => Ok(()),
    }
}

const HEAD: &str = "| trace | % | copies | requests | MiB | Kelvin hits % | memcached hits % | \
                    Kelvin resident MiB | memcached resident MiB | memcached -m |\n\
                    |---|---|---|---|---|---|---|---|---|---|";

fn line(row: &Row) -> String {
    let mib = |bytes: u64| bytes as f64 / MIB as f64;
    format!(
        "| {} | {} | {} | {} | {} | {:.2} | {:.2} | {:.1} | {:.1}{} | {} |",
        row.trace,
        row.size_percent,
        row.copies,
        row.requests,
        row.kelvin.budget_mib,
        100.0 * row.kelvin.hit_ratio,
        100.0 * row.memcached.hit_ratio,
        mib(row.kelvin.resident_bytes),
        mib(row.memcached.resident_bytes),
        if row.is_equal { "" } else { " (NOT EQUAL)" },
        row.memcached.budget_mib,
    )
}

/// In how many of the comparable cells Kelvin has more.
fn verdict(rows: &[Row]) -> String {
    let comparable: Vec<&Row> = rows.iter().filter(|row| row.is_equal).collect();
    let more = |row: &&&Row| row.kelvin.hit_ratio > row.memcached.hit_ratio;
    let more = comparable.iter().filter(more).count();
    format!("Kelvin's hit ratio is higher in {more} of {} cells.", comparable.len())
}

struct Bench {
    kelvin: PathBuf,
    /// For sockets and reports.
    directory: PathBuf,
    seed: u64,
    /// What memcached was resident with beside its budget when both were last equal.
    beside_mib: u64,
}

impl Bench {
    fn compare(
        &mut self,
        subject: &Program,
        peer: &Program,
        source: &Source,
        cell: &Cell,
    ) -> io::Result<Row> {
        eprintln!("{}, {} %: {} requests", cell.trace, cell.percent, cell.requests);
        let kelvin = self.replay(subject, cell.memory_mib, source, cell)?;
        let mut budget_mib = (kelvin.resident_bytes / MIB).saturating_sub(self.beside_mib).max(1);
        for attempt in 1.. {
            let memcached = self.replay(peer, budget_mib, source, cell)?;
            let is_equal = is_equal(kelvin.resident_bytes, memcached.resident_bytes);
            eprintln!(
                "  memcached -m {budget_mib}: {} bytes resident, Kelvin {}",
                memcached.resident_bytes, kelvin.resident_bytes
            );
            if is_equal {
                self.beside_mib = (memcached.resident_bytes / MIB).saturating_sub(budget_mib);
            }
            if is_equal || attempt == ATTEMPTS_MAX {
                let Cell { trace, percent: size_percent, copies, requests, .. } = cell.clone();
                return Ok(Row {
                    trace,
                    size_percent,
                    copies,
                    requests,
                    kelvin,
                    memcached,
                    is_equal,
                });
            }
            budget_mib = next_budget(budget_mib, kelvin.resident_bytes, memcached.resident_bytes);
        }
        unreachable!("invariant: the last attempt returns")
    }

    /// Starts a server and replays a trace on it.
    fn replay(
        &self,
        program: &Program,
        memory_mib: u64,
        source: &Source,
        cell: &Cell,
    ) -> io::Result<Replayed> {
        let cpus = Vec::new();
        let setup = Setup { is_unix: true, memory_mib, value_bytes: 0, keys: 1, cpus };
        let server = Server::start(program, &setup, &self.directory)?;
        let file = self.directory.join("replay.json");
        let out = Command::new(&self.kelvin)
            .args(["bench", &server.address(), "--server-pid", &server.pid().to_string()])
            .args(["--trace", &source_text(source), "--copies", &cell.copies.to_string()])
            .args(["--seed", &self.seed.to_string(), "--quiet", "--json"])
            .arg(&file)
            .output()?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            return Err(Error::other(format!("kelvin bench: {}: {said}", out.status)));
        }
        drop(server);
        read(&file, memory_mib)
    }
}

/// A file is named with its format: what its name says may not be enough for another program.
fn source_text(source: &Source) -> String {
    match source {
        Source::File { path, format } => format!("{format}:{}", path.display()),
        Source::Synthetic(_) => source.to_string(),
    }
}

fn read(file: &Path, budget_mib: u64) -> io::Result<Replayed> {
    let report: Value = serde_json::from_slice(&fs::read(file)?)?;
    let side = &report["servers"][0];
    let missing = || Error::other(format!("{}: figures are missing", file.display()));
    Ok(Replayed {
        budget_mib,
        resident_bytes: side["resident_bytes"].as_u64().ok_or_else(missing)?,
        hit_ratio: side["hit_ratio"].as_f64().ok_or_else(missing)?,
        refused: side["refused"].as_u64().ok_or_else(missing)?,
    })
}

fn is_equal(ours: u64, theirs: u64) -> bool {
    ours.abs_diff(theirs) <= (ours / TOLERANCE_DIVISOR).max(MIB)
}

/// As much more or less as is resident too little or too much.
fn next_budget(budget_mib: u64, wanted: u64, resident: u64) -> u64 {
    let step = (wanted.abs_diff(resident) + MIB / 2) / MIB;
    if wanted > resident { budget_mib + step } else { budget_mib.saturating_sub(step).max(1) }
}

#[cfg(test)]
mod tests {
    use super::{MIB, Replayed, Row, is_equal, next_budget, verdict};

    #[test]
    fn budgets_approach_what_is_wanted() {
        assert_eq!(next_budget(64, 64 * MIB, 70 * MIB), 58);
        assert_eq!(next_budget(58, 64 * MIB, 62 * MIB + MIB / 3), 60);
        assert_eq!(next_budget(2, MIB, 9 * MIB), 1);
        assert!(is_equal(64 * MIB, 65 * MIB) && !is_equal(64 * MIB, 65 * MIB + 1));
        assert!(is_equal(500 * MIB, 495 * MIB) && !is_equal(500 * MIB, 494 * MIB));
    }

    #[test]
    fn only_comparable_cells_count() {
        let side = |hit_ratio| Replayed { budget_mib: 1, resident_bytes: 1, hit_ratio, refused: 0 };
        let row = |ours, theirs, is_equal| Row {
            trace: "t".to_owned(),
            size_percent: 1.0,
            copies: 1,
            requests: 1,
            kelvin: side(ours),
            memcached: side(theirs),
            is_equal,
        };
        let rows = [row(0.5, 0.4, true), row(0.4, 0.4, true), row(0.9, 0.1, false)];
        assert_eq!(verdict(&rows), "Kelvin's hit ratio is higher in 1 of 2 cells.");
    }
}
