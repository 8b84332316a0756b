//! Code broken on purpose, and the suite that must notice.
//!
//! A mutant is a place in the code where `cfg(mutant = "name")` leaves out what makes it right. CI
//! builds each and runs the tests that exist for it; a mutant that passes, does not build, or fails
//! for another reason than the one in the table fails CI.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command, time::Instant};

use anyhow::{Context as _, Result, bail};

use crate::{
    context::Context,
    process::{self, Captured},
    selection::refuse_unknown,
    suites::Suite,
};

struct Mutant {
    /// The name in `#[cfg(mutant = "name")]`.
    name: &'static str,
    suite: Suite,
    package: &'static str,
    /// Which tests must notice: the suite's prefix and more.
    filter: &'static str,
    /// A part of the message with which they notice. It tells a catch from a test that fails for
    /// another reason, such as a model that grew over loom's limits.
    symptom: &'static str,
}

const MUTANTS: [Mutant; 29] = [
    Mutant {
        name: "no_fence",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_reader_and_writer",
        symptom: "torn read",
    },
    Mutant {
        name: "no_version_check",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_reader_and_writer",
        symptom: "torn read",
    },
    Mutant {
        name: "miss_without_revalidation",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_miss_during_move",
        symptom: "present key missed",
    },
    Mutant {
        name: "no_quiescence_wait",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_reclaim",
        symptom: "reused under a reader",
    },
    Mutant {
        name: "no_online_fence",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_reclaim",
        symptom: "reused under a reader",
    },
    Mutant {
        name: "length_unchecked",
        suite: Suite::Test,
        package: "cache",
        filter: "length_that_leads_out",
        symptom: "a torn length was believed",
    },
    Mutant {
        name: "walk_is_overtaken",
        suite: Suite::Test,
        package: "cache",
        filter: "what_stays_is_met_whatever",
        symptom: "missed by the walk",
    },
    Mutant {
        name: "insert_looks_at_one_bucket",
        suite: Suite::Shuttle,
        package: "cache",
        filter: "shuttle_two_threads_add_a_key_once",
        symptom: "a key was added twice",
    },
    Mutant {
        name: "evictor_frees_without_winning",
        suite: Suite::Shuttle,
        package: "cache",
        filter: "shuttle_",
        symptom: "slot shared",
    },
    Mutant {
        name: "index_no_fence",
        suite: Suite::Loom,
        package: "kelvin-log",
        filter: "loom_index_reader_and_writer",
        symptom: "torn read",
    },
    Mutant {
        name: "index_no_version_check",
        suite: Suite::Loom,
        package: "kelvin-log",
        filter: "loom_index_reader_and_writer",
        symptom: "torn read",
    },
    Mutant {
        name: "index_miss_without_second_look",
        suite: Suite::Loom,
        package: "kelvin-log",
        filter: "loom_index_miss_during_move",
        symptom: "present key missed",
    },
    Mutant {
        name: "index_lock_without_second_look",
        suite: Suite::Shuttle,
        package: "kelvin-log",
        filter: "shuttle_index_nothing_is_missed",
        symptom: "out of turn",
    },
    Mutant {
        name: "index_block_unchecked",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "every_flipped_bit_is_named",
        symptom: "must be refused",
    },
    Mutant {
        name: "log_answer_before_flush",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptom: "after a crash",
    },
    Mutant {
        name: "log_read_answered_before_flush",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptom: "after a crash",
    },
    Mutant {
        name: "log_confirm_before_drain",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptom: "after a crash",
    },
    Mutant {
        name: "log_head_before_parts",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptom: "again: cargo run -p disk-sim",
    },
    Mutant {
        name: "log_failed_flush_tried_again",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptom: "again: cargo run -p disk-sim",
    },
    Mutant {
        name: "log_footer_with_records",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptom: "again: cargo run -p disk-sim",
    },
    Mutant {
        name: "log_serve_before_flush",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptom: "again: cargo run -p disk-sim",
    },
    Mutant {
        name: "log_no_directory_flush",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptom: "again: cargo run -p disk-sim",
    },
    Mutant {
        name: "log_checksum_without_header",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "every_flipped_bit_and_every_cut_is_noticed",
        symptom: "flipped was believed",
    },
    Mutant {
        name: "log_key_not_compared",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_get_never_answers_another_keys_value",
        symptom: "another key's value",
    },
    Mutant {
        name: "log_batch_in_part",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_crash_leaves_all_of_a_batch_or_nothing",
        symptom: "a batch took effect in part",
    },
    Mutant {
        name: "log_damage_sealed",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_is_lost_is_named_by_every_open",
        symptom: "a loss was named only once",
    },
    Mutant {
        name: "log_clean_unlooked",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_clean_manifest_that_was_put_back",
        symptom: "what was written behind a stop was not looked for",
    },
    Mutant {
        name: "log_rewrite_unbounded",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_a_failed_flush_leaves_fits",
        symptom: "it does not fit",
    },
    Mutant {
        name: "log_grow_before_manifest",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "keys_grow_when_the_manifest_is_durable",
        symptom: "a key was taken before the manifest had it",
    },
];

