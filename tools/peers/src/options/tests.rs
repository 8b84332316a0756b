use super::{BareOptions, Command, Io, Place, SpeedOptions, WireOptions, parse};
use crate::{wire::BLOCKS, workload::Workload};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn options_replace_defaults() {
    let line = "speed --ops 33 --workloads insert,get90 --key-bytes 16 --json out.json";
    let expected = SpeedOptions {
        ops: 64,
        workloads: vec![Workload::Insert, Workload::Get90],
        key_bytes: vec![16],
        json: Some("out.json".to_owned()),
        ..SpeedOptions::default()
    };
    assert_eq!(parse(&words(line)), Ok(Command::Speed(expected)));
}

#[test]
fn servers_are_described() {
    let expected = BareOptions {
        place: Place::Unix("/tmp/s".into()),
        io: Io::Epoll,
        cpus: vec![0, 2],
        value_bytes: 1024,
        keys: 7,
        file: None,
    };
    let line = "bare --unix /tmp/s --io epoll --cpus 0,2 --value-bytes 1024 --keys 7";
    assert_eq!(parse(&words(line)), Ok(Command::Bare(expected)));
    let Ok(Command::Bare(read)) = parse(&words("bare --file /d/f")) else { panic!("--file") };
    assert_eq!((read.io, read.file), (Io::Uring, Some("/d/f".into())));
    let line = "trace --trace zipf:keys=9,requests=8 --trace a.lis --sizes 0.5,20";
    let Ok(Command::Hits(read)) = parse(&words(line)) else { panic!("{line}") };
    assert_eq!(read.traces, ["zipf:keys=9,requests=8", "a.lis"]);
    assert_eq!((read.sizes, read.min_memory_mib), (vec![0.5, 20.0], 64));
    let expected = WireOptions {
        blocks: vec![BLOCKS[1], BLOCKS[0]],
        rounds: 3,
        generator_cpus: vec![2, 3],
        ..WireOptions::default()
    };
    let line = "wire --cells unix,tcp --rounds 3 --generator-cpus 2,3";
    assert_eq!(parse(&words(line)), Ok(Command::Wire(expected)));
}

#[test]
fn mistakes_are_named() {
    for (line, error) in [
        ("speed --ops", "\"--ops\" has no value"),
        ("speed --ops many", "--ops: \"many\" is not a number"),
        ("speed --engines redis", "no engine \"redis\""),
        (
            "speed --engines kelvin-each --threads 1,3",
            "kelvin-each has a table for each of 2 threads",
        ),
        ("overhead --engines kelvin,empty", "empty is measured by speed only"),
        ("speed --capacity 5500000", "capacity is below keys, changed between 0 and 50"),
        ("overhead --rounds 2", "overhead has no option \"--rounds\""),
        ("wire --cells all", "no cells \"all\""),
        ("bare --io select", "bare has no option \"--io\" \"select\""),
        ("bare --keys 0", "values have at most 1048576 bytes, and there is one key"),
        ("bare --listen here", "\"here\" is no address"),
        (
            "bare --io epoll --file f",
            "--file is read on the ring of the sockets: not with --io epoll",
        ),
        ("speeed", "no command \"speeed\""),
    ] {
        assert_eq!(parse(&words(line)), Err(error.to_owned()));
    }
}
