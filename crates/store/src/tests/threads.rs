//! Threads on real cores.

use std::{collections::BTreeMap, sync::Mutex};

use super::*;

/// What a thread has heard of the lengths of values, which only grow.
#[derive(Default)]
struct Lengths {
    heard: [usize; KEYS.len()],
    /// Gets that are not answered: which key, and what was heard of it before.
    asked: BTreeMap<u64, (usize, usize)>,
}

impl Lengths {
    /// Gets are told from appends by their callers' numbers.
    const FIRST: u64 = 1 << 32;

    fn get(&mut self, worker: &mut Worker<MapKeys, Ask>, number: u64) {
        let (at, caller) = (number as usize % KEYS.len(), Self::FIRST + number);
        let mut out = Vec::new();
        let before = self.heard[at];
        match worker.get(KEYS[at], caller, &mut out) {
            Got::Hit(_) => self.hear(at, before, out.len()),
            Got::Later => {
                self.asked.insert(caller, (at, before));
            }
            Got::Busy => {}
            other => panic!("{other:?}"),
        }
    }

    fn hear(&mut self, at: usize, before: usize, length: usize) {
        assert!(length >= before, "a value of {length} bytes was told after one of {before}");
        self.heard[at] = self.heard[at].max(length);
    }

    /// Whether it was a get that was answered.
    fn answered(&mut self, caller: u64, answer: &Answer<bool>) -> bool {
        let Some((at, before)) = self.asked.remove(&caller) else { return false };
        let Answer::Value(found) = answer else { panic!("{answer:?}") };
        self.hear(at, before, found.value.len());
        true
    }
}

/// Appends so often to each key, gets it, and performs what is to be done meanwhile.
fn append_often(mut worker: Worker<MapKeys, Ask>, files: &Mutex<MemoryDisk>, times: u64) {
    let (mut asked, mut answered, mut gets) = (0, 0, 0);
    let mut lengths = Lengths::default();
    while !lengths.asked.is_empty() || answered < times * KEYS.len() as u64 {
        worker.quiesce();
        if asked < times * KEYS.len() as u64 {
            let (key, ask) = (KEYS[asked as usize % KEYS.len()], Ask::Append(b"x"));
            match worker.execute(key, asked, &ask, || ask) {
                // The other thread has flushed it meanwhile.
                Asked::Now(answer) => {
                    assert!(matches!(answer, Answer::Done { verdict: true, .. }), "{answer:?}");
                    (asked, answered) = (asked + 1, answered + 1);
                }
                Asked::Later => asked += 1,
                Asked::Busy => {}
            }
            gets += 1;
            lengths.get(&mut worker, gets);
        }
        while let Some(plan) = worker.poll() {
            let outcome = base::sync::lock(files).perform(plan.action);
            worker.complete(plan.token, outcome);
        }
        for Answered { caller, answer } in taken(&mut worker) {
            if lengths.answered(caller, &answer) {
                continue;
            }
            assert!(matches!(answer, Answer::Done { verdict: true, .. }), "{answer:?}");
            answered += 1;
        }
        std::thread::yield_now();
    }
}

const KEYS: [&[u8]; 3] = [b"a", b"of twelve: b", b"a key of many bytes: c"];

#[test]
fn threads_that_change_cold_records_lose_nothing() {
    const TIMES: u64 = 300;
    let mut table = Table::new();
    KEYS.iter().for_each(|key| table.make_cold(key, b""));
    let files = Mutex::new(std::mem::take(&mut table.files));
    let workers: Vec<_> = table.workers.drain(..).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(|| append_often(worker, &files, TIMES)))
            .collect();
        // Records go out of memory all the time.
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            KEYS.iter().for_each(|key| table.evict(key));
            std::thread::yield_now();
        }
    });
    table.files = base::sync::lock(&files).take();
    table.workers = (0..2).map(|number| table.store.worker(number).expect("a place")).collect();
    for key in KEYS {
        assert_eq!(table.value(key), Some(vec![b'x'; 2 * TIMES as usize]), "an update was lost");
    }
}
