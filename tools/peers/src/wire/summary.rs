//! The figures of all blocks as Markdown, from what `kelvin bench --json` wrote.
//!
//! Each cell stands there three times: CPU time per request; requests a second with how busy both
//! ends were; latency where all were offered the same.

use std::fmt::Write;

use serde_json::Value;

use crate::server::Kind;

/// One block's run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) name: &'static str,
    /// In the order of the run; the first is the subject.
    pub(super) servers: Vec<Kind>,
    pub(super) json: Value,
}

/// The median of some ratios and how far they lie apart; written as it is read.
#[derive(Debug, PartialEq)]
struct Ratio {
    median: f64,
    least: f64,
    most: f64,
}

impl Ratio {
    /// Round by round.
    fn of(over: &[f64], under: &[f64]) -> Option<Self> {
        let mut all: Vec<f64> = over.iter().zip(under).map(|(over, under)| over / under).collect();
        all.sort_by(f64::total_cmp);
        let (least, most) = (*all.first()?, *all.last()?);
        let middle = all.len() / 2;
        let median = if all.len() % 2 == 1 {
            all[middle]
        } else {
            f64::midpoint(all[middle - 1], all[middle])
        };
        Some(Self { median, least, most })
    }

    fn text(&self) -> String {
        format!("{:.2} ({:.2} to {:.2})", self.median, self.least, self.most)
    }
}

/// Everything.
pub(super) fn markdown(runs: &[Run]) -> String {
    let mut out = String::new();
    cpu_time(runs, &mut out).expect("a string takes everything");
    throughput(runs, &mut out).expect("a string takes everything");
    latency(runs, &mut out).expect("a string takes everything");
    out
}

fn cpu_time(runs: &[Run], out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "CPU time of the server per request in microseconds, median of the rounds. X / Y: median \
         of the rounds' ratios (least to most). X / bare: how many times less than X any server \
         could need.\n"
    )?;
    writeln!(out, "| block | connections x depth | server | us | X / Kelvin | X / bare |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for (run, cell) in cells(runs) {
        let us = |side: &Value| rounds(side, "server_cpu_us");
        let sides = sides(cell);
        let at = |kind| run.servers.iter().position(|known| *known == kind);
        for (kind, side) in run.servers.iter().zip(sides) {
            let to = |other: Kind| {
                let other = sides.get(at(other).filter(|_| *kind != other)?)?;
                Some(Ratio::of(&us(side), &us(other))?.text())
            };
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} |",
                run.name,
                shape(cell),
                kind.name(),
                number(&side["summary"]["server_cpu_us"]["median"], 1.0, 3),
                to(Kind::Kelvin).unwrap_or_default(),
                to(Kind::Bare).unwrap_or_default(),
            )?;
        }
    }
    Ok(())
}

fn throughput(runs: &[Run], out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\nRequests a second in a closed loop; in parentheses where the server was not seen to be \
         the limit. Ceiling: the generator against a responder that does nothing.\n"
    )?;
    writeln!(
        out,
        "| block | connections x depth | server | requests/s | server busy % | generator busy % | \
         ceiling | Kelvin / X |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for (run, cell) in cells(runs).filter(|(run, _)| !is_open(run)) {
        for (number_of, (kind, side)) in run.servers.iter().zip(sides(cell)).enumerate() {
            let summary = &side["summary"];
            let rate = number(&summary["rate_per_s"]["median"], 1.0, 0);
            let ratio = number_of.checked_sub(1).map(|other| &cell["ratios"][other]);
            let ratio = ratio.and_then(|ratio| {
                let bound = ratio["rate_bound"].as_str()?;
                let text = spread(&ratio["rate"])?.text();
                Some(if bound == "exact" { text } else { format!("{bound} {text}") })
            });
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                run.name,
                shape(cell),
                kind.name(),
                if side["proven"] == true { rate } else { format!("({rate})") },
                number(&summary["server_busy_share_min"], 100.0, 1),
                number(&summary["generator_busy_share_max"], 100.0, 1),
                number(&cell["ceiling"]["rate_per_s"], 1.0, 0),
                ratio.unwrap_or_default(),
            )?;
        }
    }
    Ok(())
}

fn latency(runs: &[Run], out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\nLatency in microseconds where all servers are offered the same load at the same times; \
         in parentheses where the generator was too busy to tell.\n"
    )?;
    writeln!(
        out,
        "| connections | requests/s | server | p50 | p99 | p99.9 | not sent | generator busy % | \
         p50, Kelvin / X | p99, Kelvin / X |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for (run, cell) in cells(runs).filter(|(run, _)| is_open(run)) {
        for (number_of, (kind, side)) in run.servers.iter().zip(sides(cell)).enumerate() {
            let shown = |name: &str| {
                let text = number(&side["latency_ns"]["all"][name], 1e-3, 1);
                if side["proven"] == true { text } else { format!("({text})") }
            };
            let ratio = number_of.checked_sub(1).map(|other| &cell["ratios"][other]);
            let ratio = |name: &str| {
                let ratio = ratio.filter(|ratio| ratio["latencies_comparable"] == true)?;
                Some(spread(&ratio[name])?.text())
            };
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                cell["connections"],
                number(&run.json["plan"]["open_rate_per_s"], 1.0, 0),
                kind.name(),
                shown("p50"),
                shown("p99"),
                shown("p99.9"),
                side["unsent"],
                number(&side["summary"]["generator_busy_share_max"], 100.0, 1),
                ratio("p50").unwrap_or_default(),
                ratio("p99").unwrap_or_default(),
            )?;
        }
    }
    Ok(())
}

