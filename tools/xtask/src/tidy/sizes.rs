//! Rule: files and functions stay small enough to be read at once.

use std::collections::BTreeSet;

use syn::{
    Block, Signature,
    visit::{self, Visit},
};

use super::{
    Finding,
    source::{Source, Sources},
};

/// Lines of code (neither blank nor only a comment) in a file.
const FILE_LINES_MAX: usize = 400;

/// Lines of code in a file of tests, whose cases are long lists.
const TEST_FILE_LINES_MAX: usize = 600;

/// Lines of code in a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(source: &Source, sources: &Sources) -> Vec<Finding> {
    let code_lines = source.code_lines();
    let limit =
        if sources.is_test_file(&source.path) { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
    let mut functions = Functions { source, code_lines: &code_lines, findings: Vec::new() };
    functions.visit_file(&source.file);
    let mut findings = functions.findings;
    if code_lines.len() > limit {
        let message = format!("file has {} lines of code, at most {limit}", code_lines.len());
        findings.push(Finding::new(&source.path, 1, message));
    }
    findings
}

struct Functions<'a> {
    source: &'a Source,
    code_lines: &'a BTreeSet<usize>,
    findings: Vec<Finding>,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &Signature, block: &Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        let count = self.code_lines.range(first..=last).count();
        if count > FUNCTION_LINES_MAX {
            let name = &signature.ident;
            let message =
                format!("`{name}` has {count} lines of code, at most {FUNCTION_LINES_MAX}");
            self.findings.push(Finding::new(&self.source.path, first, message));
        }
    }
}

impl Visit<'_> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &syn::ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &syn::ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.measure(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}
