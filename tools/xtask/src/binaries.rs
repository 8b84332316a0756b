//! Test binaries, several at a time.
//!
//! `cargo test` runs one binary after the other, and most of ours wait: for seconds to pass, for
//! another process, for a client in another language. So cargo only builds them here. What a
//! binary writes is kept until it ends, so that lines of two are never mixed.

use std::{path::PathBuf, process::Command, time::Instant};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::{
    context::Context,
    process::{self, Captured},
    several, with_mutants,
};

/// Binaries that run at the same time. With two cores, one of the three usually waits; more would
/// make those that measure time or memory unsteady.
const AT_A_TIME: usize = 3;

/// A line of `cargo --message-format json`, as far as it is read.
#[derive(Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
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

/// A test binary, or an example, that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binary {
    /// The package's directory, its kind and its name: `kelvin test recorded`.
    name: String,
    /// `lib`, `bin`, `test` or `example`.
    pub(crate) kind: String,
    /// The package's name.
    pub(crate) package: String,
    /// The library's, the test's or the example's name.
    pub(crate) target: String,
    executable: PathBuf,
    /// Where it runs, as under `cargo test`: the package's directory.
    directory: PathBuf,
}

impl Binary {
    /// What runs it.
    pub(crate) fn command(&self, context: &Context) -> Command {
        let mut command = context.program(&self.executable);
        command.current_dir(&self.directory);
        command
    }
}

/// One that has ended.
struct Ended {
    name: String,
    captured: Result<Captured>,
    seconds: f64,
}

/// Builds test binaries with `command`, a `cargo test`, and runs none.
///
/// # Errors
/// When the build fails.
pub(crate) fn build(command: &mut Command) -> Result<Vec<Binary>> {
    let command = command.args(["--no-run", "--message-format", MESSAGES]);
    binaries(&process::output_of(command)?, |_, is_test| is_test)
}

/// Builds examples with `command`, a `cargo build --examples`.
///
/// # Errors
/// When the build fails.
pub(crate) fn build_examples(command: &mut Command) -> Result<Vec<Binary>> {
    let command = command.args(["--message-format", MESSAGES]);
    binaries(&process::output_of(command)?, |kind, _| kind == "example")
}

/// Cargo's messages for programs, but for what people are to see.
const MESSAGES: &str = "json-render-diagnostics";

/// Builds with `command`, a `cargo test`, and runs every test binary with what integration tests
/// need, and no mutant on. Returns how many tests ran.
///
/// # Errors
/// When the build fails, when no test ran, or when a binary fails; the others are run to their end
/// first.
pub(crate) fn run(context: &Context, command: &mut Command) -> Result<usize> {
    let run_one = |binary: Binary| {
        let start = Instant::now();
        let mut command = binary.command(context);
        command.envs(context.of_tests()).env_remove(with_mutants::VARIABLE);
        let captured = process::capture(&mut command);
        Ended { name: binary.name, captured, seconds: start.elapsed().as_secs_f64() }
    };
    several::at_a_time(AT_A_TIME, build(command)?, run_one, report)
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

/// The binaries that cargo's messages name and `is_meant` by their kind and by whether they test.
fn binaries(messages: &str, is_meant: fn(&str, bool) -> bool) -> Result<Vec<Binary>> {
    let mut binaries = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message =
            serde_json::from_str(line).context("cargo's messages are not understood")?;
        let Message { reason, package_id, manifest_path, target, profile, executable } = message;
        let (Some(id), Some(manifest), Some(target), Some(profile), Some(executable), true) =
            (package_id, manifest_path, target, profile, executable, reason == "compiler-artifact")
        else {
            continue;
        };
        let kind = target.kind.join(" ");
        if !is_meant(&kind, profile.test) {
            continue;
        }
        let directory = manifest.parent().context("a manifest lies in a directory")?.to_owned();
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (name, target) = (format!("{name} {kind} {}", target.name), target.name);
        let package = package(&id);
        binaries.push(Binary { name, kind, package, target, executable, directory });
    }
    Ok(binaries)
}

/// The package's name in cargo's `path+file:///house/log#kelvin-log@0.1.0`. Where it is that of the
/// directory, it is said once: `path+file:///house/base#0.1.0`.
fn package(id: &str) -> String {
    let (url, rest) = id.split_once('#').unwrap_or((id, ""));
    let name = rest.split_once('@').map(|(name, _)| name);
    name.unwrap_or_else(|| url.rsplit('/').next().unwrap_or_default()).to_owned()
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, process::Command};

    use super::{Binary, binaries, package, run};
    use crate::{context::Context, suites::Suite};

    const ARTIFACT: &str = r#"{"reason":"compiler-artifact",
        "package_id":"path+file:///house/base#0.1.0",
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
            kind: "lib".to_owned(),
            package: "base".to_owned(),
            target: "base".to_owned(),
            executable: PathBuf::from("/target/base-1"),
            directory: PathBuf::from("/house/base"),
        };
        let messages = messages.join("\n");
        let found = binaries(&messages, |_, is_test| is_test).expect("understood");
        assert_eq!(found, [binary]);
        for (suite, package, is_there) in [
            (Suite::Test, "base", true),
            (Suite::Wire, "base", false),
            (Suite::Loom, "wire", false),
        ] {
            assert_eq!(suite.of_package(&found, package).is_ok(), is_there, "{suite:?} {package}");
        }
        assert_eq!(binaries(&messages, |kind, _| kind == "example").expect("understood"), []);
        assert_eq!(binaries(&messages, |kind, _| kind == "lib").expect("understood").len(), 2);
        assert!(binaries("{not json", |_, _| true).is_err());
    }

    #[test]
    fn a_package_is_named_as_its_directory_or_otherwise() {
        assert_eq!(package("path+file:///house/base#0.1.0"), "base");
        assert_eq!(package("path+file:///house/log#kelvin-log@0.1.0"), "kelvin-log");
    }

    #[test]
    fn a_build_or_a_binary_that_fails_fails_the_run() {
        let (root, target) = (PathBuf::from("/"), PathBuf::from("/none"));
        let context = Context { root, target, gives_way: false, builds_once: false };
        let mut no_build = Command::new("false");
        let error = run(&context, &mut no_build).expect_err("nothing was built");
        assert!(error.to_string().contains("false"), "{error}");
        let error = run(&context, &mut build(r#""/bin/false""#)).expect_err("it fails");
        assert_eq!(error.to_string(), "failed: tmp lib base");
        let error = run(&context, &mut build(r#""/bin/true""#)).expect_err("it runs no test");
        assert!(error.to_string().starts_with("no test ran"), "{error}");
    }
}
