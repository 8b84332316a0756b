//! Options of `churn`.

use std::{path::PathBuf, time::Duration};

use super::{Popularity, Size};
use crate::{
    disk::{
        engine::{KINDS, Kind},
        options::{Files, engine},
        work::SETTLE_MAX,
    },
    options::{each, number},
};

/// Fewest records of a KiB, and most: they are numbers of 31 bits.
const RECORDS_MIN: u32 = 1000;
const RECORDS_MAX: u32 = 1 << 30;

/// Most overwrites a record, and most threads that write.
const TIMES_MAX: u32 = 1000;
const WRITERS_MAX: u32 = 64;

/// Most pairs of windows.
const PAIRS_MAX: u32 = 1000;

/// The engines that run when nobody names any.
const ENGINES: [&str; 2] = ["kelvin", "leveldb"];

/// Options of `churn`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChurnOptions {
    /// Of 1 KiB; of 100 KiB a hundredth.
    pub(super) records: u32,
    pub(super) times: u32,
    pub(super) rounds: u32,
    pub(super) writers: u32,
    pub(super) sizes: Vec<Size>,
    pub(super) popularities: Vec<Popularity>,
    pub(super) space_percent: u32,
    pub(super) segment_bytes: u64,
    /// Of puts at half the rate, and of those of a new store beside.
    pub(super) window: Duration,
    /// How many of both there are, in turn.
    pub(super) pairs: u32,
    pub(super) put_time_max: Duration,
    /// How long a store may take until it is quiet.
    pub(super) settle_time_max: Duration,
    pub(super) wait_max: Duration,
    pub(super) sample_time: Duration,
    pub(super) engines: Vec<Kind>,
    pub(super) directory: PathBuf,
    pub(super) files: Files,
}

impl Default for ChurnOptions {
    fn default() -> Self {
        let is_default = |kind: &&Kind| ENGINES.contains(&kind.name);
        Self {
            records: 4_000_000,
            times: 10,
            rounds: 1,
            writers: 1,
            sizes: vec![Size::Kib, Size::Large],
            popularities: Popularity::ALL.to_vec(),
            space_percent: 130,
            segment_bytes: 64 << 20,
            window: Duration::from_secs(10),
            pairs: 5,
            put_time_max: Duration::from_secs(900),
            settle_time_max: SETTLE_MAX,
            wait_max: Duration::from_secs(60),
            sample_time: Duration::from_secs(1),
            engines: KINDS.iter().filter(is_default).copied().collect(),
            directory: "target/churn".into(),
            files: Files::default(),
        }
    }
}

/// Reads options.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn parse(pairs: &[(&str, &str)]) -> Result<ChurnOptions, String> {
    let mut options = ChurnOptions::default();
    for &(name, value) in pairs {
        let seconds = || number(name, value).map(Duration::from_secs);
        let milliseconds = || number(name, value).map(Duration::from_millis);
        match name {
            "--records" => options.records = number(name, value)?,
            "--times" => options.times = number(name, value)?,
            "--rounds" => options.rounds = number(name, value)?,
            "--writers" => options.writers = number(name, value)?,
            "--values" => options.sizes = each(value, size)?,
            "--keys" => options.popularities = each(value, popularity)?,
            "--space-percent" => options.space_percent = number(name, value)?,
            "--segment-mib" => options.segment_bytes = number::<u64>(name, value)? << 20,
            "--window-ms" => options.window = milliseconds()?,
            "--pairs" => options.pairs = number(name, value)?,
            "--put-seconds" => options.put_time_max = seconds()?,
            "--settle-seconds" => options.settle_time_max = seconds()?,
            "--wait-seconds" => options.wait_max = seconds()?,
            "--sample-ms" => options.sample_time = milliseconds()?,
            "--engines" => options.engines = each(value, engine)?,
            "--dir" => options.directory = value.into(),
            "--json" => options.files.json = Some(value.into()),
            "--svg" => options.files.svg = Some(value.into()),
            _ => return Err(format!("churn has no option {name:?}")),
        }
    }
    check(&options)?;
    Ok(options)
}

fn check(options: &ChurnOptions) -> Result<(), String> {
    if options.rounds == 0 || !(RECORDS_MIN..=RECORDS_MAX).contains(&options.records) {
        return Err(format!("there is a round, and {RECORDS_MIN} to {RECORDS_MAX} records"));
    }
    if !(1..=PAIRS_MAX).contains(&options.pairs) {
        return Err(format!("1 to {PAIRS_MAX} pairs"));
    }
    if !(1..=TIMES_MAX).contains(&options.times) || !(1..=WRITERS_MAX).contains(&options.writers) {
        return Err(format!("1 to {TIMES_MAX} times, by 1 to {WRITERS_MAX} writers"));
    }
    if options.sample_time.is_zero() || options.segment_bytes == 0 {
        return Err("samples are a millisecond apart, and a segment has a MiB".to_owned());
    }
    if options.sizes.contains(&Size::Large) && options.records / 100 < options.writers {
        return Err("each writer has a record of its own, of 100 KiB a hundredth of all".to_owned());
    }
    Ok(())
}

fn size(name: &str) -> Result<Size, String> {
    let known = Size::named(name).filter(|size| *size != Size::Tiny);
    known.ok_or_else(|| format!("no values of {name:?}"))
}

fn popularity(name: &str) -> Result<Popularity, String> {
    let known = Popularity::ALL.into_iter().find(|popularity| popularity.name() == name);
    known.ok_or_else(|| format!("no keys {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::{ChurnOptions, Popularity, Size, parse};

    #[test]
    fn options_replace_defaults() {
        let pairs = [("--values", "100k"), ("--keys", "zipf"), ("--segment-mib", "4")];
        let expected = ChurnOptions {
            sizes: vec![Size::Large],
            popularities: vec![Popularity::Zipf],
            segment_bytes: 4 << 20,
            ..ChurnOptions::default()
        };
        assert_eq!(parse(&pairs), Ok(expected));
    }

    #[test]
    fn mistakes_are_named() {
        for (pair, error) in [
            (("--values", "4b"), "no values of \"4b\""),
            (("--keys", "latest"), "no keys \"latest\""),
            (("--records", "10"), "there is a round, and 1000 to 1073741824 records"),
            (("--pairs", "0"), "1 to 1000 pairs"),
            (("--writers", "0"), "1 to 1000 times, by 1 to 64 writers"),
            (("--sample-ms", "0"), "samples are a millisecond apart, and a segment has a MiB"),
            (("--cells", "put"), "churn has no option \"--cells\""),
        ] {
            assert_eq!(parse(&[pair]), Err(error.to_owned()));
        }
        let few = [("--records", "1500"), ("--writers", "16")];
        let error = "each writer has a record of its own, of 100 KiB a hundredth of all";
        assert_eq!(parse(&few), Err(error.to_owned()));
        let of_a_kib = [few[0], few[1], ("--values", "1k")];
        assert!(parse(&of_a_kib).is_ok());
    }
}
