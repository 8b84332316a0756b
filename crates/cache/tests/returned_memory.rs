//! Memory that a lowered limit gives back to the system. Alone in its process, whose resident set
//! it looks at.

use base::clock::Clock;
use cache::{Cache, CacheConfig, Put, Value};

const MIB: u64 = 1 << 20;

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("Rss:")).expect("a line");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("KiB") << 10
}

#[test]
fn the_memory_of_a_lowered_limit_goes_back_to_the_system() {
    let cache = Cache::new(CacheConfig::new(256 * MIB), Clock::manual(1_000_000)).expect("memory");
    let mut worker = cache.worker().expect("a place");
    let mut fill = |keys: std::ops::Range<u64>| {
        for number in keys {
            let name = number.to_le_bytes();
            worker.set(worker.key(&name), &Put::new(Value::Bytes(&[7; 1000]))).expect("memory");
            worker.quiesce();
        }
        while worker.fit() {}
    };
    fill(0..250 * MIB / 1100);
    let full = resident_bytes();
    assert!(full > 230 * MIB, "{} MiB", full / MIB);
    cache.set_memory(64 * MIB).expect("enough");
    fill(0..1);
    let lowered = resident_bytes();
    assert!(lowered < 72 * MIB, "{} MiB are left", lowered / MIB);
    fill(0..250 * MIB / 1100);
    assert!(resident_bytes() < 72 * MIB, "{} MiB", resident_bytes() / MIB);
}
