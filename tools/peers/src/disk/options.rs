//! Options of `disk`.

use std::{fs, io, path::PathBuf, time::Duration};

use super::{
    cell::{CELLS, Cell},
    engine::{KINDS, Kind},
};
use crate::options::{each, number};

/// Fewest records: every size of values has some.
const RECORDS_MIN: u32 = 1000;

/// Most records: four times as many of the smallest values have to be numbers of 31 bits.
const RECORDS_MAX: u32 = 1 << 29;

/// Options of `disk`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DiskOptions {
    /// Of 1 KiB; of 4 bytes four times as many, of 100 KiB so many that they take 1.5 times as
    /// much.
    pub(super) records: u32,
    pub(super) rounds: u32,
    /// How long the cells take that are no fixed number of puts.
    pub(super) window: Duration,
    pub(super) cells: Vec<Cell>,
    pub(super) engines: Vec<Kind>,
    pub(super) directory: PathBuf,
    pub(super) files: Files,
    pub(super) is_quiet: bool,
}

/// What is written beside what is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) json: Option<PathBuf>,
    pub(super) svg: Option<PathBuf>,
}

impl Files {
    /// Writes a report, and what is drawn of it, where they are asked for.
    pub(super) fn write(
        &self,
        report: &impl serde::Serialize,
        drawn: impl FnOnce() -> String,
    ) -> io::Result<()> {
        if let Some(path) = &self.json {
            fs::write(path, serde_json::to_string_pretty(report)?)?;
        }
        match &self.svg {
            Some(path) => fs::write(path, drawn()),
            None => Ok(()),
        }
    }
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            records: 1_000_000,
            rounds: 5,
            window: Duration::from_secs(1),
            cells: CELLS.to_vec(),
            engines: default_engines(),
            directory: "target/disk".into(),
            files: Files::default(),
            is_quiet: false,
        }
    }
}

/// Reads options.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn parse(pairs: &[(&str, &str)]) -> Result<DiskOptions, String> {
    let mut options = DiskOptions::default();
    for &(name, value) in pairs {
        match name {
            "--records" => options.records = number(name, value)?,
            "--rounds" => options.rounds = number(name, value)?,
            "--window-ms" => options.window = Duration::from_millis(number(name, value)?),
            "--cells" => options.cells = cells(value)?,
            "--engines" => options.engines = each(value, engine)?,
            "--dir" => options.directory = value.into(),
            "--json" => options.files.json = Some(value.into()),
            "--quiet" => options.is_quiet = value == "yes",
            _ => return Err(format!("disk has no option {name:?}")),
        }
    }
    if options.rounds == 0 || !(RECORDS_MIN..=RECORDS_MAX).contains(&options.records) {
        return Err(format!("there is a round, and {RECORDS_MIN} to {RECORDS_MAX} records"));
    }
    Ok(options)
}

/// Each name stands for all cells that begin with it.
fn cells(list: &str) -> Result<Vec<Cell>, String> {
    for name in list.split(',') {
        if !CELLS.iter().any(|cell| cell.name.starts_with(name)) {
            return Err(format!("no cells {name:?}"));
        }
    }
    let is_asked = |cell: &&Cell| list.split(',').any(|name| cell.name.starts_with(name));
    Ok(CELLS.iter().filter(is_asked).copied().collect())
}

pub(super) fn default_engines() -> Vec<Kind> {
    KINDS.iter().filter(|kind| kind.is_default).copied().collect()
}

pub(super) fn engine(name: &str) -> Result<Kind, String> {
    let known = KINDS.iter().find(|kind| kind.name == name);
    known.copied().ok_or_else(|| format!("no engine {name:?}, or it was not built in"))
}

#[cfg(test)]
mod tests {
    use super::{DiskOptions, parse};

    #[test]
    fn names_stand_for_cells_that_begin_with_them() {
        let pairs = [("--cells", "put-1k,cold-100k"), ("--engines", "kelvin-hash,kelvin")];
        let options = parse(&pairs).expect("they are right");
        let names: Vec<_> = options.cells.iter().map(|cell| cell.name).collect();
        assert_eq!(names, ["put-1k-1", "put-1k-4", "cold-100k-1"]);
        let names: Vec<_> = options.engines.iter().map(|kind| kind.name).collect();
        assert_eq!(names, ["kelvin-hash", "kelvin"]);
        let first = DiskOptions::default().engines[0];
        assert_eq!(first.name, "kelvin");
    }

    #[test]
    fn mistakes_are_named() {
        for (pair, error) in [
            (("--cells", "put,get"), "no cells \"get\""),
            (("--engines", "redis"), "no engine \"redis\", or it was not built in"),
            (("--records", "10"), "there is a round, and 1000 to 536870912 records"),
            (("--seed", "1"), "disk has no option \"--seed\""),
        ] {
            assert_eq!(parse(&[pair]), Err(error.to_owned()));
        }
    }
}
