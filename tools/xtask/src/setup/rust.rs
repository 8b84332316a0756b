//! Components of the Rust toolchains.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{capture, find_program, run};

/// What `fmt` and `clippy` need, on the toolchain that runs this.
const STABLE: [&str; 2] = ["rustfmt", "clippy"];

/// What `miri` needs; it exists on nightly only.
const NIGHTLY: [&str; 2] = ["miri", "rust-src"];

pub(super) fn install() -> Result<()> {
    if find_program("rustup").is_none() {
        bail!("rustup is not on the path: it installs the toolchain parts that the tests need");
    }
    add(None, &STABLE)?;
    let toolchains = capture(Command::new("rustup").args(["toolchain", "list"]))?;
    if !toolchains.stdout.lines().any(|line| line.starts_with("nightly-")) {
        println!("no nightly toolchain; installing it for miri");
        let install = ["toolchain", "install", "nightly", "--profile", "minimal"];
        run(Command::new("rustup").args(install))?;
    }
    add(Some("nightly"), &NIGHTLY)
}

fn add(toolchain: Option<&str>, components: &[&str]) -> Result<()> {
    let on_toolchain: Vec<&str> = toolchain.map_or(vec![], |name| vec!["--toolchain", name]);
    let mut list = Command::new("rustup");
    let installed = capture(list.args(["component", "list", "--installed"]).args(&on_toolchain))?;
    let absent = absent(&installed.stdout, components);
    if absent.is_empty() {
        return Ok(());
    }
    println!("installing {} on {}", absent.join(", "), toolchain.unwrap_or("this toolchain"));
    run(Command::new("rustup").args(["component", "add"]).args(absent).args(&on_toolchain))
}

/// The components that rustup's list lacks. It shows most with the target: `miri-x86_64-...`.
fn absent<'a>(installed: &str, components: &[&'a str]) -> Vec<&'a str> {
    let is_installed = |component: &str| {
        installed.lines().any(|line| {
            line.strip_prefix(component)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    };
    components.iter().copied().filter(|component| !is_installed(component)).collect()
}

#[cfg(test)]
mod tests {
    use super::absent;

    #[test]
    fn finds_what_is_absent_by_whole_names() {
        let installed =
            "cargo-x86_64-unknown-linux-gnu\nrust-src\nrustfmt-x86_64-unknown-linux-gnu\n";
        assert_eq!(absent(installed, &["rustfmt", "rust-src"]), Vec::<&str>::new());
        assert_eq!(absent(installed, &["miri", "rust", "rust-src"]), ["miri"]);
    }
}
