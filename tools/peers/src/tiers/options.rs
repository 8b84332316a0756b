//! Options of `tiers`, and what is measured.

use std::{path::PathBuf, time::Duration};

use crate::options::{each, number};

/// Times a set that its files may take, with what fio reads: some servers give a value a slab of
/// twice its size.
const ROOM_TIMES: u64 = 7;

/// Of the directory of files that servers write in a ring.
pub(super) const FILE_PERCENT: u64 = 250;

/// Options of `tiers`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TiersOptions {
    pub(super) sizes: Vec<Size>,
    pub(super) keys: Vec<Keys>,
    pub(super) parts: Vec<Part>,
    /// Of each server.
    pub(super) memory_mib: u64,
    /// How many times as much is stored.
    pub(super) times: u64,
    pub(super) rounds: u32,
    pub(super) window: Duration,
    pub(super) warm_up: Duration,
    /// Before what was stored is read again later.
    pub(super) settle: Duration,
    pub(super) server_cpus: Vec<usize>,
    pub(super) generator_cpu: usize,
    pub(super) kelvin: Option<PathBuf>,
    pub(super) memcached: Option<PathBuf>,
    pub(super) fatcache: Option<PathBuf>,
    /// When Kelvin answers a set.
    pub(super) write_mode: String,
    pub(super) directory: PathBuf,
    pub(super) out: PathBuf,
}

/// A size of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Size {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Keys {
    Uniform,
    Zipf,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Gets,
    Sets,
}

const SIZES: [Size; 4] = [
    Size { name: "1k", bytes: 1 << 10 },
    Size { name: "4k", bytes: 4 << 10 },
    Size { name: "64k", bytes: 64 << 10 },
    Size { name: "512k", bytes: 512 << 10 },
];

impl Size {
    /// How many are as much as is stored.
    pub(super) fn keys(self, options: &TiersOptions) -> u32 {
        u32::try_from(options.memory_mib * options.times * (1 << 20) / self.bytes)
            .unwrap_or(u32::MAX)
            .max(1)
    }

    /// What they are together.
    pub(super) fn set_bytes(self, options: &TiersOptions) -> u64 {
        u64::from(self.keys(options)) * self.bytes
    }
}

impl Keys {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }

    /// As `kelvin bench` has it.
    pub(super) fn popularity(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf:0.99",
        }
    }
}

impl TiersOptions {
    /// What all files may take at a time.
    pub(super) fn room_bytes(&self) -> u64 {
        (self.memory_mib << 20) * self.times * ROOM_TIMES
    }
}

impl Default for TiersOptions {
    fn default() -> Self {
        Self {
            sizes: SIZES.to_vec(),
            keys: vec![Keys::Uniform, Keys::Zipf],
            parts: vec![Part::Gets, Part::Sets],
            memory_mib: 64,
            times: 10,
            rounds: 3,
            window: Duration::from_secs(3),
            warm_up: Duration::from_secs(1),
            settle: Duration::from_secs(2),
            server_cpus: vec![0],
            generator_cpu: 1,
            kelvin: None,
            memcached: std::env::var_os("KELVIN_PEER_MEMCACHED").map(PathBuf::from),
            fatcache: None,
            write_mode: "async".to_owned(),
            directory: "target/tiers".into(),
            out: "target/tiers".into(),
        }
    }
}

/// Reads options.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn parse(pairs: &[(&str, &str)]) -> Result<TiersOptions, String> {
    let mut options = TiersOptions::default();
    for &(name, value) in pairs {
        let time = || number(name, value).map(Duration::from_millis);
        match name {
            "--values" => options.sizes = each(value, size)?,
            "--keys" => options.keys = each(value, keys)?,
            "--parts" => options.parts = each(value, part)?,
            "--memory-mib" => options.memory_mib = number(name, value)?,
            "--times" => options.times = number(name, value)?,
            "--rounds" => options.rounds = number(name, value)?,
            "--window-ms" => options.window = time()?,
            "--warm-up-ms" => options.warm_up = time()?,
            "--settle-ms" => options.settle = time()?,
            "--server-cpus" => options.server_cpus = each(value, |part| number(name, part))?,
            "--generator-cpu" => options.generator_cpu = number(name, value)?,
            "--kelvin" => options.kelvin = Some(value.into()),
            "--memcached" => options.memcached = Some(value.into()),
            "--fatcache" => options.fatcache = Some(value.into()),
            "--write-mode" => options.write_mode = value.to_owned(),
            "--dir" => options.directory = value.into(),
            "--out" => options.out = value.into(),
            _ => return Err(format!("tiers has no option {name:?}")),
        }
    }
    if options.rounds == 0 || options.memory_mib == 0 || options.times == 0 {
        return Err("rounds, memory and times are at least 1".to_owned());
    }
    if !["async", "safe"].contains(&options.write_mode.as_str()) {
        return Err(format!("no write mode {:?}", options.write_mode));
    }
    Ok(options)
}

fn size(name: &str) -> Result<Size, String> {
    let known = SIZES.into_iter().find(|size| size.name == name);
    known.ok_or_else(|| format!("no values {name:?}"))
}

fn keys(name: &str) -> Result<Keys, String> {
    let known = [Keys::Uniform, Keys::Zipf].into_iter().find(|keys| keys.name() == name);
    known.ok_or_else(|| format!("no keys {name:?}"))
}

fn part(name: &str) -> Result<Part, String> {
    match name {
        "get" => Ok(Part::Gets),
        "set" => Ok(Part::Sets),
        _ => Err(format!("no part {name:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Keys, Part, parse};

    #[test]
    fn options_are_read() {
        let pairs = [
            ("--values", "4k,512k"),
            ("--keys", "zipf"),
            ("--parts", "set"),
            ("--memory-mib", "16"),
            ("--window-ms", "500"),
            ("--server-cpus", "0,1"),
        ];
        let options = parse(&pairs).expect("they are right");
        let sizes: Vec<(u32, u64)> =
            options.sizes.iter().map(|it| (it.keys(&options), it.set_bytes(&options))).collect();
        assert_eq!(sizes, [(40_960, 160 << 20), (320, 160 << 20)]);
        assert_eq!((options.keys, options.parts), (vec![Keys::Zipf], vec![Part::Sets]));
        assert_eq!((options.window, options.server_cpus), (Duration::from_millis(500), vec![0, 1]));
    }

    #[test]
    fn mistakes_are_named() {
        for (pair, error) in [
            (("--values", "2k"), "no values \"2k\""),
            (("--keys", "hot"), "no keys \"hot\""),
            (("--parts", "gets"), "no part \"gets\""),
            (("--times", "0"), "rounds, memory and times are at least 1"),
            (("--write-mode", "fast"), "no write mode \"fast\""),
            (("--seed", "1"), "tiers has no option \"--seed\""),
        ] {
            assert_eq!(parse(&[pair]), Err(error.to_owned()));
        }
    }
}
