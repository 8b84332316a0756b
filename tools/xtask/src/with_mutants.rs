//! The build that has all mutants: by a compiler that sets their cfg.
//!
//! It is set for this workspace only, so that dependencies are not built again. Several steps use
//! it at the same time.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::context::Context;

/// The variable that says which mutant is on: that of `base::mutants`.
pub(crate) const VARIABLE: &str = "KELVIN_MUTANT";

/// Not for `sh`, some of which drop variables whose names have hyphens, as cargo's for programs do.
const SCRIPT: &str = "#!/usr/bin/env bash\nexec \"$@\" --cfg mutants\n";

/// Makes a cargo command build the mutants, too. None is on where the environment names none.
///
/// # Errors
/// When the compiler cannot be written.
pub(crate) fn set(context: &Context, command: &mut Command) -> Result<()> {
    let path = wrapper(context);
    write(&path).with_context(|| format!("cannot write {}", path.display()))?;
    command.env("RUSTC_WORKSPACE_WRAPPER", path);
    Ok(())
}

/// cargo keeps apart what wrappers of different paths build.
fn wrapper(context: &Context) -> PathBuf {
    context.target.join("mutants").join("rustc")
}

/// Puts it in place whole: another step may start the one that is there at any time, and what is
/// open for writing cannot be started.
fn write(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory)?;
    let thread = std::thread::current().id();
    let new = directory.join(format!("rustc-{}-{thread:?}", std::process::id()));
    fs::write(&new, SCRIPT)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt as _, process::Command};

    use super::{set, wrapper};
    use crate::{context::Context, process::capture};

    #[test]
    fn the_compiler_is_replaced_and_never_written_to() {
        let root = std::env::temp_dir().join(format!("xtask-compiler-{}", std::process::id()));
        let target = root.clone();
        let context = Context { root, target, gives_way: false, builds_once: false };
        let root = &context.root;
        let mut command = Command::new("cargo");
        set(&context, &mut command).expect("written");
        let first = fs::File::open(wrapper(&context)).expect("it is there");
        set(&context, &mut command).expect("written again");
        let inode = |file: &fs::File| file.metadata().expect("a file").ino();
        let second = fs::File::open(wrapper(&context)).expect("it is there");
        assert_ne!(inode(&first), inode(&second), "the same file was written to");
        // Not started itself: a child of another test may still have it open for writing.
        let script = wrapper(&context);
        let told = capture(Command::new("bash").arg(script).args(["echo", "a.rs"])).expect("runs");
        let left = fs::read_dir(root.join("mutants")).expect("a directory").count();
        fs::remove_dir_all(root).expect("it is there");
        assert_eq!(told.stdout, "a.rs --cfg mutants\n");
        assert_eq!(left, 1, "only the compiler");
        let variable = "RUSTC_WORKSPACE_WRAPPER".as_ref();
        let set = (variable, Some(wrapper(&context)));
        assert!(command.get_envs().any(|(name, value)| (name, value.map(Into::into)) == set));
    }
}
