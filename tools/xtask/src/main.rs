//! The project's own commands: `cargo xtask help` lists them.
#![forbid(unsafe_code)]

mod binaries;
mod context;
mod dependencies;
mod fuzz;
mod mutants;
mod process;
mod selection;
mod setup;
mod several;
mod soak;
mod steps;
mod suites;
mod tidy;
mod with_mutants;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  check            the inner loop: format, clippy, tidy
  test             everything that CI runs as a test
  ci [STEP...]     exactly what CI runs, or only the named steps of it
  tidy             house rules that neither the compiler nor clippy checks
  mutants [NAME..] break the code on purpose; the suites must notice each time
  soak [JOB...]    what takes longer than CI may; without a job, all of them
  setup            install what the tests need and this machine lacks
  help             this text, with the steps and jobs
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[&str]) -> Result<()> {
    let root = workspace::root();
    match arguments {
        ["check"] => steps::run(&root, &steps::CHECK),
        ["test"] => steps::run(&root, &steps::TEST),
        ["ci"] => steps::run(&root, &steps::CI),
        ["ci", names @ ..] => steps::run(&root, names),
        ["tidy"] => tidy::check(&root),
        ["mutants", names @ ..] => mutants::check(&context::Context::new(&root)?, names),
        ["soak", names @ ..] => soak::run(&root, names),
        ["setup"] => steps::run(&root, &["setup"]),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}\nSteps of ci, in order:\n{}", steps::describe());
            print!("\nJobs of soak:\n{}", soak::describe());
            Ok(())
        }
        [] => bail!("no command is given\n\n{USAGE}"),
        _ => bail!("`{}` is no command\n\n{USAGE}", arguments.join(" ")),
    }
}
