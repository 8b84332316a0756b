//! The steps of CI: their order, what each runs, and the table of how long each took.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use crate::{binaries, context::Context, dependencies, mutants, process, setup, suites, tidy};

struct Step {
    name: &'static str,
    what: &'static str,
    /// Seconds of a whole run, cold, on two cores; those side by side share them.
    usual_s: u32,
    run: fn(&Context) -> Result<()>,
}

const STEPS: [Step; 11] = [
    step("setup", "install what is missing", 5, setup::run),
    step("fmt", "rustfmt has nothing to change", 5, fmt),
    step("clippy", "no warning in any target", 50, clippy),
    step("tidy", "house rules", 5, |context| tidy::check(&context.root)),
    step("licences", "licences and duplicates of dependencies", 1, |context| {
        dependencies::check(&context.root)
    }),
    step("tests", "unit and integration tests, fuzz corpora", 990, tests),
    step("docs", "examples run, no warning in the documentation", 45, docs),
    step("loom", "every interleaving of small models", 1200, suites::loom),
    step("shuttle", "long random schedules", 1180, suites::shuttle),
    step("miri", "no undefined behaviour, many seeds", 1320, suites::miri_all),
    step("mutants", "the suites notice code broken on purpose", 130, |context| {
        mutants::check(context, &[])
    }),
];

const fn step(
    name: &'static str,
    what: &'static str,
    usual_s: u32,
    run: fn(&Context) -> Result<()>,
) -> Step {
    Step { name, what, usual_s, run }
}

/// The inner loop.
pub(crate) const CHECK: [&str; 3] = ["fmt", "clippy", "tidy"];

/// What runs code.
pub(crate) const TEST: [&str; 7] = ["setup", "tests", "docs", "loom", "shuttle", "miri", "mutants"];

/// Steps that run beside those that test, and give way to them: no test of these measures time, and
/// those of the others often wait.
const BESIDE: [&str; 3] = ["loom", "shuttle", "miri"];

/// The first of these begins together with those beside it. What comes before fails in little time.
const TESTING: [&str; 3] = ["tests", "docs", "mutants"];

/// Everything.
pub(crate) const CI: [&str; 11] = [
    "setup", "fmt", "clippy", "tidy", "licences", "tests", "docs", "loom", "shuttle", "miri",
    "mutants",
];

/// One line a step, for the help text.
pub(crate) fn describe() -> String {
    STEPS.iter().fold(String::new(), |mut text, step| {
        let _ = writeln!(text, "  {:10} {}", step.name, step.what);
        text
    })
}

/// Runs the named steps, announces each, and prints how long each took and all of them together.
///
/// # Errors
/// On an unknown name before anything runs; else with a failed step, after which none is begun.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<()> {
    let steps = select(names)?;
    // All steps are for a fresh clone; single ones are run again and again.
    let context = Context { builds_once: names == CI, ..Context::new(root)? };
    let start = Instant::now();
    let mut ended = run_all(&context, &steps);
    print!("\n{}", summary(&ended, steps.len(), start.elapsed()));
    let failed = ended.iter().position(|it| it.result.is_err());
    failed.map_or(Ok(()), |failed| ended.swap_remove(failed).result)
}

/// What came of a step.
struct Ended {
    step: &'static Step,
    time: Duration,
    result: Result<()>,
}

