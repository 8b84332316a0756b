//! What `kelvin bench` is told, and what it says.

use std::{fmt, fs, io, path::PathBuf, process::Command};

use serde_json::Value;

use super::{
    guest::{Guest, Kind},
    options::{Keys, Size, TiersOptions},
};

/// How long a server may leave a request unanswered.
const PATIENCE: &str = "60s";

/// Connections, and requests under way on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Shape {
    pub(super) connections: u32,
    pub(super) depth: u32,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.connections, self.depth)
    }
}

/// A window of gets.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Gets {
    /// Values a second. What is not found is no answer that could be compared.
    pub(super) found_per_s: f64,
    pub(super) found_share: f64,
    /// CPU time of the server for each request.
    pub(super) server_cpu_us: Option<f64>,
    pub(super) server_busy_share: Option<f64>,
    pub(super) generator_busy_share: f64,
    pub(super) p50_us: f64,
    pub(super) p95_us: f64,
    pub(super) p99_us: f64,
    /// Of the disk: reads for each get, the mean size of one, and how many were under way.
    pub(super) reads_a_get: Option<f64>,
    pub(super) reads_per_s: Option<f64>,
    pub(super) read_bytes: Option<f64>,
    pub(super) read_depth: Option<f64>,
}

/// A pass over all keys.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Swept {
    pub(super) per_s: f64,
    pub(super) server_cpu_us: Option<f64>,
    pub(super) p50_us: f64,
    pub(super) p95_us: f64,
    pub(super) p99_us: f64,
    /// Of gets.
    pub(super) found: u64,
    /// Of sets and adds.
    pub(super) stored: u64,
    pub(super) refused: u64,
    pub(super) samples: Vec<String>,
}

/// Runs `kelvin bench`.
pub(super) struct Asker<'a> {
    pub(super) kelvin: PathBuf,
    pub(super) place: PathBuf,
    pub(super) options: &'a TiersOptions,
}

impl Asker<'_> {
    /// Whether a server takes a value of a size, and gives it back.
    ///
    /// # Errors
    /// What it says if it does not.
    pub(super) fn probe(&self, guest: &Guest, size: Size) -> io::Result<()> {
        let words = ["--each", "set,get", "--keys", "1", "--key-prefix", "probe:"];
        let report = self.bench(guest, size, Shape { connections: 1, depth: 1 }, &words)?;
        let passes: Vec<Swept> = passes(&report)?;
        match &passes[..] {
            [Swept { stored: 1, .. }, Swept { found: 1, .. }] => Ok(()),
            _ => {
                let said = passes.iter().flat_map(|pass| &pass.samples).next();
                let said = said.map_or("it does not keep one", String::as_str);
                Err(io::Error::other(format!("values of {}: {said}", size.name)))
            }
        }
    }

    /// Passes over all keys.
    pub(super) fn sweep<const N: usize>(
        &self,
        guest: &Guest,
        (size, shape, is_loaded): (Size, Shape, bool),
        each: [&str; N],
    ) -> io::Result<[Swept; N]> {
        let (keys, each) = (size.keys(self.options).to_string(), each.join(","));
        let mut words = vec!["--each", &each, "--keys", &keys];
        words.extend(is_loaded.then_some("--loaded"));
        let passes = passes(&self.bench(guest, size, shape, &words)?)?;
        passes.try_into().map_err(|_| io::Error::other("kelvin bench has ended early"))
    }

    /// A window of gets of what was swept before.
    pub(super) fn gets(
        &self,
        guest: &Guest,
        (size, keys): (Size, Keys),
        shape: Shape,
    ) -> io::Result<Gets> {
        let count = size.keys(self.options).to_string();
        let [window, warm_up] = [self.options.window, self.options.warm_up]
            .map(|time| format!("{}ms", time.as_millis()));
        let words = [
            "--loaded",
            "--mix",
            "1:0",
            "--rounds",
            "1",
            "--no-ceiling",
            "--keys",
            &count,
            "--popularity",
            keys.popularity(),
            "--duration",
            &window,
            "--warm-up",
            &warm_up,
        ];
        gets(&self.bench(guest, size, shape, &words)?)
            .ok_or_else(|| io::Error::other("kelvin bench has measured no round"))
    }

    fn bench(&self, guest: &Guest, size: Size, shape: Shape, words: &[&str]) -> io::Result<Value> {
        let json = self.place.join("bench.json");
        let mut command = Command::new(&self.kelvin);
        command.arg("bench").arg(guest.address()).args(words).args(["--spin", "--quiet"]);
        command.args(["--timeout", PATIENCE, "--threads", "1"]);
        // It names another key, and what lies on the disk is whatever was written there.
        command.args((guest.kind() == Kind::Bare).then_some("--no-verify"));
        for (name, number) in [
            ("--server-pid", u64::from(guest.pid())),
            ("--value-size", size.bytes),
            ("--connections", shape.connections.into()),
            ("--depth", shape.depth.into()),
            ("--cpus", self.options.generator_cpu as u64),
        ] {
            command.args([name, &number.to_string()]);
        }
        command.arg("--device").arg(guest.directory()).arg("--json").arg(&json);
        let out = command.output()?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            return Err(io::Error::other(format!("kelvin bench: {}", said.trim())));
        }
        Ok(serde_json::from_slice(&fs::read(&json)?)?)
    }
}

