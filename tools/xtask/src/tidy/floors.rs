//! Rules on dependencies: a crate imports only lower floors, and every foreign crate is explained.

use std::collections::BTreeSet;

use super::Finding;
use crate::workspace::{Metadata, Package};

/// The crates by floor, lowest first.
const FLOORS: [&[&str]; 6] = [
    &["base", "chart", "histories"],
    &["cache", "wire", "reactor", "kelvin-log", "trace"],
    &["store", "cluster"],
    &["switch", "names", "client"],
    &["server", "bench", "sim"],
    &["kelvin"],
];

/// Where each foreign crate has its line.
pub(super) const DOCUMENT: &str = "docs/dependencies.md";

pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    metadata.members().flat_map(|package| check_package(metadata, package)).collect()
}

fn check_package(metadata: &Metadata, package: &Package) -> Vec<Finding> {
    let manifest = metadata.relative(&package.manifest_path);
    let name = package.name.as_str();
    let above = if manifest.starts_with("crates/") {
        let Some(floor) = floor(name) else {
            let message = format!("crate `{name}` is on no floor: give it one in tidy");
            return vec![Finding::new(&manifest, 1, message)];
        };
        floor
    } else {
        // Tools may import any crate, but no crate may import a tool.
        FLOORS.len()
    };
    let local: BTreeSet<&str> = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.source.is_none())
        .map(|dependency| dependency.name.as_str())
        .collect();
    let is_tool = above == FLOORS.len();
    local
        .into_iter()
        .filter(|below| !(is_tool || floor(below).is_some_and(|below| below < above)))
        .map(|below| {
            let message = format!("`{name}` may not import `{below}`: it is on no lower floor");
            Finding::new(&manifest, 1, message)
        })
        .collect()
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|names| names.contains(&name))
}

/// Every direct foreign dependency has a line in the document, and every line a dependency.
pub(super) fn check_document(metadata: &Metadata, document: &str) -> Vec<Finding> {
    let used: BTreeSet<&str> = metadata
        .members()
        .flat_map(|package| &package.dependencies)
        .filter(|dependency| dependency.source.is_some())
        .map(|dependency| dependency.name.as_str())
        .collect();
    let rows: Vec<(&str, usize)> = document
        .lines()
        .zip(1..)
        .filter_map(|(line, number)| Some((line.strip_prefix("| `")?.split('`').next()?, number)))
        .collect();
    let listed: BTreeSet<&str> = rows.iter().map(|(name, _)| *name).collect();
    let unexplained = used
        .difference(&listed)
        .map(|name| Finding::new(DOCUMENT, 1, format!("no row explains the dependency `{name}`")));
    let unused = rows.iter().filter(|(name, _)| !used.contains(name)).map(|(name, line)| {
        Finding::new(DOCUMENT, *line, format!("`{name}` is no dependency any more"))
    });
    unexplained.chain(unused).collect()
}
