//! What is built to be tested: everything at once, and the suites that need a build of their own,
//! loom, shuttle and miri.
//!
//! A suite is all tests of a package whose path contains the suite's prefix (`loom_`, `shuttle_`,
//! `miri_`). Each builds in a directory of its own below cargo's, so that its compiler flags do not
//! throw away the ordinary build.

use std::{process::Command, time::Instant};

use anyhow::{Context as _, Result};

use crate::{
    binaries::{self, Binary},
    context::Context,
    process::{self, Show},
    with_mutants,
};

/// How tests are built and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suite {
    /// As `cargo test` does.
    Test,
    /// Every interleaving of a small model, weak memory included.
    Loom,
    /// Long random schedules under sequential consistency.
    Shuttle,
    /// The interpreter that finds undefined behaviour; nightly only.
    Miri,
    /// Clients of a server that is the program itself: a test binary, not a library's tests.
    Wire,
}

/// The test binary of the suite `Wire`.
const WIRE: &str = "linear";

/// Seeds of miri's scheduler and allocator that each test is run with.
pub(crate) const MIRI_SEEDS: u32 = 16;

/// Seed of every scheduler, so that a run is as good as the one before it, and a mutant fails as it
/// did then. Other schedules are a soak run's.
const SHUTTLE_SEED: &str = "1";

impl Suite {
    /// The packages that must have tests in this suite.
    pub(crate) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Test => &[
                "base",
                "bench",
                "cache",
                "chart",
                "disk-sim",
                "histories",
                "kelvin-log",
                "reactor",
                "server",
                "sim",
                "store",
                "trace",
                "wire",
            ],
            // The crates with shared memory of their own.
            Self::Loom => &["cache", "kelvin-log", "store"],
            Self::Shuttle => &["cache", "kelvin-log"],
            // The crates with unsafe code.
            Self::Miri => &["cache", "reactor"],
            Self::Wire => &["kelvin"],
        }
    }

    /// What the path of each of its tests contains.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Test | Self::Wire => "",
            Self::Loom => "loom_",
            Self::Shuttle => "shuttle_",
            Self::Miri => "miri_",
        }
    }

    /// The command that builds its tests in packages. A filter for tests may be added, and
    /// `--no-run`.
    pub(crate) fn build(self, context: &Context, packages: &[&str]) -> Command {
        let mut command = match self {
            Self::Miri => miri(context),
            _ => context.cargo([]),
        };
        command.args(["test", "--locked"]);
        for package in packages {
            command.args(["--package", package]);
        }
        command.args(self.targets());
        match self {
            Self::Test | Self::Wire => {}
            Self::Loom => in_own_build(&mut command, context, "loom"),
            Self::Shuttle => in_own_build(&mut command, context, "shuttle"),
            Self::Miri => {
                command.env("CARGO_TARGET_DIR", context.target.join("miri"));
            }
        }
        command
    }

    /// The command that builds the tests of several suites, if there are any: of the first as
    /// above, and of those that are built as it is.
    pub(crate) fn build_together(
        suites: &[Self],
        context: &Context,
        packages: &[&str],
    ) -> Option<Command> {
        let (first, others) = suites.split_first()?;
        let mut command = first.build(context, packages);
        command.args(others.iter().flat_map(|suite| suite.targets()));
        Some(command)
    }

    /// What of a package its tests are in: the library, or a test binary.
    fn targets(self) -> &'static [&'static str] {
        match self {
            Self::Wire => &["--test", WIRE],
            Self::Test | Self::Loom | Self::Shuttle | Self::Miri => &["--lib"],
        }
    }

    /// Its tests of a package among what was built.
    ///
    /// # Errors
    /// When there are none.
    pub(crate) fn of_package<'a>(self, built: &'a [Binary], package: &str) -> Result<&'a Binary> {
        let is_its = |it: &&Binary| match self {
            Self::Wire => it.kind == "test" && it.target == WIRE,
            Self::Test | Self::Loom | Self::Shuttle | Self::Miri => it.kind == "lib",
        };
        let tests = built.iter().filter(is_its).find(|it| it.package == package);
        tests.with_context(|| format!("no tests of {package} were built"))
    }

    /// The variables that its tests are run with.
    pub(crate) fn environment(self) -> Option<(&'static str, String)> {
        match self {
            Self::Test | Self::Wire | Self::Loom => None,
            Self::Shuttle => Some(("SHUTTLE_RANDOM_SEED", SHUTTLE_SEED.to_owned())),
            Self::Miri => Some(("MIRIFLAGS", miri_flags(MIRI_SEEDS))),
        }
    }

    /// The command that builds a package's tests and runs those that match `filter`.
    pub(crate) fn command(self, context: &Context, package: &str, filter: &str) -> Command {
        let mut command = self.build(context, &[package]);
        command.envs(self.environment()).arg(filter);
        command
    }
}

