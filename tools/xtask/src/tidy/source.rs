//! A Rust file as the rules see it: its text, its tokens with their lines, its syntax tree.

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use syn::{
    Attribute, Item, ItemMod, Meta,
    visit::{self, Visit},
};

use super::Finding;

/// One token of the flattened stream; groups become an opening and a closing token.
#[derive(Debug, Clone)]
pub(super) struct Token {
    /// The token as it is written: an identifier, one punctuation mark, a bracket, a literal.
    pub(super) text: String,
    /// The line on which it starts, from 1.
    pub(super) line: usize,
    /// The line on which it ends; differs from `line` for a literal over several lines only.
    pub(super) line_last: usize,
    /// Whether it is an identifier or keyword.
    pub(super) is_word: bool,
}

/// One parsed Rust file.
pub(super) struct Source {
    /// The path from the root of the workspace, with `/`.
    pub(super) path: String,
    /// The lines as they are written.
    pub(super) lines: Vec<String>,
    /// Every token but comments, documentation included among the comments.
    pub(super) tokens: Vec<Token>,
    /// The syntax tree.
    pub(super) file: syn::File,
    test_lines: Vec<RangeInclusive<usize>>,
    test_modules: Vec<PathBuf>,
}

impl Source {
    /// Parses a file.
    ///
    /// # Errors
    /// A finding when the text is not Rust.
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, Finding> {
        let stream: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            Finding::new(path, error.span().start().line, format!("no Rust: {error}"))
        })?;
        let file: syn::File = syn::parse2(stream.clone()).map_err(|error| {
            Finding::new(path, error.span().start().line, format!("no Rust: {error}"))
        })?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut tokens = Vec::new();
        flatten(stream, &lines, &mut tokens);
        let mut marked = TestCode { path, lines: Vec::new(), modules: Vec::new() };
        marked.visit_file(&file);
        let TestCode { lines: test_lines, modules: test_modules, .. } = marked;
        Ok(Self { path: path.to_owned(), lines, tokens, file, test_lines, test_modules })
    }

    /// Lines that hold code: neither blank nor only a comment.
    pub(super) fn code_lines(&self) -> BTreeSet<usize> {
        self.tokens.iter().flat_map(|token| token.line..=token.line_last).collect()
    }

    /// Whether the tokens from `at` on are written exactly so.
    pub(super) fn matches(&self, at: usize, texts: &[&str]) -> bool {
        let rest = self.tokens.get(at..).unwrap_or_default();
        rest.len() >= texts.len() && rest.iter().zip(texts).all(|(token, text)| token.text == *text)
    }
}

/// All Rust files of the workspace.
pub(super) struct Sources(Vec<Source>);

impl Sources {
    pub(super) fn new(sources: Vec<Source>) -> Self {
        Self(sources)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    pub(super) fn get(&self, path: &str) -> Option<&Source> {
        self.0.iter().find(|source| source.path == path)
    }

    /// Whether a whole file is test code: by its place, or as a module that is only in test builds.
    pub(super) fn is_test_file(&self, path: &str) -> bool {
        let path = Path::new(path);
        let by_place =
            path.file_name().is_some_and(|name| name == "tests.rs" || name == "benches.rs")
                || path
                    .components()
                    .any(|part| ["tests", "benches"].iter().any(|name| part.as_os_str() == *name));
        by_place
            || self
                .0
                .iter()
                .flat_map(|source| &source.test_modules)
                .any(|module| path.starts_with(module) || path == module.with_extension("rs"))
    }

    /// Whether a line of a file is test code.
    pub(super) fn is_test_line(&self, source: &Source, line: usize) -> bool {
        source.test_lines.iter().any(|range| range.contains(&line))
            || self.is_test_file(&source.path)
    }
}

fn flatten(stream: TokenStream, lines: &[String], flat: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        if is_comment(&tree, lines) {
            // Documentation arrives as `#`, perhaps `!`, and a group `[doc = "..."]`.
            while let Some(TokenTree::Punct(_)) = trees.peek() {
                trees.next();
            }
            trees.next();
            continue;
        }
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(flat, open.to_owned(), group.span_open(), false);
                flatten(group.stream(), lines, flat);
                push(flat, close.to_owned(), group.span_close(), false);
            }
            TokenTree::Ident(word) => push(flat, word.to_string(), word.span(), true),
            TokenTree::Punct(mark) => {
                let joined = mark.as_char() == ':' && mark.spacing() == Spacing::Joint;
                let span = mark.span();
                let mut text = mark.as_char().to_string();
                if joined
                    && let Some(TokenTree::Punct(next)) = trees.peek()
                    && next.as_char() == ':'
                {
                    text.push(':');
                    trees.next();
                }
                push(flat, text, span, false);
            }
            TokenTree::Literal(literal) => push(flat, literal.to_string(), literal.span(), false),
        }
    }
}

fn push(flat: &mut Vec<Token>, text: String, span: Span, is_word: bool) {
    let (line, line_last) = (span.start().line, span.end().line);
    flat.push(Token { text, line, line_last, is_word });
}

fn is_comment(tree: &TokenTree, lines: &[String]) -> bool {
    let TokenTree::Punct(mark) = tree else { return false };
    let at = mark.span().start();
    let line = at.line.checked_sub(1).and_then(|index| lines.get(index));
    mark.as_char() == '#' && line.is_some_and(|line| line.chars().nth(at.column) == Some('/'))
}

/// Finds what is compiled in test builds only.
struct TestCode<'a> {
    path: &'a str,
    lines: Vec<RangeInclusive<usize>>,
    modules: Vec<PathBuf>,
}

impl Visit<'_> for TestCode<'_> {
    fn visit_item(&mut self, item: &Item) {
        if !attributes(item).iter().any(is_test_only) {
            visit::visit_item(self, item);
            return;
        }
        let span = syn::spanned::Spanned::span(item);
        self.lines.push(span.start().line..=span.end().line);
        if let Item::Mod(ItemMod { ident, content: None, .. }) = item {
            self.modules.push(module_directory(self.path).join(ident.to_string()));
        }
    }
}

/// Where the modules that a file declares lie.
fn module_directory(path: &str) -> PathBuf {
    let path = Path::new(path);
    let is_root = path
        .file_name()
        .is_some_and(|name| ["lib.rs", "main.rs", "mod.rs"].iter().any(|root| name == *root));
    if is_root { path.with_file_name("") } else { path.with_extension("") }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[cfg(test)]` or `#[cfg(all(test, ...))]`; `any` and `not` also hold in other builds.
fn is_test_only(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let condition = list.tokens.to_string().replace(' ', "");
    let in_all = condition.strip_prefix("all(").and_then(|rest| rest.strip_suffix(')'));
    list.path.is_ident("cfg")
        && (condition == "test"
            || in_all.is_some_and(|all| all.split(',').any(|part| part == "test")))
}
