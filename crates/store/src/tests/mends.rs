//! What must not be overtaken, and what comes of failed flushes.

use std::collections::BTreeSet;

use log::plan::{File, FileName};

use super::*;

impl Table {
    /// Performs what is to be done until a write or a flush of a segment is, which is not.
    fn next_of_segment(&mut self, is_flush: bool) -> Plan {
        loop {
            let plan = self.workers[0].poll().expect("a plan");
            let is_it = match &plan.action {
                Action::Flush { file } => is_flush && matches!(file.name, FileName::Segment(_)),
                Action::Write { file, .. } => {
                    !is_flush && matches!(file.name, FileName::Segment(_))
                }
                _ => false,
            };
            if is_it {
                return plan;
            }
            self.perform(0, plan);
        }
    }

    /// Stores a value, and its flush fails.
    fn fail_flush(&mut self, caller: u64, key: &[u8]) {
        assert_eq!(self.ask(0, caller, key, Ask::Set(b"lost", 0)), Asked::Later);
        let plan = self.next_of_segment(true);
        self.workers[0].complete(plan.token, Outcome::Failed(Failure::NotFound, None));
    }

    /// Stores and flushes a value.
    fn make_warm(&mut self, key: &[u8], value: &'static [u8]) {
        assert_eq!(self.ask(0, 0, key, Ask::Set(value, 0)), Asked::Later);
        self.run();
        assert_eq!(self.answers(0), [done(0)]);
    }
}

/// The segment that an action writes to.
fn written(plan: &Plan) -> Option<File> {
    match &plan.action {
        Action::Write { file, .. } => {
            Some(*file).filter(|it| matches!(it.name, FileName::Segment(_)))
        }
        _ => None,
    }
}

impl Table {
    /// Has `put` store something until the end of it lies in another segment than its begin, and is
    /// written: both are to be flushed. Says in which the begin lies. `put` is told its turn, and
    /// has the plans that it has taken.
    pub(super) fn write_two_segments(
        &mut self,
        mut put: impl FnMut(&mut Self, u64) -> Vec<Plan>,
    ) -> File {
        for turn in 0.. {
            let mut plans = put(self, turn);
            plans.extend(self.plans());
            let files: BTreeSet<_> = plans.iter().filter_map(written).collect();
            let first = plans.iter().find_map(written);
            plans.into_iter().for_each(|plan| self.perform(0, plan));
            if files.len() == 2 {
                return first.expect("it is one of two");
            }
            for _ in 0..4 {
                self.clock.advance_ms(500);
                self.run();
            }
            drop(self.answers(0));
        }
        unreachable!("no segment is endless")
    }

    /// All that the first worker has to hand out.
    pub(super) fn plans(&mut self) -> Vec<Plan> {
        std::iter::from_fn(|| self.workers[0].poll()).collect()
    }

    /// The next plans: those that flush segments, of which the one of `failing` fails, and the
    /// other is not performed yet.
    pub(super) fn fail_flush_of(&mut self, failing: File) -> Plan {
        let is_segment = |file: &File| matches!(file.name, FileName::Segment(_));
        let mut other = None;
        let mut has_failed = false;
        while other.is_none() || !has_failed {
            let plan = self.workers[0].poll().expect("a plan");
            match &plan.action {
                Action::Flush { file } if *file == failing => {
                    let failed = Outcome::Failed(Failure::NotFound, None);
                    self.workers[0].complete(plan.token, failed);
                    has_failed = true;
                }
                Action::Flush { file } if is_segment(file) => other = Some(plan),
                _ => self.perform(0, plan),
            }
        }
        other.expect("invariant: the loop has found it")
    }
}

fn is_unflushed((_, text): &(u64, Option<Vec<u8>>)) -> bool {
    let error = Error::Log(log::error::Error::Unflushed).to_string();
    text.as_deref() == Some(error.as_bytes())
}

#[test]
fn what_is_dead_in_memory_is_not_told_past_what_waits() {
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"v", START_MS + 1000)), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [done(1)]);
    table.clock.advance_ms(1500);
    assert_eq!(table.ask(0, 2, b"k", Ask::Add(b"new")), Asked::Later);
    assert!(matches!(table.get(0, 3, b"k").0, Got::Later), "the add is overtaken");
    table.run();
    assert_eq!(table.answers(0), [done(2), (3, Some(b"new".to_vec()))]);
    assert_eq!(table.workers[0].figures().reads, 0, "memory knows that it has expired");
}