/// The command that builds every test as `cargo test` does, with all mutants, of which none is on
/// unless the environment names it. So what CI tests is built once, and each of these tests is seen
/// to pass in the build in which it notices a mutant. What is built without them are the examples.
///
/// # Errors
/// When the compiler that sets the mutants' cfg cannot be written.
pub(crate) fn build_tests(context: &Context) -> Result<Command> {
    // Not `--examples`, which have no tests: they are built and run with the documentation.
    with_all_mutants(context, &["--lib", "--bins", "--tests"])
}

/// The command that builds doctests with the same libraries and runs them.
///
/// # Errors
/// As of [`build_tests`].
pub(crate) fn run_doctests(context: &Context) -> Result<Command> {
    let mut command = with_all_mutants(context, &["--doc"])?;
    command.env_remove(with_mutants::VARIABLE);
    Ok(command)
}

fn with_all_mutants(context: &Context, targets: &[&str]) -> Result<Command> {
    let mut command = context.cargo(["test", "--locked"]);
    command.args(targets);
    with_mutants::set(context, &mut command)?;
    Ok(command)
}

fn in_own_build(command: &mut Command, context: &Context, cfg: &str) {
    command.args(["--profile", "model"]);
    command.env("RUSTFLAGS", format!("--cfg {cfg}"));
    command.env("CARGO_TARGET_DIR", context.target.join(cfg));
}

fn miri(context: &Context) -> Command {
    let mut command = context.program("rustup");
    command.args(["run", "nightly", "cargo", "miri"]);
    command
}

/// Seeds `0..seeds`; without isolation, since the tests read clocks and use sockets.
pub(crate) fn miri_flags(seeds: u32) -> String {
    format!("-Zmiri-many-seeds=0..{seeds} -Zmiri-disable-isolation")
}

/// Step `loom`.
///
/// # Errors
/// When a test fails, or a package has none.
pub(crate) fn loom(context: &Context) -> Result<()> {
    model(Suite::Loom, context)
}

/// Step `shuttle`.
///
/// # Errors
/// When a test fails, or a package has none.
pub(crate) fn shuttle(context: &Context) -> Result<()> {
    model(Suite::Shuttle, context)
}

/// Step `miri`: what has one thread is run with fewer seeds, which then only move its memory about.
///
/// # Errors
/// When a test fails, or a package has none.
pub(crate) fn miri_all(context: &Context) -> Result<()> {
    const THREADS: &str = "threads::miri_";
    const FEW_SEEDS: u32 = 4;
    run_tests_of(Suite::Miri, "cache", &mut Suite::Miri.command(context, "cache", THREADS))?;
    for package in Suite::Miri.packages() {
        let mut command = Suite::Miri.command(context, package, Suite::Miri.prefix());
        command.args(["--", "--skip", THREADS]).env("MIRIFLAGS", miri_flags(FEW_SEEDS));
        run_tests_of(Suite::Miri, package, &mut command)?;
    }
    Ok(())
}

/// Builds all packages of a suite at once, and runs one after the other. The build is that of the
/// suite's mutants, of which none is on: so it is built once, and each of these tests is seen to
/// pass in the build in which it notices a mutant.
fn model(suite: Suite, context: &Context) -> Result<()> {
    let mut command = suite.build(context, suite.packages());
    with_mutants::set(context, &mut command)?;
    let built = binaries::build(&mut command)?;
    for package in suite.packages() {
        let mut command = suite.of_package(&built, package)?.command(context);
        command.arg(suite.prefix()).envs(suite.environment());
        // None is on, whatever the environment of whoever runs this names.
        command.env_remove(with_mutants::VARIABLE);
        run_tests_of(suite, package, &mut command)?;
    }
    Ok(())
}

fn run_tests_of(suite: Suite, package: &str, command: &mut Command) -> Result<()> {
    let name = format!("{} {package}", suite.prefix().trim_end_matches('_'));
    // The seeds run side by side and write into each other's lines.
    let show = if suite == Suite::Miri { Show::OnFailure } else { Show::As(&name) };
    let start = Instant::now();
    let count = process::run_tests(command, show)?;
    println!("{name}: {count} runs of tests in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
