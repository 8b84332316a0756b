//! Rules on plain text: ASCII, width, marks of unfinished work, names of foreign places.

use super::Finding;

/// Columns of a line of source. Documents are exempt: their tables cannot be folded.
const LINE_COLUMNS_MAX: usize = 100;

/// Marks of unfinished work. Written in two halves, or this file would find itself.
const MARKS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Places outside the repository that its text must not depend on.
const PLACES: [&str; 5] = [
    concat!("/wo", "rk"),
    concat!("../sha", "red"),
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("proxy.golang", ".org"),
];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut report = |message: String| findings.push(Finding::new(path, number, message));
        if let Some(strange) = line.chars().find(|c| !matches!(c, ' '..='~' | '\t')) {
            report(format!("`{}` is not printable ASCII", strange.escape_unicode()));
        }
        let columns = line.chars().count();
        if columns > LINE_COLUMNS_MAX && !path.ends_with(".md") {
            report(format!("line has {columns} columns, at most {LINE_COLUMNS_MAX}"));
        }
        if line.ends_with([' ', '\t']) && !path.ends_with(".md") {
            report("line ends with a space".to_owned());
        }
        for found in MARKS.iter().filter(|mark| has_word(line, mark)) {
            report(format!("`{found}`: finish it, or leave it out"));
        }
        for found in PLACES.iter().filter(|place| has_word(line, place)) {
            report(format!("`{found}`: the product names no such place"));
        }
    }
    findings
}

/// Whether `word` stands in `line` with no letter, digit or `_` on either side.
fn has_word(line: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(in_word) && !after.is_some_and(in_word)
    })
}