fn cells(runs: &[Run]) -> impl Iterator<Item = (&Run, &Value)> {
    runs.iter().flat_map(|run| list(&run.json["cells"]).iter().map(move |cell| (run, cell)))
}

fn sides(cell: &Value) -> &[Value] {
    list(&cell["sides"])
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn is_open(run: &Run) -> bool {
    run.json["plan"]["open_rate_per_s"].is_number()
}

fn shape(cell: &Value) -> String {
    format!("{} x {}", cell["connections"], cell["depth"])
}

/// A figure of each round.
fn rounds(side: &Value, name: &str) -> Vec<f64> {
    list(&side["rounds"]).iter().filter_map(|round| round[name].as_f64()).collect()
}

fn spread(value: &Value) -> Option<Ratio> {
    let at = |name: &str| value[name].as_f64();
    Some(Ratio { median: at("median")?, least: at("min")?, most: at("max")? })
}

fn number(value: &Value, times: f64, digits: usize) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |number| format!("{:.digits$}", number * times))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Kind, Ratio, Run, markdown};

    #[test]
    fn ratios_are_those_of_rounds() {
        let expected = Ratio { median: 2.0, least: 1.5, most: 4.0 };
        assert_eq!(Ratio::of(&[4.0, 3.0, 8.0], &[2.0, 2.0, 2.0]), Some(expected));
        let even = Ratio::of(&[4.0, 3.0], &[2.0, 2.0]).expect("two rounds");
        assert_eq!((even.median, Ratio::of(&[], &[])), (1.75, None));
    }

    #[test]
    fn every_server_has_a_row_and_its_ratios() {
        let side = |us: f64, proven: bool| {
            json!({
                "proven": proven,
                "summary": {
                    "server_cpu_us": { "median": us },
                    "rate_per_s": { "median": 1e6 / us },
                    "server_busy_share_min": 0.99,
                    "generator_busy_share_max": 0.5,
                },
                "latency_ns": { "all": { "p50": 1500, "p99": 2500, "p99.9": 3500 } },
                "unsent": 7,
                "rounds": [{ "server_cpu_us": us }, { "server_cpu_us": us }],
            })
        };
        let spread = json!({ "median": 1.5, "min": 1.25, "max": 2.0 });
        let ratio = |bound: &str| {
            json!({
                "rate": spread, "rate_bound": bound, "p50": spread, "p99": spread,
                "latencies_comparable": bound == "exact",
            })
        };
        let run = |rate: Option<f64>| Run {
            name: "tcp",
            servers: vec![Kind::Kelvin, Kind::Memcached, Kind::Bare],
            json: json!({
                "plan": { "open_rate_per_s": rate },
                "cells": [{
                    "connections": 16,
                    "depth": 1,
                    "ceiling": { "rate_per_s": 200_000.4 },
                    "sides": [side(2.0, false), side(3.0, true), side(1.0, true)],
                    "ratios": [ratio("at least"), ratio("exact")],
                }],
            }),
        };
        let text = markdown(&[run(None), run(Some(40_000.0))]);
        for row in [
            "| tcp | 16 x 1 | Kelvin | 2.000 |  | 2.00 (2.00 to 2.00) |",
            "| tcp | 16 x 1 | memcached | 3.000 | 1.50 (1.50 to 1.50) | 3.00 (3.00 to 3.00) |",
            "| tcp | 16 x 1 | bare | 1.000 | 0.50 (0.50 to 0.50) |  |",
            "| tcp | 16 x 1 | Kelvin | (500000) | 99.0 | 50.0 | 200000 |  |",
            "| tcp | 16 x 1 | memcached | 333333 | 99.0 | 50.0 | 200000 | at least 1.50 (1.25 to \
             2.00) |",
            "| tcp | 16 x 1 | bare | 1000000 | 99.0 | 50.0 | 200000 | 1.50 (1.25 to 2.00) |",
            "| 16 | 40000 | Kelvin | (1.5) | (2.5) | (3.5) | 7 | 50.0 |  |  |",
            "| 16 | 40000 | memcached | 1.5 | 2.5 | 3.5 | 7 | 50.0 |  |  |",
            "| 16 | 40000 | bare | 1.5 | 2.5 | 3.5 | 7 | 50.0 | 1.50 (1.25 to 2.00) | 1.50 (1.25 \
             to 2.00) |",
        ] {
            assert!(text.lines().any(|line| line == row), "{row}\n{text}");
        }
    }
}
