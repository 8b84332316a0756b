//! What the tests need beside a Rust toolchain, installed where it is absent.
//!
//! Debian packages (the differential test's memcached, what the clients need to build), components
//! of the toolchains, the Python clients in an environment below cargo's directory, the Go client.
//! A second run finds everything present, installs nothing and needs no network.

mod clients;
mod debian;
mod rust;

use anyhow::Result;

use crate::context::Context;

/// Step `setup`.
///
/// # Errors
/// When something is absent and cannot be installed; the message says what to install by hand.
pub(crate) fn run(context: &Context) -> Result<()> {
    rust::install()?;
    debian::install()?;
    clients::install(context)
}