/// Seconds for building and running one mutant: ten times what a model may take. A mutant that
/// hangs is stopped then, and is not caught.
const MUTANT_SECONDS_MAX: u32 = 300;

/// Lines of a mutant's output that are shown when it is not caught.
const LINES_SHOWN: usize = 40;

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Caught,
    NotCaught(&'static str),
}

/// Runs the named mutants, or all of them.
///
/// # Errors
/// On an unknown name, or with the mutants that were not caught.
pub(crate) fn check(context: &Context, names: &[&str]) -> Result<()> {
    let known: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
    refuse_unknown(names, &known)?;
    let mut alive = Vec::new();
    for mutant in MUTANTS.iter().filter(|it| names.is_empty() || names.contains(&it.name)) {
        let start = Instant::now();
        let verdict = try_mutant(context, mutant)?;
        let seconds = start.elapsed().as_secs_f64();
        match verdict {
            Verdict::Caught => println!("{:30} caught in {seconds:.1} s", mutant.name),
            Verdict::NotCaught(why) => {
                println!("{:30} NOT CAUGHT in {seconds:.1} s: {why}", mutant.name);
                alive.push(mutant.name);
            }
        }
    }
    if !alive.is_empty() {
        bail!("mutants that no test noticed: {}", alive.join(", "));
    }
    Ok(())
}

fn try_mutant(context: &Context, mutant: &Mutant) -> Result<Verdict> {
    let mut build = command(context, mutant)?;
    build.arg("--no-run");
    if mutant.suite == Suite::Miri {
        // One seed is enough to build; many would start the interpreter.
        build.env("MIRIFLAGS", "");
    }
    let built = process::capture(&mut within_limit(&build))?;
    if !built.success {
        show(&built, &build);
        return Ok(Verdict::NotCaught("it does not build"));
    }
    let test = command(context, mutant)?;
    let ran = process::capture(&mut within_limit(&test))?;
    let verdict = judge(&ran, mutant.symptom);
    if verdict != Verdict::Caught {
        show(&ran, &test);
    }
    Ok(verdict)
}

fn command(context: &Context, mutant: &Mutant) -> Result<Command> {
    let mut command = mutant.suite.command(context, mutant.package, mutant.filter);
    if mutant.suite == Suite::Miri {
        // cargo-miri drops wrappers. Checking dependencies again is cheap there.
        command.env("RUSTFLAGS", format!("--cfg mutant=\"{}\"", mutant.name));
    } else {
        // Sets the cfg for this workspace only, so that dependencies are not built again.
        command.env("RUSTC_WORKSPACE_WRAPPER", wrapper(context, mutant.name)?);
    }
    Ok(command)
}

