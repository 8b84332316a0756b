//! Rule: a module is named for what it owns, not for being useful.

use syn::{
    ItemMod,
    visit::{self, Visit},
};

use super::{Finding, source::Source};
use crate::workspace::Metadata;

/// Words that say nothing of what is inside, alone or as a part of a name.
const BANNED: [&str; 10] = [
    "common",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "util",
    "utilities",
    "utility",
    "utils",
];

pub(super) fn check_source(source: &Source) -> Vec<Finding> {
    let mut modules = Modules { path: &source.path, findings: Vec::new() };
    modules.visit_file(&source.file);
    let mut findings = modules.findings;
    for part in source.path.trim_end_matches(".rs").split('/') {
        if let Some(word) = banned(part) {
            let message = format!("path says `{word}`: name what is inside");
            findings.push(Finding::new(&source.path, 1, message));
        }
    }
    findings
}

pub(super) fn check_packages(metadata: &Metadata) -> Vec<Finding> {
    metadata
        .members()
        .filter_map(|package| {
            let word = banned(&package.name)?;
            let message = format!("package `{}` says `{word}`: name what it owns", package.name);
            Some(Finding::new(&metadata.relative(&package.manifest_path), 1, message))
        })
        .collect()
}

fn banned(name: &str) -> Option<&'static str> {
    name.split(['_', '-']).find_map(|part| BANNED.into_iter().find(|word| *word == part))
}

struct Modules<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl Visit<'_> for Modules<'_> {
    fn visit_item_mod(&mut self, module: &ItemMod) {
        if let Some(word) = banned(&module.ident.to_string()) {
            let line = module.ident.span().start().line;
            let message = format!("module `{}` says `{word}`: name what it owns", module.ident);
            self.findings.push(Finding::new(self.path, line, message));
        }
        visit::visit_item_mod(self, module);
    }
}
