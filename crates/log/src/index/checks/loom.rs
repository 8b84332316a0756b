//! Two threads over a line or two, in every interleaving and with every value that weak memory
//! allows. The reader is the spawned thread, the writer the first, as loom finds more that way.

use base::sync::{Arc, thread};
use loom::model::Builder;

use super::{flat, hash, key, number_of, stamped};
use crate::index::{HashIndex, Index, KeyHash, Lookup};

/// Runs a model. `preemptions` bounds how often a thread is interrupted where it would not have
/// waited; `LOOM_MAX_PREEMPTIONS` overrides it.
fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(model);
}

fn publish(index: &Index, key: KeyHash, number: u64) -> Option<u64> {
    index.lock(key).expect("room").publish(stamped(number)).map(number_of)
}

fn get(index: &Index, key: KeyHash) -> u64 {
    match index.get(key) {
        Lookup::At(entry) => number_of(entry),
        other => panic!("present key missed: {other:?}"),
    }
}

fn reader_and_writer(index: fn() -> Index, key: KeyHash) {
    explore(Some(3), move || {
        let index = Arc::new(index());
        assert_eq!(publish(&index, key, 0x0aa), None);
        let reading = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let seen = get(&index, key);
                assert!(seen == 0x0aa || seen == 0xf55, "torn read: {seen:x}");
            })
        };
        assert_eq!(publish(&index, key, 0xf55), Some(0x0aa));
        reading.join().expect("the reader ends");
        assert_eq!(get(&index, key), 0xf55, "the old entry after the new");
    });
}

#[test]
fn loom_index_reader_and_writer_of_a_flat_line() {
    // Number 0 begins in the first word and ends in the second.
    reader_and_writer(flat, KeyHash::from(0));
}

#[test]
fn loom_index_reader_and_writer_of_a_hash_line() {
    reader_and_writer(|| Index::Hash(hash(8)), key(1));
}

#[test]
fn loom_index_two_writers_of_a_key_take_turns() {
    explore(Some(3), || {
        let index = Arc::new(Index::Hash(hash(8)));
        let other = {
            let index = Arc::clone(&index);
            thread::spawn(move || publish(&index, key(1), 2))
        };
        let before = publish(&index, key(1), 1);
        let of_other = other.join().expect("the other ends");
        assert!(matches!((before, of_other), (None, Some(1)) | (Some(2), None)));
        assert_eq!(index.len(), 1, "a key was added twice");
    });
}

/// An index of one key that `moves` moves to another bucket.
fn missed_during(moves: fn(&HashIndex, KeyHash), moved: KeyHash, is_in_other: bool) {
    explore(Some(2), move || {
        let index = Arc::new(hash(70));
        index.lock(moved).expect("room").publish(stamped(3));
        if is_in_other {
            index.displace(moved);
        }
        let reading = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let seen = index.get(moved);
                assert_eq!(seen, Lookup::At(stamped(3)), "present key missed");
            })
        };
        moves(&index, moved);
        reading.join().expect("the reader ends");
        assert_eq!(index.get(moved), Lookup::At(stamped(3)), "present key missed");
    });
}

#[test]
fn loom_index_miss_during_move_between_the_two_buckets() {
    // Once from the first bucket that a reader looks at to the second, once back.
    for is_in_other in [false, true] {
        missed_during(HashIndex::displace, key(1), is_in_other);
    }
}

#[test]
fn loom_index_miss_during_move_to_a_new_bucket() {
    // A key that the first split moves.
    let moved = (1..).map(key).find(|&key| HashIndex::is_moved_by_first_split(key));
    let split = |index: &HashIndex, _| index.split_one().expect("loaded");
    missed_during(split, moved.expect("there is one"), false);
}
