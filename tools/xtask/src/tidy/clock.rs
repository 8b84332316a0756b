//! Rules on where time and synchronisation come from.
//!
//! Time comes from `base::clock`, so that tests and simulation can move it; atomics, locks and
//! threads of `cache` and of the log's index come from `base::sync`, so that a model checker can
//! replace them. Tests, examples and tools are exempt: they measure real time and run real threads.

use syn::{
    UseTree,
    visit::{self, Visit},
};

use super::{
    Finding,
    source::{Source, Sources},
};

/// The one file that reads the machine's clock.
const CLOCK: &str = "crates/base/src/clock.rs";

/// Code whose threads a model checker drives.
const MODEL_CHECKED: [&str; 5] = [
    "crates/cache/",
    "crates/log/src/index/blocks.rs",
    "crates/log/src/index/flat/",
    "crates/log/src/index/hash/",
    "crates/log/src/index/line.rs",
];

/// What `base::sync` replaces.
const SYNC_PATHS: [&str; 5] =
    ["std::sync", "std::thread", "core::sync", "alloc::sync", "std::hint::spin_loop"];

/// What lies there and synchronises nothing.
const HARMLESS_PATHS: [&str; 1] = ["std::thread::available_parallelism"];

/// Directories of programs that run no cache.
const EXEMPT: [&str; 2] = ["tools/", "fuzz/"];

pub(super) fn check(source: &Source, sources: &Sources) -> Vec<Finding> {
    let is_example = source.path.split('/').any(|part| part == "examples");
    if is_example || EXEMPT.iter().any(|path| source.path.starts_with(path)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if source.path != CLOCK {
        findings.extend(clock_reads(source));
    }
    if MODEL_CHECKED.iter().any(|directory| source.path.starts_with(directory)) {
        findings.extend(foreign_sync(source));
    }
    findings.retain(|finding| !sources.is_test_line(source, finding.line));
    findings
}

fn clock_reads(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let is_read = ["Instant", "SystemTime"]
            .into_iter()
            .any(|source_of_time| source.matches(at, &[source_of_time, "::", "now"]))
            || token.text == "clock_gettime";
        if is_read {
            let message = "reads the machine's clock: take a `base::clock::Clock`";
            findings.push(Finding::new(&source.path, token.line, message));
        }
    }
    findings
}

fn foreign_sync(source: &Source) -> Vec<Finding> {
    let mut imports = Imports { paths: Vec::new() };
    imports.visit_file(&source.file);
    let mut findings: Vec<Finding> = imports
        .paths
        .into_iter()
        .chain(inline_paths(source))
        .filter(|(path, _)| !HARMLESS_PATHS.contains(&path.as_str()))
        .filter(|(path, _)| {
            SYNC_PATHS.iter().any(|sync| {
                path.strip_prefix(sync).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            })
        })
        .map(|(_, line)| {
            Finding::new(&source.path, line, "takes synchronisation from std: use `base::sync`")
        })
        .collect();
    findings.sort();
    findings.dedup();
    findings
}

/// Every path that is written outside a `use`, with its line.
fn inline_paths(source: &Source) -> Vec<(String, usize)> {
    let mut paths = Vec::new();
    let mut at = 0;
    while let Some(token) = source.tokens.get(at) {
        let mut path = token.text.clone();
        while source.matches(at + 1, &["::"])
            && let Some(next) = source.tokens.get(at + 2).filter(|next| next.is_word)
        {
            path = format!("{path}::{}", next.text);
            at += 2;
        }
        paths.push((path, token.line));
        at += 1;
    }
    paths
}

/// Every path that a `use` names, written out.
struct Imports {
    paths: Vec<(String, usize)>,
}

impl Imports {
    fn flatten(&mut self, prefix: &str, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                self.flatten(&format!("{prefix}{}::", path.ident), &path.tree);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.flatten(prefix, item));
            }
            UseTree::Name(name) => self.add(prefix, &name.ident),
            UseTree::Rename(rename) => self.add(prefix, &rename.ident),
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.paths.push((prefix.trim_end_matches(':').to_owned(), line));
            }
        }
    }

    fn add(&mut self, prefix: &str, name: &syn::Ident) {
        self.paths.push((format!("{prefix}{name}"), name.span().start().line));
    }
}

impl Visit<'_> for Imports {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.flatten("", &item.tree);
        visit::visit_item_use(self, item);
    }
}
