//! What passes gave, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Plan, SweepOutcome, Swept};
use crate::{
    report::{
        LETTERS, counts_json, device_json, error_text, latency_json, rate_of, share, us_per_reply,
    },
    workload::Pass,
};

const BYTES_PER_MIB: f64 = 1_048_576.0;

/// The number of this format: it changes when a field goes or changes its meaning.
const FORMAT: u32 = 1;

/// A line for each pass and server.
#[must_use]
pub fn sweep_table(plan: &Plan, outcome: &SweepOutcome) -> String {
    let mut out = String::new();
    write_table(plan, outcome, &mut out).expect("a string takes everything");
    out
}

fn write_table(plan: &Plan, outcome: &SweepOutcome, out: &mut String) -> std::fmt::Result {
    for (letter, server) in LETTERS.iter().zip(&outcome.servers) {
        writeln!(out, "{letter}: {}, version {}", server.address, server.version)?;
    }
    let shape = plan.shapes[0];
    writeln!(
        out,
        "{} keys once in each pass, values of {}, {} connections x {}, {} protocol, seed {}\n\n\
         {:>6} {:>5} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9} {:>7}",
        plan.keys,
        plan.value_sizes,
        shape.connections,
        shape.depth,
        plan.protocol,
        plan.seed,
        "server",
        "pass",
        "requests/s",
        "MiB/s",
        "found",
        "missed",
        "stored",
        "refused",
        "wrong",
        "stale",
        "p50 us",
        "p95 us",
        "p99 us",
        "CPU us",
    )?;
    for swept in &outcome.passes {
        let (counts, all) = (swept.tally.counts, swept.tally.all());
        let us = |at: f64| all.value_at_quantile(at) / 1000;
        let dash = || "-".to_owned();
        let rate = rate_per_s(swept);
        writeln!(
            out,
            "{:>6} {:>5} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9} {:>7}",
            LETTERS[swept.server],
            swept.pass,
            rate.map_or_else(dash, |rate| format!("{rate:.0}")),
            rate.map_or_else(dash, |rate| {
                format!("{:.1}", rate * plan.value_sizes.mean() / BYTES_PER_MIB)
            }),
            counts.hits + counts.kept,
            counts.misses,
            counts.stored,
            counts.refused,
            counts.wrong,
            counts.stale,
            us(0.5),
            us(0.95),
            us(0.99),
            server_us(swept).map_or_else(dash, |us| format!("{us:.2}")),
        )?;
    }
    for swept in &outcome.passes {
        let letter = LETTERS[swept.server];
        swept.tally.samples.iter().try_for_each(|it| writeln!(out, "{letter}: {it}"))?;
    }
    if outcome.is_interrupted {
        writeln!(out, "Interrupted: the figures are of what was asked until then.")?;
    }
    if outcome.faults() > 0 {
        writeln!(out, "FAILED: values were read that are not those that were written.")?;
    }
    Ok(())
}

fn rate_per_s(swept: &Swept) -> Option<f64> {
    swept.figures.as_ref().map(rate_of)
}

fn server_us(swept: &Swept) -> Option<f64> {
    let figures = swept.figures?;
    Some(us_per_reply(figures.server?, &figures))
}

/// Everything as JSON. Names carry their units.
#[must_use]
pub fn sweep_json(plan: &Plan, outcome: &SweepOutcome) -> String {
    let pass = |swept: &Swept| -> Value {
        let kind = match swept.pass {
            Pass::Get => &swept.tally.gets,
            Pass::Set | Pass::Mend => &swept.tally.sets,
        };
        json!({
            "pass": swept.pass.to_string(),
            "server": LETTERS[swept.server],
            "span_ns": swept.figures.map(|figures| figures.span_ns),
            "rate_per_s": rate_per_s(swept),
            "server_cpu_us": server_us(swept),
            "generator_busy_share": swept.figures.map(|figures| {
                share(figures.generator.busiest_ns, figures.span_ns)
            }),
            "device": swept.figures.and_then(|figures| {
                Some(device_json(figures.device?, figures.span_ns))
            }),
            "latency_ns": latency_json(kind),
            "counts": counts_json(swept.tally.counts),
            "samples": swept.tally.samples,
        })
    };
    let servers = LETTERS.iter().zip(&outcome.servers).map(|(letter, server)| {
        json!({
            "name": letter,
            "address": server.address.to_string(),
            "version": server.version,
            "pid": server.process.as_ref().map(|process| process.pid),
        })
    });
    let report = json!({
        "format": FORMAT,
        "keys": plan.keys,
        "value_bytes": plan.value_sizes.to_string(),
        "value_bytes_mean": plan.value_sizes.mean(),
        "connections": plan.shapes[0].connections,
        "depth": plan.shapes[0].depth,
        "protocol": plan.protocol.to_string(),
        "seed": plan.seed,
        "servers": servers.collect::<Vec<_>>(),
        "passes": outcome.passes.iter().map(pass).collect::<Vec<_>>(),
        "faults": outcome.faults(),
        "interrupted": outcome.is_interrupted,
        "error": outcome.error.as_ref().map(error_text),
    });
    format!("{report:#}\n")
}
