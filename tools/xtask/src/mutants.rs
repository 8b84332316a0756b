//! Code broken on purpose, and the suite that must notice.
//!
//! A mutant is a place in the code where `mutant!("name")` leaves out what makes it right. One
//! build of a package has all of its mutants, and the environment says which is on. CI runs the
//! tests that exist for each; a mutant that passes, or fails for another reason than the one in the
//! table, fails CI.

mod table;

use std::{collections::BTreeSet, process::Command, time::Instant};

use anyhow::{Result, bail};

use self::table::{Mutant, all};
use crate::{
    binaries::{self, Binary},
    context::Context,
    process::{self, Captured},
    selection::refuse_unknown,
    several,
    suites::{Suite, build_tests},
    with_mutants,
};

/// Seconds for running one mutant: ten times what a model may take. One that hangs is stopped then,
/// and is not caught.
const MUTANT_SECONDS_MAX: u32 = 600;

/// Suites whose tests may be to notice a mutant, with those beside each other that one build has:
/// not miri's, as cargo-miri drops wrappers.
const SUITES: [&[Suite]; 3] = [&[Suite::Test, Suite::Wire], &[Suite::Loom], &[Suite::Shuttle]];

/// Lines of a mutant's output that are shown when it is not caught.
const LINES_SHOWN: usize = 40;

/// Mutants at a time: many of their tests have one thread, or wait.
const AT_A_TIME: usize = 3;

enum Verdict {
    Caught,
    NotCaught {
        why: &'static str,
        /// The command and the end of what it printed.
        shown: String,
    },
}

/// Runs the named mutants, or all of them.
///
/// # Errors
/// On an unknown name, or with the mutants that were not caught.
pub(crate) fn check(context: &Context, names: &[&str]) -> Result<()> {
    let known: Vec<&str> = all().map(|mutant| mutant.name).collect();
    refuse_unknown(names, &known)?;
    let chosen: Vec<_> = all().filter(|it| names.is_empty() || names.contains(&it.name)).collect();
    let built = build(context, &chosen, names.is_empty())?;
    let try_one = |mutant: &'static Mutant| {
        let start = Instant::now();
        let verdict = try_mutant(context, mutant, &built);
        Tried { name: mutant.name, verdict, seconds: start.elapsed().as_secs_f64() }
    };
    several::at_a_time(AT_A_TIME, chosen, try_one, report)
}

/// A mutant and what came of it.
struct Tried {
    name: &'static str,
    verdict: Result<Verdict>,
    seconds: f64,
}

/// Prints what came of each mutant, one after the other.
fn report(tried: impl IntoIterator<Item = Tried>) -> Result<()> {
    let mut alive = Vec::new();
    for Tried { name, verdict, seconds } in tried {
        match verdict? {
            Verdict::Caught => println!("{name:30} caught in {seconds:.1} s"),
            Verdict::NotCaught { why, shown } => {
                println!("{name:30} NOT CAUGHT in {seconds:.1} s: {why}\n{shown}");
                alive.push(name);
            }
        }
    }
    if !alive.is_empty() {
        bail!("mutants that no test noticed: {}", alive.join(", "));
    }
    Ok(())
}

/// The tests of suites that are built together, with all mutants of their packages.
struct Built {
    suites: Vec<Suite>,
    binaries: Vec<Binary>,
}

/// Builds what the mutants' tests are in: all packages at once, since each would be built anew with
/// the features that it alone asks of foreign crates. For all of them it is what the tests are run
/// in, which CI has built.
fn build(context: &Context, mutants: &[&Mutant], is_all: bool) -> Result<Vec<Built>> {
    let mut built = Vec::new();
    for suites in SUITES {
        let of_them = || mutants.iter().filter(|it| suites.contains(&it.suite));
        let mut suites = Vec::from_iter(of_them().map(|it| it.suite));
        suites.sort_unstable();
        suites.dedup();
        let packages = Vec::from_iter(of_them().map(|it| it.package).collect::<BTreeSet<_>>());
        let mut command = if is_all && suites.contains(&Suite::Test) {
            build_tests(context)?
        } else {
            let Some(mut command) = Suite::build_together(&suites, context, &packages) else {
                continue;
            };
            with_mutants::set(context, &mut command)?;
            command
        };
        built.push(Built { suites, binaries: binaries::build(&mut command)? });
    }
    Ok(built)
}

fn try_mutant(context: &Context, mutant: &Mutant, built: &[Built]) -> Result<Verdict> {
    let built = built.iter().find(|it| it.suites.contains(&mutant.suite));
    let built = &built.expect("invariant: its suite was built").binaries;
    let mut test = mutant.suite.of_package(built, mutant.package)?.command(context);
    test.arg(mutant.filter)
        .env(with_mutants::VARIABLE, mutant.name)
        .envs(mutant.suite.environment());
    let ran = process::capture(&mut within_limit(&test))?;
    Ok(match why_not_caught(&ran, mutant.symptoms) {
        None => Verdict::Caught,
        Some(why) => Verdict::NotCaught { why, shown: shown(&ran, &test) },
    })
}