/// Runs steps in their order, and beside them those that give way.
fn run_all(context: &Context, steps: &[&'static Step]) -> Vec<Ended> {
    let is_beside = |step: &&'static Step| BESIDE.contains(&step.name);
    let (beside, in_turn): (Vec<_>, Vec<_>) = steps.iter().copied().partition(is_beside);
    let testing = in_turn.iter().position(|step| TESTING.contains(&step.name));
    let (before, testing) = in_turn.split_at(testing.unwrap_or(in_turn.len()));
    let has_failed = AtomicBool::new(false);
    let run_one = |step: &'static Step, context: &Context| {
        println!("\n=== {}: {}", step.name, step.what);
        let start = Instant::now();
        let result = (step.run)(context);
        if let Err(error) = &result {
            println!("\n=== {}: FAILED: {error:#}", step.name);
            has_failed.store(true, Ordering::Relaxed);
        }
        let name = step.name;
        let again = || format!("step `{name}` failed (again: cargo xtask ci {name})");
        Ended { step, time: start.elapsed(), result: result.with_context(again) }
    };
    let goes_on = || !has_failed.load(Ordering::Relaxed);
    let in_turn = |steps: &[&'static Step]| {
        let begun = steps.iter().take_while(|_| goes_on());
        begun.map(|step| run_one(step, context)).collect::<Vec<_>>()
    };
    let mut ended = in_turn(before);
    if goes_on() {
        let giving_way = context.giving_way();
        let beside_one = |step| run_one(step, &giving_way);
        thread::scope(|scope| {
            let beside = beside.iter().map(|step| scope.spawn(|| beside_one(step)));
            let beside = Vec::from_iter(beside);
            ended.extend(in_turn(testing));
            let wait = |it: thread::ScopedJoinHandle<'_, _>| it.join().expect("a step panicked");
            ended.extend(beside.into_iter().map(wait));
        });
    }
    ended
}

fn select(names: &[&str]) -> Result<Vec<&'static Step>> {
    names
        .iter()
        .map(|name| {
            STEPS
                .iter()
                .find(|step| step.name == *name)
                .with_context(|| format!("`{name}` is no step; the steps are: {}", CI.join(", ")))
        })
        .collect()
}

/// Seconds that all steps may take, cold, on two cores.
const CI_SECONDS_MAX: u64 = 1500;

fn summary(ended: &[Ended], planned: usize, total: Duration) -> String {
    let mut text = String::from("step        seconds   usual\n");
    for Ended { step, time, .. } in ended {
        let _ = writeln!(text, "{:10} {:8.1} {:7}", step.name, time.as_secs_f64(), step.usual_s);
    }
    let _ = writeln!(text, "{:10} {:8.1}", "total", total.as_secs_f64());
    if ended.len() < planned {
        let _ = writeln!(text, "{} of {planned} steps were not reached", planned - ended.len());
    }
    if total > Duration::from_secs(CI_SECONDS_MAX) {
        let _ = writeln!(text, "more than the {CI_SECONDS_MAX} s that two cores may take");
    }
    text
}

fn fmt(context: &Context) -> Result<()> {
    process::run(&mut context.cargo(["fmt", "--all", "--", "--check"]))?;
    let manifest = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--", "--check"];
    process::run(&mut context.cargo(manifest))
}

fn clippy(context: &Context) -> Result<()> {
    let arguments = ["clippy", "--locked", "--all-targets", "--", "-D", "warnings"];
    process::run(&mut context.cargo(arguments))
}

fn tests(context: &Context) -> Result<()> {
    let count = binaries::run(context, &mut suites::build_tests(context)?)?;
    println!("{count} tests ran");
    Ok(())
}

