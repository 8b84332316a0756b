//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use crate::{
    contestant::{Class, ENGINES},
    disk::{self, ChurnOptions, DiskOptions, TablesOptions},
    engine::TABLES,
    load::BURST,
    tiers::{self, TiersOptions},
    wire::{BLOCKS, Block},
    workload::Workload,
};

mod usage;

pub(crate) use self::usage::USAGE;

/// What the program is asked to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    /// Compare speeds.
    Speed(SpeedOptions),
    /// Measure bytes a record.
    Overhead(OverheadOptions),
    /// Measure one engine's resident bytes in this process: a child of `overhead`.
    Resident(ResidentOptions),
    /// Be a server that does nothing but answer.
    Bare(BareOptions),
    /// Compare servers on the wire.
    Wire(WireOptions),
    /// Compare what servers have of traces.
    Hits(HitsOptions),
    /// Compare stores on the disk.
    Disk(DiskOptions),
    /// Draw rates of stores over the number of records.
    Tables(TablesOptions),
    /// Overwrite what stores have, again and again.
    Churn(ChurnOptions),
    /// Compare servers that keep more than memory holds.
    Tiers(TiersOptions),
    /// Print the usage.
    Help,
}

/// Options of `speed`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpeedOptions {
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) ops: usize,
    pub(crate) warm_ops: usize,
    pub(crate) engines: Vec<&'static str>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) threads: Vec<usize>,
    pub(crate) key_bytes: Vec<usize>,
    pub(crate) keys: u32,
    pub(crate) capacity: u32,
    pub(crate) exponent: f64,
    pub(crate) changed_percent: f64,
    pub(crate) seed: u64,
    pub(crate) json: Option<String>,
}

impl Default for SpeedOptions {
    fn default() -> Self {
        Self {
            rounds: 7,
            seconds: 240,
            ops: 500_000,
            warm_ops: 2_000_000,
            engines: engines_but(&[Class::TableEach]),
            workloads: Workload::ALL.to_vec(),
            threads: vec![1, 2],
            key_bytes: vec![4, 16],
            keys: 5_500_000,
            capacity: 2_000_000,
            exponent: 0.99,
            changed_percent: 12.0,
            seed: 1,
            json: None,
        }
    }
}

/// Options of `overhead`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OverheadOptions {
    pub(crate) records: u32,
    pub(crate) engines: Vec<&'static str>,
    pub(crate) json: Option<String>,
}

/// Options of `resident`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResidentOptions {
    pub(crate) engine: &'static str,
    pub(crate) values: String,
    pub(crate) records: u32,
    /// Bytes or records, whichever bounds the engine.
    pub(crate) bound: u64,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// How a server waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    Uring,
    Epoll,
}

/// Options of `bare`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BareOptions {
    pub(crate) place: Place,
    pub(crate) io: Io,
    pub(crate) cpus: Vec<usize>,
    pub(crate) value_bytes: usize,
    pub(crate) keys: u32,
    /// Where values lie, if not in memory.
    pub(crate) file: Option<PathBuf>,
}

/// Options of `trace`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HitsOptions {
    pub(crate) traces: Vec<String>,
    pub(crate) sizes: Vec<f64>,
    pub(crate) min_memory_mib: u64,
    pub(crate) requests_max: u64,
    pub(crate) seed: u64,
    pub(crate) kelvin: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
}

/// Options of `wire`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WireOptions {
    pub(crate) blocks: Vec<Block>,
    pub(crate) rounds: u32,
    pub(crate) duration_ms: u64,
    pub(crate) warm_up_ms: u64,
    pub(crate) server_cpu: usize,
    pub(crate) generator_cpus: Vec<usize>,
    pub(crate) kelvin: Option<PathBuf>,
    pub(crate) out: PathBuf,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            blocks: BLOCKS.to_vec(),
            rounds: 10,
            duration_ms: 800,
            warm_up_ms: 200,
            server_cpu: 0,
            generator_cpus: vec![1],
            kelvin: None,
            out: "target/wire".into(),
        }
    }
}

