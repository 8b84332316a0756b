//! The steps of CI: their order, what each runs, and the table of how long each took.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use crate::{binaries, context::Context, dependencies, mutants, process, setup, suites, tidy};

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Context) -> Result<()>,
}

const STEPS: [Step; 11] = [
    Step { name: "setup", what: "install what is missing", run: setup::run },
    Step { name: "fmt", what: "rustfmt has nothing to change", run: fmt },
    Step { name: "clippy", what: "no warning in any target", run: clippy },
    Step { name: "tidy", what: "house rules", run: |context| tidy::check(&context.root) },
    Step {
        name: "licences",
        what: "licences and duplicates of dependencies",
        run: |context| dependencies::check(&context.root),
    },
    Step { name: "tests", what: "unit and integration tests, fuzz corpora", run: tests },
    Step { name: "docs", what: "examples run, no warning in the documentation", run: docs },
    Step { name: "loom", what: "every interleaving of small models", run: suites::loom },
    Step { name: "shuttle", what: "long random schedules", run: suites::shuttle },
    Step { name: "miri", what: "no undefined behaviour, many seeds", run: suites::miri_all },
    Step {
        name: "mutants",
        what: "the suites notice code broken on purpose",
        run: |context| mutants::check(context, &[]),
    },
];

/// The inner loop.
pub(crate) const CHECK: [&str; 3] = ["fmt", "clippy", "tidy"];

/// What runs code.
pub(crate) const TEST: [&str; 7] = ["setup", "tests", "docs", "loom", "shuttle", "miri", "mutants"];

/// Steps that run beside the ones before them that are here, too: loom has one thread, and no test
/// of these measures time.
const BESIDE: [&str; 3] = ["loom", "shuttle", "miri"];

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
/// On an unknown name before anything runs; else the first failure, which ends the run.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<()> {
    let steps = select(names)?;
    let context = Context::new(root)?;
    let start = Instant::now();
    let mut times: Vec<(&str, Duration)> = Vec::new();
    let is_beside = |step: &&Step| BESIDE.contains(&step.name);
    for group in steps.chunk_by(|step, next| is_beside(step) && is_beside(next)) {
        let ended = run_group(&context, group);
        times.extend(ended.iter().map(|(step, time, _)| (step.name, *time)));
        for (step, _, result) in ended {
            if let Err(error) = result {
                print!("\n{}", summary(&times, steps.len(), start.elapsed()));
                let name = step.name;
                return Err(error).with_context(|| {
                    format!("step `{name}` failed (again: cargo xtask ci {name})")
                });
            }
        }
    }
    print!("\n{}", summary(&times, steps.len(), start.elapsed()));
    Ok(())
}

/// What came of a step.
type Ended = (&'static Step, Duration, Result<()>);

/// Runs steps side by side.
fn run_group(context: &Context, steps: &[&'static Step]) -> Vec<Ended> {
    let run_one = |step: &'static Step| {
        println!("\n=== {}: {}", step.name, step.what);
        let start = Instant::now();
        let result = (step.run)(context);
        (step, start.elapsed(), result)
    };
    thread::scope(|scope| {
        let running: Vec<_> = steps.iter().map(|step| scope.spawn(move || run_one(step))).collect();
        running.into_iter().map(|step| step.join().expect("a step has panicked")).collect()
    })
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

fn summary(times: &[(&str, Duration)], planned: usize, total: Duration) -> String {
    let mut text = String::from("step        seconds\n");
    for (name, time) in times {
        let _ = writeln!(text, "{name:10} {:8.1}", time.as_secs_f64());
    }
    let _ = writeln!(text, "{:10} {:8.1}", "total", total.as_secs_f64());
    if times.len() < planned {
        let _ = writeln!(text, "{} of {planned} steps were not reached", planned - times.len());
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
    let arguments = ["test", "--locked", "--lib", "--bins", "--tests", "--examples"];
    let count = binaries::run(&mut context.cargo(arguments), &context.of_tests())?;
    println!("{count} tests ran");
    Ok(())
}

fn docs(context: &Context) -> Result<()> {
    process::run(&mut context.cargo(["test", "--locked", "--doc"]))?;
    examples(context)?;
    let arguments = ["doc", "--locked", "--no-deps", "--document-private-items"];
    process::run(context.cargo(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs the log's examples, each in a directory of its own that is new.
fn examples(context: &Context) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(context.root.join("crates/log/examples"))? {
        let path = entry?.path();
        names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
    }
    ensure!(!names.is_empty(), "crates/log/examples has no example");
    let directory = context.target.join("example-runs");
    for name in names {
        let home = directory.join(&name);
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        let arguments = ["run", "--locked", "--package", "kelvin-log", "--example", &name, "--"];
        process::run(context.cargo(arguments).arg(&home))?;
    }
    fs::remove_dir_all(&directory).context("removing what the examples made")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BESIDE, CHECK, CI, STEPS, TEST, select, summary};

    #[test]
    fn ci_is_every_step_in_order() {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names, CI);
        assert_eq!(select(&CHECK).expect("known").len(), CHECK.len());
        assert_eq!(select(&TEST).expect("known").len(), TEST.len());
        assert_eq!(select(&BESIDE).expect("known").len(), BESIDE.len());
    }

    #[test]
    fn an_unknown_step_is_refused_before_anything_runs() {
        let error = select(&["tidy", "brew"]).err().expect("must fail");
        assert!(error.to_string().starts_with("`brew` is no step"), "{error}");
    }

    #[test]
    fn the_summary_says_what_took_how_long_and_what_was_not_reached() {
        let times = [("fmt", Duration::from_millis(1500)), ("tidy", Duration::from_millis(250))];
        let total = Duration::from_millis(1800);
        let text = summary(&times, 4, total);
        assert!(text.contains("fmt             1.5\n"), "{text}");
        assert!(text.contains("total           1.8\n"), "{text}");
        assert!(text.ends_with("2 of 4 steps were not reached\n"), "{text}");
        assert!(!summary(&times, 2, total).contains("not reached"));
    }
}
