//! Rules on `unsafe`: it lives in listed files, each use is explained, all else forbids it.

use super::{
    Finding,
    source::{Source, Sources},
};
use crate::workspace::{Metadata, Package};

/// Where the files with `unsafe` are listed.
pub(super) const DOCUMENT: &str = "docs/architecture.md";

/// The heading of the list. Each file stands there in backticks, with its path from the root.
const HEADING: &str = "Where unsafe lives";

pub(super) fn check(metadata: &Metadata, sources: &Sources, document: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let listed = listed_files(document).unwrap_or_else(|| {
        let message = format!("no section `{HEADING}`: list there each file with unsafe code");
        findings.push(Finding::new(DOCUMENT, 1, message));
        Vec::new()
    });
    for source in sources.iter() {
        let uses = unsafe_uses(source);
        let is_listed = listed.iter().any(|(path, _)| *path == source.path);
        for unsafe_use in uses {
            if !is_listed {
                let message = format!("unsafe code in a file that {DOCUMENT} does not list");
                findings.push(Finding::new(&source.path, unsafe_use.line, message));
            }
            if !is_explained(source, &unsafe_use) {
                let message = format!("unsafe {} without `{}`", unsafe_use.of, unsafe_use.needs());
                findings.push(Finding::new(&source.path, unsafe_use.line, message));
            }
        }
    }
    for (path, line) in &listed {
        if sources.get(path).is_none_or(|source| unsafe_uses(source).is_empty()) {
            let message = format!("`{path}` is listed, but has no unsafe code");
            findings.push(Finding::new(DOCUMENT, *line, message));
        }
    }
    for package in metadata.members() {
        findings.extend(check_roots(metadata, package, sources, &listed));
    }
    findings
}

/// The listed paths with their lines; `None` without the section.
fn listed_files(document: &str) -> Option<Vec<(&str, usize)>> {
    let is_heading = |line: &str| line.starts_with('#');
    let mut lines = document.lines().zip(1..).skip_while(|(line, _)| {
        !(is_heading(line) && line.trim_start_matches('#').trim() == HEADING)
    });
    lines.next()?;
    Some(
        lines
            .take_while(|(line, _)| !is_heading(line))
            .flat_map(|(line, number)| {
                let in_backticks = line.split('`').skip(1).step_by(2);
                in_backticks.filter(|path| path.ends_with(".rs")).map(move |path| (path, number))
            })
            .collect(),
    )
}

struct UnsafeUse {
    line: usize,
    of: &'static str,
}

impl UnsafeUse {
    fn is_declaration(&self) -> bool {
        matches!(self.of, "fn" | "trait")
    }

    fn needs(&self) -> &'static str {
        if self.is_declaration() { "# Safety" } else { "// SAFETY:" }
    }
}

/// Every `unsafe` in a file, also inside macros; types of function pointers make no promise.
fn unsafe_uses(source: &Source) -> Vec<UnsafeUse> {
    let mut uses = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        if !(token.is_word && token.text == "unsafe") {
            continue;
        }
        let rest = &source.tokens[at + 1..];
        let next = |index: usize| rest.get(index).map_or("", |token| token.text.as_str());
        let of = match next(0) {
            "impl" => "impl",
            "trait" => "trait",
            "(" => "attribute",
            "fn" | "extern" | "async" | "const" => {
                let head: Vec<&str> = (0..4).map(next).collect();
                let after_fn = head.iter().position(|word| *word == "fn").map(|fn_at| fn_at + 1);
                match after_fn.map(next) {
                    Some("(") => continue,
                    Some(_) => "fn",
                    None => "extern block",
                }
            }
            _ => "block",
        };
        uses.push(UnsafeUse { line: token.line, of });
    }
    uses
}

/// Looks upward from the use to the start of its statement or item, and through the comment there.
fn is_explained(source: &Source, unsafe_use: &UnsafeUse) -> bool {
    let mut at = unsafe_use.line - 1;
    while at > 0 {
        at -= 1;
        let line = source.lines[at].trim();
        if line.starts_with("//") {
            let is_safety = line.starts_with("// SAFETY:")
                || (unsafe_use.is_declaration() && line == "/// # Safety");
            if is_safety {
                return true;
            }
        } else if is_boundary(line) {
            return false;
        }
    }
    false
}

/// Whether a statement, an item or a match arm may end or begin at this line.
fn is_boundary(line: &str) -> bool {
    line.is_empty()
        || line.ends_with([';', '{', '}'])
        || line.ends_with("},")
        || line.contains(" => ")
}

/// The roots of a package's library and binaries forbid unsafe code unless it owns a listed file.
fn check_roots(
    metadata: &Metadata,
    package: &Package,
    sources: &Sources,
    listed: &[(&str, usize)],
) -> Vec<Finding> {
    let manifest = metadata.relative(&package.manifest_path);
    let directory = manifest.trim_end_matches("Cargo.toml");
    if listed.iter().any(|(path, _)| path.starts_with(directory)) {
        return Vec::new();
    }
    let is_product = |kind: &String| ["lib", "bin", "proc-macro"].contains(&kind.as_str());
    package
        .targets
        .iter()
        .filter(|target| target.kind.iter().any(is_product))
        .filter_map(|target| sources.get(&metadata.relative(&target.src_path)))
        .filter(|root| !forbids_unsafe(root))
        .map(|root| {
            let message = "a crate without unsafe code says `#![forbid(unsafe_code)]`";
            Finding::new(&root.path, 1, message)
        })
        .collect()
}

fn forbids_unsafe(root: &Source) -> bool {
    let attribute = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
    (0..root.tokens.len()).any(|at| root.matches(at, &attribute))
}
