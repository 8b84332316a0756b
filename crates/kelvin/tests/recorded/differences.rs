//! The table of differences: the scripts and `docs/memcached.md` must name the same rows.

use std::collections::BTreeSet;
use std::fs;

use crate::harness::repository;
use crate::script::Script;

/// The document may list no more than this: a drop-in that differs more is none.
const ROWS_MAX: usize = 12;
/// The cells of a row: id, command, memcached, kelvin, why.
const CELLS: usize = 5;

/// Asserts that the rows of the document are the ones that scripts show, each with a reason.
pub(crate) fn assert_documented(scripts: &[Script]) {
    let text = fs::read_to_string(repository().join("docs/memcached.md"))
        .expect("docs/memcached.md says where kelvin differs");
    let rows = rows(&text);
    assert!(rows.len() <= ROWS_MAX, "{} rows, at most {ROWS_MAX} are allowed", rows.len());
    for row in &rows {
        assert_eq!(row.len(), CELLS, "{row:?}");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?} has an empty cell");
    }
    let documented: BTreeSet<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(documented.len(), rows.len(), "two rows have one id");
    let shown: BTreeSet<&str> = scripts
        .iter()
        .flat_map(Script::bursts)
        .filter_map(|b| b.difference.as_ref().map(|(id, _)| id.as_str()))
        .collect();
    assert_eq!(documented, shown, "docs/memcached.md (left) and the scripts (right) differ");
}

/// The rows of the first table below the heading "Differences".
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .skip_while(|l| !(l.starts_with('#') && l.ends_with("Differences")))
        .skip_while(|l| !l.starts_with('|'))
        .take_while(|l| l.starts_with('|'))
        .skip(2)
        .map(|l| l.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}
