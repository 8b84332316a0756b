//! Values in parts.

mod ahead;
mod giving_way;

use super::*;
use crate::{
    Large, Notice, Part, Took, UploadId, What,
    limits::{
        LARGE_BYTES, LARGE_IDLE_MS, LARGE_IDLE_WANTED_MS, LARGE_MAX, LARGE_PLACES_DIVISOR,
        LARGE_UNTAKEN_NEEDED_MS, PART_READS_MAX,
    },
};

const PART_BYTES: usize = 1 << 17;
const VALUE_BYTES: usize = 2 * PART_BYTES + 1000;

fn value(seed: u32) -> Vec<u8> {
    // No part is as another one.
    let word = |at: u32| at.wrapping_mul(seed);
    (0..VALUE_BYTES as u32).map(|at| (word(at) >> 7 ^ word(at) >> 16) as u8).collect()
}

impl Table {
    fn begin(&mut self, worker: usize, caller: u64, key: &[u8]) -> UploadId {
        self.workers[worker].quiesce();
        self.workers[worker].begin_upload(key, VALUE_BYTES as u64, caller).expect("an upload")
    }

    /// Brings a value in pieces until the log has it.
    fn push(&mut self, worker: usize, upload: UploadId, value: &[u8]) {
        for piece in value.chunks(50_000) {
            let mut left = piece;
            while let Took::Wait(bytes) = self.workers[worker].push(upload, left).expect("room") {
                left = &left[bytes..];
                self.clock.advance_ms(1);
                self.run();
                let notices = self.workers[worker].take_notices();
                assert!(notices.iter().any(|it| matches!(it.what, What::Room)), "{notices:?}");
            }
        }
        assert_eq!(self.workers[worker].push(upload, &[]), Ok(Took::Whole));
    }

    fn finish(&mut self, worker: usize, upload: UploadId, ask: Ask) -> Asked<bool> {
        self.workers[worker].finish_upload(upload, &ask, || ask)
    }

    /// Stores a large value.
    fn store_large(&mut self, caller: u64, key: &[u8], value: &[u8]) {
        let upload = self.begin(0, caller, key);
        self.push(0, upload, value);
        assert_eq!(self.finish(0, upload, Ask::Uploaded), Asked::Later);
        self.run();
        assert_eq!(self.answers(0), [done(caller)]);
    }

    fn large(&mut self, worker: usize, key: &[u8]) -> Large {
        let large = self.large_of(worker, key);
        assert_eq!(large.len(), VALUE_BYTES as u64);
        large
    }

    /// A large value of any length.
    fn large_of(&mut self, worker: usize, key: &[u8]) -> Large {
        assert!(matches!(self.get(worker, 77, key).0, Got::Later));
        self.run();
        let answer = taken(&mut self.workers[worker]).pop().expect("an answer");
        let Answer::Value(found) = answer.answer else { panic!("{answer:?}") };
        let large = found.large.expect("it lies in parts");
        assert_eq!((u64::from(found.meta.value_len), found.value.len()), (large.len(), 0));
        large
    }

    fn notices(&mut self, worker: usize) -> Vec<Notice> {
        self.run();
        self.workers[worker].take_notices()
    }

    fn parts(&mut self, worker: usize) -> Vec<Part> {
        let part = |notice: Notice| match notice.what {
            What::Part(part) => part,
            other => panic!("{other:?}"),
        };
        self.notices(worker).into_iter().map(part).collect()
    }

    /// What is left of a value.
    fn rest(&mut self, worker: usize, mut parts: Vec<Part>) -> Vec<u8> {
        let mut all = Vec::new();
        while !parts.is_empty() {
            for part in parts {
                all.extend_from_slice(part.bytes());
                self.workers[worker].give_back(part);
            }
            parts = self.parts(worker);
        }
        all
    }

    fn whole(&mut self, key: &[u8]) -> Vec<u8> {
        let large = self.large(1, key);
        self.workers[1].begin_reading(&large, 5).expect("a reader");
        let parts = self.parts(1);
        self.rest(1, parts)
    }
}

#[test]
fn a_large_value_comes_in_pieces_and_leaves_in_parts() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    assert!(table.whole(b"k") == value(3));
    assert_eq!(table.store.large_bytes(), (0, 0));
    assert_eq!(table.ask(0, 2, b"k", Ask::Add(b"v")), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [(2, None)], "it is there");
    assert_eq!(table.ask(0, 3, b"k", Ask::Append(b"v")), Asked::Later);
    table.run();
    let text = Error::InParts.to_string().into_bytes();
    assert_eq!(table.answers(0), [(3, Some(text))]);
    let upload = table.begin(0, 4, b"k");
    table.push(0, upload, &value(5));
    assert_eq!(table.finish(0, upload, Ask::AddUploaded), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [(4, None)]);
    assert!(table.whole(b"k") == value(3), "what was not stored shows");
    assert_eq!(table.ask(0, 5, b"k", Ask::Delete), Asked::Later);
    table.run();
    assert!(matches!(table.get(0, 6, b"k").0, Got::Miss));
}

