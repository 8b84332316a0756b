//! Options of `tables`.

use std::{path::PathBuf, time::Duration};

use super::{Part, Size};
use crate::{
    disk::{
        engine::Kind,
        options::{Files, default_engines, engine},
        work::SETTLE_MAX,
    },
    options::{each, number},
};

/// Fewest records of a KiB: every tenth of the large ones has some.
const RECORDS_MIN: u32 = 1000;

/// Most: they are numbers of 31 bits.
const RECORDS_MAX: u32 = 1 << 30;

/// Options of `tables`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TablesOptions {
    /// Of 4 bytes and of 1 KiB; of 100 KiB a hundredth.
    pub(super) records: u32,
    pub(super) rounds: u32,
    /// Of the reads at each tenth.
    pub(super) window: Duration,
    /// Of all puts into one store. What is not stored by then is left out.
    pub(super) put_time_max: Duration,
    /// How long a store may take until it is quiet.
    pub(super) settle_time_max: Duration,
    pub(super) sizes: Vec<Size>,
    pub(super) parts: Vec<Part>,
    pub(super) engines: Vec<Kind>,
    pub(super) directory: PathBuf,
    pub(super) files: Files,
}

impl Default for TablesOptions {
    fn default() -> Self {
        Self {
            records: 10_000_000,
            rounds: 1,
            window: Duration::from_secs(1),
            put_time_max: Duration::from_secs(600),
            settle_time_max: SETTLE_MAX,
            sizes: Size::ALL.to_vec(),
            parts: Part::ALL.to_vec(),
            engines: default_engines(),
            directory: "target/tables".into(),
            files: Files::default(),
        }
    }
}

/// Reads options.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn parse(pairs: &[(&str, &str)]) -> Result<TablesOptions, String> {
    let mut options = TablesOptions::default();
    for &(name, value) in pairs {
        match name {
            "--records" => options.records = number(name, value)?,
            "--rounds" => options.rounds = number(name, value)?,
            "--window-ms" => options.window = Duration::from_millis(number(name, value)?),
            "--put-seconds" => options.put_time_max = Duration::from_secs(number(name, value)?),
            "--settle-seconds" => {
                options.settle_time_max = Duration::from_secs(number(name, value)?);
            }
            "--values" => options.sizes = each(value, size)?,
            "--parts" => options.parts = each(value, part)?,
            "--engines" => options.engines = each(value, engine)?,
            "--dir" => options.directory = value.into(),
            "--json" => options.files.json = Some(value.into()),
            "--svg" => options.files.svg = Some(value.into()),
            _ => return Err(format!("tables has no option {name:?}")),
        }
    }
    if options.rounds == 0 || !(RECORDS_MIN..=RECORDS_MAX).contains(&options.records) {
        return Err(format!("there is a round, and {RECORDS_MIN} to {RECORDS_MAX} records"));
    }
    Ok(options)
}

fn size(name: &str) -> Result<Size, String> {
    Size::named(name).ok_or_else(|| format!("no values of {name:?}"))
}

fn part(name: &str) -> Result<Part, String> {
    let known = Part::ALL.into_iter().find(|part| part.name() == name);
    known.ok_or_else(|| format!("no part {name:?}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Part, Size, TablesOptions, parse};

    #[test]
    fn options_replace_defaults() {
        let pairs = [("--values", "1k,4b"), ("--parts", "reads")];
        let seconds = [("--put-seconds", "9"), ("--settle-seconds", "5")];
        let expected = TablesOptions {
            sizes: vec![Size::Kib, Size::Tiny],
            parts: vec![Part::Reads],
            put_time_max: Duration::from_secs(9),
            settle_time_max: Duration::from_secs(5),
            ..TablesOptions::default()
        };
        assert_eq!(parse(&[pairs, seconds].concat()), Ok(expected));
    }

    #[test]
    fn mistakes_are_named() {
        for (pair, error) in [
            (("--values", "1k,2k"), "no values of \"2k\""),
            (("--parts", "writes"), "no part \"writes\""),
            (("--engines", "redis"), "no engine \"redis\", or it was not built in"),
            (("--records", "10"), "there is a round, and 1000 to 1073741824 records"),
            (("--cells", "put"), "tables has no option \"--cells\""),
        ] {
            assert_eq!(parse(&[pair]), Err(error.to_owned()));
        }
    }
}
