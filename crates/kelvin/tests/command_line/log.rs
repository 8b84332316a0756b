//! `kelvin log`: what is loaded is dumped, looking changes nothing, and what is damaged is named.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::process::{Directory, kelvin};

/// Small ones: what is copied and compared here is short.
const SEGMENT: &str = "--segment=1MiB";

/// Contents of a directory by name.
fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry"));
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).expect("a file"))
    };
    entries.map(read).collect()
}

fn run(arguments: &[&str], code: i32) -> (String, String) {
    let Output { status, stdout, stderr } = kelvin(arguments).output().expect("kelvin runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (out, said) = (text(stdout), text(stderr));
    assert_eq!(status.code(), Some(code), "{arguments:?}: {out}{said}");
    (out, said)
}

/// A line of each kind, in the order in which they are to come back.
fn lines() -> Vec<String> {
    let large = "Zm9v".repeat(200_000);
    let mut lines: Vec<String> = (0..200)
        .map(|at| format!("{{\"key\":\"user:{at}\",\"token\":{},\"value\":\"{at}\"}}", at + 7))
        .collect();
    lines.push(
        "{\"key_base64\":\"/wAi\",\"flags\":9,\"token\":1,\"value_base64\":\"gICA\"}".to_owned(),
    );
    lines.push(
        "{\"key\":\"full\",\"flags\":3,\"expiry_ms\":99999999999999,\"token\":5,\
         \"tags\":[[7,-1]],\"stale\":true,\"recached\":true,\"value\":\"x\\ny\"}"
            .to_owned(),
    );
    lines.push(format!("{{\"key\":\"large\",\"token\":2,\"value_base64\":\"{large}\"}}"));
    lines
}

#[test]
fn what_is_loaded_is_dumped_in_both_forms_and_looking_changes_nothing() {
    let directory = Directory::new("log");
    let make = |name: &str| {
        let path = directory.path(name);
        fs::create_dir(&path).expect("a directory");
        path
    };
    // A directory that is not there is made.
    let (log, again) = (directory.path("log"), make("again"));
    let gone = "{\"key\":\"gone\",\"expiry_ms\":1,\"value\":\"\"}\n";
    let input = directory.file("input", &format!("{}\n\n{gone}", lines().join("\n")));
    let (out, _) =
        run(&["log", "load", "--create", "strings", SEGMENT, "--input", &input, &log], 0);
    let expected = "203 records stored, 1 left out because they have expired; no last line says \
                    whether these are all\n";
    assert_eq!(out, expected);

    let before = contents(Path::new(&log));
    let expected = [&lines().join("\n"), "\n{\"records\":203}\n"].concat();
    let (dumped, said) = run(&["log", "dump", &log], 0);
    assert!(dumped == expected && said.is_empty(), "{}", &dumped[..dumped.len().min(3000)]);
    let (out, _) = run(&["log", "verify", &log], 0);
    assert!(out.contains("; 0 places are damaged, 0 segments end as a crash leaves them"), "{out}");
    let (out, _) = run(&["log", "stats", &log], 0);
    for line in ["keys strings\n", "entries 203\n", "damaged 0\n"] {
        assert!(out.contains(line), "{line}{out}");
    }
    let binary = directory.path("binary");
    run(&["log", "dump", "--format", "binary", "--output", &binary, &log], 0);
    let copy = directory.path("copy");
    run(&["log", "backup", "--to", &copy, &log], 0);
    let (_, said) = run(&["log", "backup", "--to", &copy, &log], 1);
    assert!(said.contains("is not empty"), "{said}");
    assert_eq!(contents(Path::new(&log)), before, "looking has changed something");

    let (out, _) =
        run(&["log", "load", "--create", "strings", SEGMENT, "--input", &binary, &again], 0);
    assert_eq!(out, "203 records stored, 0 left out because they have expired\n");
    for other in [&again, &copy] {
        assert!(run(&["log", "dump", other], 0).0 == expected, "{other}");
    }
    let (_, said) = run(&["log", "load", "--create", "strings", "--input", &binary, &again], 1);
    assert!(said.contains("there is a log in"), "{said}");
}

#[test]
fn a_damaged_record_is_named_and_the_others_are_dumped() {
    let directory = Directory::new("damaged");
    let log = directory.path("log");
    fs::create_dir(&log).expect("a directory");
    let input: String =
        (0..50).map(|at| format!("{{\"integer\":{at},\"value\":\"value {at}\"}}\n")).collect();
    let input = directory.file("input", &input);
    run(&["log", "load", "--create", "integers:0-100", SEGMENT, "--input", &input, &log], 0);
    let segment = Path::new(&log).join("00000000.segment");
    let mut bytes = fs::read(&segment).expect("a segment");
    let at = bytes.windows(8).position(|part| part == b"value 17").expect("it is there");
    bytes[at] ^= 1;
    fs::write(&segment, bytes).expect("is written");
    // A header of 24 bytes and a key of 8.
    let place = format!("00000000.segment: offset {}, 64 bytes: flushed records are", at - 32);
    let (out, _) = run(&["log", "verify", &log], 3);
    assert!(out.contains(&place) && out.contains("; 1 places are damaged"), "{out}");
    for order in ["insertion", "key"] {
        let (out, said) = run(&["log", "dump", "--order", order, &log], 3);
        let numbers: Vec<usize> = (0..50).filter(|number| *number != 17).collect();
        let expected = numbers.iter().map(|at| format!("\"value\":\"value {at}\"}}"));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 50, "{out}");
        assert!(expected.zip(&lines).all(|(end, line)| line.ends_with(&end)), "{out}");
        assert_eq!(lines[49], "{\"records\":49}");
        let segment = segment.display();
        assert!(said.contains(&format!("at offset {} of {segment}: ", at - 32)), "{said}");
    }
    // What an open after a stop in order does not look at.
    let mut bytes = fs::read(&segment).expect("a segment");
    bytes[4096 + 30] ^= 1;
    fs::write(&segment, bytes).expect("is written");
    let (out, _) = run(&["log", "verify", &log], 3);
    let header = "00000000.segment: offset 4096, 4096 bytes: a copy of the header is damaged";
    assert!(out.contains(&place) && out.contains(header), "{out}");
    assert!(out.contains("; 2 places are damaged"), "{out}");
}

