use std::path::{Path, PathBuf};

use base::size::ByteSize;
use proptest::prelude::*;

use super::{
    Budget, Config, Cpus, Duration, Effective, Layer, ListenAddress, LogLevel, Mode, Origin,
    SETTINGS, TableKind, Threads, Value,
};
use crate::Error;

const PATH: &str = "/etc/kelvin.toml";

fn file(text: &str) -> Result<Layer, Error> {
    Layer::from_toml(Path::new(PATH), text)
}

fn environment(variables: &[(&str, &str)]) -> Result<Layer, Error> {
    Layer::from_environment(|name| {
        variables.iter().find(|(variable, _)| *variable == name).map(|(_, text)| text.into())
    })
}

fn flags(flags: &[(&str, &str)]) -> Result<Layer, Error> {
    Layer::from_flags(|setting| {
        let texts: Vec<String> = { flags.iter() }
            .filter(|(flag, _)| *flag == setting.flag())
            .map(|(_, text)| (*text).to_owned())
            .collect();
        (!texts.is_empty()).then_some(texts)
    })
}

/// The error of a file with this text.
fn refused(text: &str) -> String {
    match file(text).and_then(|layer| Effective::new([layer])) {
        Ok(effective) => panic!("{text} is accepted: {effective}"),
        Err(error) => with_sources(&error),
    }
}

/// What `error` says, and what each of its sources does.
fn with_sources(error: &dyn std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {}", with_sources(source)));
    format!("{error}{}", source.unwrap_or_default())
}

fn effective(layers: impl IntoIterator<Item = Result<Layer, Error>>) -> Effective {
    let layers: Result<Vec<_>, _> = layers.into_iter().collect();
    layers.and_then(Effective::new).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_later_source_overrides_an_earlier_one_and_each_value_knows_its_own() {
    let file = "memory = \"1GiB\"\nmax_connections = 100\nidle_timeout = \"5s\"\nlog = \"warn\"";
    let effective = effective([
        self::file(file),
        environment(&[("KELVIN_MAX_CONNECTIONS", "200"), ("KELVIN_IDLE_TIMEOUT", "6s")]),
        flags(&[("idle-timeout", "7s")]),
    ]);
    let config = effective.config();
    assert_eq!(config.memory, ByteSize(1 << 30));
    assert_eq!(config.max_connections, 200);
    assert_eq!(config.idle_timeout, Duration(7000));
    assert_eq!(config.log, LogLevel::Warn);
    assert_eq!(config.backlog, 1024);
    assert_eq!(effective.origin("memory"), &Origin::File(PathBuf::from(PATH)));
    assert_eq!(effective.origin("max_connections"), &Origin::Environment);
    assert_eq!(effective.origin("idle_timeout"), &Origin::Flag);
    assert_eq!(effective.origin("backlog"), &Origin::Default);
    let text = effective.to_string();
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line("memory = \"1GiB\" ").ends_with("# file /etc/kelvin.toml"), "{text}");
    assert!(line("max_connections = 200 ").ends_with("# environment KELVIN_MAX_CONNECTIONS"));
    assert!(line("idle_timeout = \"7s\" ").ends_with("# flag --idle-timeout"));
    assert!(line("backlog = 1024 ").ends_with("# default"));
    assert_eq!(text.lines().count(), SETTINGS.len());
}

/// Each setting, with another value than its default.
const ALL: [(&str, &str); 37] = [
    ("listen", "[::1]:1,localhost"),
    ("listen-udp", "[::1]:2"),
    ("unix", "/tmp/a \"quoted\"\n# socket"),
    ("unix-mode", "7"),
    ("protocol", "binary"),
    ("users", "/tmp/users"),
    ("memory", "3GiB"),
    ("memory-use", "records"),
    ("memory-max", "4GiB"),
    ("policy", "paper:hits=3,shares=fixed"),
    ("value-size-max", "2MiB"),
    ("net-threads", "3"),
    ("cpus", "0,2-4"),
    ("io", "epoll"),
    ("spin", "25"),
    ("max-connections", "77"),
    ("backlog", "9"),
    ("idle-timeout", "90s"),
    ("evictions", "false"),
    ("connections-wait", "true"),
    ("turn-commands-max", "3"),
    ("flush-command", "false"),
    ("cas-tokens", "false"),
    ("prefix-delimiter", "/"),
    ("restart-file", "/tmp/kept"),
    ("data-dir", "/tmp/\"table\""),
    ("table-kind", "durable"),
    ("spill-size", "64MiB"),
    ("spill-admission", "seen"),
    ("spill-recover", "true"),
    ("write-mode", "async"),
    ("flush-durable", "true"),
    ("drain-timeout", "1500ms"),
    ("shutdown-command", "true"),
    ("dump-commands", "false"),
    ("watch-command", "false"),
    ("log", "debug"),
];

