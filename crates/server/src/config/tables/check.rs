//! What sections of tables must be, alone and together.

use std::path::{Component, Path, PathBuf};

use base::size::ByteSize;
use wire::memcached::limits::KEY_LEN_MAX;

use super::{DEFAULT_TABLE, KeyKind, TABLES_MAX, TableConfig};
use crate::{
    Error,
    config::{Budget, Config, Effective, TableKind, check},
};

/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 32;

impl Effective {
    /// Looks for tables that cannot work.
    pub(in crate::config) fn check_tables(&self) -> Result<(), Error> {
        let config = self.config();
        if config.tables.len() >= TABLES_MAX {
            let message = format!("more than {TABLES_MAX} tables, the default one included");
            return Err(self.wrong_table("", message));
        }
        for (at, table) in config.tables.iter().enumerate() {
            let before = &config.tables[..at];
            let wrong = |message: String| self.wrong_table(&table.name, message);
            check_name(table, before).map_err(wrong)?;
            check_prefix(table, before).map_err(wrong)?;
            check_kind(table).map_err(wrong)?;
            check_place(config, table, before).map_err(wrong)?;
            check_sizes(config, table).map_err(wrong)?;
        }
        Ok(())
    }

    fn wrong_table(&self, name: &str, message: String) -> Error {
        let place = self.tables_from().map(|path| format!(", file {}", path.display()));
        let name = if name.is_empty() { String::new() } else { format!(" `{name}`") };
        let origin = format!("table{name}{}", place.unwrap_or_default());
        Error::Setting { origin, message }
    }
}

fn check_name(table: &TableConfig, before: &[TableConfig]) -> Result<(), String> {
    let name = &table.name;
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    if name.is_empty() {
        return Err("it has no `name`".to_owned());
    }
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
        return Err(format!("a name has 1 to {NAME_BYTES_MAX} of a-z, 0-9, - and _"));
    }
    if name == DEFAULT_TABLE {
        return Err("the settings outside of [[table]] are those of the default table".to_owned());
    }
    if before.iter().any(|other| other.name == *name) {
        return Err("there are two tables of this name".to_owned());
    }
    Ok(())
}

fn check_prefix(table: &TableConfig, before: &[TableConfig]) -> Result<(), String> {
    let prefix = &table.prefix;
    if prefix.is_empty() {
        return Err("it has no `prefix`: keys without one are the default table's".to_owned());
    }
    if prefix.len() >= KEY_LEN_MAX {
        return Err(format!("`prefix`: no key of {KEY_LEN_MAX} bytes has more behind it"));
    }
    if prefix.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err("`prefix`: no key has blanks or control characters".to_owned());
    }
    match before.iter().find(|other| other.prefix == *prefix) {
        Some(other) => Err(format!("`prefix`: `{prefix}` is that of the table `{}`", other.name)),
        None => Ok(()),
    }
}

fn check_kind(table: &TableConfig) -> Result<(), String> {
    if table.kind == TableKind::Auto {
        return Err("`kind` is one of volatile, spill, durable".to_owned());
    }
    if table.keys == KeyKind::Integer && table.kind != TableKind::Durable {
        return Err("`keys`: only a durable table has integers for keys".to_owned());
    }
    let foreign = table.said.iter().find(|name| !table.has(name) && **name != "keys");
    if let Some(name) = foreign {
        let what = match *name {
            "range" | "position_bytes" => "a table whose keys are bytes".to_owned(),
            "write_mode" if table.kind == TableKind::Spill => {
                "a table that spills and does not recover".to_owned()
            }
            _ => format!("a table of the kind {}", table.kind),
        };
        return Err(format!("`{name}`: {what} has no such setting"));
    }
    if table.keys == KeyKind::Integer && !table.range.is_possible() {
        let message = "`range` has the first key and the first behind: up to 2^36 keys";
        return Err(message.to_owned());
    }
    Ok(())
}

/// Its directory is its own.
fn check_place(config: &Config, table: &TableConfig, before: &[TableConfig]) -> Result<(), String> {
    if !table.has_log() {
        return Ok(());
    }
    let has_parent = |path: &Path| path.components().any(|it| it == Component::ParentDir);
    if table.directory.as_deref().is_some_and(has_parent) {
        return Err("`directory`: it has no `..`".to_owned());
    }
    let home = config.data_dir.as_deref();
    let Some(path) = table.log_directory(home) else {
        return Err("it has a log: that needs a `directory` from `/` on, or `data_dir`".to_owned());
    };
    let path = plain(&path);
    let is_taken = |other: Option<PathBuf>| other.is_some_and(|other| plain(&other) == path);
    let with = match before.iter().find(|other| is_taken(other.log_directory(home))) {
        Some(other) => format!("the table `{}`", other.name),
        None if config.has_log() && is_taken(config.data_dir.clone()) => "`data_dir`".to_owned(),
        None => return Ok(()),
    };
    Err(format!("`directory`: {} is that of {with}", path.display()))
}

/// The same path without what makes no difference.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

fn check_sizes(config: &Config, table: &TableConfig) -> Result<(), String> {
    let own = config.of_table(table);
    if own.spills() && !check::SPILL_SIZES.contains(&own.spill_size) {
        let (least, most) = (check::SPILL_SIZES.start(), check::SPILL_SIZES.end());
        return Err(format!("`spill_size` must be from {least} to {most}"));
    }
    let budget = Budget::of_table(&own, own.threads()).map_err(|error| match error {
        Error::Memory { left, least, log, .. } => {
            let log = log.trim_start_matches(", ");
            let takes = if log.is_empty() { String::new() } else { format!("{log}, which ") };
            let memory = table.memory;
            let least = format!("at least {least} are needed");
            format!("`memory` {memory}: {takes}leaves {left} for records; {least}")
        }
        error => error.to_string(),
    })?;
    let size = table.value_size_max;
    let most = match table.kind {
        TableKind::Durable => ByteSize(cache::VALUE_SIZE_MAX_LIMIT_BYTES),
        _ => check::GATHERED_VALUE_SIZE_MAX
            .min(ByteSize(budget.record_bytes / check::VALUE_SHARE_DIVISOR)),
    };
    let least = ByteSize(check::VALUE_SIZE_MAX_LEAST_BYTES);
    if !(least..=most).contains(&size) {
        return Err(format!("`value_size_max` must be from {least} to {most}"));
    }
    Ok(())
}
