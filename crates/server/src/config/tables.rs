//! `[[table]]` of the configuration file: tables beside the default one, each for the keys with its
//! prefix.
//!
//! What a table is made by is a [`Config`] of its own ([`Config::of_table`]).

mod check;
mod keys;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use base::size::ByteSize;
use cache::PolicyKind;

use super::{
    Admission, Config, TableKind, Value, WriteMode,
    value::{deserialize, quoted},
};
pub use keys::{IntegerKeys, KeyKind, KeyRange, PositionBytes};

/// Most tables, the default one included: each has memory and, with a log, two threads of its own.
pub const TABLES_MAX: usize = 64;

/// The name of the table that the settings outside of all sections describe.
pub const DEFAULT_TABLE: &str = "default";

/// Where tables lie in `data_dir` that say nothing else: each in a directory of its name.
const HOME: &str = "tables";

macro_rules! table_settings {
    ($(
        $(#[doc = $help:literal])+
        $name:ident: $type:ty = $default:expr;
    )+) => {
        /// A table beside the default one.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct TableConfig {
            $($(#[doc = $help])+ pub $name: $type,)+
            /// What its section says.
            said: Vec<&'static str>,
        }

        /// What a section says.
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct TableValues {
            $(#[serde(default, deserialize_with = "deserialize")] $name: Option<$type>,)+
        }

        impl TableValues {
            /// The table that results.
            pub(super) fn table(self) -> TableConfig {
                let mut said = Vec::new();
                $(let $name = match self.$name {
                    Some(value) => {
                        said.push(stringify!($name));
                        value
                    }
                    None => $default,
                };)+
                TableConfig { $($name,)+ said }
            }
        }

        impl TableConfig {
            /// Its settings as TOML values, in order.
            fn to_toml(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.write()),)+]
            }
        }
    };
}

table_settings! {
    /// What it is called, in `stats` and on the disk: 1 to 32 of a-z, 0-9, `-` and `_`.
    name: String = String::new();
    /// What its keys begin with.
    prefix: String = String::new();
    /// What becomes of its records, as `table_kind`.
    kind: TableKind = TableKind::Auto;
    /// Memory for its records, their index, and the chunks and index of its log: beside that of the
    /// server and of other tables.
    memory: ByteSize = ByteSize(64 << 20);
    /// Longest value, as `value_size_max`.
    value_size_max: ByteSize = ByteSize(1 << 20);
    /// Which record goes when its memory is full.
    policy: PolicyKind = PolicyKind::Htr;
    /// What its keys are behind the prefix: `bytes`, or `integer`.
    keys: KeyKind = KeyKind::Bytes;
    /// Integers that are keys: the first, and the first behind.
    range: KeyRange = KeyRange::NONE;
    /// Bytes of a position in the index of integers, 4 to 8.
    position_bytes: PositionBytes = PositionBytes::default();
    /// Its directory, in `data_dir` unless it begins with `/`; empty for one of its name.
    directory: Option<PathBuf> = None;
    /// When a write to it is answered, as `write_mode`.
    write_mode: WriteMode = WriteMode::Safe;
    /// Whether it may be flushed, as `flush_durable`.
    flush_durable: bool = false;
    /// Most that it takes of the disk, as `spill_size`.
    spill_size: ByteSize = ByteSize(1 << 30);
    /// Which records it writes, as `spill_admission`.
    spill_admission: Admission = Admission::All;
    /// Whether it begins with what it has written before, as `spill_recover`.
    spill_recover: bool = false;
}

impl TableConfig {
    /// Whether its section says this.
    fn says(&self, name: &str) -> bool {
        self.said.contains(&name)
    }

    /// Whether it has a log.
    #[must_use]
    pub fn has_log(&self) -> bool {
        matches!(self.kind, TableKind::Durable | TableKind::Spill)
    }

    /// Where its log lies in a server with this `data_dir`. `None` if it has none, or nobody says
    /// where.
    #[must_use]
    pub fn log_directory(&self, data_dir: Option<&Path>) -> Option<PathBuf> {
        if !self.has_log() {
            return None;
        }
        match (&self.directory, data_dir) {
            (Some(path), _) if path.is_absolute() => Some(path.clone()),
            (Some(path), Some(home)) => Some(home.join(path)),
            (None, Some(home)) => Some(home.join(HOME).join(&self.name)),
            (_, None) => None,
        }
    }

    /// The integers that are its keys, if that is what its keys are.
    #[must_use]
    pub fn integers(&self) -> Option<IntegerKeys> {
        let Self { range, position_bytes, .. } = *self;
        (self.keys == KeyKind::Integer).then_some(IntegerKeys { range, position_bytes })
    }

    /// The section that has the same effect.
    pub(super) fn section(&self) -> String {
        let lines = self.to_toml().into_iter();
        let line = |(name, value): (&str, String)| match self.says(name) {
            true => format!("{name} = {value}\n"),
            false => format!("{name} = {value}  # default\n"),
        };
        // What there is only of some kinds is said only there.
        let is_shown = |(name, _): &(&str, String)| self.has(name) || self.says(name);
        let lines: String = lines.filter(is_shown).map(line).collect();
        format!("\n[[table]]\n{lines}")
    }

    /// Whether a table of its kind has such a setting.
    fn has(&self, name: &str) -> bool {
        match name {
            "directory" => self.has_log(),
            "write_mode" => match self.kind {
                TableKind::Durable => true,
                TableKind::Spill => self.spill_recover,
                TableKind::Auto | TableKind::Volatile => false,
            },
            "spill_size" | "spill_admission" | "spill_recover" => self.kind == TableKind::Spill,
            "keys" | "flush_durable" => self.kind == TableKind::Durable,
            "range" | "position_bytes" => self.keys == KeyKind::Integer,
            _ => true,
        }
    }
}

impl Config {
    /// The settings by which a table beside the default one is made: those of a server that has
    /// nothing else.
    #[must_use]
    pub fn of_table(&self, table: &TableConfig) -> Self {
        Self {
            memory: table.memory,
            // Only the memory of the default table is changed while serving.
            memory_max: table.memory,
            value_size_max: table.value_size_max,
            policy: table.policy,
            data_dir: table.log_directory(self.data_dir.as_deref()),
            table_kind: table.kind,
            write_mode: table.write_mode,
            flush_durable: table.flush_durable,
            spill_size: table.spill_size,
            spill_admission: table.spill_admission,
            spill_recover: table.spill_recover,
            tables: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether the default table has a log.
    #[must_use]
    pub fn has_log(&self) -> bool {
        self.data_dir.is_some() && self.table_kind != TableKind::Volatile
    }

    /// Tables that have a log.
    #[must_use]
    pub fn logs(&self) -> usize {
        let named = self.tables.iter().filter(|table| table.has_log()).count();
        named + usize::from(self.has_log())
    }
}

impl Value for String {
    fn read(texts: &[String]) -> Result<Self, String> {
        super::value::single(texts).map(str::to_owned)
    }

    fn write(&self) -> String {
        quoted(self)
    }
}