#[test]
fn what_is_printed_has_the_same_effect() {
    assert_eq!(ALL.len(), SETTINGS.len(), "every setting is in the test");
    // Users cannot log in by UDP, and each kind of table has not everything.
    let of_disk = ["data-dir", "table-kind", "write-mode", "flush-durable"];
    let of_spill = ["spill-size", "spill-admission", "spill-recover"];
    let of_memory = ["listen-udp", "restart-file", "evictions", "cas-tokens"];
    let without = |names: &[&[&str]]| {
        let names = names.concat();
        ALL.into_iter().filter(|(of, _)| !names.contains(of)).collect::<Vec<_>>()
    };
    let udp = without(&[&["users"], &of_disk, &of_spill]);
    let users = without(&[&["listen-udp"], &of_disk, &of_spill]);
    let durable = without(&[&of_memory, &of_spill]);
    let mut spill = without(&[&of_memory, &["table-kind", "flush-durable"]]);
    spill.push(("table-kind", "spill"));
    for given in [&udp[..], &users, &durable, &spill, &[]] {
        let first = effective([flags(given)]);
        let second = effective([file(&first.to_string())]);
        assert_eq!(first.config(), second.config());
        for setting in SETTINGS {
            assert_eq!(second.origin(setting.name), &Origin::File(PathBuf::from(PATH)));
        }
    }
    let default = effective([]);
    for (name, _) in ALL {
        let given = match name {
            "listen-udp" => &udp,
            name if of_disk.contains(&name) => &durable,
            name if of_spill.contains(&name) => &spill,
            _ => &users,
        };
        let changed = effective([flags(given)]);
        let name = name.replace('-', "_");
        let value = |effective: &Effective| {
            let values = effective.config().to_toml();
            values.into_iter().find(|(of, _)| *of == name).expect("a setting").1
        };
        assert_ne!(value(&default), value(&changed), "{name} is read from flags");
    }
}

#[test]
fn udp_is_refused_where_clients_have_to_log_in() {
    let message = refused("listen_udp = \"127.0.0.1:2\"\nusers = \"/tmp/users\"");
    assert!(message.contains("over UDP nobody can log in"), "{message}");
}

#[test]
fn a_mistake_in_the_file_is_shown_with_its_line() {
    for (text, line, what) in [
        ("memory = \"1GiB\"\nmemroy = \"2GiB\"", "line 2", "unknown field `memroy`"),
        ("\n\nmemory = \"12XB\"", "line 3", "`12XB` is not a size"),
        ("memory = ", "line 1", ""),
        ("log = \"info\"\nmemory = [1, 2]", "line 2", "given 2 times, expected once"),
        ("backlog = 1.5", "line 1", "expected a text, a whole number"),
        ("[memory]\nsize = 3", "line 1", "expected a text, a whole number"),
        ("backlog = 1\nbacklog = 2", "line 2", "duplicate key"),
        ("listen = [\"127.0.0.1:99999\"]", "line 1", "`127.0.0.1:99999` is not an address"),
        ("idle_timeout = \"5 weeks\"", "line 1", "`5 weeks` is not a time"),
        ("cpus = \"3-1\"", "line 1", "is not a list of CPUs"),
    ] {
        let message = refused(text);
        assert!(message.contains(PATH), "{message}");
        assert!(message.contains(line) && message.contains(what), "{text}: {message}");
    }
}

#[test]
fn numbers_need_no_quotes() {
    let effective = effective([file(
        "memory = 67108864\nnet_threads = 2\ncpus = 1\nunix_mode = 770\nshutdown_command = true",
    )]);
    let config = effective.config();
    assert_eq!(config.memory, ByteSize(64 << 20));
    assert_eq!(config.net_threads, Threads::Count(2));
    assert_eq!(config.cpus, Cpus(vec![1]));
    assert_eq!(config.unix_mode, Mode(0o770));
    assert!(config.shutdown_command);
}

