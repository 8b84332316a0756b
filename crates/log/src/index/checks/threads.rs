//! The scenarios on real cores, and what takes too much memory or time for CI.

use std::time::Instant;

use base::random::Random;

use super::{
    hash,
    parallel::{Scenario, run},
    stamped,
};
use crate::{
    index::{FlatIndex, FlatRange, HashIndex, Index, KeyHash, Lookup},
    position::{Entry, Position, SizeClass},
};

#[test]
fn keys_shared_by_threads_lose_no_count() {
    // A count is below 2^12, so few steps a key.
    let scenario = Scenario { threads: 4, steps: 4_000, kept: 30, cleared: 10 };
    for entry_bytes in 5..=8 {
        let range = FlatRange { kmin: 0, kmax: 40, kmax_limit: 40, entry_bytes };
        run(Index::Flat(FlatIndex::new(range).expect("an index")), scenario, 1);
    }
    run(Index::Hash(hash(100)), scenario, 2);
}

#[test]
fn an_index_that_grows_under_threads_loses_nothing() {
    // More than the keys that its first buckets have room for.
    let scenario = Scenario { threads: 4, steps: 500_000, kept: 400_000, cleared: 1_000 };
    run(Index::Hash(hash(500_000)), scenario, 3);
}

fn numbered(random: &mut Random) -> KeyHash {
    let (low, high) = (random.bits(), random.bits());
    KeyHash(u128::from(high) << 64 | u128::from(low))
}

/// Bytes that this process has in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number") * 4096
}

/// Longer than any put may take because the index grows.
const LONG_NS: u64 = 1_000_000;

/// How long this thread could have run and had no processor.
fn waited_for_processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    waited.unwrap_or(0)
}

/// What a load of keys costs: bytes a key at every moment, and how long puts take.
#[test]
#[ignore = "soak: a minute, 900 MB"]
fn soak_index_load_of_50_million_strings() {
    const KEYS: u64 = 50_000_000;
    let start = resident_bytes();
    let index = HashIndex::new(KEYS).expect("an index");
    let mut random = Random::new(1, 0);
    let (mut most, mut worst, mut above, mut above_grown) = (0.0_f64, 0, 0_u32, 0_u32);
    let (mut grown, mut grown_ns) = (0, 0_u64);
    let mut waited_ns = waited_for_processor_ns();
    let began = Instant::now();
    let mut last = began;
    for number in 1..=KEYS {
        let buckets = index.buckets();
        let mut guard = index.lock(numbered(&mut random)).expect("room");
        guard.publish(Entry {
            position: Position::new(number).expect("a position"),
            class: SizeClass::LARGEST,
        });
        drop(guard);
        let now = Instant::now();
        let mut taken = now.duration_since(last).as_nanos() as u64;
        last = now;
        // Other work of the machine is none of the index's. Asking costs two microseconds.
        if taken > 20_000 || number % 1024 == 0 {
            let waited = waited_for_processor_ns();
            taken = taken.saturating_sub(waited - waited_ns);
            waited_ns = waited;
            last = Instant::now();
        }
        worst = worst.max(taken);
        above += u32::from(taken > LONG_NS);
        if index.buckets() != buckets {
            grown = grown.max(index.buckets() - buckets);
            grown_ns += taken;
            above_grown += u32::from(taken > LONG_NS);
        }
        if number >= 2_500_000 {
            most = most.max(index.bytes() as f64 / number as f64);
        }
        if number % 2_500_000 == 0 {
            let resident = (resident_bytes() - start) as f64 / number as f64;
            let bytes = index.bytes() as f64 / number as f64;
            println!("{number:>9} keys: {bytes:.2} bytes a key, {resident:.2} resident");
            assert!(resident < 18.0, "{resident} bytes a key");
            last = Instant::now();
        }
    }
    let all = began.elapsed();
    let each = all.as_nanos() / u128::from(KEYS);
    let share = grown_ns as f64 / all.as_nanos() as f64;
    println!(
        "{each} ns a put, the longest {worst} ns, {above} above 1 ms, {above_grown} of them when \
         the index grew, by {grown} buckets at most and in {share:.2} of the time; at most \
         {most:.3} bytes"
    );
    // A machine that stands still now and then does so at any time: were growth what puts wait
    // for, more of those that wait would be among it than it takes of the time.
    let expected = share * f64::from(above);
    assert!(f64::from(above_grown) <= 2.0 * expected + 2.0, "growth has a put wait");
    assert!(grown <= 64, "one put had the index grow by {grown} buckets");
    assert!(most < 18.0, "{most} bytes a key");
    let mut random = Random::new(1, 0);
    let began = Instant::now();
    for number in 1..=KEYS {
        let Lookup::At(entry) = index.get(numbered(&mut random)) else { panic!("lost {number}") };
        assert_eq!(entry.position.units(), number);
    }
    println!("{} ns a get", began.elapsed().as_nanos() / u128::from(KEYS));
}

#[test]
#[ignore = "soak: a minute, 540 MB"]
fn soak_index_load_of_100_million_integers() {
    const KEYS: u64 = 100_000_000;
    let start = resident_bytes();
    let range = FlatRange { kmin: 0, kmax: 0, kmax_limit: KEYS, entry_bytes: 5 };
    let index = FlatIndex::new(range).expect("an index");
    let began = Instant::now();
    for key in 0..KEYS {
        index.grow(key + 1).expect("within the limit");
        index.lock(key).expect("inside").publish(stamped(key % 4096));
        if key % 10_000_000 == 0 {
            let (bytes, resident) = (index.bytes(), resident_bytes() - start);
            println!("{key:>9} keys: {bytes} bytes, {resident} resident");
        }
    }
    let each = began.elapsed().as_nanos() / u128::from(KEYS);
    let resident = resident_bytes() - start;
    println!("{each} ns a put in order; {resident} bytes resident");
    assert!(resident < 540_000_000, "{resident} bytes");
    let mut random = Random::new(1, 0);
    let began = Instant::now();
    for _ in 0..KEYS / 10 {
        let key = u64::from(random.below(KEYS as u32));
        assert_eq!(index.get(key), Lookup::At(stamped(key % 4096)));
    }
    println!("{} ns a get at random", began.elapsed().as_nanos() * 10 / u128::from(KEYS));
}
