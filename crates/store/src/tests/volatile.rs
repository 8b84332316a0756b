//! A table in memory alone.

use std::thread;

use super::*;
use crate::{Volatile, VolatileWorker};

fn table() -> Volatile {
    let config = CacheConfig { hash_seed: 7, writers: 2, ..CacheConfig::new(8 << 20) };
    Volatile::new(Cache::new(config, Clock::manual(START_MS)).expect("a small cache"))
}

fn do_to(worker: &mut VolatileWorker<bool>, ask: Ask) -> (bool, bool) {
    worker.quiesce();
    match worker.execute(b"k", &ask) {
        Answer::Done { verdict, was_there, .. } => (verdict, was_there),
        answer => panic!("{ask:?}: {answer:?}"),
    }
}

fn value(worker: &mut VolatileWorker<bool>) -> Option<Vec<u8>> {
    worker.quiesce();
    let mut value = Vec::new();
    match worker.get(b"k", &mut value) {
        Got::Hit(_) => Some(value),
        Got::Large(pinned) => Some(pinned.slices().flatten().copied().collect()),
        Got::Miss => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_do_in_memory_what_they_do_elsewhere() {
    let mut worker = table().worker().expect("a place");
    assert_eq!(do_to(&mut worker, Ask::Append(b"1")), (false, false));
    assert_eq!(do_to(&mut worker, Ask::Touch(1)), (false, false));
    assert_eq!(do_to(&mut worker, Ask::Delete), (true, false));
    assert_eq!(do_to(&mut worker, Ask::Add(b"a")), (true, false));
    assert_eq!(do_to(&mut worker, Ask::Add(b"b")), (false, false));
    assert_eq!(do_to(&mut worker, Ask::Append(b"c")), (true, false));
    assert_eq!(value(&mut worker).as_deref(), Some(&b"ac"[..]));
    assert_eq!(do_to(&mut worker, Ask::Touch(START_MS - 1)), (true, false));
    assert_eq!(value(&mut worker), None, "it has expired");
    assert_eq!(do_to(&mut worker, Ask::Set(&[b'v'; 10_000], 0)), (true, false));
    assert_eq!(do_to(&mut worker, Ask::Append(b"w")), (true, false));
    assert_eq!(value(&mut worker).map(|value| value.len()), Some(10_001));
    assert_eq!(do_to(&mut worker, Ask::Delete), (true, true));
    assert_eq!(value(&mut worker), None);
    do_to(&mut worker, Ask::Set(b"x", 0));
    worker.flush();
    assert_eq!((value(&mut worker), do_to(&mut worker, Ask::Add(b"y")).0), (None, true));
    let answer = worker.execute(&[b'k'; 300], &Ask::Add(b"z"));
    assert!(matches!(answer, Answer::Failed(Error::KeyBytes { got: 300 })), "{answer:?}");
}

#[test]
fn threads_that_append_in_memory_lose_nothing() {
    const TIMES: usize = 2000;
    let table = table();
    let mut worker = table.worker().expect("a place");
    do_to(&mut worker, Ask::Set(b"", 0));
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut worker = table.worker().expect("a place");
            scope.spawn(move || {
                (0..TIMES).for_each(|_| assert!(do_to(&mut worker, Ask::Append(b"x")).0));
                worker.rest();
            });
        }
        worker.rest();
    });
    worker.resume_at(START_MS);
    let len = value(&mut worker).map(|value| value.len());
    assert_eq!(len, Some(2 * TIMES), "an append is lost");
}
