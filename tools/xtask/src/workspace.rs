//! What cargo knows of this workspace: packages, dependencies, where things are built.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::process::capture;

/// The answer of `cargo metadata`, as far as it is used here.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) workspace_default_members: Vec<String>,
    pub(crate) resolve: Option<Resolve>,
    pub(crate) target_directory: PathBuf,
    pub(crate) workspace_root: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Absent for a dependency by path.
    pub(crate) source: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) dependencies: Vec<String>,
}

impl Metadata {
    /// The packages of this repository.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// A path as shown in findings: relative to the workspace, with `/`.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.workspace_root).unwrap_or(path).to_string_lossy().into_owned()
    }
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir
        .ancestors()
        .nth(2)
        .expect("invariant: the package lies two directories below the root")
        .to_owned()
}

/// Runs `cargo metadata` in `root`; `extra` narrows what it answers (`--no-deps`, a platform).
///
/// # Errors
/// When cargo fails (a bad manifest, no network on a cold registry) or gives a strange answer.
pub(crate) fn metadata(root: &Path, extra: &[&str]) -> Result<Metadata> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["metadata", "--format-version", "1", "--quiet"]).args(extra);
    let output = capture(&mut command)?;
    if !output.success {
        bail!("cargo metadata failed:\n{}", output.all);
    }
    serde_json::from_str(&output.stdout).context("cargo metadata's answer is not understood")
}
