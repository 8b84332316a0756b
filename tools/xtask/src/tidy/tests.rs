use serde_json::json;

use super::{Finding, TextFile, findings};
use crate::workspace::Metadata;

/// A workspace of `base`, `cache` and `xtask`; the arguments are what `base` and `cache` import.
fn workspace(base_imports: &[&str], cache_imports: &[&str]) -> Metadata {
    let package = |directory: &str, name: &str, imports: &[&str]| {
        let import = |name: &&str| match name.strip_prefix("foreign:") {
            Some(foreign) => json!({ "name": foreign, "source": "registry" }),
            None => json!({ "name": name, "source": null }),
        };
        json!({
            "id": name, "name": name, "version": "0.1.0", "license": "Apache-2.0",
            "manifest_path": format!("/w/{directory}/Cargo.toml"),
            "dependencies": imports.iter().map(import).collect::<Vec<_>>(),
            "targets": [{ "kind": ["lib"], "src_path": format!("/w/{directory}/src/lib.rs") }],
        })
    };
    serde_json::from_value(json!({
        "packages": [
            package("crates/base", "base", base_imports),
            package("crates/cache", "cache", cache_imports),
            package("tools/xtask", "xtask", &["cache"]),
        ],
        "workspace_members": ["base", "cache", "xtask"],
        "workspace_default_members": ["base", "cache", "xtask"],
        "resolve": null,
        "target_directory": "/w/target",
        "workspace_root": "/w",
    }))
    .expect("the sample is well formed")
}

const ARCHITECTURE: &str = "\
# Architecture

## Where unsafe lives

- `crates/cache/src/arena.rs`: memory of `cache`

## After
`crates/base/src/lib.rs`
";

const ARENA: &str = "fn read(p: *const u8) -> u8 {\n    // SAFETY: valid.\n    unsafe { *p }\n}\n";

