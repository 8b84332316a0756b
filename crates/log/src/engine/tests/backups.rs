//! Copies that are made while records are written.

use std::collections::BTreeMap;

use base::random::Random;

use super::*;
use crate::{engine::Space, plan::Plan};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A log that is written to, its actions done in any order.
struct Writing {
    seed: u64,
    log: Log,
    random: Random,
    out: Vec<Plan>,
    /// What the keys are after so many changes.
    states: Vec<Model>,
    /// What each change waits for.
    marks: Vec<Mark>,
}

impl Writing {
    fn new(seed: u64) -> Self {
        let mut log = Log::new(if seed.is_multiple_of(2) { Mode::Async } else { Mode::Safe });
        if seed % 5 < 2 {
            log.engine.settings.space_target_percent = 110;
        }
        if seed.is_multiple_of(3) {
            // One flush fails, of records or of a new segment.
            let mut left = 20 + seed % 20;
            log.disk.fail(move |action| {
                let is_segment = |file: &File| matches!(file.name, FileName::Segment(_));
                let is_it = matches!(action, Action::Flush { file } if is_segment(file));
                left = left.wrapping_sub(u64::from(is_it));
                is_it && left == 0
            });
        }
        let (random, states) = (Random::new(seed, 1), vec![BTreeMap::new()]);
        Self { seed, log, random, out: Vec::new(), states, marks: Vec::new() }
    }

    fn step(&mut self) {
        while self.out.len() < 8
            && let Some(plan) = self.log.engine.poll(self.log.now_ms)
        {
            self.out.push(plan);
        }
        if self.random.below(2) == 0 && !self.out.is_empty() {
            // In some runs what is out the longest is done last.
            let is_last = self.seed % 2 == 1 && self.random.below(16) != 0;
            let count = self.out.len();
            let at = if is_last { count - 1 } else { self.random.below(count as u32) as usize };
            self.perform(at);
        }
        self.log.now_ms += u64::from(self.random.below(20));
        self.change();
    }

    fn perform(&mut self, at: usize) {
        let plan = self.out.remove(at);
        let outcome = self.log.disk.perform(plan.action);
        self.log.engine.complete(plan.token, outcome);
    }

    fn change(&mut self) {
        let key = self.random.below(40).to_le_bytes();
        let value = vec![self.random.below(250) as u8; self.random.below(900) as usize];
        let mut state = self.states[self.states.len() - 1].clone();
        let (engine, now_ms) = (&mut self.log.engine, self.log.now_ms);
        let mark = if self.random.below(6) == 0 {
            state.remove(&key[..]);
            match engine.remove(&key, now_ms) {
                Ok(Removed::Done { mark, .. }) => mark,
                removed => return assert!(matches!(removed, Ok(_) | Err(Error::NoRoom))),
            }
        } else {
            let put = Put { key: &key, value: &value, ..Put::default() };
            state.insert(key.to_vec(), value.clone());
            match engine.put(&put, now_ms) {
                Ok(Wrote::Done { mark, .. }) => mark,
                wrote => return assert!(matches!(wrote, Ok(_) | Err(Error::NoRoom))),
            }
        };
        self.states.push(state);
        self.marks.push(mark);
    }

    /// How many changes, from the first on, are durable.
    fn durable(&self) -> usize {
        let is_done = |mark: &&Mark| self.log.engine.durable(**mark) == Settled::Done;
        self.marks.iter().take_while(is_done).count()
    }

    /// The copy is what the log was after some change, and no earlier one than it must be.
    fn check(&self, copy: &mut Log, durable: usize) {
        let seed = self.seed;
        assert_eq!(copy.report.damages, Vec::new(), "seed {seed}");
        let keys = (0..40u32).map(|key| key.to_le_bytes().to_vec());
        let got: Model =
            keys.filter_map(|key| copy.value(&key).map(|value| (key, value))).collect();
        let at = self.states.iter().rposition(|state| *state == got);
        assert!(
            at.is_some_and(|at| at >= durable),
            "seed {seed}: the copy is no moment of the log: {at:?}, durable {durable}"
        );
    }
}

/// Whatever is done in whichever order, a copy holds all that was durable, and nothing without
/// what was written before.
#[test]
fn a_copy_under_writes_is_what_the_log_was_at_some_moment() {
    let (mut waited, mut failed, mut moved) = (0, 0, 0);
    for seed in 0..400 {
        let mut writing = Writing::new(seed);
        let (mut cut, mut durable) = (None, 0);
        for step in 0..400 {
            writing.step();
            if step >= 150 + seed % 100 && cut.is_none() {
                durable = writing.durable();
                cut = writing.log.engine.begin_backup();
                waited += u32::from(cut.is_none());
            }
        }
        (0..writing.out.len()).for_each(|_| writing.perform(0));
        let counts = writing.log.engine.counts();
        failed += u32::from(counts.rewritten > 0);
        moved += u32::from(counts.records_moved > 0);
        let cut = cut.unwrap_or_else(|| {
            writing.log.settle();
            writing.log.engine.begin_backup().expect("nothing is under way")
        });
        let (mut target, disk) = (MemoryDisk::default(), &mut writing.log.disk);
        cut.copy(disk, &mut target, &mut |_| {}, &mut |_| {}).unwrap();
        writing.log.engine.end_backup(&cut);
        let last = ["rename manifest.new", "flush the directory of manifest"];
        assert_eq!(target.done[target.done.len() - 2..], last, "the manifest is not the last");
        let mut copy = Log::of(target, Mode::Safe);
        writing.check(&mut copy, durable);
        copy.put(b"new", b"value").unwrap();
        copy.settle();
        assert_eq!(copy.reopen().value(b"new").unwrap(), b"value");
    }
    assert!(waited > 0 && failed > 0, "no cut had to wait, or nothing had failed");
    assert!(moved > 20, "records were moved in {moved} runs only");
}

#[test]
fn a_copy_is_made_into_an_empty_directory_and_is_no_log_before_it_is_whole() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"a", &[1; 900]).unwrap();
    log.settle();
    let cut = log.engine.begin_backup().unwrap();
    assert!(log.engine.is_pinned(SegmentId(0)));
    let steps = {
        let mut target = MemoryDisk::default();
        cut.copy(&mut log.disk, &mut target, &mut |_| {}, &mut |_| {}).unwrap();
        assert_eq!(
            cut.copy(&mut log.disk, &mut target, &mut |_| {}, &mut |_| {}),
            Err(Error::NotEmpty)
        );
        target.done.len() - 1
    };
    // But for the flush behind the rename.
    for step in 0..steps - 1 {
        let mut target = MemoryDisk::default();
        let mut left = step;
        target.fail(move |_| {
            left = left.wrapping_sub(1);
            left == usize::MAX
        });
        let failed = cut.copy(&mut log.disk, &mut target, &mut |_| {}, &mut |_| {});
        assert!(failed.is_err(), "step {step}");
        target.fault = None;
        let opened = open_disk(target, Mode::Safe);
        assert!(
            opened.as_ref().map_or(true, |log| log.engine.space() == Space::default()),
            "step {step}: half a copy was opened"
        );
    }
    log.engine.end_backup(&cut);
    assert!(!log.engine.is_pinned(SegmentId(0)));
}
