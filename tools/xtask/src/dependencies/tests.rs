use serde_json::json;

use super::{allows, document_problems, duplicate_problems, licence_problems};
use crate::workspace::Metadata;

/// A workspace `a` that uses `b 1`, which uses `b 2`; `c` is in the lock file but not reached.
fn sample() -> Metadata {
    let package = |id: &str, name: &str, version: &str, license: Option<&str>| {
        json!({ "id": id, "name": name, "version": version, "license": license,
                "manifest_path": "/w/Cargo.toml", "dependencies": [], "targets": [] })
    };
    let node = |id: &str, dependencies: &[&str]| json!({ "id": id, "dependencies": dependencies });
    serde_json::from_value(json!({
        "packages": [
            package("a", "a", "0.1.0", Some("Apache-2.0")),
            package("b1", "b", "1.0.0", Some("MIT OR GPL-3.0-only")),
            package("b2", "b", "2.0.0", Some("GPL-3.0-only")),
            package("c1", "c", "1.0.0", None),
            package("c2", "c", "2.0.0", Some("MIT")),
        ],
        "workspace_members": ["a"],
        "workspace_default_members": ["a"],
        "resolve": { "nodes": [
            node("a", &["b1"]), node("b1", &["b2"]), node("b2", &[]), node("c1", &["c2"]),
            node("c2", &[]),
        ]},
        "target_directory": "/w/target",
        "workspace_root": "/w",
    }))
    .expect("the sample is well formed")
}

#[test]
fn expressions_are_met_only_by_allowed_licences() {
    for allowed in [
        "MIT",
        "MIT OR Apache-2.0",
        "MIT/GPL-3.0-only",
        "GPL-3.0-only OR MIT",
        "(MIT OR GPL-3.0-only) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
    ] {
        assert!(allows(allowed).expect(allowed), "{allowed}");
    }
    for refused in [
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "MIT AND (GPL-3.0-only OR AGPL-3.0-only)",
        "GPL-2.0-only WITH Classpath-exception-2.0",
        "mit",
    ] {
        assert!(!allows(refused).expect(refused), "{refused}");
    }
    for malformed in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "WITH MIT", "AND"] {
        assert!(allows(malformed).is_err(), "{malformed}");
    }
}

#[test]
fn every_bad_licence_is_named() {
    assert_eq!(
        licence_problems(&sample()),
        ["b 2.0.0: licence `GPL-3.0-only` is not allowed", "c 1.0.0: no licence is declared"]
    );
}

#[test]
fn two_linked_versions_are_found_and_unlinked_ones_are_not() {
    assert_eq!(duplicate_problems(&sample(), &[]), ["b: 2 versions are linked: 1.0.0, 2.0.0"]);
}

#[test]
fn an_exception_silences_its_crate_and_must_be_needed() {
    assert_eq!(duplicate_problems(&sample(), &[("b", "why")]), Vec::<String>::new());
    assert_eq!(
        duplicate_problems(&sample(), &[("b", "why"), ("c", "why")]),
        ["c: tolerated as a duplicate, but is none: drop the exception"]
    );
}

#[test]
fn a_row_with_another_licence_is_found() {
    let document = "| crate | licence |\n|---|---|\n| `a` | why | Apache-2.0 |\n| `c` | MIT |\n";
    assert_eq!(document_problems(&sample(), document), Vec::<String>::new());
    assert_eq!(
        document_problems(&sample(), "| `a` | why | MIT |\n"),
        ["docs/dependencies.md:1: `a` does not declare the licence `MIT`"]
    );
}