/// What there was when nothing was wrong, changed in one file.
#[test]
fn what_is_wrong_is_said_with_its_path_and_once() {
    let directory = Directory::new("wrong");
    let log = directory.path("log");
    fs::create_dir(&log).expect("a directory");
    let line = |at| format!("{{\"integer\":{at},\"value\":\"value {at}\"}}\n");
    let input = directory.file("input", &(0..50).map(line).collect::<String>());
    run(&["log", "load", "--create", "integers:0-100", SEGMENT, "--input", &input, &log], 0);
    let of = |name: &str| Path::new(&log).join(name);
    let before = contents(Path::new(&log));

    // Somebody else's file, and a saved index of which a block is damaged.
    let mut index = before["index"].clone();
    index[5000] ^= 1;
    fs::write(of("index"), index).expect("is written");
    fs::write(of("notes.txt"), "not the log's").expect("is written");
    let (out, _) = run(&["log", "verify", &log], 3);
    let index =
        format!("{}: offset 4096: the checksum of block 0 is wrong\n", of("index").display());
    let foreign = format!("{}: none of the log's\n", of("notes.txt").display());
    assert!(out.contains(&index) && out.contains(&foreign), "{out}");
    assert!(out.contains("with 50 records; 1 places are damaged"), "{out}");
    fs::remove_file(of("index")).expect("it is there");
    fs::remove_file(of("notes.txt")).expect("it is there");

    // As after a crash: no footer.
    let mut segment = before["00000000.segment"].clone();
    let trailer = segment.len() - 4096..;
    segment[trailer].fill(0);
    fs::write(of("00000000.segment"), segment).expect("is written");
    let (out, _) = run(&["log", "verify", &log], 0);
    let torn = "0 places are damaged, 1 segments end as a crash leaves them, with 50 records";
    assert!(out.contains(torn), "{out}");

    fs::remove_file(of("00000000.segment")).expect("it is there");
    let (out, _) = run(&["log", "verify", &log], 3);
    let missing = format!("{}: the segment is missing\n", of("00000000.segment").display());
    assert!(out.contains(&missing), "{out}");

    let manifest = format!("{}: it is no manifest of a log", of("manifest").display());
    fs::write(of("manifest"), [7; 4096]).expect("is written");
    for command in ["verify", "stats", "dump", "compact"] {
        let (_, said) = run(&["log", command, &log], 1);
        assert!(said.contains(&manifest), "{command}: {said}");
    }
}

/// What a file system of 8 MiB is for; $0 is kelvin, $1 a directory.
const FULL_AND_READ_ONLY: &str = r#"
mount -t tmpfs -o size=8m none "$1" || exit 77
mkdir "$1/log"
run() { "$0" log "$@" 2>&1; echo "code $?"; }
run load --create strings --segment 1MiB --input "$2" "$1/log"
run verify "$1/log"
mount -o remount,ro "$1" || exit 77
run verify "$1/log"
run compact "$1/log"
umount "$1"
"#;

#[test]
fn where_there_is_no_room_or_nothing_may_be_written_it_says_so() {
    let directory = Directory::new("full");
    let mounted = directory.path("mounted");
    fs::create_dir(&mounted).expect("a directory");
    let line = |at: u32| format!("{{\"key\":\"{at}\",\"value\":\"{at:0>60000}\"}}\n");
    let input = directory.file("input", &(0..200).map(line).collect::<String>());
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-c", FULL_AND_READ_ONLY, env!("CARGO_BIN_EXE_kelvin")]);
    let ran = command.args([&mounted, &input]).output();
    let ran = ran.expect("unshare is there");
    let said = String::from_utf8_lossy(&ran.stdout);
    if ran.status.code() != Some(0) && !said.contains("code") {
        let errors = String::from_utf8_lossy(&ran.stderr);
        // Set where nothing may be skipped.
        let may_skip = std::env::var_os("KELVIN_TEST_MOUNTS").is_none();
        assert!(may_skip, "nothing can be mounted here: {errors}");
        println!("skipped: nothing can be mounted here: {errors}");
        return;
    }
    let mut lines = said.lines();
    let mut next = || lines.next().unwrap_or_default();
    // What was loaded is told, and stays.
    let (full, code) = (next(), next());
    let stored = full.split_once("stored ").and_then(|(_, rest)| rest.split_once(" records"));
    let stored: u32 = stored.and_then(|(count, _)| count.parse().ok()).expect("a count");
    let expected = format!("and then: line {}: there is no room on the disk", stored + 1);
    assert!(full.ends_with(&expected) && code == "code 1" && stored > 20, "{said}");
    let (whole, code) = (next(), next());
    assert!(whole.contains(&format!("with {stored} records")) && code == "code 0", "{said}");
    assert_eq!((next(), next()), (whole, "code 0"), "{said}");
    let (refused, code) = (next(), next());
    assert!(refused.contains("cannot use ") && refused.contains("Read-only"), "{said}");
    assert_eq!(code, "code 1");
}

