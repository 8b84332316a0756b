//! What the tests need beside a Rust toolchain, installed where it is absent.
//!
//! Debian packages (the differential test's memcached, what the clients need to build), components
//! of the toolchains, the Python clients in an environment below cargo's directory, the Go client.
//! A second run finds everything present, installs nothing and needs no network.

mod clients;
mod debian;
mod rust;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::steps::Context;

/// The variable in which the tests find the Python that has the clients.
pub(crate) const PYTHON_VARIABLE: &str = "KELVIN_TEST_PYTHON";

/// The Python that has the clients.
pub(crate) fn python(target: &Path) -> PathBuf {
    environment(target).join("bin/python")
}

fn environment(target: &Path) -> PathBuf {
    target.join("test-venv")
}

/// Step `setup`.
///
/// # Errors
/// When something is absent and cannot be installed; the message says what to install by hand.
pub(crate) fn run(context: &Context) -> Result<()> {
    rust::install()?;
    debian::install()?;
    clients::install(context)
}