/// Reads the arguments that follow the program's name.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn parse(args: &[String]) -> Result<Command, String> {
    let Some((command, rest)) = args.split_first() else { return Ok(Command::Help) };
    let pairs = pairs(rest)?;
    match command.as_str() {
        "speed" => speed(&pairs).map(Command::Speed),
        "overhead" => overhead(&pairs).map(Command::Overhead),
        "resident" => resident(&pairs).map(Command::Resident),
        "disk" => disk::parse(&pairs).map(Command::Disk),
        "tables" => disk::parse_tables(&pairs).map(Command::Tables),
        "churn" => disk::parse_churn(&pairs).map(Command::Churn),
        "tiers" => tiers::parse(&pairs).map(Command::Tiers),
        "trace" => hits(&pairs).map(Command::Hits),
        "wire" => wire(&pairs).map(Command::Wire),
        "bare" => bare(&pairs).map(Command::Bare),
        "help" | "--help" | "-h" => Ok(Command::Help),
        other => Err(format!("no command {other:?}")),
    }
}

fn pairs(args: &[String]) -> Result<Vec<(&str, &str)>, String> {
    let (pairs, rest) = args.as_chunks::<2>();
    match rest {
        [] => Ok(pairs.iter().map(|[name, value]| (name.as_str(), value.as_str())).collect()),
        _ => Err(format!("{:?} has no value", rest[0])),
    }
}

fn speed(pairs: &[(&str, &str)]) -> Result<SpeedOptions, String> {
    let mut options = SpeedOptions::default();
    for &(name, value) in pairs {
        match name {
            "--rounds" => options.rounds = number(name, value)?,
            "--seconds" => options.seconds = number(name, value)?,
            "--ops" => options.ops = number::<usize>(name, value)?.next_multiple_of(BURST),
            "--warm" => options.warm_ops = number(name, value)?,
            "--engines" => options.engines = engines(value)?,
            "--workloads" => options.workloads = each(value, workload)?,
            "--threads" => options.threads = each(value, |part| number(name, part))?,
            "--key-bytes" => options.key_bytes = each(value, key_bytes)?,
            "--keys" => options.keys = number(name, value)?,
            "--capacity" => options.capacity = number(name, value)?,
            "--exponent" => options.exponent = number(name, value)?,
            "--changed" => options.changed_percent = number(name, value)?,
            "--seed" => options.seed = number(name, value)?,
            "--json" => options.json = Some(value.to_owned()),
            _ => return Err(format!("speed has no option {name:?}")),
        }
    }
    if options.rounds == 0 || options.ops == 0 || options.threads.contains(&0) {
        return Err("rounds, ops and threads are at least 1".to_owned());
    }
    let threads = options.threads.iter().max();
    if options.engines.contains(&"kelvin-each") && threads > Some(&TABLES) {
        return Err(format!("kelvin-each has a table for each of {TABLES} threads"));
    }
    if options.capacity >= options.keys || !(0.0..=50.0).contains(&options.changed_percent) {
        return Err("capacity is below keys, changed between 0 and 50".to_owned());
    }
    Ok(options)
}

fn overhead(pairs: &[(&str, &str)]) -> Result<OverheadOptions, String> {
    let all = engines_but(&[Class::Baseline, Class::TableEach]);
    let mut options = OverheadOptions { records: 2_000_000, engines: all.clone(), json: None };
    for &(name, value) in pairs {
        match name {
            "--records" => options.records = number(name, value)?,
            "--engines" => options.engines = engines(value)?,
            "--json" => options.json = Some(value.to_owned()),
            _ => return Err(format!("overhead has no option {name:?}")),
        }
    }
    match options.engines.iter().find(|name| !all.contains(name)) {
        Some(name) => Err(format!("{name} is measured by speed only")),
        None => Ok(options),
    }
}

fn resident(pairs: &[(&str, &str)]) -> Result<ResidentOptions, String> {
    let mut options =
        ResidentOptions { engine: "empty", values: "31".to_owned(), records: 0, bound: 0 };
    for &(name, value) in pairs {
        match name {
            "--engine" => options.engine = engine(value)?,
            "--values" => options.values = value.to_owned(),
            "--records" => options.records = number(name, value)?,
            "--bound" => options.bound = number(name, value)?,
            _ => return Err(format!("resident has no option {name:?}")),
        }
    }
    Ok(options)
}

