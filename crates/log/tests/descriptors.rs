//! A process that has no descriptors left for a while: alone here, because the limit is its own.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use log::{
    Log, Options,
    engine::Put,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
    random,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The standard streams: whatever is opened then is one too many.
const NONE: u64 = 3;

const LACK: Duration = Duration::from_millis(300);

fn set_limit(current: Option<u64>) {
    let limit = Rlimit { current, ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("it may be changed up to the hard one");
}

#[test]
fn a_log_waits_for_descriptors_and_takes_writes_as_before() {
    let path = std::env::temp_dir().join(format!("kelvin-descriptors-{}", std::process::id()));
    fs::create_dir_all(&path).expect("a directory can be made");
    let seeds = random().expect("the system gives bytes");
    let mut options = Options::new(&path, IndexKind::Hash { seeds }, 0);
    options.shape.segment_bytes = 1 << 20;
    let limits = IndexLimits { kmax_limit: 0, entries_max: 1000 };
    let opened = Log::<Keyed>::open(&options, LogId(1), limits, &mut |_| ());
    let (log, _) = opened.expect("a log");
    let value = vec![7; 100_000];
    let put = |key: u32| log.put(&Put { key: &key.to_be_bytes(), value: &value, ..Put::default() });
    put(0).expect("it is kept");
    let before = getrlimit(Resource::Nofile).current;
    let begun = Instant::now();
    thread::scope(|scope| {
        set_limit(Some(NONE));
        scope.spawn(|| {
            thread::sleep(LACK);
            set_limit(before);
        });
        // Several segments, each of them a file.
        (1..60).for_each(|key| put(key).expect("a lack of descriptors is for good"));
    });
    assert!(begun.elapsed() >= LACK, "nothing needs a descriptor");
    for key in 0..60u32 {
        let found = log.get(&key.to_be_bytes()).expect("it can be read");
        assert!(found.is_some_and(|found| found.value == value), "{key}");
    }
    log.close().expect("all of it is durable");
    fs::remove_dir_all(&path).expect("it is there");
}
