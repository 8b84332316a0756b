//! What was evicted waits: random schedules of one who owns keys, and one who has them go.
//!
//! The owner looks for a key in the cache and then in the queue, fills the cache from there, and
//! knows what it has stored and removed. The other one evicts by its own sets, takes out of the
//! queue, and flushes.

use std::sync::atomic::{AtomicU32, Ordering};

use base::sync::{Arc, thread};
use shuttle::rand::{Rng as _, thread_rng};

use super::{
    parallel::{Name, Random, cache_with},
    shuttle::{SCHEDULES, explore_body},
};
use crate::{Change, Get, Put, Value, Worker};

/// Blocks of the arena: small records of both threads fill it.
const BLOCKS: usize = 6;
const STEPS: u32 = 40;
const KEYS: u64 = 3;
/// Keys of the other thread.
const OTHERS: u64 = 60;

/// What both know: the last stamp that was stored, and up to which all were removed or flushed.
#[derive(Default)]
struct Known {
    stored: AtomicU32,
    dead: AtomicU32,
}

fn look(worker: &mut Worker, key: u64, least: u32, dead: u32) {
    let name = Name::of(key);
    let flushes = worker.flushes();
    let mut value = Vec::new();
    let found = match worker.get(worker.key(name.bytes()), &mut value) {
        Get::Hit(meta) => Some((meta, false)),
        _ => worker.find_victim(worker.key(name.bytes()), &mut value).map(|meta| (meta, true)),
    };
    let Some((meta, waits)) = found else { return };
    let stamp = u32::from_le_bytes(value[..].try_into().expect("four bytes"));
    assert!(stamp >= least, "{stamp} after {least} was stored");
    assert!(stamp > dead, "{stamp} after all up to {dead} were removed");
    if waits {
        let put = Put { token: crate::Token::Given(meta.token), ..Put::new(Value::Bytes(&value)) };
        let _ = worker.fill_as_of(flushes, worker.key(name.bytes()), &put);
    }
}

fn own(worker: &mut Worker, known: &[Known], random: &mut Random) {
    for stamp in 1..=STEPS {
        let key = random.below(KEYS);
        let name = Name::of(key);
        let at = &known[key as usize];
        let act = random.below(5);
        if act == 0 {
            let removed = worker.update(worker.key(name.bytes()), |_| Change::Remove.into());
            removed.expect("a removal needs no memory");
            worker.forget_victim(worker.key(name.bytes()), None);
            at.dead.fetch_max(at.stored.load(Ordering::SeqCst), Ordering::SeqCst);
        } else if act < 3 {
            let value = stamp.to_le_bytes();
            let set = worker.set(worker.key(name.bytes()), &Put::new(Value::Bytes(&value)));
            worker.forget_victim(worker.key(name.bytes()), set.ok());
            if set.is_ok() {
                at.stored.store(stamp, Ordering::SeqCst);
            }
        }
        let dead = at.dead.load(Ordering::SeqCst);
        let least = at.stored.load(Ordering::SeqCst);
        look(worker, key, least, dead);
        worker.quiesce();
    }
}

fn disturb(worker: &mut Worker, known: &[Known], random: &mut Random) {
    for step in 0..STEPS {
        let name = Name::of(KEYS + random.below(OTHERS));
        let _ = worker.set(worker.key(name.bytes()), &Put::new(Value::Bytes(b"other")));
        let own = Name::of(random.below(KEYS));
        worker.evict(worker.key(own.bytes()));
        if step % 4 == 0
            && let Some(victim) = worker.next_victim(None)
        {
            worker.leave_victim(victim);
        }
        if step % 8 == 7 {
            let before: Vec<u32> =
                known.iter().map(|it| it.stored.load(Ordering::SeqCst)).collect();
            worker.flush();
            for (known, before) in known.iter().zip(before) {
                known.dead.fetch_max(before, Ordering::SeqCst);
            }
        }
        worker.quiesce();
    }
}

#[test]
fn shuttle_what_was_evicted_is_the_newest_or_nothing() {
    explore_body(SCHEDULES, || {
        let seed = thread_rng().gen_range(1..u64::MAX >> 1);
        let cache = cache_with(BLOCKS, seed, 1 << 12);
        let known: Arc<[Known; KEYS as usize]> =
            Arc::new(std::array::from_fn(|_| Known::default()));
        let other = {
            let (cache, known) = (cache.clone(), Arc::clone(&known));
            thread::spawn(move || {
                let mut worker = cache.worker().expect("a place");
                disturb(&mut worker, &known[..], &mut Random(seed));
            })
        };
        let mut worker = cache.worker().expect("a place");
        own(&mut worker, &known[..], &mut Random(seed ^ 0x55));
        worker.offline(|| other.join().expect("a thread ends"));
    });
}