#[test]
fn what_memory_is_too_busy_to_show_is_not_told_past_what_waits() {
    static LARGE: [u8; 40_000] = [b'x'; 40_000];
    let mut table = Table::new();
    table.make_warm(b"k", &LARGE);
    let mut pinned = Vec::new();
    // Slow readers of others.
    let is_busy = (0..64u8).any(|other| {
        table.make_warm(&[other], &LARGE);
        pinned.push(table.get(0, 9, &[other]).0);
        matches!(table.get(0, 9, b"k").0, Got::Later)
    });
    assert!(is_busy, "it is pinned whatever else is");
    table.run();
    let shown = table.answers(0).pop();
    assert_eq!(shown.and_then(|(_, value)| value).map(|value| value.len()), Some(LARGE.len()));
    assert_eq!(table.ask(0, 1, b"k", Ask::Append(b"y")), Asked::Later);
    drop(pinned);
    assert!(matches!(table.get(0, 2, b"k").0, Got::Later), "the append is overtaken");
    table.run();
    let answers = table.answers(0);
    assert_eq!((answers.len(), &answers[0]), (2, &done(1)));
    assert_eq!(answers[1].1.as_ref().map(Vec::len), Some(LARGE.len() + 1));
}

#[test]
fn after_the_last_failure_what_is_durable_is_told() {
    let mut table = Table::new();
    table.fail_flush(1, b"first");
    table.run();
    assert!(table.answers(0).iter().all(is_unflushed));
    table.make_warm(b"k", b"v");
    table.fail_flush(2, b"second");
    table.run();
    let answers = table.answers(0);
    assert!(answers.len() == 1 && is_unflushed(&answers[0]), "{answers:?}");
    assert!(table.store.with_log(|log| log.is_read_only()));
    let (got, out) = table.get(0, 3, b"k");
    assert!(matches!(got, Got::Hit(_)) && out == b"v", "{got:?} {:?}", table.answers(0));
    // It was written again and flushed.
    assert!(matches!(table.get(0, 4, b"first").0, Got::Hit(_)));
    assert!(matches!(table.get(0, 5, b"second").0, Got::Failed(_)));
}

/// A read-only table in which `k` is durable and in memory, and a key of its word that never will
/// be.
fn read_only_beside_k() -> (Table, Vec<u8>) {
    let mut table = Table::new();
    table.make_warm(b"k", b"v");
    let other = table.same_word(b"k");
    table.fail_flush(1, b"first");
    table.run();
    table.fail_flush(2, &other);
    table.run();
    drop(table.answers(0));
    assert!(table.store.with_log(|log| log.is_read_only()));
    (table, other.into())
}

#[test]
fn what_is_durable_is_told_though_a_key_of_the_same_word_never_will_be() {
    let (mut table, _) = read_only_beside_k();
    assert_eq!(table.value(b"k"), Some(b"v".to_vec()));
}

#[test]
fn a_write_of_less_than_a_block_is_told_to_who_waits() {
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Later);
    let plan = table.next_of_segment(false);
    table.workers[0].complete(plan.token, Outcome::Wrote(0));
    let answers = table.answers(0);
    assert!(answers.len() == 1 && is_unflushed(&answers[0]), "{answers:?}");
    assert_eq!(table.value(b"k"), Some(b"v".to_vec()), "it is written again");
}

#[test]
fn that_a_value_would_be_too_long_is_told_when_what_it_was_found_by_is_durable() {
    static LARGE: [u8; 100_000] = [b'x'; 100_000];
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(&LARGE, 0)), Asked::Later);
    assert_eq!(table.ask(1, 2, b"k", Ask::Append(&LARGE)), Asked::Later, "it saw the first");
    table.run();
    assert_eq!(table.answers(0), [done(1)]);
    let error = Error::ValueBytes { got: 200_000, max: 50_000 }.to_string();
    assert_eq!(table.answers(1), [(2, Some(error.into_bytes()))]);
}

#[test]
fn what_has_stalled_is_tried_in_time() {
    let mut table = Table::new();
    table.fail_flush(1, b"first");
    assert_eq!(table.workers[0].wake_at_ms(), None);
    assert_eq!(table.ask(0, 2, b"k", Ask::Set(b"v", 0)), Asked::Later);
    assert_eq!(table.store.waiting().1, 1);
    assert_eq!(table.workers[1].wake_at_ms(), Some(START_MS + 1), "nobody tries it");
    // Written again, and there is something to do first.
    let first = table.workers[0].poll().expect("a plan");
    assert_eq!(table.store.waiting().1, 1);
    let more = std::iter::from_fn(|| table.workers[0].poll());
    let plans: Vec<_> = std::iter::once(first).chain(more.take(64)).collect();
    assert_eq!(table.store.waiting().1, 0, "it is not tried");
    plans.into_iter().for_each(|plan| table.perform(0, plan));
    assert_eq!(table.value(b"k"), Some(b"v".to_vec()));
}

