//! Real fuzzing with cargo-fuzz: nightly, bounded in time, never part of CI.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::{context::Context, process};

/// Seconds of fuzzing for each target, unless `KELVIN_FUZZ_SECONDS` says otherwise.
const TARGET_SECONDS: u32 = 300;

/// Bytes of the largest input that libFuzzer makes up: a few pipelined requests. Larger inputs only
/// slow it down; sizes beyond it are the tests' matter.
const INPUT_BYTES_MAX: u32 = 4096;

/// Seconds that one input may take before it counts as a hang.
const INPUT_SECONDS_MAX: u32 = 10;

/// Fuzzes every target in turn.
///
/// # Errors
/// When cargo-fuzz cannot be installed, or on the first input that breaks a target.
pub(crate) fn run(context: &Context) -> Result<()> {
    let seconds = seconds()?;
    install()?;
    let targets = targets(&context.root.join("fuzz/fuzz_targets"))?;
    for (target, number) in targets.iter().zip(1..) {
        println!("--- target {target} ({number}/{}), {seconds} s", targets.len());
        fuzz(context, target, seconds)?;
    }
    Ok(())
}

fn seconds() -> Result<u32> {
    match std::env::var("KELVIN_FUZZ_SECONDS") {
        Ok(text) => text.parse().context("KELVIN_FUZZ_SECONDS is no whole number of seconds"),
        Err(_) => Ok(TARGET_SECONDS),
    }
}

fn install() -> Result<()> {
    let mut version = Command::new("cargo");
    if process::capture(version.args(["fuzz", "--version"]))?.success {
        return Ok(());
    }
    println!("cargo-fuzz is not installed; installing it");
    process::run(Command::new("cargo").args(["install", "--locked", "cargo-fuzz"]))
}

fn targets(directory: &std::path::Path) -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if let Some(name) = path.file_stem() {
            targets.push(name.to_string_lossy().into_owned());
        }
    }
    if targets.is_empty() {
        bail!("{} holds no target", directory.display());
    }
    targets.sort();
    Ok(targets)
}

/// What libFuzzer finds worth keeping goes below cargo's directory; the corpus is only read.
fn fuzz(context: &Context, target: &str, seconds: u32) -> Result<()> {
    let found = context.target.join("fuzz-corpus").join(target);
    fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
    let corpus = context.root.join("fuzz/corpus").join(target);
    let mut command = Command::new("rustup");
    command.current_dir(&context.root);
    command.args(["run", "nightly", "cargo", "fuzz", "run", target, "--target-dir"]);
    command.arg(context.target.join("fuzz")).arg(found).arg(corpus).arg("--");
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
    process::run(&mut command).with_context(|| {
        format!(
            "an input that broke it is in fuzz/artifacts/{target}; keep it in fuzz/corpus/{target}"
        )
    })
}
