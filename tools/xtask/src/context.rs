//! What commands know of the machine and pass on to each other.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::workspace;

/// The variable in which the tests find the Python that has the clients.
const PYTHON_VARIABLE: &str = "KELVIN_TEST_PYTHON";

/// The variable with which tests fail that cannot mount what they need, and are skipped without it.
const MOUNTS_VARIABLE: &str = "KELVIN_TEST_MOUNTS";

/// Where things are.
pub(crate) struct Context {
    pub(crate) root: PathBuf,
    /// Where cargo builds; model checkers and miri build in directories below it.
    pub(crate) target: PathBuf,
}

impl Context {
    /// Asks cargo where it builds.
    ///
    /// # Errors
    /// When `cargo metadata` fails.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let target = workspace::metadata(root, &["--no-deps"])?.target_directory;
        Ok(Self { root: root.to_owned(), target })
    }

    /// A cargo command in the workspace.
    pub(crate) fn cargo<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root).args(arguments);
        command
    }

    /// The same, with what integration tests need.
    pub(crate) fn cargo_with_clients<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Command {
        let mut command = self.cargo(arguments);
        command.envs(self.of_tests());
        command
    }

    /// The variables that tell integration tests what there is, and their values.
    pub(crate) fn of_tests(&self) -> [(&'static str, PathBuf); 2] {
        [(PYTHON_VARIABLE, self.python()), (MOUNTS_VARIABLE, PathBuf::from("yes"))]
    }

    /// The environment with the Python clients.
    pub(crate) fn python_environment(&self) -> PathBuf {
        self.target.join("test-venv")
    }

    /// The Python of that environment.
    pub(crate) fn python(&self) -> PathBuf {
        self.python_environment().join("bin/python")
    }
}
