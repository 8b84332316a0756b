//! What is stored under each key, and which key is overwritten next.

use std::{
    io,
    sync::atomic::{AtomicU8, Ordering},
};

use super::Popularity;
use crate::{
    disk::{
        engine::{Engine, Session},
        load::Load,
    },
    random::{Random, Zipf},
};

const ZIPF_EXPONENT: f64 = 0.99;

/// Of so many keys one is kept when most are removed.
pub(super) const ONE_KEPT_OF: u32 = 10;

/// Keys that are looked at to see whether their values are right.
const CHECKS_MAX: u32 = 20_000;

/// How often each key was overwritten, modulo 256. Each key is one writer's.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    load: &'a Load,
    versions: Vec<AtomicU8>,
}

impl<'a> Ledger<'a> {
    /// Every key has its first value.
    pub(super) fn new(load: &'a Load) -> Self {
        let versions = (0..load.records()).map(|_| AtomicU8::new(0)).collect();
        Self { load, versions }
    }

    fn version(&self, key: u32) -> u8 {
        self.versions[key as usize].load(Ordering::Relaxed)
    }

    /// Notes that a key is overwritten once more, and says by what.
    #[inline]
    pub(super) fn next(&self, key: u32) -> &'a [u8] {
        let version = self.version(key).wrapping_add(1);
        self.versions[key as usize].store(version, Ordering::Relaxed);
        self.load.later_value(key, version)
    }

    pub(super) fn is_kept(key: u32) -> bool {
        key.is_multiple_of(ONE_KEPT_OF)
    }

    /// Compares what is stored under some keys, and when most were removed, whether they are gone.
    ///
    /// # Errors
    /// When a key has another value than it had last.
    pub(super) fn check(&self, engine: &dyn Engine, are_removed: bool) -> io::Result<()> {
        let mut session = engine.session()?;
        let mut out = vec![0; self.load.value_bytes()];
        let records = self.load.records();
        // From the most popular ones to those that are hardly ever overwritten, and only moved.
        let checks = records.min(CHECKS_MAX);
        let at = |check: u32| (u64::from(check) * u64::from(records) / u64::from(checks)) as u32;
        for key in (0..checks).map(|check| self.load.key(at(check))) {
            let got = session.get(key, &mut out)?;
            let wrong = if are_removed && !Self::is_kept(key) {
                got.is_some().then_some("is there again")
            } else if got != Some(out.len()) {
                Some("is absent, or as long as it never was")
            } else {
                let value = self.load.later_value(key, self.version(key));
                (out != value).then_some("has a value that is not its last one")
            };
            if let Some(wrong) = wrong {
                return Err(io::Error::other(format!("key {key} {wrong}")));
            }
        }
        Ok(())
    }

    /// Removes nine keys of ten, and says how many.
    pub(super) fn remove_most(&self, session: &mut dyn Session) -> io::Result<u32> {
        let mut removed = 0;
        for key in (0..self.load.records()).map(|at| self.load.key(at)) {
            if !Self::is_kept(key) {
                session.remove(key)?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Which keys one of the writers overwrites.
#[derive(Debug)]
pub(super) struct Draws<'a> {
    load: &'a Load,
    random: Random,
    zipf: Option<Zipf>,
    writer: u32,
    writers: u32,
}

impl<'a> Draws<'a> {
    /// Each phase has an order of its own: what is overwritten in the order in which it was
    /// written dies segment by segment.
    pub(super) fn new(
        load: &'a Load,
        popularity: Popularity,
        (writer, writers): (u32, u32),
        phase: u32,
    ) -> Self {
        let count = load.records() / writers;
        let seed = u64::from(phase) << 32 | (u64::from(writer) + 1);
        let zipf = (popularity == Popularity::Zipf).then(|| Zipf::new(count, ZIPF_EXPONENT));
        Self { load, random: Random::new(seed), zipf, writer, writers }
    }

    #[inline]
    pub(super) fn key(&mut self) -> u32 {
        let count = self.load.records() / self.writers;
        let rank = match &self.zipf {
            Some(zipf) => zipf.draw(&mut self.random),
            None => (self.random.next() % u64::from(count)) as u32,
        };
        self.load.key(rank * self.writers + self.writer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{CHECKS_MAX, Draws, Ledger};
    use crate::disk::{
        churn::Popularity,
        engine::{Engine, Session, memory::InMemory},
        load::Load,
    };

    #[test]
    fn each_writer_has_its_own_keys_and_some_are_popular() {
        let load = Load::new(1000, 8);
        let keys = |popularity, writer| {
            let mut draws = Draws::new(&load, popularity, (writer, 3), 0);
            (0..5000).map(|_| draws.key()).collect::<Vec<u32>>()
        };
        let first = |phase| Draws::new(&load, Popularity::Uniform, (0, 3), phase).key();
        assert!((1..10).any(|phase| first(phase) != first(0)), "each phase has the same order");
        for popularity in Popularity::ALL {
            let sets = [0, 1, 2].map(|writer| HashSet::<u32>::from_iter(keys(popularity, writer)));
            assert!(sets[0].is_disjoint(&sets[1]) && sets[1].is_disjoint(&sets[2]));
        }
        let most = |keys: &[u32]| keys.iter().filter(|key| **key == load.key(0)).count();
        let [uniform, zipf] = Popularity::ALL.map(|it| most(&keys(it, 0)));
        assert!(uniform < 50 && zipf > 500, "{uniform} {zipf}");
    }

    #[test]
    fn a_later_value_is_another_one() {
        let load = Load::new(10, 8);
        let ledger = Ledger::new(&load);
        assert_eq!(ledger.next(3), load.later_value(3, 1));
        assert_eq!(ledger.next(3), load.later_value(3, 2));
        assert_ne!(load.later_value(3, 2), load.value(3));
    }

    #[test]
    fn a_store_that_lies_is_found_out_wherever_it_does() {
        let load = Load::new(3 * CHECKS_MAX, 8);
        let (ledger, engine) = (Ledger::new(&load), InMemory::default());
        let mut session = engine.session().expect("a session");
        let all = |session: &mut dyn Session| {
            for key in 0..load.records() {
                let value = load.later_value(key, ledger.version(key));
                session.put(key, value).expect("it is stored");
            }
        };
        all(&mut *session);
        // The most popular key, and one that is hardly ever overwritten.
        let keys = [0, load.records() - 3].map(|at| load.key(at));
        for key in keys {
            ledger.next(key);
            let wrong = format!("key {key} has a value that is not its last one");
            let error = ledger.check(&engine, false).expect_err("it has the first value");
            assert_eq!(error.to_string(), wrong);
            all(&mut *session);
            ledger.check(&engine, false).expect("all is right");
        }
        ledger.remove_most(&mut *session).expect("they are there");
        ledger.check(&engine, true).expect("they are gone");
        let kept = |is_kept| {
            let looked_at = (0..CHECKS_MAX).map(|check| load.key(3 * check));
            looked_at.filter(move |key| Ledger::is_kept(*key) == is_kept)
        };
        let (gone, kept) = (kept(false).next_back(), kept(true).next_back());
        let (gone, kept) = (gone.expect("most are"), kept.expect("some are"));
        session.put(gone, load.value(gone)).expect("it is stored");
        let error = ledger.check(&engine, true).expect_err("it is back");
        assert_eq!(error.to_string(), format!("key {gone} is there again"));
        session.remove(gone).expect("it was there");
        session.remove(kept).expect("it was there");
        let error = ledger.check(&engine, true).expect_err("it is lost");
        assert_eq!(error.to_string(), format!("key {kept} is absent, or as long as it never was"));
    }
}