fn us(latency: &Value, name: &str) -> f64 {
    latency[name].as_f64().unwrap_or(0.0) / 1e3
}

fn gets(report: &Value) -> Option<Gets> {
    let side = &report["cells"][0]["sides"][0];
    let round = &side["rounds"][0];
    let (counts, latency) = (&side["counts"], &side["latency_ns"]["get"]);
    let (hits, misses) = (counts["hits"].as_f64()?, counts["misses"].as_f64()?);
    let found_share = hits / (hits + misses).max(1.0);
    let device = &round["device"];
    let replies = round["replies"].as_f64()?;
    let reads = device["reads"].as_f64();
    let reads_a_get = reads.map(|reads| reads / replies.max(1.0));
    let per_s = round["rate_per_s"].as_f64()?;
    Some(Gets {
        found_per_s: per_s * found_share,
        found_share,
        server_cpu_us: round["server_cpu_us"].as_f64(),
        server_busy_share: round["server_busy_share"].as_f64(),
        generator_busy_share: round["generator_busy_share"].as_f64()?,
        p50_us: us(latency, "p50"),
        p95_us: us(latency, "p95"),
        p99_us: us(latency, "p99"),
        reads_a_get,
        reads_per_s: reads_a_get.map(|reads| reads * per_s),
        read_bytes: reads
            .filter(|reads| *reads > 0.0)
            .and_then(|reads| Some(device["read_bytes"].as_f64()? / reads)),
        read_depth: device["read_depth_mean"].as_f64(),
    })
}

fn passes(report: &Value) -> io::Result<Vec<Swept>> {
    let read = |pass: &Value| {
        let (counts, latency) = (&pass["counts"], &pass["latency_ns"]);
        let count = |name: &str| counts[name].as_u64();
        let samples = pass["samples"].as_array()?.iter().filter_map(Value::as_str);
        Some(Swept {
            per_s: pass["rate_per_s"].as_f64()?,
            server_cpu_us: pass["server_cpu_us"].as_f64(),
            p50_us: us(latency, "p50"),
            p95_us: us(latency, "p95"),
            p99_us: us(latency, "p99"),
            found: count("hits")?,
            stored: count("stored")?,
            refused: count("refused")?,
            samples: samples.map(str::to_owned).collect(),
        })
    };
    let passes = report["passes"].as_array().map(|passes| passes.iter().map(read).collect());
    passes.flatten().ok_or_else(|| io::Error::other("kelvin bench has made no passes"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{gets, passes};

    #[test]
    fn a_window_is_read() {
        let report = json!({ "cells": [{ "sides": [{
            "counts": { "hits": 300, "misses": 100 },
            "latency_ns": { "get": { "p50": 1500, "p95": 2500, "p99": 3500 } },
            "rounds": [{
                "replies": 200, "rate_per_s": 1000.0, "server_cpu_us": 9.5,
                "server_busy_share": 0.5, "generator_busy_share": 0.25,
                "device": { "reads": 100, "read_bytes": 409_600, "read_depth_mean": 3.5 },
            }],
        }] }] });
        let found = gets(&report).expect("a round");
        assert_eq!((found.found_per_s, found.found_share), (750.0, 0.75));
        assert_eq!((found.p50_us, found.p95_us, found.p99_us), (1.5, 2.5, 3.5));
        assert_eq!((found.reads_a_get, found.read_bytes), (Some(0.5), Some(4096.0)));
        assert_eq!(found.reads_per_s, Some(500.0));
        assert_eq!((found.read_depth, found.server_cpu_us), (Some(3.5), Some(9.5)));
        assert_eq!(gets(&json!({ "cells": [{ "sides": [{ "rounds": [] }] }] })), None);
    }

    #[test]
    fn passes_are_read() {
        let report = json!({ "passes": [{
            "rate_per_s": 10.0, "server_cpu_us": null,
            "latency_ns": { "p50": 1000 },
            "counts": { "hits": 1, "stored": 2, "refused": 3 },
            "samples": ["refused: `SERVER_ERROR`"],
        }] });
        let found = passes(&report).expect("a pass");
        assert_eq!((found[0].found, found[0].stored, found[0].refused), (1, 2, 3));
        assert_eq!((found[0].p50_us, found[0].server_cpu_us), (1.0, None));
        assert!(passes(&json!({})).is_err());
    }
}