#[test]
fn a_mistake_elsewhere_names_its_source() {
    let error = environment(&[("KELVIN_MEMORY", "lots")]).expect_err("no size");
    assert!(error.to_string().starts_with("environment KELVIN_MEMORY: `lots` is not a size"));
    let error = flags(&[("backlog", "-1")]).expect_err("no number");
    assert_eq!(error.to_string(), "flag --backlog: `-1` is not a whole number");
    let error = flags(&[("memory", "1GiB"), ("memory", "2GiB")]).expect_err("twice");
    assert_eq!(error.to_string(), "flag --memory: given 2 times, expected once");
    let error = Layer::from_file(Path::new("/nonexistent/kelvin.toml")).expect_err("no file");
    assert!(matches!(error, Error::ReadConfig { .. }), "{error}");
}

#[test]
fn a_unix_socket_alone_means_no_tcp() {
    let config = |given: &[(&str, &str)]| effective([flags(given)]).config().clone();
    assert_eq!(config(&[]).listen, [ListenAddress::loopback()]);
    assert_eq!(config(&[("unix", "/tmp/s")]).listen, []);
    let both = config(&[("unix", "/tmp/s"), ("listen", "[::1]"), ("listen", "10.0.0.1:5")]);
    assert_eq!(
        both.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["[::1]:11211", "10.0.0.1:5"]
    );
    assert_eq!(both.unix, Some(PathBuf::from("/tmp/s")));
    assert_eq!(
        refused("listen = []"),
        format!("listen, file {PATH}: there is nothing to listen on")
    );
}

