use std::{
    collections::BTreeSet,
    fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
};

use crate::TARGETS;

fn fuzz_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn names_in(directory: &Path) -> BTreeSet<String> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// Feeds every file of a target's corpus to its body, and names the file on which it panics.
pub(crate) fn replay(name: &str, body: fn(&[u8])) {
    let corpus = fuzz_directory().join("corpus").join(name);
    let files = names_in(&corpus);
    assert!(!files.is_empty(), "fuzz/corpus/{name} is empty");
    for file in files {
        let data = fs::read(corpus.join(&file)).unwrap();
        assert!(catch_unwind(|| body(&data)).is_ok(), "panic on fuzz/corpus/{name}/{file}");
    }
}

#[test]
fn every_target_has_its_module_program_manifest_entry_and_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names_in(&fuzz_directory().join("corpus")), targets);
    let programs: BTreeSet<String> = TARGETS.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names_in(&fuzz_directory().join("fuzz_targets")), programs);

    let manifest = fs::read_to_string(fuzz_directory().join("Cargo.toml")).unwrap();
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
    for name in TARGETS {
        let entry = format!(
            "[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\ntest = false\n\
             doc = false\nbench = false\n"
        );
        assert!(manifest.contains(&entry), "fuzz/Cargo.toml lacks:\n{entry}");
        let program = fuzz_directory().join(format!("fuzz_targets/{name}.rs"));
        assert_eq!(
            fs::read_to_string(program).unwrap(),
            format!(
                "#![no_main]\n\nlibfuzzer_sys::fuzz_target!(|data: &[u8]| \
                 bodies::{name}::body(data));\n"
            )
        );
    }
}

#[test]
#[should_panic(expected = "panic on fuzz/corpus/byte_size/")]
fn a_body_that_panics_fails_the_replay() {
    replay("byte_size", |data| assert!(!data.starts_with(b"64"), "found"));
}

#[test]
#[should_panic(expected = "no_such_target")]
fn a_target_without_a_corpus_fails_the_replay() {
    replay("no_such_target", |_| {});
}
