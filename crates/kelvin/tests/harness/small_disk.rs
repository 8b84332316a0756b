//! A test in a file system of its own that is small.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
};

use super::log_directory::Directory;

/// Says where the file system is mounted to who runs there.
const MOUNTED: &str = "KELVIN_TEST_SMALL_DISK";

/// Says that file systems can be mounted, so that the test is not to be skipped.
const MOUNTS: &str = "KELVIN_TEST_MOUNTS";

/// Runs `body` in a file system of `size`, as `mount` takes it: the test `name` of `module` (as
/// `module_path!` says it) runs itself once more, in a mount namespace that ends with it. Skipped
/// where nothing can be mounted.
pub(crate) fn on_small_disk(module: &str, name: &str, size: &str, body: impl FnOnce(&Path)) {
    if let Some(path) = env::var_os(MOUNTED) {
        return body(Path::new(&path));
    }
    let mut unshare = vec!["--mount"];
    if !rustix::process::getuid().is_root() {
        unshare.extend(["--user", "--map-root-user"]);
    }
    let tried = Command::new("unshare").args(&unshare).arg("true").stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        assert!(env::var_os(MOUNTS).is_none(), "nothing can be mounted here");
        println!("skipped: nothing can be mounted here");
        return;
    }
    let directory = Directory::new();
    let (_, within) = module.split_once("::").expect("the test is in a module of its binary");
    let script = format!(
        "mount -t tmpfs -o size={size} none \"$1\" && exec \"$0\" --exact --nocapture \"$2\""
    );
    let output = Command::new("unshare")
        .args(&unshare)
        .args(["sh", "-c", &script])
        .arg(env::current_exe().expect("a program"))
        .arg(directory.path())
        .arg(format!("{within}::{name}"))
        .env(MOUNTED, directory.path())
        .output()
        .expect("util-linux is there");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}