#[test]
fn space_comes_back_and_nothing_else_changes() {
    let directory = Directory::new("compacted");
    let log = directory.path("log");
    fs::create_dir(&log).expect("a directory");
    let line = |at: u32, end| format!("{{\"integer\":{at},\"value\":\"{end:0>9000}\"}}\n");
    let all: String = (0..1200).map(|at| line(at, "first")).collect();
    // Half of each segment but the last.
    let half: String = (0..1200).step_by(2).map(|at| line(at, "later")).collect();
    let [all, half] = [("all", all), ("half", half)].map(|(name, it)| directory.file(name, &it));
    let keys = ["--create", "integers:0-1200", SEGMENT];
    run(&[&["log", "load", "--input", &all, &log], &keys[..]].concat(), 0);
    run(&["log", "load", "--input", &half, &log], 0);
    let used_bytes = || {
        let (out, _) = run(&["log", "stats", &log], 0);
        let line = out.lines().find_map(|line| line.strip_prefix("used_bytes "));
        line.and_then(|bytes| bytes.parse::<u64>().ok()).expect("a figure")
    };
    let before = (run(&["log", "dump", "--order", "key", &log], 0).0, used_bytes());
    // Loading moves some of it already, but no more than for 1.3 times what lives.
    assert!(before.1 > 12 << 20, "{}", before.1);
    let (out, _) = run(&["log", "compact", &log], 0);
    assert!(out.contains(" segments freed, "), "{out}");
    let after = (run(&["log", "dump", "--order", "key", &log], 0).0, used_bytes());
    // What lives is 10.4 MiB, and a tenth more may be there.
    assert!(after.1 < 13 << 20, "{} {out}", after.1);
    let values = |dumped: &str| {
        let tokens = dumped.lines().map(|line| line.replace(char::is_numeric, ""));
        (tokens.collect::<Vec<_>>(), dumped.matches("later").count())
    };
    assert_eq!(values(&before.0), values(&after.0));
    let (_, said) = run(&["log", "compact", &directory.path("none")], 1);
    assert!(said.contains("there is no log in"), "{said}");
    run(&["log", "compact", "--space-percent", "100", &log], 2);
}

#[test]
fn mistakes_are_named_and_what_was_loaded_stays() {
    let directory = Directory::new("mistakes");
    let log = directory.path("");
    for (arguments, expected) in [
        (&["log", "verify", &log][..], "there is no log in"),
        (&["log", "backup", "--to", &directory.path("copy"), &log], "it has no manifest"),
        (&["log", "load", &log], "there is no log in"),
        (&["log", "dump", "/nonexistent"], "cannot use /nonexistent: it is not there"),
    ] {
        let (_, said) = run(arguments, 1);
        assert!(said.contains(expected), "{said}");
    }
    assert!(contents(Path::new(&log)).is_empty(), "a log was made");
    for wrong in ["strings!", "integers:5-5", "integers:5", "integers:a-b"] {
        run(&["log", "load", "--create", wrong, &log], 2);
    }
    let home = directory.path("log");
    fs::create_dir(&home).expect("a directory");
    let cut = directory.file("cut", "{\"integer\":1,\"value\":\"a\"}\n{\"integer\":2,\"val");
    let (_, said) =
        run(&["log", "load", "--create", "integers:0-9", SEGMENT, "--input", &cut, &home], 1);
    assert!(said.contains("stored 1 records, and then: line 2: EOF while parsing"), "{said}");
    for (line, expected) in [
        ("{\"key\":\"a\",\"value\":\"\"}", "line 1: a string, and the log's keys are integers"),
        ("{\"integer\":9,\"value\":\"\"}", "line 1: key 9 is not in [0, 9)"),
        ("{\"integer\":3,\"value\":\"\",\"expiry_ms\":999999999999999}", "line 1: the expiry is"),
    ] {
        let input = directory.file("line", line);
        let (_, said) = run(&["log", "load", "--input", &input, &home], 1);
        assert!(said.contains(expected), "{said}");
    }
    let (out, _) = run(&["log", "dump", "--order", "key", &home], 0);
    assert_eq!(out.lines().count(), 2, "{out}");
}
