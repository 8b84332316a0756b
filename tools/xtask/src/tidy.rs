//! House rules that neither the compiler nor clippy checks.
//!
//! Every rule is a function from sources or metadata to findings, so that its tests can show that a
//! violation is found. All findings are reported at once.

mod clock;
mod floors;
mod names;
mod sizes;
mod source;
mod text;
mod unsafety;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use self::source::{Source, Sources};
use crate::workspace::{Metadata, metadata};

/// Directories that hold nothing written by hand.
const DIRECTORIES_SKIPPED: [&str; 6] =
    [".git", ".venv", "target", "fuzz/corpus", "fuzz/artifacts", "fuzz/target"];

/// Files that are read as text; the rest (corpora, images, lock files) is not ours to format.
const EXTENSIONS_READ: [&str; 6] = ["go", "md", "py", "rs", "sh", "toml"];

/// Files without an extension that are read all the same.
const FILES_READ: [&str; 1] = [".ci/run"];

/// One violation of one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks the whole repository.
///
/// # Errors
/// When a file cannot be read, or with every finding, one a line.
pub(crate) fn check(root: &Path) -> Result<()> {
    let metadata = metadata(root, &["--no-deps"])?;
    let mut paths = Vec::new();
    list_files(root, root, &mut paths)?;
    paths.sort();
    let files = read_files(root, &paths)?;
    let findings = findings(&metadata, &files);
    if findings.is_empty() {
        println!("{} files are tidy", files.len());
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    bail!("tidy: {} findings", findings.len());
}

/// A file's path from the root, with `/`, and its text.
type TextFile = (String, String);

fn findings(metadata: &Metadata, files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let document =
        |path: &str| files.iter().find(|(at, _)| at == path).map_or("", |(_, text)| text.as_str());
    for (path, text) in files {
        findings.extend(text::check(path, text));
    }
    let mut parsed = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        match Source::parse(path, text) {
            Ok(source) => parsed.push(source),
            Err(finding) => findings.push(finding),
        }
    }
    let sources = Sources::new(parsed);
    for source in sources.iter() {
        findings.extend(sizes::check(source, &sources));
        findings.extend(clock::check(source, &sources));
        findings.extend(names::check_source(source));
    }
    findings.extend(unsafety::check(metadata, &sources, document(unsafety::DOCUMENT)));
    findings.extend(names::check_packages(metadata));
    findings.extend(floors::check(metadata));
    findings.extend(floors::check_document(metadata, document(floors::DOCUMENT)));
    findings.sort();
    findings
}

fn list_files(root: &Path, dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", dir.display()))?;
        let path = entry.path();
        let relative = path.strip_prefix(root).unwrap_or(&path);
        let kind = entry.file_type()?;
        if kind.is_dir() && !DIRECTORIES_SKIPPED.iter().any(|skipped| relative.ends_with(skipped)) {
            list_files(root, &path, found)?;
        } else if kind.is_file() && is_read(relative) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_read(relative: &Path) -> bool {
    let extension = relative.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS_READ.contains(&extension))
        || FILES_READ.iter().any(|file| relative == Path::new(file))
}

fn read_files(root: &Path, paths: &[PathBuf]) -> Result<Vec<TextFile>> {
    paths
        .iter()
        .map(|path| {
            let bytes =
                fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
            Ok((relative, String::from_utf8_lossy(&bytes).into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests;
