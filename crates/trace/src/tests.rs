//! Readers and generators as their users see them.

use crate::{Compression, Flaw, Format, Place, Source, Trace, What, read};

fn read_all(format: Format, bytes: &[u8]) -> Result<Trace, Flaw> {
    read("test", format, Compression::None, bytes, 1000)
}

fn keys(format: Format, bytes: &[u8]) -> Vec<u32> {
    read_all(format, bytes).expect("a trace").keys().to_vec()
}

fn flaw(format: Format, bytes: &[u8]) -> String {
    read_all(format, bytes).expect_err("no trace").to_string()
}

#[test]
fn ranges_of_blocks_are_taken_apart() {
    let text = b"10 3 0 0\n11 1 7 1\r\n\n12 2 0 2\n5 0 0 3";
    assert_eq!(keys(Format::Lis, text), [0, 1, 2, 1, 2, 3]);
    assert_eq!(flaw(Format::Lis, b"1 1 0 0\n1 x 0 0\n"), "line 2: `1 x 0 0` are not four numbers");
    assert_eq!(flaw(Format::Lis, b"1 1 0\n"), "line 1: `1 1 0` are not four numbers");
    assert_eq!(flaw(Format::Lis, b"1 1 0 0 0\n"), "line 1: `1 1 0 0 0` are not four numbers");
    let far = flaw(Format::Lis, b"18446744073709551615 2 0 0\n");
    assert_eq!(far, "line 1: 2 blocks from 18446744073709551615 on have no number");
    let many = flaw(Format::Lis, b"0 999 0 0\n0 2 0 0\n");
    assert_eq!(many, "line 2: more than 1000 requests");
}

#[test]
fn numbers_and_keys_are_one_a_line() {
    assert_eq!(keys(Format::Numbers, b"7\n 8\r\n*\n\n7"), [0, 1, 0]);
    assert_eq!(flaw(Format::Numbers, b"1\n-2\n"), "line 2: `-2` is no number");
    assert_eq!(flaw(Format::Numbers, b"\xff\n"), "line 1: `\\xff` is no number");
    assert_eq!(keys(Format::Keys, b"a b\na\n\na b\r\n*\n"), [0, 1, 0, 2]);
    let long = [b'x'; 5000];
    assert_eq!(flaw(Format::Keys, &long), "line 1: more than 4096 bytes without an end");
    assert_eq!(keys(Format::Keys, &long[..4096]), [0]);
}

#[test]
fn integers_are_big_endian_and_whole() {
    assert_eq!(keys(Format::I32Be, &[0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1]), [0, 1, 0]);
    let long = [[0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 0, 0]].concat();
    assert_eq!(keys(Format::I64Be, &long), [0, 1]);
    let cut = flaw(Format::I64Be, &long[..13]);
    assert_eq!(cut, "at byte 8: it ends with 5 of the 8 bytes of an integer");
}

#[test]
fn events_are_connections_or_answers() {
    let text = b"1.5\tR\t10.0.0.1\t\n1.6\tW\t10.0.0.2\ta.example\n1.7\tW\t10.0.0.1\tb.example\n\
        1.8\tR\t10.0.0.1\t\n1.9\tR\t10.0.0.3\t\n";
    assert_eq!(keys(Format::Events, text), [0, 0, 1]);
    assert_eq!(keys(Format::EventNames, text), [0, 1]);
    let wrong = flaw(Format::Events, b"1.5\tR\t10.0.0.1\t\n1.5\tQ\ta\tb\n");
    assert_eq!(wrong, "line 2: `1.5\\tQ\\ta\\tb` is no event: time, R or W, address, name");
    assert!(read_all(Format::Events, b"1.5\tR\t10.0.0.1\t\t\n").is_err());
}

#[test]
fn a_trace_without_requests_is_none() {
    for format in [Format::Lis, Format::I32Be, Format::Numbers, Format::Keys, Format::Events] {
        let flaw = read_all(format, b"").expect_err("nothing");
        assert!(matches!(flaw, Flaw { place: Place::Offset(0), what: What::Empty }), "{flaw}");
    }
    assert_eq!(flaw(Format::Events, b"1\tW\ta\tb\n"), "at byte 0: no request at all");
}

