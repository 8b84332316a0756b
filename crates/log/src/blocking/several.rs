//! Gets of several keys: looked up side by side, and read at once.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use super::{Stored, drive::Shared};
use crate::{
    engine::{Get, Reading},
    error::Error,
    keys::Keys,
};

/// Keys that are looked up under one lock: some ten microseconds, in which nobody else goes on. As
/// many lines of the index come meanwhile as a processor waits for, a few times over.
const KEYS_AT_ONCE: usize = 64;

/// Reads that are out at once: from there on a device gives hardly more. All but one have a thread
/// of their own, which is there sooner than a read is done.
const READS_AT_ONCE: usize = 16;

/// What a look at the index has come to.
enum Looked {
    There(Option<Stored>),
    /// It is on the disk.
    Reading(Reading),
    /// Something has to be flushed before it may be told.
    Later,
}

type Got = Result<Option<Stored>, Error>;

impl<K: Keys + Send> Shared<K> {
    /// What is stored under each key.
    pub(super) fn get_all(&self, keys: &[&[u8]]) -> Result<Vec<Option<Stored>>, Error> {
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(KEYS_AT_ONCE) {
            for got in self.get_several(keys) {
                all.push(got?);
            }
        }
        Ok(all)
    }

    fn get_several(&self, keys: &[&[u8]]) -> Vec<Got> {
        let (mut got, mut waiting) = (Vec::with_capacity(keys.len()), Vec::new());
        for (at, looked) in self.look_up(keys).into_iter().enumerate() {
            let there = match looked {
                Ok(Looked::There(stored)) => Ok(stored),
                Ok(Looked::Reading(reading)) => {
                    waiting.push((at, Some(reading)));
                    Ok(None)
                }
                Ok(Looked::Later) => {
                    waiting.push((at, None));
                    Ok(None)
                }
                Err(error) => Err(error),
            };
            got.push(there);
        }
        let waited_for = at_once(&waiting, |(at, reading)| match reading {
            Some(reading) => self.fetch(reading),
            None => self.get(keys[*at]),
        });
        for ((at, _), waited_for) in waiting.iter().zip(waited_for) {
            got[*at] = waited_for;
        }
        got
    }

    fn look_up(&self, keys: &[&[u8]]) -> Vec<Result<Looked, Error>> {
        let now_ms = self.clock.wall_ms();
        let mut state = self.lock();
        state.engine.ask_for(keys);
        let look = |key: &&[u8]| {
            Ok(match state.engine.get(key, now_ms)? {
                Get::Absent { wait: None } => Looked::There(None),
                Get::Memory { stored, wait: None } if stored.parts.is_none() => {
                    Looked::There(Some(stored))
                }
                Get::Read(reading) => Looked::Reading(reading),
                Get::Absent { .. } | Get::Memory { .. } | Get::Wait => Looked::Later,
            })
        };
        keys.iter().map(look).collect()
    }
}

/// What `work` makes of each item, in their order, several at a time.
fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let go_on = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let others = items.len().min(READS_AT_ONCE).saturating_sub(1);
        // Where the system gives no thread, there are fewer.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, go_on).ok();
        let others: Vec<_> = (0..others).filter_map(spawn).collect();
        let mut done = go_on();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::{
        sync::{Condvar, Mutex},
        time::Duration,
    };

    use super::*;

    #[test]
    fn as_many_as_may_are_out_at_once_and_results_are_in_order() {
        for (items, expected) in [(0, 0), (1, 1), (5, 5), (16, 16), (40, 16)] {
            let items: Vec<usize> = (0..items).collect();
            let (out, came) = (Mutex::new((0, 0)), Condvar::new());
            let results = at_once(&items, |item| {
                let mut counts = out.lock().unwrap();
                counts.0 += 1;
                counts.1 = counts.1.max(counts.0);
                came.notify_all();
                // Until as many have come as are to be out together.
                let wait = Duration::from_secs(20);
                let waits = |counts: &mut (usize, usize)| counts.1 < expected;
                let (mut counts, _) = came.wait_timeout_while(counts, wait, waits).unwrap();
                counts.0 -= 1;
                item * 2
            });
            assert_eq!(results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
            assert_eq!(out.into_inner().unwrap().1, expected, "reads go out one by one");
        }
    }
}
