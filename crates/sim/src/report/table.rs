//! The table that people read.

use std::fmt::Write as _;

use base::size::ByteSize;

use super::comparison::{KEYS_MIN, comparisons};
use crate::{
    outcome::{Outcome, Replayed},
    plan::{Mode, Percent, Plan},
};

/// Width of a column of figures, and least width of the first column.
const COLUMN: usize = 9;
const FIRST_COLUMN: usize = 10;

/// Everything as text: of each trace the miss ratios, a row a policy and a column a size; then the
/// policies compared with LRU.
#[must_use]
pub fn table(plan: &Plan, outcome: &Outcome) -> String {
    let mut out = String::new();
    line(&mut out, &mode_text(plan));
    let names = plan.policies.iter().map(|policy| policy.to_string().len());
    let first = names.max().unwrap_or(0).max(FIRST_COLUMN);
    for trace in &outcome.traces {
        line(&mut out, "");
        rows(&mut out, plan, trace, first);
    }
    summary(&mut out, plan, outcome, first);
    if outcome.is_interrupted {
        line(&mut out, "Interrupted: what is shown was replayed to its end.");
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

fn mode_text(plan: &Plan) -> String {
    match plan.mode {
        Mode::Units { shards: 1 } => format!("units; seed {}", plan.seed),
        Mode::Units { shards } => format!("units in {shards} shards; seed {}", plan.seed),
        Mode::Whole { memory_min_bytes, writers } => format!(
            "whole cache laid out for {writers} writers, sizes of values {}, cells of at least {}; \
             seed {}",
            crate::whole::SIZES,
            ByteSize(memory_min_bytes),
            plan.seed
        ),
    }
}

fn rows(out: &mut String, plan: &Plan, trace: &Replayed, first: usize) {
    let bytes = trace.footprint_bytes.map_or(String::new(), |bytes| {
        format!(", {:.1} MiB", crate::outcome::ratio(bytes, 1 << 20))
    });
    line(
        out,
        &format!("{}: {} requests, {} keys{bytes}", trace.name, trace.requests, trace.footprint),
    );
    let row = |out: &mut String, name: &str, cell: &dyn Fn(Percent) -> String| {
        let mut text = format!("{name:<first$}");
        for percent in &plan.percents {
            let _ = write!(text, " {:>COLUMN$}", cell(*percent));
        }
        line(out, &text);
    };
    row(out, "size", &|percent| percent.to_string());
    let any = |percent: Percent| trace.rows.iter().find(|row| row.percent == percent);
    let none = || "-".to_owned();
    if trace.footprint_bytes.is_some() {
        row(out, "copies", &|percent| any(percent).map_or_else(none, |row| row.copies.to_string()));
        row(out, "MiB", &|percent| {
            any(percent).map_or_else(none, |row| {
                format!("{:.1}", crate::outcome::ratio(row.capacity, 1 << 20))
            })
        });
    } else {
        row(out, "keys", &|percent| any(percent).map_or_else(none, |row| row.capacity.to_string()));
    }
    for policy in &plan.policies {
        row(out, &policy.to_string(), &|percent| {
            let row = trace.row(*policy, percent);
            row.map_or_else(none, |row| format!("{:.4}", row.miss_ratio()))
        });
    }
    for refused in trace.rows.iter().filter(|row| row.refused > 0) {
        let (policy, percent, count) = (refused.policy, refused.percent, refused.refused);
        line(out, &format!("{policy} at {percent}: {count} values found no room"));
    }
}

fn summary(out: &mut String, plan: &Plan, outcome: &Outcome, first: usize) {
    let comparisons = comparisons(plan, outcome);
    let Some(cells) = comparisons.iter().map(|comparison| comparison.cells).max() else { return };
    line(out, "");
    line(
        out,
        &format!(
            "Misses compared with lru's, {cells} cells of at least {KEYS_MIN} keys, in percent:"
        ),
    );
    let head = ["fewer", "worst", "worse in", "misses"];
    let mut text = format!("{:<first$}", "policy");
    for title in head {
        let _ = write!(text, " {title:>COLUMN$}");
    }
    line(out, &text);
    for comparison in &comparisons {
        let mut text = format!("{:<first$}", comparison.policy.to_string());
        for percent in [comparison.fewer_misses, comparison.worst] {
            let _ = write!(text, " {:>COLUMN$.1}", percent * 100.0);
        }
        let _ = write!(text, " {:>COLUMN$} {:>COLUMN$.4}", comparison.worse, comparison.miss_ratio);
        line(out, &format!("{text}  {}", comparison.worst_cell));
    }
}
