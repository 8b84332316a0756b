//! Licences and duplicate versions of what is linked in.
//!
//! The whole lock file must carry allowed licences. Two versions of one crate are refused in what
//! an ordinary build on this machine links (code under a model checker may bring its own), unless
//! an exception says why. cargo-deny does the same and more, but building it takes 200 s of CPU
//! time, which is a tenth of the budget of the whole test command.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    process::capture,
    workspace::{Metadata, metadata},
};

/// Licences under which code may be linked into an Apache-2.0 binary.
const LICENCES_ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates of which two versions are tolerated, each with its reason.
const DUPLICATES_TOLERATED: [(&str, &str); 0] = [];

/// Where each direct dependency has a row that ends with its licence.
const DOCUMENT: &str = "docs/dependencies.md";

/// Checks licences and duplicates, and prints what was looked at.
///
/// # Errors
/// With every violation found, one a line.
pub(crate) fn check(root: &Path) -> Result<()> {
    let everything = metadata(root, &["--locked"])?;
    let linked = metadata(root, &["--locked", "--filter-platform", &host()?])?;
    let mut problems = licence_problems(&everything);
    problems.extend(duplicate_problems(&linked, &DUPLICATES_TOLERATED));
    let document = fs::read_to_string(root.join(DOCUMENT)).context(DOCUMENT)?;
    problems.extend(document_problems(&everything, &document));
    if !problems.is_empty() {
        bail!("dependencies:\n{}", problems.join("\n"));
    }
    println!("{} packages, every licence allowed, no duplicates", everything.packages.len());
    Ok(())
}

fn host() -> Result<String> {
    let output = capture(Command::new("rustc").arg("-vV"))?;
    let host = output.stdout.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

fn licence_problems(metadata: &Metadata) -> Vec<String> {
    let mut problems = Vec::new();
    for package in &metadata.packages {
        let named = format!("{} {}", package.name, package.version);
        match &package.license {
            None => problems.push(format!("{named}: no licence is declared")),
            Some(licence) => match allows(licence) {
                Ok(true) => {}
                Ok(false) => problems.push(format!("{named}: licence `{licence}` is not allowed")),
                Err(error) => problems.push(format!("{named}: licence `{licence}`: {error}")),
            },
        }
    }
    problems
}

/// Rows of the document whose licence is not the one that the crate declares.
fn document_problems(metadata: &Metadata, document: &str) -> Vec<String> {
    let rows = document.lines().zip(1..).filter_map(|(line, number)| {
        let name = line.strip_prefix("| `")?.split('`').next()?;
        let licence = line.trim_end_matches(['|', ' ']).rsplit('|').next()?.trim();
        Some((name, licence, number))
    });
    rows.filter(|(name, licence, _)| {
        let declares = |found: &str| found == *licence;
        !metadata.packages.iter().any(|package| {
            package.name == *name && package.license.as_deref().is_some_and(declares)
        })
    })
    .map(|(name, licence, line)| {
        format!("{DOCUMENT}:{line}: `{name}` does not declare the licence `{licence}`")
    })
    .collect()
}

fn duplicate_problems(metadata: &Metadata, tolerated: &[(&str, &str)]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let reached = reached(metadata);
    for package in metadata.packages.iter().filter(|package| reached.contains(package.id.as_str()))
    {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let is_tolerated = |name: &str| tolerated.iter().any(|(tolerated, _)| *tolerated == name);
    let is_duplicate = |name: &str| versions.get(name).is_some_and(|all| all.len() > 1);
    let mut problems: Vec<String> = versions
        .iter()
        .filter(|(name, all)| all.len() > 1 && !is_tolerated(name))
        .map(|(name, all)| {
            let all: Vec<&str> = all.iter().copied().collect();
            format!("{name}: {} versions are linked: {}", all.len(), all.join(", "))
        })
        .collect();
    for (name, _) in tolerated.iter().filter(|(name, _)| !is_duplicate(name)) {
        problems.push(format!("{name}: tolerated as a duplicate, but is none: drop the exception"));
    }
    problems
}

/// The ids of all packages that the default members depend on, themselves included.
fn reached(metadata: &Metadata) -> BTreeSet<&str> {
    let nodes: BTreeMap<&str, &[String]> = metadata
        .resolve
        .iter()
        .flat_map(|resolve| &resolve.nodes)
        .map(|node| (node.id.as_str(), node.dependencies.as_slice()))
        .collect();
    let mut open: Vec<&str> =
        metadata.workspace_default_members.iter().map(String::as_str).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(nodes.get(id).copied().unwrap_or_default().iter().map(String::as_str));
        }
    }
    reached
}

/// Whether a licence expression can be met with allowed licences only.
///
/// # Errors
/// When the expression is malformed.
fn allows(expression: &str) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let allowed = any_of(&mut rest)?;
    if let Some(word) = rest.first() {
        bail!("unexpected `{word}`");
    }
    Ok(allowed)
}

fn any_of(rest: &mut &[&str]) -> Result<bool> {
    let mut allowed = all_of(rest)?;
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        allowed |= all_of(rest)?;
    }
    Ok(allowed)
}

fn all_of(rest: &mut &[&str]) -> Result<bool> {
    let mut allowed = single(rest)?;
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        allowed &= single(rest)?;
    }
    Ok(allowed)
}

fn single(rest: &mut &[&str]) -> Result<bool> {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let allowed = any_of(rest)?;
            let [")", tail @ ..] = *rest else { bail!("a parenthesis is not closed") };
            *rest = tail;
            Ok(allowed)
        }
        [] | [")" | "AND" | "OR" | "WITH", ..] => bail!("a licence is missing"),
        [licence, "WITH", exception, tail @ ..] => {
            *rest = tail;
            Ok(LICENCES_ALLOWED.contains(&format!("{licence} WITH {exception}").as_str()))
        }
        [licence, tail @ ..] => {
            *rest = tail;
            Ok(LICENCES_ALLOWED.contains(licence))
        }
    }
}

#[cfg(test)]
mod tests;