#[test]
fn a_touch_leaves_the_parts_where_they_are() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let live = |table: &Table| table.store.with_log(|log| log.space().live_bytes);
    let before = live(&table);
    assert_eq!(table.ask(0, 2, b"k", Ask::Touch(START_MS + 5000)), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [done(2)]);
    assert!(live(&table).abs_diff(before) < 100, "{} live bytes, {before} before", live(&table));
    assert!(table.whole(b"k") == value(3));
    let files = std::mem::take(&mut table.files);
    let mut again = Table::with(files, Mode::Safe);
    assert!(again.whole(b"k") == value(3), "after the log was opened again");
    again.clock.advance_ms(6000);
    assert_eq!(again.value(b"k"), None, "its expiry is another one");
}

#[test]
fn what_comes_behind_a_large_value_waits_for_it_with_it() {
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"old", 0)), Asked::Later);
    table.run();
    let upload = table.begin(0, 2, b"k");
    assert_eq!(table.workers[0].push(upload, &value(3)), Ok(Took::Whole));
    assert_eq!(table.finish(0, upload, Ask::Uploaded), Asked::Later, "its parts are not flushed");
    let (got, _) = table.get(0, 3, b"k");
    assert!(matches!(got, Got::Later), "a hit overtakes the set before it: {got:?}");
    assert_eq!(table.store.waiting(), (1, 0), "hits of other keys take no lock");
    table.run();
    let answers = taken(&mut table.workers[0]);
    let large = answers.iter().find_map(|it| match &it.answer {
        Answer::Value(found) => found.large.clone(),
        _ => None,
    });
    assert_eq!(large.map(|it| it.len()), Some(VALUE_BYTES as u64));
    assert!(table.whole(b"k") == value(3));
}

#[test]
fn a_reader_has_the_old_value_whole_whatever_becomes_of_the_key() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let large = table.large(1, b"k");
    table.workers[1].begin_reading(&large, 5).expect("a reader");
    drop(large);
    let first = table.parts(1);
    assert_eq!(first.len(), crate::limits::AHEAD_MAX, "no more is read ahead");
    for round in 0..40 {
        table.store_large(10 + round, b"k", &value(5 + round as u32));
    }
    assert!(table.rest(1, first) == value(3), "the value is a mixture");
    assert!(table.whole(b"k") == value(44));
    assert_eq!(table.store.large_bytes(), (0, 0));
}

#[test]
fn uploads_that_stop_half_way_cost_so_much_and_stop_nobody() {
    let mut table = Table::new();
    let max = LARGE_BYTES / 4;
    table.store.set_large_bytes(max);
    let mut waiting = Vec::new();
    for caller in 0..500 {
        let upload = table.begin(0, caller, &caller.to_le_bytes());
        match table.workers[0].push(upload, &[7; PART_BYTES + 1000]) {
            Ok(Took::All) => {}
            Ok(Took::Wait(_)) => waiting.push(caller),
            other => panic!("{other:?}"),
        }
        table.clock.advance_ms(1);
        table.run();
    }
    assert!(waiting.len() > 400, "the budget is ignored: {} wait", waiting.len());
    assert!(table.store.large_bytes().0 <= max + PART_BYTES);
    assert_eq!(table.ask(0, 1000, b"small", Ask::Set(b"v", 0)), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [done(1000)], "a small value waits");
    drop(table.workers[0].take_notices());
    let upload = table.begin(1, 2000, b"good");
    let good = value(3);
    let mut left = &good[..];
    for _ in 0..500 {
        let bytes = left.len().min(50_000);
        match table.workers[1].push(upload, &left[..bytes]) {
            Ok(Took::Wait(bytes)) => left = &left[bytes..],
            Ok(Took::All) => left = &left[bytes..],
            Ok(Took::Whole) => break,
            other => panic!("{other:?}"),
        }
        table.clock.advance_ms(LARGE_IDLE_WANTED_MS / 10);
        table.run();
    }
    let failed = |it: &Notice| matches!(it.what, What::Failed(Error::Slow));
    let ended = table.workers[0].take_notices().iter().filter(|it| failed(it)).count();
    assert!(ended > 30, "half a value keeps memory for ever: {ended} have ended");
    assert_eq!(table.finish(1, upload, Ask::Uploaded), Asked::Later, "others stop it");
    table.run();
    assert_eq!(table.answers(1), [done(2000)]);
    drop(table.workers[1].take_notices());
    assert!(table.whole(b"good") == value(3));
}