/// A compiler with the mutant's cfg. cargo keeps apart what wrappers of different paths build.
fn wrapper(context: &Context, name: &str) -> Result<PathBuf> {
    let directory = context.target.join("mutants");
    let path = directory.join(name);
    let script = format!("#!/bin/sh\nexec \"$@\" --cfg 'mutant=\"{name}\"'\n");
    let write = || {
        fs::create_dir_all(&directory)?;
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
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

fn judge(ran: &Captured, symptom: &str) -> Verdict {
    let started: usize = ran.stdout.lines().filter_map(process::tests_announced).sum();
    let failed = ran.all.contains("test result: FAILED")
        || ran.all.contains("error: Undefined Behavior")
        || (ran.all.contains("panicked at") && ran.all.contains("SIGABRT"));
    if ran.success {
        Verdict::NotCaught("its tests pass")
    } else if started == 0 {
        Verdict::NotCaught("no test ran")
    } else if !failed {
        Verdict::NotCaught("it was stopped, but no test failed")
    } else if !ran.all.contains(symptom) {
        Verdict::NotCaught("a test failed, but not with the expected message")
    } else {
        Verdict::Caught
    }
}

fn show(captured: &Captured, command: &Command) {
    println!("$ {}", process::display(command));
    let lines: Vec<&str> = captured.all.lines().collect();
    for line in &lines[lines.len().saturating_sub(LINES_SHOWN)..] {
        println!("    {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::{MUTANTS, Verdict, judge};
    use crate::process::Captured;

    fn ran(success: bool, stdout: &str, stderr: &str) -> Captured {
        let all = format!("{stdout}{stderr}");
        Captured { success, stdout: stdout.to_owned(), all }
    }

    #[test]
    fn a_mutant_is_caught_by_a_failing_test_with_its_symptom() {
        let failed = "running 1 test\npanicked at x:\ntorn read\ntest result: FAILED. 0 passed\n";
        assert_eq!(judge(&ran(false, failed, ""), "torn read"), Verdict::Caught);
        let undefined = "error: Undefined Behavior: Data race detected\n";
        assert_eq!(judge(&ran(false, "running 1 test\n", undefined), "Data race"), Verdict::Caught);
        let aborted = "panicked at x: torn read\n(signal: 6, SIGABRT: process abort signal)\n";
        assert_eq!(judge(&ran(false, "running 2 tests\n", aborted), "torn read"), Verdict::Caught);
    }

    #[test]
    fn nothing_else_counts_as_a_catch() {
        let not = Verdict::NotCaught;
        let passed = "running 1 test\ntest result: ok. 1 passed\n";
        assert_eq!(judge(&ran(true, passed, ""), "torn"), not("its tests pass"));
        assert_eq!(judge(&ran(false, "", "error[E0425]: torn"), "torn"), not("no test ran"));
        let empty = "running 0 tests\ntest result: FAILED\n";
        assert_eq!(judge(&ran(false, empty, "torn"), "torn"), not("no test ran"));
        let hung = "running 1 test\ntorn\n";
        let message = "it was stopped, but no test failed";
        assert_eq!(judge(&ran(false, hung, ""), "torn"), not(message));
        let other = "running 1 test\nModel exceeded maximum branches\ntest result: FAILED\n";
        let message = "a test failed, but not with the expected message";
        assert_eq!(judge(&ran(false, other, ""), "torn"), not(message));
    }

    #[test]
    fn each_mutant_is_tried_by_tests_that_pass_without_it() {
        for mutant in &MUTANTS {
            let name = mutant.name;
            assert!(mutant.suite.packages().contains(&mutant.package), "{name}: package");
            assert!(mutant.filter.contains(mutant.suite.prefix()), "{name}: filter");
            assert!(mutant.symptom.len() > 3, "{name}: symptom");
        }
    }
}