#[test]
fn what_expires_when_it_was_overtaken_is_told_to_who_asked_before() {
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"old", START_MS + 10)), Asked::Later);
    table.run();
    table.evict(b"k");
    assert!(matches!(table.get(1, 2, b"k").0, Got::Later));
    table.clock.advance_ms(20);
    assert!(matches!(table.get(1, 3, b"k").0, Got::Later), "it shares the read");
    let plan = table.next_read(1);
    assert_eq!(table.ask(0, 4, b"k", Ask::Set(b"new", 0)), Asked::Later);
    table.perform(1, plan);
    // In its time the key was there, and was overwritten later.
    assert_eq!(table.answers(1), [(2, Some(b"old".to_vec())), (3, None)]);
}

#[test]
fn what_memory_has_is_told_without_a_read_when_no_key_of_its_word_can_be_flushed() {
    let (mut table, other) = read_only_beside_k();
    // The disk may have failed as a whole.
    table.files = MemoryDisk::default();
    for _ in 0..2 {
        assert_eq!(table.value(b"k"), Some(b"v".to_vec()), "it is in memory, and durable");
    }
    assert_eq!(table.workers[0].figures().reads, 0);
    let got = table.get(0, 5, &other).0;
    assert!(matches!(got, Got::Failed(_)), "what never will be durable is not told at once");
}

#[test]
fn what_is_flushed_in_the_end_is_told_though_what_was_before_it_never_will_be() {
    static LONG: [u8; 40_000] = [b'x'; 40_000];
    let mut table = Table::new();
    table.fail_flush(1, b"first");
    table.run();
    drop(table.answers(0));
    let mut last = 0_u64;
    let failing = table.write_two_segments(|table, _| {
        for _ in 0..3 {
            last += 1;
            let stored = table.ask(0, last, &last.to_le_bytes(), Ask::Set(&LONG, 0));
            assert_eq!(stored, Asked::Later);
        }
        Vec::new()
    });
    assert!(matches!(table.get(1, 7, &last.to_le_bytes()).0, Got::Later));
    let other = table.fail_flush_of(failing);
    assert!(table.store.with_log(|log| log.is_read_only()));
    assert_eq!(table.answers(1), [], "it is told before it is flushed");
    table.perform(0, other);
    assert_eq!(table.answers(1), [(7, Some(LONG.to_vec()))], "what is durable is an error");
    assert!(table.answers(0).contains(&done(last)));
}

/// Records that leave so much of a segment that what is written again goes there and to the next.
const RECORDS_BEFORE: u64 = 23;

#[test]
fn what_was_written_again_is_told_though_what_is_behind_it_never_will_be() {
    static LONG: [u8; 40_000] = [b'x'; 40_000];
    let mut table = Table::new();
    let set = |table: &mut Table, key: &[u8], value| {
        assert_eq!(table.ask(0, 1, key, Ask::Set(value, 0)), Asked::Later);
    };
    let first = table.write_two_segments(|table, _| {
        set(table, b"k", b"v");
        (0..3).for_each(|key: u8| set(table, &[key], &LONG));
        Vec::new()
    });
    let mut flush = None;
    for key in 0..RECORDS_BEFORE {
        set(&mut table, &key.to_le_bytes(), &LONG);
        for plan in table.plans() {
            match plan.action {
                Action::Flush { file } if file == first => flush = Some(plan),
                _ => table.perform(0, plan),
            }
        }
    }
    let flush = flush.expect("it is to be flushed");
    assert!(matches!(table.get(1, 7, b"k").0, Got::Later), "it is not flushed");
    table.workers[0].complete(flush.token, Outcome::Failed(Failure::NotFound, None));
    assert!(matches!(table.get(1, 8, b"k").0, Got::Later), "it is to be written again");
    let plans = table.plans();
    let files: Vec<_> = plans.iter().filter_map(written).collect();
    plans.into_iter().for_each(|plan| table.perform(0, plan));
    let [_, second] = files[..] else { panic!("it is written to {files:?}") };
    let other = table.fail_flush_of(second);
    assert!(table.store.with_log(|log| log.is_read_only()));
    assert_eq!(table.answers(1), [], "nobody knows yet");
    table.perform(0, other);
    let told = |caller| (caller, Some(b"v".to_vec()));
    assert_eq!(table.answers(1), [told(7), told(8)], "what is durable is an error");
}
