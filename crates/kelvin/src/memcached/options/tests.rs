use std::collections::BTreeSet;

use super::{Effect, OPTIONS, Options, Page, Protocol, Refusal};
use crate::memcached::{command_line, meaning, suboptions};

fn options(line: &str) -> Result<Options, Refusal> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Options::from_given(command_line::parse(&words)?)
}

#[test]
fn names_are_unique() {
    let shorts: BTreeSet<char> = OPTIONS.iter().map(|row| row.short).collect();
    let longs: BTreeSet<&str> = OPTIONS.iter().map(|row| row.long).collect();
    assert_eq!((shorts.len(), longs.len()), (OPTIONS.len(), OPTIONS.len()));
    let names: BTreeSet<&str> = suboptions::SUBOPTIONS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), suboptions::SUBOPTIONS.len());
}

#[test]
fn options_change_what_is_asked_for() {
    let asked = options(
        "-p 1 -U 2 -s s -a 0777 -A -d -r -u me -m 128 -M -c 9 -k -vv -P pid -D/ -t 3 -R 4 -b 5 \
         -B ascii -I 2m -S -F -X -W -Y auth -e file -l a,b -l c -l b \
         -o no_maxconns_fast,idle_timeout=6,data_dir=d,write_mode=async,io=epoll",
    );
    let expected = Options {
        port: 1,
        port_given: true,
        udp_port: 2,
        udp_port_given: true,
        unix: Some("s".to_owned()),
        unix_mode: 0o777,
        shutdown: true,
        daemon: true,
        core_files: true,
        user: Some("me".to_owned()),
        memory_mib: 128,
        evicts: false,
        connections_max: 9,
        lock_memory: true,
        verbosity: 2,
        pid_file: Some("pid".to_owned()),
        delimiter: Some('/'),
        threads: 3,
        turn_commands_max: Some(4),
        backlog: 5,
        protocol: Some(Protocol::Ascii),
        value_bytes_max: 2 << 20,
        sasl: true,
        flush: false,
        dump: false,
        watch: false,
        auth_file: Some("auth".to_owned()),
        memory_file: Some("file".to_owned()),
        listen: vec!["a,b".to_owned(), "c".to_owned()],
        refuses_connections: false,
        idle_timeout_s: 6,
        own: [("data_dir", "d"), ("write_mode", "async"), ("io", "epoll")]
            .map(|(name, value)| (name, value.to_owned()))
            .into(),
        ..Options::default()
    };
    assert_eq!(asked, Ok(expected));
}

#[test]
fn what_has_no_effect_is_told_once() {
    let asked = options("-n 48 -f 1.25 -n 64 -L -o modern,hashpower=16,no_modern").expect("valid");
    let told: Vec<&str> =
        asked.warnings.iter().filter_map(|warning| warning.split([':', ' ']).next()).collect();
    assert_eq!(told, ["-n", "-f", "-L", "-o", "-o"]);
    assert!(asked.warnings[3].starts_with("-o hashpower has no effect: it would"));
    for row in OPTIONS {
        if let Effect::Accepted(_, would) = row.effect {
            assert!(would.starts_with("it would "), "-{}", row.short);
        }
    }
}

#[test]
fn a_page_is_shown_before_later_options_are_looked_at() {
    assert_eq!(options("-V -c 0").map(|asked| asked.page), Ok(Some(Page::Version)));
    assert_eq!(options("-c 0 -V").expect_err("too few").code, 1);
}

#[test]
fn wrong_values_are_refused() {
    for (line, code, message) in [
        ("-c 0", 1, "Maximum connections must be greater than 0"),
        ("-c -1", 1, "Maximum connections must be greater than 0"),
        ("-t 0", 1, "Number of threads must be greater than 0"),
        ("-R 0", 1, "Number of requests per event must be greater than 0"),
        ("-f 1", 1, "Factor must be greater than 1"),
        ("-n 0", 1, "Chunk size must be greater than 0"),
        ("-N 0", 1, "Maximum number of NAPI IDs must be greater than 0"),
        ("-Z", 64, "This server is not built with TLS support."),
        ("-o idle_timeout", 1, "Missing numeric argument for idle_timeout"),
        ("-o slab_automove=3", 1, "slab_automove must be between 0 and 2"),
        ("-o slab_automove_ratio=0", 1, "slab_automove_ratio must be > 0 and < 1"),
        ("-o slab_automove_window=2", 1, "slab_automove_window must be > 2 and < 1800"),
        ("-o tail_repair_time=9", 1, "Cannot set tail_repair_time to less than 10 seconds"),
        ("-o hash_algorithm=md5", 1, "Unknown hash_algorithm option (jenkins, murmur3, xxh3)"),
        ("-o lru_crawler_tocrawl=x", 1, "lru_crawler_tocrawl takes a numeric 32bit value"),
        ("-o hot_max_factor=0", 1, "hot_max_factor must be > 0"),
        ("-o data_dir", 1, "Missing data_dir argument"),
        ("-o write_mode=soon", 1, "write_mode must be safe or async"),
        ("-o table_kind=volatile", 1, "table_kind must be durable or spill"),
        ("-o spill_size", 1, "Missing spill_size argument"),
        ("-o spill_admission=some", 1, "spill_admission must be all or seen"),
        ("-o spill_recover=1", 1, "spill_recover must be true or false"),
        ("-o flush_durable=1", 1, "flush_durable must be true or false"),
        ("-o unheard=1", 1, "Illegal suboption \"unheard=1\""),
    ] {
        let refusal = options(line).expect_err(line);
        assert_eq!((refusal.code, refusal.message.as_str()), (code, message), "{line}");
    }
    assert_eq!(options("-o hashpower=11").expect_err("too low").code, 1);
    assert_eq!(options("-o hashpower=33").expect_err("too high").code, 1);
    assert_eq!(options("-B http").expect_err("no protocol").code, 64);
}

#[test]
fn a_directory_is_the_same_for_a_process_that_has_moved() {
    let mut asked = options("-d -o data_dir=records -p 0").expect("valid");
    let settings = meaning::settings(&mut asked).expect("valid");
    let directory = std::path::Path::new(&settings["data_dir"]);
    assert!(directory.is_absolute() && directory.ends_with("records"), "{directory:?}");
}

#[test]
fn what_memory_has_no_room_for_may_go_to_a_directory() {
    let line = "-o table_kind=spill,spill_size=2GiB,spill_admission=seen,spill_recover=true";
    let asked = options(&format!("{line} -o data_dir=d -p 0")).expect("valid");
    let settings = meaning::settings(&mut asked.clone()).expect("valid");
    let of_spill = ["table_kind", "spill_size", "spill_admission", "spill_recover"];
    assert_eq!(of_spill.map(|name| settings[name].as_str()), ["spill", "2GiB", "seen", "true"]);
}

#[test]
fn a_directory_that_keeps_all_may_be_emptied_where_that_is_asked_for() {
    let mut asked = options("-o data_dir=d,flush_durable=true -p 0").expect("valid");
    let settings = meaning::settings(&mut asked).expect("valid");
    assert_eq!(settings["flush_durable"], "true");
}

#[test]
fn sizes_have_units() {
    for (text, bytes) in [("1024", 1024), ("512k", 512 << 10), ("4M", 4 << 20), ("-1k", -1024)] {
        let asked = options(&format!("-I {text}")).expect("sizes are checked later");
        assert_eq!(asked.value_bytes_max, bytes, "{text}");
    }
}
