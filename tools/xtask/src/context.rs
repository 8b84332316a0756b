//! What commands know of the machine and pass on to each other.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::workspace;

/// The variable in which the tests find the Python that has the clients.
const PYTHON_VARIABLE: &str = "KELVIN_TEST_PYTHON";

/// The variable with which tests fail that cannot mount what they need, and are skipped without it.
const MOUNTS_VARIABLE: &str = "KELVIN_TEST_MOUNTS";

/// The niceness of what gives way: beside anything else it has a seventieth of a core, and all of
/// what is idle.
const LEAST: &str = "19";

/// What cargo is told when it builds once.
const BUILDS_ONCE: [(&str, &str); 3] = [
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_MODEL_DEBUG", "none"),
    ("CARGO_PROFILE_TEST_DEBUG", "none"),
];

/// Where things are.
pub(crate) struct Context {
    pub(crate) root: PathBuf,
    /// Where cargo builds; model checkers and miri build in directories below it.
    pub(crate) target: PathBuf,
    /// Whether what is started gives way to everything else: it fills what others leave idle.
    pub(crate) gives_way: bool,
    /// Whether cargo keeps nothing by which it would build faster after a change, a tenth of the
    /// time that our crates take, and nothing by which backtraces have lines, a sixth of it. Where
    /// a test has panicked is told without; a step that is run by itself builds anew, with them.
    pub(crate) builds_once: bool,
}

impl Context {
    /// Asks cargo where it builds.
    ///
    /// # Errors
    /// When `cargo metadata` fails.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let target = workspace::metadata(root, &["--no-deps"])?.target_directory;
        Ok(Self { root: root.to_owned(), target, gives_way: false, builds_once: false })
    }

    /// The same, of what runs beside something that measures time.
    pub(crate) fn giving_way(&self) -> Self {
        let (root, target) = (self.root.clone(), self.target.clone());
        Self { root, target, gives_way: true, builds_once: self.builds_once }
    }

    /// A program in the workspace.
    pub(crate) fn program(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = if self.gives_way {
            let mut command = Command::new("nice");
            command.args(["-n", LEAST]).arg(name);
            command
        } else {
            Command::new(name)
        };
        command.current_dir(&self.root);
        command
    }

    /// A cargo command in the workspace.
    pub(crate) fn cargo<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.program("cargo");
        command.args(arguments);
        if self.builds_once {
            command.envs(BUILDS_ONCE);
        }
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::Context;
    use crate::process::{capture, display};

    fn context() -> Context {
        let (root, target) = (PathBuf::from("/"), PathBuf::from("/target"));
        Context { root, target, gives_way: false, builds_once: false }
    }

    #[test]
    fn what_gives_way_runs_at_the_least_priority() {
        assert_eq!(display(&context().cargo(["test"])), "cargo test");
        let context = context().giving_way();
        assert_eq!(display(&context.cargo(["test"])), "nice -n 19 cargo test");
        // `nice` alone says at which niceness it runs.
        let told = capture(&mut context.program("nice")).expect("it is there");
        assert_eq!(told.stdout.trim(), "19");
    }

    #[test]
    fn what_builds_once_keeps_nothing_for_later_builds() {
        let context = Context { builds_once: true, ..context() };
        let set =
            "CARGO_INCREMENTAL=0 CARGO_PROFILE_MODEL_DEBUG=none CARGO_PROFILE_TEST_DEBUG=none";
        assert_eq!(display(&context.cargo(["test"])), format!("{set} cargo test"));
        let beside = context.giving_way();
        assert_eq!(display(&beside.cargo(["test"])), format!("{set} nice -n 19 cargo test"));
    }
}