#[test]
fn values_out_of_range_are_refused_with_their_origin() {
    for (text, expected) in [
        (
            "max_connections = 0",
            "max_connections, file /etc/kelvin.toml: must be from 1 to 1048576",
        ),
        ("max_connections = 1048577", "max_connections, file /etc/kelvin.toml: must be from 1 to"),
        (
            "idle_timeout = \"36501d\"",
            "idle_timeout, file /etc/kelvin.toml: must be at most 36500d",
        ),
        (
            "drain_timeout = \"213503982334d\"",
            "drain_timeout, file /etc/kelvin.toml: must be at most 36500d",
        ),
        ("backlog = 0", "backlog, file /etc/kelvin.toml: must be from 1 to 2147483647"),
        (
            "value_size_max = 1023",
            "value_size_max, file /etc/kelvin.toml: must be from 1KiB to 1GiB",
        ),
        ("memory = \"8GiB\"\nvalue_size_max = 1073741825", "must be from 1KiB to 1GiB"),
        (
            "memory = \"1GiB\"\nmemory_max = \"1023MiB\"",
            "memory_max, file /etc/kelvin.toml: must be 0, or at least `memory`, which is 1GiB",
        ),
        ("net_threads = 0", "`0` is not a number from 1 to 256 or `auto`"),
        ("net_threads = 257", "`257` is not a number from 1 to 256 or `auto`"),
        ("unix_mode = 1000", "`1000` is not a mode"),
        ("unix_mode = \"+70\"", "`+70` is not a mode"),
        ("cpus = 1024", "is not a list of CPUs from 0 to 1023"),
        ("cpus = \"0-3,2\"", "names CPU 2 twice"),
        ("cpus = \"1,,2\"", "is not a list"),
        ("unix = \"a\\u0000b\"", "NUL"),
        ("log = \"loud\"", "`loud` is not one of error, warn, info, debug"),
        ("shutdown_command = \"yes\"", "`yes` is not `true` or `false`"),
    ] {
        let message = refused(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
    let many: Vec<String> = (0..65).map(|i| format!("\"127.0.0.1:{}\"", i + 1)).collect();
    assert!(refused(&format!("listen = [{}]", many.join(","))).contains("more than 64 addresses"));
}

#[test]
fn memory_is_divided_and_the_arithmetic_is_shown() {
    let config = |memory: u64, max_connections| Config {
        memory: ByteSize(memory),
        max_connections,
        ..Config::default()
    };
    let mib = |mib: u64| mib << 20;
    // 1024 connections of 14 KiB, and 1 MiB a thread.
    let budget = Budget::new(&config(mib(64), 1024), 2).expect("enough");
    let expected = Budget {
        buffer_bytes: mib(2),
        connection_bytes: mib(14),
        log_bytes: 0,
        large_bytes: 0,
        record_bytes: mib(48),
    };
    assert_eq!(budget, expected);
    // A log has a part as well, and the defaults start on any machine.
    let durable = Config { data_dir: Some("log".into()), ..config(mib(64), 1024) };
    let budget = Budget::new(&durable, 2).expect("enough");
    let parts = (budget.log_bytes, budget.large_bytes, budget.record_bytes);
    assert_eq!(parts, (mib(32), mib(4), mib(8)));
    let crowded = Budget::new(&durable, super::NET_THREADS_MAX).expect("enough");
    assert_eq!((crowded.large_bytes, crowded.record_bytes), (mib(1), mib(8)));
    // All of it is within the memory, and of much memory a part is enough.
    for (memory, large) in [(512, 32), (1024, 64), (65_536, 64)] {
        let config = Config { memory: ByteSize(mib(memory)), ..durable.clone() };
        let budget = Budget::new(&config, 2).expect("enough");
        let Budget { buffer_bytes, connection_bytes, log_bytes, large_bytes, record_bytes } =
            budget;
        assert_eq!(large_bytes, mib(large), "{memory}");
        let sum = buffer_bytes + connection_bytes + log_bytes + 2 * large_bytes + record_bytes;
        assert_eq!(sum, mib(memory), "parts of large values are beside it");
    }
    // A table that spills has no parts of values, but what waits to be spilled.
    let spill = Config { table_kind: TableKind::Spill, ..durable.clone() };
    let spilled = Budget::new(&spill, 2).expect("enough");
    assert_eq!((spilled.large_bytes, spilled.log_bytes + spilled.record_bytes), (0, mib(48)));
    assert!((mib(33)..mib(35)).contains(&spilled.log_bytes), "{spilled:?}");
    for (memory, victims) in [(mib(16), mib(1)), (mib(1024), mib(16)), (mib(65_536), mib(64))] {
        let config = Config { memory: ByteSize(memory), ..spill.clone() };
        assert_eq!(Budget::victim_bytes(&config), victims);
        assert_eq!(Budget::victim_bytes(&Config { table_kind: TableKind::Durable, ..config }), 0);
    }
    let little = Config { memory: ByteSize(mib(40)), ..durable };
    let message = Budget::new(&little, 2).expect_err("too little").to_string();
    let words =
        "14MiB for 1024 connections, 32MiB for the log, 2MiB for large values on their way, ";
    assert!(message.contains(words), "{message}");
    assert_eq!(budget.buffer_bytes_per_thread(2), 1 << 20);
    // A 32nd of the memory for buffers, from 1 to 64 MiB a thread.
    for (memory, threads, buffers) in
        [(1024, 2, 32), (1024, 40, 40), (65_536, 2, 128), (65_536, 100, 2048), (64, 256, 8)]
    {
        let budget = Budget::new(&config(mib(memory), 1), threads).expect("enough");
        assert_eq!(budget.buffer_bytes, mib(buffers), "{memory} {threads}");
        let sum = budget.buffer_bytes + budget.connection_bytes + budget.record_bytes;
        assert_eq!(sum, mib(memory));
    }
    assert!(Budget::new(&config(mib(16 + 14 + 1), 1024), 1).is_ok());
    let most_threads = Budget::new(&Config::default(), super::NET_THREADS_MAX).expect("enough");
    assert!(most_threads.record_bytes >= mib(32), "{most_threads:?}");
    let message = refused("memory = \"29MiB\"\nnet_threads = 2");
    assert_eq!(
        message,
        "memory 29MiB is too small: 2MiB are for buffers of 2 threads, 14MiB for 1024 connections, \
         which leaves 13MiB for records; at least 16MiB are needed"
    );
    assert!(refused("memory = 0").contains("leaves 0B for records"));
}

#[test]
fn one_value_may_take_a_quarter_of_the_records_memory() {
    let fits = "memory = \"64MiB\"\nnet_threads = 2\nvalue_size_max = 12582912";
    effective([file(fits)]);
    let message = refused("memory = \"64MiB\"\nnet_threads = 2\nvalue_size_max = 12582913");
    assert_eq!(
        message,
        format!(
            "value_size_max, file {PATH}: 12582913B is more than a quarter of the 48MiB for \
             records: at most 12MiB, or more `memory`"
        )
    );
}

#[test]
fn threads_follow_cpus_unless_given() {
    let threads = |given: &[(&str, &str)]| effective([flags(given)]).config().threads();
    assert_eq!(threads(&[("cpus", "0-2")]), 3);
    assert_eq!(threads(&[("cpus", "0-2"), ("net-threads", "5")]), 5);
    assert_eq!(threads(&[("net-threads", "5")]), 5);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(threads(&[]), cores);
}

#[test]
fn times_read_as_people_write_them() {
    for (text, ms) in [
        ("0", 0),
        ("0s", 0),
        ("10ms", 10),
        ("1500ms", 1500),
        ("5s", 5000),
        (" 2 m ", 120_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
    ] {
        assert_eq!(text.parse(), Ok(Duration(ms)), "{text}");
        assert_eq!(Duration(ms).to_string().parse(), Ok(Duration(ms)), "{text}");
    }
    assert_eq!(Duration(120_000).to_string(), "2m");
    assert_eq!(Duration(90_000).to_string(), "90s");
    assert_eq!(Duration(1001).to_string(), "1001ms");
    for text in ["", "5", "s", "-5s", "1.5s", "5 sec", "99999999999999999999d", "9999999999999999d"]
    {
        assert!(text.parse::<Duration>().is_err(), "{text}");
    }
}

#[test]
fn addresses_read_as_people_write_them() {
    for (text, printed) in [
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("127.0.0.1", "127.0.0.1:11211"),
        ("[::1]:1", "[::1]:1"),
        ("[::1]", "[::1]:11211"),
        ("::1", "[::1]:11211"),
        ("0.0.0.0:0", "0.0.0.0:0"),
        ("cache-1.example.org:5", "cache-1.example.org:5"),
        ("localhost", "localhost:11211"),
        ("*:1", "*:1"),
        ("binary@*:1", "binary@*:1"),
        ("auto@::1", "auto@[::1]:11211"),
    ] {
        let address: ListenAddress = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(address.to_string(), printed);
        assert_eq!(printed.parse(), Ok(address));
    }
    let wrong = "/:1/1.2.3:4/1.2.3.4.5/256.0.0.1/host:/host:x/a b/[::1/h:1:2/@h/x@h/ascii@ascii@h";
    for text in wrong.split('/') {
        assert!(text.parse::<ListenAddress>().is_err(), "{text}");
    }
}

#[test]
fn cpus_print_as_they_are_read() {
    for (text, cpus) in
        [("", vec![]), ("0", vec![0]), ("0-3,8", vec![0, 1, 2, 3, 8]), ("5,3,4", vec![5, 3, 4])]
    {
        let read: Cpus = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read, Cpus(cpus));
        assert_eq!(read.to_string().parse(), Ok(read));
    }
    assert_eq!(Cpus(vec![5, 3, 4]).to_string(), "5,3-4");
}

proptest! {
    #[test]
    fn any_path_survives_printing(path in "\\PC{1,40}", control in proptest::char::any()) {
        let path = Some(PathBuf::from(format!("{path}{control}")));
        prop_assume!(control != '\0');
        let config = effective([flags(&[("unix", &path.as_deref().unwrap().to_string_lossy())])]);
        let again = effective([file(&config.to_string())]);
        prop_assert_eq!(&again.config().unix, &path);
    }

    #[test]
    fn values_survive_printing(ms in any::<u64>(), mode in 0u32..512, bytes in any::<u64>()) {
        fn again<T: Value>(value: &T) -> T {
            let text = value.write();
            let text = text.trim_matches('"').to_owned();
            T::read(&[text]).unwrap_or_else(|error| panic!("{error}"))
        }
        prop_assert_eq!(again(&Duration(ms)), Duration(ms));
        prop_assert_eq!(again(&Mode(mode)), Mode(mode));
        prop_assert_eq!(again(&ByteSize(bytes)), ByteSize(bytes));
    }
}