fn docs(context: &Context) -> Result<()> {
    process::run(&mut suites::run_doctests(context)?)?;
    examples(context)?;
    let arguments = ["doc", "--locked", "--no-deps", "--document-private-items"];
    process::run(context.cargo(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs the log's examples, each in a directory of its own that is new.
fn examples(context: &Context) -> Result<()> {
    // As users build them, without mutants. The foreign crates that they link are there.
    let arguments = ["build", "--locked", "--profile", "test", "--examples"];
    let built = binaries::build_examples(&mut context.cargo(arguments))?;
    let examples = Vec::from_iter(built.iter().filter(|it| it.package == "kelvin-log"));
    ensure!(!examples.is_empty(), "crates/log/examples has no example");
    let directory = context.target.join("example-runs");
    for example in examples {
        let home = directory.join(&example.target);
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        process::run(example.command(context).arg(&home))?;
    }
    fs::remove_dir_all(&directory).context("removing what the examples made")
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use anyhow::{bail, ensure};

    use super::{
        BESIDE, CHECK, CI, Ended, STEPS, Step, TEST, TESTING, run_all, select, step, summary,
    };
    use crate::context::Context;

    #[test]
    fn ci_is_every_step_in_order() {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names, CI);
        for names in [&CHECK[..], &TEST, &BESIDE, &TESTING] {
            assert_eq!(select(names).expect("known").len(), names.len());
        }
    }

    #[test]
    fn an_unknown_step_is_refused_before_anything_runs() {
        let error = select(&["tidy", "brew"]).err().expect("must fail");
        assert!(error.to_string().starts_with("`brew` is no step"), "{error}");
    }

    static FMT: Step = step("fmt", "", 1, gives_no_way);
    static BAD_FMT: Step = step("fmt", "", 1, |_| bail!("fmt is bad"));
    static TESTS: Step = step("tests", "", 1, |context| {
        std::fs::write(context.root.join("tests"), "")?;
        // Whoever is beside it has ended: it does not wait for its turn.
        while !context.root.join("loom").exists() {
            std::thread::yield_now();
        }
        gives_no_way(context)
    });
    static DOCS: Step = step("docs", "", 1, gives_no_way);
    static LOOM: Step = step("loom", "", 1, |context| {
        ensure!(context.gives_way, "it is in the way");
        Ok(std::fs::write(context.root.join("loom"), "")?)
    });
    static BAD_LOOM: Step = step("loom", "", 1, |context| {
        // It fails while they run, and not before they are begun.
        while !context.root.join("tests").exists() {
            std::thread::yield_now();
        }
        std::fs::write(context.root.join("loom"), "")?;
        bail!("loom is bad")
    });

    fn gives_no_way(context: &Context) -> anyhow::Result<()> {
        ensure!(!context.gives_way, "it measures time");
        Ok(())
    }

    /// What came of the steps: their names, and whether they passed.
    fn ended(test: &str, steps: &[&'static Step]) -> Vec<(&'static str, bool)> {
        let root = std::env::temp_dir().join(format!("xtask-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a directory");
        let target = PathBuf::from("/none");
        let context = Context { root, target, gives_way: false, builds_once: false };
        let ended = run_all(&context, steps);
        std::fs::remove_dir_all(&context.root).expect("it is there");
        ended.iter().map(|it| (it.step.name, it.result.is_ok())).collect()
    }

    #[test]
    fn those_that_give_way_run_beside_the_tests() {
        let expected = [("fmt", true), ("tests", true), ("docs", true), ("loom", true)];
        assert_eq!(ended("beside", &[&FMT, &TESTS, &DOCS, &LOOM]), expected);
        assert_eq!(ended("alone", &[&LOOM]), [("loom", true)]);
    }

    #[test]
    fn nothing_is_begun_after_a_failure() {
        assert_eq!(ended("before", &[&BAD_FMT, &TESTS, &LOOM]), [("fmt", false)]);
        // What runs beside it goes on to its end.
        let told = ended("within", &[&FMT, &TESTS, &BAD_LOOM]);
        assert_eq!(told, [("fmt", true), ("tests", true), ("loom", false)]);
    }

    #[test]
    fn the_summary_says_what_took_how_long_and_what_was_not_reached() {
        let of = |step: &'static Step, ms| Ended {
            step,
            time: Duration::from_millis(ms),
            result: Ok(()),
        };
        let ended = [of(&STEPS[1], 1500), of(&STEPS[3], 250)];
        let total = Duration::from_millis(1800);
        let text = summary(&ended, 4, total);
        assert!(text.contains("fmt             1.5       5\n"), "{text}");
        assert!(text.contains("total           1.8\n"), "{text}");
        assert!(text.ends_with("2 of 4 steps were not reached\n"), "{text}");
        assert!(!summary(&ended, 2, total).contains("not reached"));
        let slow = summary(&ended, 2, Duration::from_secs(1501));
        assert!(slow.ends_with("more than the 1500 s that two cores may take\n"), "{slow}");
        assert!(!summary(&ended, 2, Duration::from_secs(1500)).contains("more than"));
    }
}