/// Findings in a tidy workspace to which `files` are added; the same path replaces a file.
fn with(metadata: &Metadata, files: &[(&str, &str)]) -> Vec<String> {
    let mut all: Vec<TextFile> = [
        ("crates/base/src/lib.rs", "#![forbid(unsafe_code)]\n"),
        ("crates/cache/src/lib.rs", "mod arena;\n"),
        ("crates/cache/src/arena.rs", ARENA),
        ("docs/architecture.md", ARCHITECTURE),
        ("docs/dependencies.md", "| crate | why |\n|---|---|\n"),
    ]
    .into_iter()
    .filter(|(path, _)| files.iter().all(|(other, _)| other != path))
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .collect();
    all.extend(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
    findings(metadata, &all).iter().map(Finding::to_string).collect()
}

fn in_file(path: &str, text: &str) -> Vec<String> {
    with(&workspace(&[], &["base"]), &[(path, text)])
}

const NONE: [&str; 0] = [];

#[test]
fn a_tidy_workspace_has_no_findings() {
    assert_eq!(with(&workspace(&[], &["base"]), &[]), NONE);
}

#[test]
fn a_crate_imports_only_lower_floors() {
    assert_eq!(
        with(&workspace(&["cache"], &["wire", "xtask", "base"]), &[]),
        [
            "crates/base/Cargo.toml:1: `base` may not import `cache`: it is on no lower floor",
            "crates/cache/Cargo.toml:1: `cache` may not import `wire`: it is on no lower floor",
            "crates/cache/Cargo.toml:1: `cache` may not import `xtask`: it is on no lower floor",
        ]
    );
    let mut unknown = workspace(&[], &[]);
    unknown.packages[0].name = "cellar".to_owned();
    assert_eq!(
        with(&unknown, &[]),
        ["crates/base/Cargo.toml:1: crate `cellar` is on no floor: give it one in tidy"]
    );
}

#[test]
fn every_foreign_crate_has_its_row_and_every_row_its_crate() {
    let metadata = workspace(&["foreign:libc"], &["base", "foreign:loom"]);
    assert_eq!(
        with(&metadata, &[("docs/dependencies.md", "| `libc` | calls |\n| `gone` | x |\n")]),
        [
            "docs/dependencies.md:1: no row explains the dependency `loom`",
            "docs/dependencies.md:2: `gone` is no dependency any more",
        ]
    );
}

#[test]
fn a_file_holds_at_most_400_lines_of_code_without_comments_and_blanks() {
    let comments = "// why\n/// what\n\n".repeat(200);
    let at_limit = format!("{comments}{}", "const A: u8 = 1;\n".repeat(400));
    let over = format!("{at_limit}const B: &str = \"one\n\";\n");
    assert_eq!(in_file("crates/cache/src/a.rs", &at_limit), NONE);
    assert_eq!(
        in_file("crates/cache/src/a.rs", &over),
        ["crates/cache/src/a.rs:1: file has 402 lines of code, at most 400"]
    );
    for path in ["crates/cache/src/a/tests.rs", "crates/cache/tests/a.rs"] {
        assert_eq!(in_file(path, &over), NONE);
        let over = "const A: u8 = 1;\n".repeat(601);
        assert_eq!(
            in_file(path, &over),
            [format!("{path}:1: file has 601 lines of code, at most 600")]
        );
    }
}

#[test]
fn a_function_holds_at_most_70_lines_of_code() {
    let body = |lines: usize| "        f();\n        // why\n\n".repeat(lines);
    let function = |lines: usize| format!("    fn long() {{\n{}    }}\n", body(lines));
    for (open, line) in [("", 1), ("impl A {\n", 2), ("trait A {\n", 2), ("mod a {\n", 2)] {
        let close = if open.is_empty() { "" } else { "}\n" };
        let text = |lines: usize| format!("{open}{}{close}", function(lines));
        assert_eq!(in_file("crates/cache/src/a.rs", &text(68)), NONE, "{open}");
        assert_eq!(
            in_file("crates/cache/src/a.rs", &text(69)),
            [format!("crates/cache/src/a.rs:{line}: `long` has 71 lines of code, at most 70")]
        );
    }
}

#[test]
fn text_is_ascii_narrow_finished_and_stands_alone() {
    let wide = format!("// {}", "x".repeat(98));
    let foreign = concat!("// see /wo", "rk/notes and /wo", "rkspace");
    let shared = concat!("../sha", "red");
    let mark = concat!("# TO", "DO: more");
    let text = format!("{wide}\n{foreign}\n// {shared}\n// caf\u{e9}\nfn a() {{}} \n");
    assert_eq!(
        in_file("crates/cache/src/a.rs", &text),
        [
            "crates/cache/src/a.rs:1: line has 101 columns, at most 100".to_owned(),
            format!(
                "crates/cache/src/a.rs:2: `{}`: the product names no such place",
                concat!("/wo", "rk")
            ),
            format!("crates/cache/src/a.rs:3: `{shared}`: the product names no such place"),
            "crates/cache/src/a.rs:4: `\\u{e9}` is not printable ASCII".to_owned(),
            "crates/cache/src/a.rs:5: line ends with a space".to_owned(),
        ]
    );
    assert_eq!(
        in_file("docs/a.md", &format!("{wide}\n{mark}\n")),
        [format!("docs/a.md:2: `{}`: finish it, or leave it out", concat!("TO", "DO"))]
    );
}

#[test]
fn unsafe_code_lives_in_listed_files_only() {
    let text = "// SAFETY: none.\nunsafe impl Send for A {}\n";
    assert_eq!(
        in_file("crates/cache/src/a.rs", text),
        ["crates/cache/src/a.rs:2: unsafe code in a file that docs/architecture.md does not list"]
    );
    assert_eq!(
        in_file("crates/cache/src/a.rs", "m! {\n    // SAFETY: ok.\n    unsafe { f() }\n}\n"),
        ["crates/cache/src/a.rs:3: unsafe code in a file that docs/architecture.md does not list"]
    );
    assert_eq!(in_file("crates/cache/src/a.rs", "type F = unsafe extern \"C\" fn(u8);\n"), NONE);
}

#[test]
fn every_unsafe_is_explained_where_it_stands() {
    let arena = |text: &str| in_file("crates/cache/src/arena.rs", text);
    for explained in [
        "// SAFETY: one,\n// two.\n#[expect(unsafe_code, reason = \"x\")]\nunsafe impl T for A {}",
        "fn f() {\n    // SAFETY: ok.\n    let long =\n        unsafe { g() };\n}",
        "/// Reads.\n///\n/// # Safety\n/// `p` is valid.\npub unsafe fn f() {}",
        "// SAFETY: libc's own declaration.\nunsafe extern \"C\" {}",
    ] {
        assert_eq!(arena(explained), NONE, "{explained}");
    }
    for (bare, line, message) in [
        ("unsafe impl Send for A {}", 1, "impl without `// SAFETY:`"),
        ("fn f() {\n    // Fast.\n    unsafe { g() };\n}", 3, "block without `// SAFETY:`"),
        ("/// Reads.\nunsafe fn f() {}", 2, "fn without `# Safety`"),
        ("unsafe trait T {}", 1, "trait without `# Safety`"),
        ("unsafe extern \"C\" {}", 1, "extern block without `// SAFETY:`"),
        (
            "fn f() {\n    // SAFETY: ok.\n    unsafe { g() };\n    unsafe { h() };\n}",
            4,
            "block without `// SAFETY:`",
        ),
    ] {
        let expected = format!("crates/cache/src/arena.rs:{line}: unsafe {message}");
        assert_eq!(arena(bare), [expected], "{bare}");
    }
}

#[test]
fn the_list_of_unsafe_files_exists_and_is_true() {
    assert_eq!(
        in_file("docs/architecture.md", "# Architecture\n"),
        [
            "crates/cache/src/arena.rs:3: unsafe code in a file that docs/architecture.md does not \
             list",
            "crates/cache/src/lib.rs:1: a crate without unsafe code says `#![forbid(unsafe_code)]`",
            "docs/architecture.md:1: no section `Where unsafe lives`: list there each file with \
             unsafe code",
        ]
    );
    let stale = "## Where unsafe lives\n`crates/cache/src/arena.rs`\n`crates/cache/src/lib.rs`\n";
    assert_eq!(
        in_file("docs/architecture.md", stale),
        ["docs/architecture.md:3: `crates/cache/src/lib.rs` is listed, but has no unsafe code"]
    );
}

#[test]
fn a_crate_without_unsafe_code_forbids_it() {
    assert_eq!(
        in_file("crates/base/src/lib.rs", "//! `#![forbid(unsafe_code)]`\n#![deny(unsafe_code)]\n"),
        ["crates/base/src/lib.rs:1: a crate without unsafe code says `#![forbid(unsafe_code)]`"]
    );
}

#[test]
fn names_say_what_is_inside() {
    assert_eq!(
        in_file("crates/cache/src/buffer_util.rs", "mod helpers {}\n"),
        [
            "crates/cache/src/buffer_util.rs:1: module `helpers` says `helpers`: name what it owns",
            "crates/cache/src/buffer_util.rs:1: path says `util`: name what is inside",
        ]
    );
    assert_eq!(
        in_file("crates/cache/tests/common/a.rs", ""),
        ["crates/cache/tests/common/a.rs:1: path says `common`: name what is inside"]
    );
    let mut metadata = workspace(&[], &[]);
    metadata.packages[2].name = "log-manager".to_owned();
    assert_eq!(
        with(&metadata, &[]),
        ["tools/xtask/Cargo.toml:1: package `log-manager` says `manager`: name what it owns"]
    );
}

#[test]
fn only_the_clock_reads_the_clock() {
    let text = "fn f() {\n    Instant::now();\n    std::time::SystemTime::now();\n}\n";
    let message = "reads the machine's clock: take a `base::clock::Clock`";
    assert_eq!(
        in_file("crates/cache/src/a.rs", text),
        [
            format!("crates/cache/src/a.rs:2: {message}"),
            format!("crates/cache/src/a.rs:3: {message}"),
        ]
    );
    for exempt in [
        "crates/base/src/clock.rs",
        "tools/xtask/src/a.rs",
        "crates/cache/benches/a.rs",
        "crates/cache/examples/a.rs",
    ] {
        assert_eq!(in_file(exempt, text), NONE, "{exempt}");
    }
}

#[test]
fn the_cache_takes_synchronisation_from_base() {
    let message = "takes synchronisation from std: use `base::sync`";
    for text in [
        "use std::sync::atomic::AtomicU64;\n",
        "use std::{fmt, sync::{Arc, Mutex}};\n",
        "use std::thread;\n",
        "use std::sync::*;\n",
        "fn f() { std::thread::yield_now() }\n",
        "use std::{thread::available_parallelism, thread};\n",
        "fn f() { std::thread::sleep(std::thread::available_parallelism()) }\n",
        "fn f() { core::sync::atomic::fence(x) }\n",
    ] {
        assert_eq!(
            in_file("crates/cache/src/a.rs", text),
            [format!("crates/cache/src/a.rs:1: {message}")],
            "{text}"
        );
        assert_eq!(in_file("crates/wire/src/a.rs", text), NONE, "{text}");
        let test_only = format!("#[cfg(all(test, not(loom)))]\nmod tests {{\n{text}}}\n");
        assert_eq!(in_file("crates/cache/src/a.rs", &test_only), NONE, "{text}");
        let not_test = format!("#[cfg(not(test))]\nmod real {{\n{text}}}\n");
        assert_eq!(in_file("crates/cache/src/a.rs", &not_test).len(), 1, "{text}");
    }
    for harmless in
        ["use std::{fmt, synchrony};\n", "const A: F = std::thread::available_parallelism;"]
    {
        assert_eq!(in_file("crates/cache/src/a.rs", harmless), NONE, "{harmless}");
    }
}

#[test]
fn a_module_declared_for_tests_is_test_code_in_its_own_file() {
    let metadata = workspace(&[], &["base"]);
    let text = "use std::thread;\n";
    for (declared, exempt) in [("#[cfg(test)]\n", true), ("", false)] {
        let parent = format!("{declared}mod model;\n");
        for path in ["crates/cache/src/slot/model.rs", "crates/cache/src/slot/model/steps.rs"] {
            let found = with(&metadata, &[("crates/cache/src/slot.rs", &parent), (path, text)]);
            assert_eq!(found.is_empty(), exempt, "{declared} {found:?}");
        }
    }
}

#[test]
fn what_is_no_rust_is_a_finding() {
    let found = in_file("crates/cache/src/a.rs", "fn a() {}\nfn {\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("crates/cache/src/a.rs:"), "{found:?}");
}