#[test]
fn a_reader_that_takes_nothing_ends() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let large = table.large(1, b"k");
    table.workers[1].begin_reading(&large, 5).expect("a reader");
    let parts = table.parts(1);
    table.clock.advance_ms(LARGE_IDLE_MS);
    let notices = table.notices(1);
    let what = notices.first().map(|it| &it.what);
    let has_ended = matches!(what, Some(What::Failed(Error::Slow)));
    assert!(has_ended, "who takes nothing keeps parts for ever: {notices:?}");
    parts.into_iter().for_each(|part| table.workers[1].give_back(part));
    assert_eq!(table.store.large_bytes(), (0, 0));
    assert!(table.notices(1).is_empty(), "it has ended");
}

#[test]
fn what_was_not_finished_is_not_there() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let upload = table.begin(0, 2, b"k");
    table.push(0, upload, &value(5));
    table.run();
    let files = std::mem::take(&mut table.files);
    let mut again = Table::with(files, Mode::Safe);
    assert!(again.whole(b"k") == value(3));
    table.workers[0].abort_upload(upload);
    assert_eq!(table.workers[0].push(upload, b"x"), Err(Error::Ended));
    assert_eq!(table.store.large_bytes(), (0, 0));
}

/// Callers whose transfers have failed for being slow, of all notices.
fn slow(notices: &[Notice]) -> Vec<u64> {
    let is_slow = |it: &&Notice| matches!(it.what, What::Failed(Error::Slow));
    notices.iter().filter(is_slow).map(|it| it.caller).collect()
}

#[test]
fn where_parts_lie_counts_and_not_all_memory_is_for_that() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let large = table.large(1, b"k");
    let places = large.bytes();
    table.workers[1].begin_reading(&large, 5).expect("a reader");
    let parts = table.parts(1);
    let bytes = table.store.large_bytes().1;
    assert!(bytes >= places + 2 * PART_BYTES, "{bytes} count, and {places} for places");
    // As if there were so little memory that a second one has no room.
    table.store.set_large_bytes(LARGE_PLACES_DIVISOR * (2 * places - 1));
    assert!(!table.workers[0].may_begin_reading(&large), "what readers keep is not counted");
    table.store.set_large_bytes(LARGE_PLACES_DIVISOR * 2 * places);
    assert!(table.workers[0].may_begin_reading(&large));
    assert!(table.rest(1, parts) == value(3));
    assert_eq!(table.store.large_bytes(), (0, 0));
    table.store.set_large_bytes(1);
    assert!(table.workers[0].may_begin_reading(&large), "nobody else reads");
}

#[test]
fn a_small_read_does_not_wait_behind_parts() {
    let mut table = Table::new();
    table.make_cold(b"small", b"v");
    table.store_large(1, b"k", &value(3));
    let large = table.large(1, b"k");
    for caller in 0..20 {
        table.workers[1].begin_reading(&large, caller).expect("a reader");
    }
    let mut parts = Vec::new();
    while let Some(plan) = table.workers[1].poll() {
        assert!(matches!(plan.action, Action::Read { .. }), "{plan:?}");
        parts.push(plan);
    }
    assert_eq!(parts.len(), PART_READS_MAX, "parts take the places of small reads");
    assert!(matches!(table.get(1, 99, b"small").0, Got::Later));
    let plan = table.next_read(1);
    table.perform(1, plan);
    assert_eq!(table.answers(1), [(99, Some(b"v".to_vec()))]);
    parts.into_iter().for_each(|plan| table.perform(1, plan));
    let parts = table.parts(1);
    assert_eq!(table.rest(1, parts).len(), 20 * VALUE_BYTES);
    assert_eq!(table.store.large_bytes(), (0, 0));
}

#[test]
fn parts_leave_in_their_order_whichever_was_read_first() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let large = table.large(1, b"k");
    table.workers[1].begin_reading(&large, 5).expect("a reader");
    let mut plans: Vec<_> = std::iter::from_fn(|| table.workers[1].poll()).collect();
    assert!(plans.len() > 1, "one part is read at a time");
    plans.reverse();
    plans.into_iter().for_each(|plan| table.perform(1, plan));
    let parts = table.parts(1);
    assert!(table.rest(1, parts) == value(3), "parts are out of order");
}