/// The same command, stopped with all its children when it takes too long.
fn within_limit(command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.arg("--kill-after=10").arg(MUTANT_SECONDS_MAX.to_string());
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        limited.current_dir(directory);
    }
    limited
}

fn why_not_caught(ran: &Captured, symptoms: &[&str]) -> Option<&'static str> {
    let started: usize = ran.stdout.lines().filter_map(process::tests_announced).sum();
    let failed =
        ran.all.contains("test result: FAILED") || (ran.aborted && ran.all.contains("panicked at"));
    if ran.success {
        Some("its tests pass")
    } else if started == 0 {
        Some("no test ran")
    } else if !failed {
        Some("it was stopped, but no test failed")
    } else if !symptoms.iter().any(|symptom| ran.all.contains(symptom)) {
        Some("a test failed, but not with the expected message")
    } else {
        None
    }
}

fn shown(captured: &Captured, command: &Command) -> String {
    let lines: Vec<&str> = captured.all.lines().collect();
    let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n    ");
    format!("$ {}\n    {last}", process::display(command))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{SUITES, all, why_not_caught};
    use crate::process::Captured;

    fn ran(success: bool, stdout: &str, stderr: &str) -> Captured {
        let all = format!("{stdout}{stderr}");
        Captured { success, aborted: false, stdout: stdout.to_owned(), all }
    }

    #[test]
    fn a_mutant_is_caught_by_a_failing_test_with_its_symptom() {
        let failed = "running 1 test\npanicked at x:\ntorn read\ntest result: FAILED. 0 passed\n";
        assert_eq!(why_not_caught(&ran(false, failed, ""), &["torn read"]), None);
        let panicked = ran(false, "running 2 tests\n", "panicked at x: torn read\n");
        let aborted = Captured { aborted: true, ..panicked };
        assert_eq!(why_not_caught(&aborted, &["torn read"]), None);
    }

    #[test]
    fn nothing_else_counts_as_a_catch() {
        let passed = "running 1 test\ntest result: ok. 1 passed\n";
        assert_eq!(why_not_caught(&ran(true, passed, ""), &["torn"]), Some("its tests pass"));
        assert_eq!(
            why_not_caught(&ran(false, "", "error[E0425]: torn"), &["torn"]),
            Some("no test ran")
        );
        let empty = "running 0 tests\ntest result: FAILED\n";
        assert_eq!(why_not_caught(&ran(false, empty, "torn"), &["torn"]), Some("no test ran"));
        let hung = "running 1 test\ntorn\n";
        let message = "it was stopped, but no test failed";
        assert_eq!(why_not_caught(&ran(false, hung, ""), &["torn"]), Some(message));
        let killed = ran(false, "running 1 test\npanicked at x: torn\n", "");
        assert_eq!(why_not_caught(&killed, &["torn"]), Some(message));
        let other = "running 1 test\nModel exceeded maximum branches\ntest result: FAILED\n";
        let message = "a test failed, but not with the expected message";
        assert_eq!(why_not_caught(&ran(false, other, ""), &["torn"]), Some(message));
    }

    /// The names in `mutant!("name")` of a source.
    fn names_in(text: &str) -> impl Iterator<Item = &str> {
        let calls = text.split("mutant!(\"").skip(1);
        calls.filter_map(|call| call.split('"').next())
    }

    #[test]
    fn the_table_has_what_the_code_has() {
        let root = crate::workspace::root();
        let mut in_code = BTreeSet::new();
        let mut left = vec![root.join("crates")];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(&path).expect("a directory");
                left.extend(entries.map(|entry| entry.expect("an entry").path()));
            } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with(OWN) {
                let text = std::fs::read_to_string(&path).expect("text");
                in_code.extend(names_in(&text).map(str::to_owned));
            }
        }
        let in_table: BTreeSet<String> = all().map(|it| it.name.to_owned()).collect();
        assert_eq!(in_code, in_table);
    }

    /// Where `mutant!` itself is.
    const OWN: &str = "base/src/mutants.rs";

    #[test]
    fn each_mutant_is_tried_by_tests_that_pass_without_it() {
        for mutant in all() {
            let name = mutant.name;
            assert!(SUITES.concat().contains(&mutant.suite), "{name}: suite");
            assert!(mutant.suite.packages().contains(&mutant.package), "{name}: package");
            assert!(mutant.filter.contains(mutant.suite.prefix()), "{name}: filter");
            let is_told = |symptom: &&str| symptom.len() > 3;
            assert!(!mutant.symptoms.is_empty(), "{name}: symptoms");
            assert!(mutant.symptoms.iter().all(is_told), "{name}: symptoms");
        }
    }
}