fn hits(pairs: &[(&str, &str)]) -> Result<HitsOptions, String> {
    let mut options = HitsOptions {
        traces: Vec::new(),
        sizes: vec![1.0, 3.0, 10.0, 30.0],
        min_memory_mib: 64,
        requests_max: 30_000_000,
        seed: 1,
        kelvin: None,
        json: None,
    };
    for &(name, value) in pairs {
        match name {
            "--trace" => options.traces.push(value.to_owned()),
            "--sizes" => options.sizes = each(value, |part| number(name, part))?,
            "--min-memory-mib" => options.min_memory_mib = number(name, value)?,
            "--requests-max" => options.requests_max = number(name, value)?,
            "--seed" => options.seed = number(name, value)?,
            "--kelvin" => options.kelvin = Some(value.into()),
            "--json" => options.json = Some(value.into()),
            _ => return Err(format!("trace has no option {name:?}")),
        }
    }
    if !options.sizes.iter().all(|size| (0.01..=100.0).contains(size)) {
        return Err("sizes are from 0.01 to 100 percent".to_owned());
    }
    Ok(options)
}

fn wire(pairs: &[(&str, &str)]) -> Result<WireOptions, String> {
    let mut options = WireOptions::default();
    for &(name, value) in pairs {
        match name {
            "--cells" => options.blocks = each(value, block)?,
            "--rounds" => options.rounds = number(name, value)?,
            "--duration-ms" => options.duration_ms = number(name, value)?,
            "--warm-up-ms" => options.warm_up_ms = number(name, value)?,
            "--server-cpu" => options.server_cpu = number(name, value)?,
            "--generator-cpus" => {
                options.generator_cpus = each(value, |part| number(name, part))?;
            }
            "--kelvin" => options.kelvin = Some(value.into()),
            "--out" => options.out = value.into(),
            _ => return Err(format!("wire has no option {name:?}")),
        }
    }
    Ok(options)
}

fn block(name: &str) -> Result<Block, String> {
    let known = BLOCKS.into_iter().find(|block| block.name == name);
    known.ok_or_else(|| format!("no cells {name:?}"))
}

fn bare(pairs: &[(&str, &str)]) -> Result<BareOptions, String> {
    let place = Place::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let (io, cpus) = (Io::Uring, Vec::new());
    let mut options = BareOptions { place, io, cpus, value_bytes: 32, keys: 1, file: None };
    for &(name, value) in pairs {
        match (name, value) {
            ("--listen", _) => {
                let address = value.parse().map_err(|_| format!("{value:?} is no address"))?;
                options.place = Place::Tcp(address);
            }
            ("--unix", _) => options.place = Place::Unix(value.into()),
            ("--io", "uring") => options.io = Io::Uring,
            ("--io", "epoll") => options.io = Io::Epoll,
            ("--cpus", _) => options.cpus = each(value, |part| number(name, part))?,
            ("--value-bytes", _) => options.value_bytes = number(name, value)?,
            ("--keys", _) => options.keys = number(name, value)?,
            ("--file", _) => options.file = Some(value.into()),
            _ => return Err(format!("bare has no option {name:?} {value:?}")),
        }
    }
    if options.value_bytes > VALUE_BYTES_MAX || options.keys == 0 {
        return Err(format!("values have at most {VALUE_BYTES_MAX} bytes, and there is one key"));
    }
    if options.file.is_some() && options.io == Io::Epoll {
        return Err("--file is read on the ring of the sockets: not with --io epoll".to_owned());
    }
    Ok(options)
}

/// The largest value of a memcached with its defaults.
const VALUE_BYTES_MAX: usize = 1 << 20;

pub(crate) fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}: {value:?} is not a number"))
}

pub(crate) fn each<T>(
    list: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    list.split(',').map(parse).collect()
}

/// The engines of all classes but some.
fn engines_but(classes: &[Class]) -> Vec<&'static str> {
    let engines = ENGINES.iter().filter(|(_, class)| !classes.contains(class));
    engines.map(|(name, _)| *name).collect()
}

fn engines(list: &str) -> Result<Vec<&'static str>, String> {
    each(list, engine)
}

fn engine(name: &str) -> Result<&'static str, String> {
    let known = ENGINES.iter().map(|(known, _)| *known).find(|known| *known == name);
    known.ok_or_else(|| format!("no engine {name:?}"))
}

fn workload(name: &str) -> Result<Workload, String> {
    let known = Workload::ALL.into_iter().find(|known| known.name() == name);
    known.ok_or_else(|| format!("no workload {name:?}"))
}

fn key_bytes(text: &str) -> Result<usize, String> {
    match text {
        "4" => Ok(4),
        "16" => Ok(16),
        _ => Err(format!("keys have 4 or 16 bytes, not {text:?}")),
    }
}

#[cfg(test)]
mod tests;
