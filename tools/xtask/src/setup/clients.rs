//! The memcached clients that the tests drive, and the exporter of statistics: from PyPI and from
//! the Go module proxy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    context::Context,
    process::{capture, run},
};

/// Where the tests keep what drives the clients: `requirements.txt` and Go modules.
const CLIENTS: &str = "crates/kelvin/tests/clients";

/// Directories below that are searched for Go modules.
const GO_MODULE_DEPTH_MAX: u32 = 3;

pub(super) fn install(context: &Context) -> Result<()> {
    let clients = context.root.join(CLIENTS);
    install_python(&clients.join("requirements.txt"), context)?;
    let mut modules = Vec::new();
    find_go_modules(&clients, GO_MODULE_DEPTH_MAX, &mut modules)?;
    if modules.is_empty() {
        bail!("no go.mod below {}: the Go client is not tested", clients.display());
    }
    for module in modules {
        let mut download = Command::new("go");
        // Where Go is older than a module asks for, it fetches one that is not.
        download.args(["mod", "download"]).current_dir(&module).env("GOTOOLCHAIN", "auto");
        run(&mut download).with_context(|| {
            format!("{} needs Go 1.21 or later; Debian 12 has an older one", module.display())
        })?;
    }
    Ok(())
}

/// Makes the environment anew when the pinned versions changed or it does not run.
fn install_python(requirements: &Path, context: &Context) -> Result<()> {
    let wanted = fs::read_to_string(requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let environment = context.python_environment();
    let python = context.python();
    // A copy of the requirements, written last, says that the environment is complete.
    let installed = environment.join("requirements.txt");
    let is_complete = fs::read_to_string(&installed).is_ok_and(|text| text == wanted)
        && capture(Command::new(&python).arg("--version")).is_ok_and(|output| output.success);
    if is_complete {
        return Ok(());
    }
    println!("making the Python environment {}", environment.display());
    let make = ["-m", "venv", "--clear"];
    run(Command::new("/usr/bin/python3").args(make).arg(&environment))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    run(Command::new(&python).args(install).arg(requirements))?;
    fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))
}

fn find_go_modules(directory: &Path, depth: u32, found: &mut Vec<PathBuf>) -> Result<()> {
    if directory.join("go.mod").exists() {
        found.push(directory.to_owned());
    }
    if depth == 0 {
        return Ok(());
    }
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find_go_modules(&entry.path(), depth - 1, found)?;
        }
    }
    Ok(())
}
