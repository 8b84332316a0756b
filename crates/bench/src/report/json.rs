//! What programs read.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::{
    figures::{
        Bound, Ratios, Summary, faults, generator_busy, generator_us, is_proven, rate_of,
        rate_per_s, server_busy, server_us, share, us_per_reply,
    },
    table::LETTERS,
};
use crate::{
    Error, Spread, Traffic,
    outcome::{Ceiling, Cell, Lap, Outcome, Side},
    plan::Plan,
    tally::{Counts, Kind, Tally},
    workload::Pace,
};

/// The number of this format: it changes when a field goes or changes its meaning.
const FORMAT: u32 = 2;

/// The quantiles of latencies.
const QUANTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
];

/// Everything as JSON. Names carry their units.
#[must_use]
pub fn json(plan: &Plan, outcome: &Outcome) -> String {
    let servers: Vec<Value> = outcome
        .servers
        .iter()
        .zip(LETTERS)
        .zip(&plan.servers)
        .map(|((server, letter), planned)| {
            json!({
                "name": letter,
                "verified": planned.verifies,
                "address": server.address.to_string(),
                "version": server.version,
                "pid": server.process.as_ref().map(|process| process.pid),
                "program": server.process.as_ref().map(|process| process.name.as_str()),
                "cpus": server.process.as_ref().map(|process| &process.cpus),
            })
        })
        .collect();
    let cells: Vec<Value> = outcome.cells.iter().map(|cell| cell_json(plan, cell)).collect();
    let report = json!({
        "format": FORMAT,
        "plan": plan_json(plan),
        "servers": servers,
        "loads": outcome.loads.iter().map(|load| counts_json(load.counts)).collect::<Vec<_>>(),
        "cells": cells,
        "faults": faults(outcome),
        "interrupted": outcome.is_interrupted,
        "error": outcome.error.as_ref().map(error_text),
    });
    format!("{report:#}\n")
}

