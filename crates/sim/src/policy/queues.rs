//! Queues over the keys of a trace, of which a key is in at most one.
//!
//! A doubly linked list in arrays: every operation takes constant time, and taking a key out of the
//! middle needs no search. Invariant: `place[key]` is the number of the queue that `key` is in, and
//! its links are valid as long as it is in one.

/// Nobody.
const NONE: u32 = u32::MAX;
/// The place of a key that is in no queue.
const NOWHERE: u8 = u8::MAX;

/// `N` queues.
#[derive(Clone, Debug)]
pub(crate) struct Queues<const N: usize> {
    /// Of each key: who came before it, who after it, and where it is.
    older: Vec<u32>,
    newer: Vec<u32>,
    place: Vec<u8>,
    ends: [Ends; N],
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl<const N: usize> Queues<N> {
    /// Empty ones, for keys below `keys`.
    pub(crate) fn new(keys: u32) -> Self {
        let keys = keys as usize;
        Self {
            older: vec![NONE; keys],
            newer: vec![NONE; keys],
            place: vec![NOWHERE; keys],
            ends: [Ends { oldest: NONE, newest: NONE, len: 0 }; N],
        }
    }

    pub(crate) fn len(&self, queue: usize) -> usize {
        self.ends[queue].len
    }

    /// The queue that a key is in.
    pub(crate) fn place(&self, key: u32) -> Option<usize> {
        let place = self.place[key as usize];
        (place != NOWHERE).then_some(place.into())
    }

    /// The key that has been in a queue for longest.
    pub(crate) fn oldest(&self, queue: usize) -> Option<u32> {
        let oldest = self.ends[queue].oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// Makes a key the newest of a queue, wherever it was.
    pub(crate) fn push(&mut self, queue: usize, key: u32) {
        self.take(key);
        let ends = &mut self.ends[queue];
        let at = key as usize;
        (self.older[at], self.newer[at]) = (ends.newest, NONE);
        self.place[at] = u8::try_from(queue).expect("invariant: a handful of queues");
        match ends.newest {
            NONE => ends.oldest = key,
            newest => self.newer[newest as usize] = key,
        }
        ends.newest = key;
        ends.len += 1;
    }

    /// Takes a key out of the queue it is in, if it is in one.
    pub(crate) fn take(&mut self, key: u32) {
        let at = key as usize;
        let Some(queue) = self.place(key) else { return };
        let (older, newer) = (self.older[at], self.newer[at]);
        let ends = &mut self.ends[queue];
        match older {
            NONE => ends.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        match newer {
            NONE => ends.newest = older,
            newer => self.older[newer as usize] = older,
        }
        ends.len -= 1;
        self.place[at] = NOWHERE;
    }

    /// Takes the oldest key out of a queue.
    pub(crate) fn pop(&mut self, queue: usize) -> Option<u32> {
        let oldest = self.oldest(queue)?;
        self.take(oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use base::random::Random;

    use super::Queues;

    #[test]
    fn queues_do_what_plain_ones_do() {
        let (mut queues, mut random) = (Queues::<3>::new(20), Random::new(3, 0));
        let mut model: [VecDeque<u32>; 3] = Default::default();
        for _ in 0..10_000 {
            let (key, queue) = (random.below(20), random.below(3) as usize);
            match random.below(4) {
                0 => assert_eq!(queues.pop(queue), model[queue].pop_front()),
                1 => {
                    queues.take(key);
                    model.iter_mut().for_each(|queue| queue.retain(|other| *other != key));
                }
                _ => {
                    queues.push(queue, key);
                    model.iter_mut().for_each(|queue| queue.retain(|other| *other != key));
                    model[queue].push_back(key);
                }
            }
            assert_eq!(queues.place(key), model.iter().position(|queue| queue.contains(&key)));
            assert_eq!(queues.oldest(queue), model[queue].front().copied());
            assert_eq!([0, 1, 2].map(|queue| queues.len(queue)), [0, 1, 2].map(|q| model[q].len()));
        }
    }
}
