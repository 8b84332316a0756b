//! What takes longer than CI may: run by hand or at night, by name.
//!
//! Long tests are ordinary tests marked `#[ignore = "soak: ..."]` whose path contains `soak_`.
//! Those of a model checker also carry its prefix: `shuttle_soak_...`, `loom_soak_...`.

use std::{fmt::Write as _, path::Path, time::Instant};

use anyhow::{Context as _, Result};

use crate::{
    context::Context,
    fuzz,
    process::{self, Show},
    selection::refuse_unknown,
    suites::{Suite, miri_flags},
};

/// Seeds of miri in a soak run: sixteen times those of CI.
const MIRI_SEEDS: u32 = 256;

struct Job {
    name: &'static str,
    what: &'static str,
    run: fn(&Context) -> Result<()>,
}

const JOBS: [Job; 6] = [
    Job {
        name: "torn-reads",
        what: "100M reads beside a writer, none torn",
        run: |context| soak_tests(context, "cache", "soak_torn_reads"),
    },
    Job {
        name: "stress",
        what: "every long test of the workspace, release build",
        run: |context| {
            let arguments = ["test", "--locked", "--release", "soak_"];
            let mut command = context.cargo_with_clients(arguments);
            command.args(["--", "--ignored", "--nocapture", "--skip", "soak_torn_reads"]);
            process::run_tests(&mut command, Show::Always).map(drop)
        },
    },
    Job {
        name: "loom",
        what: "CI's models, and larger ones",
        run: |context| model(context, Suite::Loom),
    },
    Job {
        name: "shuttle",
        what: "schedules of minutes",
        run: |context| model(context, Suite::Shuttle),
    },
    Job { name: "miri", what: "256 seeds", run: miri },
    Job { name: "fuzz", what: "every target, KELVIN_FUZZ_SECONDS each (300)", run: fuzz::run },
];

/// One line a job, for the help text.
pub(crate) fn describe() -> String {
    JOBS.iter().fold(String::new(), |mut text, job| {
        let _ = writeln!(text, "  {:10} {}", job.name, job.what);
        text
    })
}

/// Runs the named jobs, or all.
///
/// # Errors
/// On an unknown name before anything runs; else the first failure.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<()> {
    refuse_unknown(names, &JOBS.map(|job| job.name))?;
    let context = Context::new(root)?;
    for job in JOBS.iter().filter(|job| names.is_empty() || names.contains(&job.name)) {
        println!("\n=== soak {}: {}", job.name, job.what);
        let start = Instant::now();
        (job.run)(&context).with_context(|| format!("soak job `{}` failed", job.name))?;
        println!("=== soak {}: passed in {:.0} s", job.name, start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn soak_tests(context: &Context, package: &str, filter: &str) -> Result<()> {
    let arguments = ["test", "--locked", "--release", "--package", package, filter];
    let mut command = context.cargo(arguments);
    command.args(["--", "--ignored", "--nocapture"]);
    process::run_tests(&mut command, Show::Always).map(drop)
}

/// All tests of a model checker, those marked as soak included.
fn model(context: &Context, suite: Suite) -> Result<()> {
    for package in suite.packages() {
        let mut command = suite.command(context, package, suite.prefix());
        command.env_remove("LOOM_MAX_PREEMPTIONS").env_remove("SHUTTLE_RANDOM_SEED");
        command.args(["--", "--include-ignored", "--nocapture"]);
        process::run_tests(&mut command, Show::Always)?;
    }
    Ok(())
}

fn miri(context: &Context) -> Result<()> {
    for package in Suite::Miri.packages() {
        let mut command = Suite::Miri.command(context, package, Suite::Miri.prefix());
        command.env("MIRIFLAGS", miri_flags(MIRI_SEEDS));
        process::run_tests(&mut command, Show::OnFailure)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{JOBS, describe, run};

    #[test]
    fn an_unknown_job_is_refused_before_anything_runs() {
        let error = run(Path::new("/nonexistent"), &["fuzz", "brew"]).expect_err("must fail");
        assert!(error.to_string().starts_with("`brew` is unknown"), "{error}");
    }

    #[test]
    fn every_job_is_described_once() {
        let text = describe();
        assert_eq!(text.lines().count(), JOBS.len());
        for job in &JOBS {
            assert_eq!(text.matches(&format!("  {} ", job.name)).count(), 1, "{}", job.name);
        }
    }
}
