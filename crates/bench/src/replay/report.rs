//! What a replay gave, for people and for programs.

use std::fmt::Write as _;

use base::size::ByteSize;
use serde_json::{Value, json};

use super::{ReplayOutcome, ReplayPlan, ReplaySide, SIZES};
use crate::report::LETTERS;

/// The number of this format: it changes when a field goes or changes its meaning.
const FORMAT: u32 = 1;

/// Hits and misses of each server, with what it holds of memory.
#[must_use]
pub fn replay_table(plan: &ReplayPlan, outcome: &ReplayOutcome) -> String {
    let mut out = String::new();
    for (letter, side) in LETTERS.iter().zip(&outcome.sides) {
        let process = side.server.process.as_ref();
        let process = process.map_or("unknown".to_owned(), |found| found.pid.to_string());
        let _ = writeln!(
            out,
            "{letter}: {}, version {}, process {process}",
            side.server.address, side.server.version
        );
    }
    let _ = writeln!(
        out,
        "{}, {} copies: {} requests of {} keys, {} bytes of keys and values; {SIZES}, seed {}\n\n\
         {:>6}  {:>12}  {:>12}  {:>7}  {:>10}  {:>14}  {:>14}  {:>10}",
        outcome.trace,
        plan.copies,
        outcome.requests,
        outcome.keys,
        outcome.record_bytes,
        plan.seed,
        "server",
        "hits",
        "misses",
        "hits %",
        "refused",
        "resident at 0",
        "resident",
        "requests/s",
    );
    for (letter, side) in LETTERS.iter().zip(&outcome.sides) {
        row(&mut out, letter, side);
    }
    for (letter, side) in LETTERS.iter().zip(&outcome.sides) {
        for sample in &side.samples {
            let _ = writeln!(out, "{letter}: {sample}");
        }
    }
    if outcome.is_interrupted {
        out.push_str("Interrupted: the figures are of what was replayed until then.\n");
    }
    if outcome.sides.iter().any(|side| side.counts.wrong > 0) {
        out.push_str("FAILED: values were read that are not those that were written.\n");
    }
    out
}

fn row(out: &mut String, letter: &str, side: &ReplaySide) {
    let resident = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |b| ByteSize(b).to_string());
    let counts = side.counts;
    let _ = writeln!(
        out,
        "{letter:>6}  {:>12}  {:>12}  {:>7.3}  {:>10}  {:>14}  {:>14}  {:>10.0}",
        counts.hits,
        counts.misses,
        100.0 * hit_ratio(side),
        counts.refused,
        resident(side.resident_bytes.map(|(before, _)| before)),
        resident(side.resident_bytes.map(|(_, after)| after)),
        crate::run::per_second(counts.hits + counts.misses, side.elapsed_ns),
    );
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn hit_ratio(side: &ReplaySide) -> f64 {
    let gets = side.counts.hits + side.counts.misses;
    side.counts.hits as f64 / gets.max(1) as f64
}

/// Everything as JSON. Names carry their units.
#[must_use]
pub fn replay_json(plan: &ReplayPlan, outcome: &ReplayOutcome) -> String {
    let side = |(letter, side): (&&str, &ReplaySide)| -> Value {
        json!({
            "name": letter,
            "address": side.server.address.to_string(),
            "version": side.server.version,
            "pid": side.server.process.as_ref().map(|process| process.pid),
            "hits": side.counts.hits,
            "misses": side.counts.misses,
            "hit_ratio": hit_ratio(side),
            "refused": side.counts.refused,
            "wrong": side.counts.wrong,
            "resident_before_bytes": side.resident_bytes.map(|(before, _)| before),
            "resident_bytes": side.resident_bytes.map(|(_, after)| after),
            "elapsed_ns": side.elapsed_ns,
        })
    };
    let report = json!({
        "format": FORMAT,
        "trace": outcome.trace,
        "copies": plan.copies,
        "requests": outcome.requests,
        "keys": outcome.keys,
        "record_bytes": outcome.record_bytes,
        "value_sizes": SIZES.to_string(),
        "seed": plan.seed,
        "servers": LETTERS.iter().zip(&outcome.sides).map(side).collect::<Vec<_>>(),
        "interrupted": outcome.is_interrupted,
    });
    format!("{report:#}\n")
}