/// An error with what led to it.
pub(crate) fn error_text(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn plan_json(plan: &Plan) -> Value {
    let (rate, is_poisson) = match plan.pace {
        Pace::Closed => (None, None),
        Pace::Open { rate, is_poisson } => (Some(rate), Some(is_poisson)),
    };
    json!({
        "protocol": plan.protocol.to_string(),
        "keys": plan.keys,
        "popularity": plan.popularity.to_string(),
        "key_bytes": plan.key_sizes.to_string(),
        "value_bytes": plan.value_sizes.to_string(),
        "gets_share": plan.gets,
        "open_rate_per_s": rate,
        "open_poisson": is_poisson,
        "threads": plan.threads,
        "cpus": plan.cpus,
        "spins": plan.spins,
        "rounds": plan.rounds,
        "warm_up_s": plan.warm_up.as_secs_f64(),
        "duration_s": plan.duration.as_secs_f64(),
        "seed": plan.seed,
    })
}

fn cell_json(plan: &Plan, cell: &Cell) -> Value {
    let ceiling = cell.ceiling.map(|Ceiling(figures)| {
        json!({
            "rate_per_s": rate_of(&figures),
            "generator_cpu_us": us_per_reply(figures.generator, &figures),
            "generator_busy_share": share(figures.generator.busiest_ns, figures.span_ns),
            "responder_cpu_us": figures.server.map(|used| us_per_reply(used, &figures)),
            "responder_busy_share":
                figures.server.map(|used| share(used.busiest_ns, figures.span_ns)),
        })
    });
    let ratios = Ratios::of(plan, cell).into_iter().map(|ratios| {
        json!({
            "to": LETTERS[ratios.other],
            "server_cpu_times_less": spread_json(ratios.server_us_less),
            "rate": spread_json(ratios.rate),
            "rate_bound": ratios.rate_bound.map(|bound| match bound {
                Bound::Exact => "exact",
                Bound::AtLeast => "at least",
                Bound::AtMost => "at most",
            }),
            "p50": spread_json(ratios.p50),
            "p99": spread_json(ratios.p99),
            "latencies_comparable": ratios.has_latencies,
        })
    });
    json!({
        "connections": cell.shape.connections,
        "depth": cell.shape.depth,
        "proven": cell.sides.iter().all(|side| is_proven(plan, side)),
        "ceiling": ceiling,
        "sides": cell.sides.iter().map(|side| side_json(plan, side)).collect::<Vec<_>>(),
        "ratios": ratios.collect::<Vec<_>>(),
    })
}

fn side_json(plan: &Plan, side: &Side) -> Value {
    let Tally { counts, gets, sets, lateness, unsent, samples, .. } = &side.tally;
    let summary = Summary::of(side).map(|summary| {
        json!({
            "rate_per_s": spread_json(Some(summary.rate_per_s)),
            "server_cpu_us": spread_json(summary.server_us),
            "server_busy_share_min": summary.server_busy,
            "generator_cpu_us": spread_json(Some(summary.generator_us)),
            "generator_busy_share_max": summary.generator_busy,
        })
    });
    json!({
        "proven": is_proven(plan, side),
        "summary": summary,
        "latency_ns": {
            "all": latency_json(&side.tally.all()),
            "get": latency_json(gets),
            "set": latency_json(sets),
        },
        "generator_late_ns": latency_json(lateness),
        "counts": counts_json(*counts),
        "unsent": unsent,
        "samples": samples,
        "rounds": side.rounds.iter().map(lap_json).collect::<Vec<_>>(),
    })
}

fn lap_json(lap: &Lap) -> Value {
    json!({
        "replies": lap.figures.replies,
        "span_ns": lap.figures.span_ns,
        "rate_per_s": rate_per_s(lap),
        "server_cpu_us": server_us(lap),
        "server_busy_share": server_busy(lap),
        "generator_cpu_us": generator_us(lap),
        "generator_busy_share": generator_busy(lap),
        "p50_ns": lap.p50_ns,
        "p99_ns": lap.p99_ns,
        "device": lap.figures.device.map(|device| device_json(device, lap.figures.span_ns)),
    })
}

/// What the disk did in a span.
pub(crate) fn device_json(device: Traffic, span_ns: u64) -> Value {
    json!({
        "reads": device.reads,
        "read_bytes": device.read_bytes,
        "read_depth_mean": share(device.read_ms * 1_000_000, span_ns),
        "writes": device.writes,
        "write_bytes": device.write_bytes,
        "write_depth_mean": share(device.write_ms * 1_000_000, span_ns),
    })
}

pub(crate) fn counts_json(counts: Counts) -> Value {
    json!({
        "hits": counts.hits,
        "misses": counts.misses,
        "stored": counts.stored,
        "kept": counts.kept,
        "refused": counts.refused,
        "wrong": counts.wrong,
        "stale": counts.stale,
        "unjudged": counts.unjudged,
    })
}

fn spread_json(spread: Option<Spread>) -> Value {
    spread.map_or(
        Value::Null,
        |Spread { median, min, max }| json!({ "median": median, "min": min, "max": max }),
    )
}

pub(crate) fn latency_json(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return json!({ "count": 0 });
    }
    let mut object = json!({
        "count": histogram.len(),
        "mean": histogram.mean(),
        "min": histogram.min(),
        "max": histogram.max(),
    });
    for (name, at) in QUANTILES {
        object[name] = histogram.value_at_quantile(at).into();
    }
    object
}

/// Every recorded latency, one a line, as comma-separated values.
#[must_use]
pub fn recording(outcome: &Outcome) -> String {
    let mut out = String::from("connections,depth,server,kind,due_ns,latency_ns\n");
    for cell in &outcome.cells {
        let shape = cell.shape;
        for (letter, side) in LETTERS.iter().zip(&cell.sides) {
            for raw in &side.tally.raw {
                let kind = if raw.kind == Kind::Get { "get" } else { "set" };
                let _ = writeln!(
                    out,
                    "{},{},{letter},{kind},{},{}",
                    shape.connections, shape.depth, raw.due_ns, raw.latency_ns
                );
            }
        }
    }
    out
}
