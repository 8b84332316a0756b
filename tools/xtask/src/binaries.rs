//! Test binaries, several at a time.
//!
//! `cargo test` runs one binary after the other, and most of ours wait: for seconds to pass, for
//! another process, for a client in another language. So cargo only builds them here. What a
//! binary writes is kept until it ends, so that lines of two are never mixed.

use std::{
    collections::VecDeque,
    path::PathBuf,
    process::Command,
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::process::{self, Captured};

/// Binaries that run at the same time. With two cores, one of the three usually waits; more would
/// make those that measure time or memory unsteady.
const AT_A_TIME: usize = 3;

/// A line of `cargo --message-format json`, as far as it is read.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A test binary that cargo has built.
#[derive(Debug, PartialEq, Eq)]
struct Binary {
    /// The package's directory, its kind and its name: `kelvin test recorded`.
    name: String,
    executable: PathBuf,
    /// Where it runs, as under `cargo test`: the package's directory.
    directory: PathBuf,
}

/// One that has ended.
struct Ended {
    name: String,
    captured: Result<Captured>,
    seconds: f64,
}

/// Builds with `build` (a `cargo test --no-run`) and runs every test binary; `environment` is set
/// for each. Returns how many tests ran.
///
/// # Errors
/// When the build fails, when no test ran, or when a binary fails; the others are run to their end
/// first.
pub(crate) fn run(build: &mut Command, environment: &[(&str, PathBuf)]) -> Result<usize> {
    let build = build.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let binaries = Mutex::new(VecDeque::from(binaries(&process::output_of(build)?)?));
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            let (sender, binaries) = (sender.clone(), &binaries);
            scope.spawn(move || run_queued(binaries, environment, &sender));
        }
        drop(sender);
        report(ended)
    })
}

/// Runs what is in the queue until it is empty.
fn run_queued(
    queue: &Mutex<VecDeque<Binary>>,
    environment: &[(&str, PathBuf)],
    ended: &mpsc::Sender<Ended>,
) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(Binary { name, executable, directory }) = next else { return };
        let mut command = Command::new(executable);
        command.current_dir(directory);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let start = Instant::now();
        let captured = process::capture(&mut command);
        let seconds = start.elapsed().as_secs_f64();
        if ended.send(Ended { name, captured, seconds }).is_err() {
            return;
        }
    }
}

/// Prints each as it ends, and sums up.
fn report(ended: impl IntoIterator<Item = Ended>) -> Result<usize> {
    let mut count = 0;
    let mut failed = Vec::new();
    for Ended { name, captured, seconds } in ended {
        let captured = captured?;
        println!("\n--- {name}: {seconds:.1} s\n{}", captured.all.trim());
        count += captured.all.lines().filter_map(process::tests_announced).sum::<usize>();
        if !captured.success {
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    if count == 0 {
        bail!("no test ran, so nothing was checked");
    }
    Ok(count)
}

/// The test binaries that cargo's messages name.
fn binaries(messages: &str) -> Result<Vec<Binary>> {
    let mut binaries = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message =
            serde_json::from_str(line).context("cargo's messages are not understood")?;
        let Message { reason, manifest_path, target, profile, executable } = message;
        let is_test = reason == "compiler-artifact" && profile.is_some_and(|p| p.test);
        let (Some(manifest), Some(target), Some(executable), true) =
            (manifest_path, target, executable, is_test)
        else {
            continue;
        };
        let directory = manifest.parent().context("a manifest lies in a directory")?.to_owned();
        let package = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{package} {} {}", target.kind.join(" "), target.name);
        binaries.push(Binary { name, executable, directory });
    }
    Ok(binaries)
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, process::Command};

    use super::{Binary, binaries, run};

    const ARTIFACT: &str = r#"{"reason":"compiler-artifact",
        "manifest_path":"/house/base/Cargo.toml",
        "target":{"name":"base","kind":["lib"]},"profile":{"test":TEST},"executable":EXECUTABLE}"#;

    fn artifact(test: bool, executable: &str) -> String {
        let line = ARTIFACT.replace('\n', "").replace("TEST", &test.to_string());
        line.replace("EXECUTABLE", executable)
    }

    /// A build that says it made `executable`.
    fn build(executable: &str) -> Command {
        let mut command = Command::new("sh");
        let script = format!("echo '{}'", artifact(true, executable).replace("/house", "/tmp"));
        command.args(["-c", &script.replace("/tmp/base", "/tmp")]);
        command
    }

    #[test]
    fn what_cargo_built_for_testing_is_run_in_its_package() {
        let messages = [
            artifact(true, r#""/target/base-1""#),
            artifact(false, r#""/target/base""#),
            artifact(true, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "warning: not a message".to_owned(),
        ];
        let binary = Binary {
            name: "base lib base".to_owned(),
            executable: PathBuf::from("/target/base-1"),
            directory: PathBuf::from("/house/base"),
        };
        assert_eq!(binaries(&messages.join("\n")).expect("understood"), [binary]);
        assert!(binaries("{not json").is_err());
    }

    #[test]
    fn a_build_or_a_binary_that_fails_fails_the_run() {
        let mut no_build = Command::new("false");
        let error = run(&mut no_build, &[]).expect_err("nothing was built");
        assert!(error.to_string().contains("false"), "{error}");
        let error = run(&mut build(r#""/bin/false""#), &[]).expect_err("it fails");
        assert_eq!(error.to_string(), "failed: tmp lib base");
        let error = run(&mut build(r#""/bin/true""#), &[]).expect_err("it runs no test");
        assert!(error.to_string().starts_with("no test ran"), "{error}");
    }
}
