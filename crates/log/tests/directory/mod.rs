//! Where the tests keep their files.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A directory that is removed in the end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// An empty one.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kelvin-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a new directory");
        Self(path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