#[test]
fn names_say_formats_and_formats_can_be_said() {
    let format = |text: &str| match text.parse().expect(text) {
        Source::File { format, path } => (format, path.display().to_string()),
        Source::Synthetic(_) => panic!("{text} is a file"),
    };
    let of = |text: &str| format(text).0;
    assert_eq!(of("a/OLTP.lis.zst"), Format::Lis);
    assert_eq!(of("cache2k_web07.trace.xz"), Format::I32Be);
    assert_eq!(of("corda_trace_vaultservice.gz"), Format::I64Be);
    assert_eq!(of("Scarab-recs.trace.xz"), Format::I64Be);
    assert_eq!(of("lirs_multi1.trace.gz"), Format::Numbers);
    assert_eq!(of("multi1.trc"), Format::Numbers);
    assert_eq!(of("dns-ip.events.tsv.gz"), Format::Events);
    assert_eq!(of("names.txt"), Format::Keys);
    assert_eq!(format("i64be:a:b.lis"), (Format::I64Be, "a:b.lis".to_owned()));
    // A directory does not say what its files are.
    assert!("lirs/multi1.trace".parse::<Source>().is_err());
    let error = "data.bin".parse::<Source>().expect_err("it does not say");
    assert!(error.starts_with("`data.bin` does not say its format: write FORMAT:data.bin (lis, "));
}

#[test]
fn a_file_that_is_not_there_is_an_error_with_its_name() {
    let source: Source = "/nowhere/x.lis".parse().expect("a name");
    let error = source.load(1).expect_err("not there");
    assert_eq!(error.to_string(), "cannot open /nowhere/x.lis");
}

fn synthetic(text: &str, seed: u64) -> Trace {
    text.parse::<Source>().expect(text).load(seed).expect("made, not read")
}

#[test]
fn generators_do_what_they_are_called() {
    let looped = synthetic("loop:keys=3,requests=7", 1);
    assert_eq!(looped.keys(), [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(looped.name(), "loop:keys=3,requests=7");

    let zipf = "zipf:keys=1000,requests=50000,exponent=1";
    assert_eq!(synthetic(zipf, 1), synthetic(zipf, 1));
    assert_ne!(synthetic(zipf, 1).keys(), synthetic(zipf, 2).keys());
    // The most popular of 1000 keys gets 1 / H(1000) = 13.4 % of the accesses.
    assert!((0.128..0.140).contains(&most_popular_share(&synthetic(zipf, 1))));

    // A fifth of the requests is for keys that come once.
    let scan = synthetic("scan:keys=1000,requests=100000,exponent=1,share=0.2,length=50", 1);
    let once = counts(&scan).into_iter().filter(|count| *count == 1).count();
    assert!((18_000..22_000).contains(&once), "{once}");

    // In one period the popular keys are replaced: as many keys again, and no key as popular.
    let drift = synthetic("drift:keys=1000,requests=50000,exponent=1,period=25000", 1);
    assert!((2000..=3000).contains(&drift.footprint()), "{}", drift.footprint());
    assert!(most_popular_share(&drift) < 0.02);
}

fn counts(trace: &Trace) -> Vec<u32> {
    let mut counts = vec![0; trace.footprint() as usize];
    trace.keys().iter().for_each(|key| counts[*key as usize] += 1);
    counts
}

fn most_popular_share(trace: &Trace) -> f64 {
    let most = counts(trace).into_iter().max().expect("there are keys");
    f64::from(most) / f64::from(u32::try_from(trace.keys().len()).expect("few"))
}

#[test]
fn parameters_that_are_none_are_refused() {
    for text in [
        "zipf:keys=0",
        "zipf:keys",
        "zipf:period=5",
        "loop:exponent=1",
        "zipf:exponent=nan",
        "scan:share=1.1",
        "zipf:requests=268435457",
    ] {
        assert!(text.parse::<Source>().is_err(), "{text}");
    }
    let read = "zipf:".parse::<Source>().expect("defaults");
    assert_eq!(read.to_string(), "zipf:keys=100000,requests=1000000,exponent=0.99");
}
