//! Workers and records in memory that are there no more.

use log::plan::Buffer;

use super::*;
use crate::{
    Found, FoundValue,
    limits::{READ_BYTES_KEPT, READS_ANSWERED_MAX},
};

#[test]
fn a_buffer_that_was_lent_is_read_into_again_and_again() {
    let mut table = Table::new();
    table.make_cold(b"k", b"v");
    table.workers[0].lend(Buffer::of_pool(7, READ_BYTES_KEPT));
    for round in 0..2 {
        table.evict(b"k");
        assert!(matches!(table.get(0, round, b"k").0, Got::Later));
        let plan = table.next_read(0);
        let Action::Read { buffer, .. } = &plan.action else { panic!("{plan:?}") };
        assert_eq!(buffer.number(), Some(7), "round {round}");
        table.perform(0, plan);
        assert_eq!(table.answers(0), [(round, Some(b"v".to_vec()))]);
    }
}

/// Reads a record that memory does not have. The value as the answer has it, and the number of the
/// buffer that it was read into.
fn read(table: &mut Table, key: &[u8]) -> (FoundValue, Option<u16>) {
    table.evict(key);
    assert!(matches!(table.get(0, 0, key).0, Got::Later));
    let plan = table.next_read(0);
    let Action::Read { buffer, .. } = &plan.action else { panic!("{plan:?}") };
    let number = buffer.number();
    table.perform(0, plan);
    let answer = taken(&mut table.workers[0]).pop().expect("it was read");
    let Answer::Value(Found { value, .. }) = answer.answer else { panic!("{answer:?}") };
    (value, number)
}

#[test]
fn nothing_is_read_into_the_buffer_of_an_answer_before_that_is_dropped() {
    let mut table = Table::new();
    table.make_cold(b"k", b"v");
    table.make_cold(b"l", b"w");
    table.workers[0].lend(Buffer::of_pool(7, READ_BYTES_KEPT));
    let (first, number) = read(&mut table, b"k");
    assert_eq!(number, Some(7));
    assert!(matches!(first, FoundValue::Read(_)), "{first:?}");
    let (second, number) = read(&mut table, b"l");
    assert_eq!(number, None, "the buffer of an answer is read into");
    assert_eq!((&*first, &*second), (&b"v"[..], &b"w"[..]));
    drop((second, first));
    assert_eq!(read(&mut table, b"k").1, Some(7), "a buffer is lost");
}

#[test]
fn so_many_buffers_are_with_answers_and_then_values_are_copied() {
    let mut table = Table::new();
    table.make_cold(b"k", b"v");
    let is_read = |value: &FoundValue| matches!(value, FoundValue::Read(_));
    let mut kept: Vec<FoundValue> =
        (0..READS_ANSWERED_MAX + 2).map(|_| read(&mut table, b"k").0).collect();
    let in_buffers = kept.iter().filter(|value| is_read(value)).count();
    assert_eq!(in_buffers, READS_ANSWERED_MAX, "answers keep more buffers than they may");
    assert!(kept.iter().all(|value| **value == *b"v"));
    kept.swap_remove(0);
    assert!(is_read(&read(&mut table, b"k").0), "one has been given back");
}

#[test]
fn answers_that_a_worker_has_not_taken_are_those_of_the_next_one_of_its_number() {
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Later);
    assert!(matches!(table.get(1, 2, b"k").0, Got::Later));
    table.run();
    table.workers.clear();
    table.workers = (0..2).map(|number| table.store.worker(number).expect("a place")).collect();
    assert_eq!(table.answers(0), [done(1)]);
    assert_eq!(table.answers(1), [(2, Some(b"v".to_vec()))]);
    assert!(!table.store.shared.inboxes[0].is_full(usize::MAX >> 1), "all is taken");
}

#[test]
fn no_record_in_memory_is_the_only_one() {
    let mut table = Table::new();
    let asks = [
        (b"set", Ask::Set(b"v", 0)),
        (b"add", Ask::Add(b"w")),
        (b"set", Ask::Append(b"x")),
        (b"add", Ask::Touch(START_MS + 1000)),
    ];
    for (key, ask) in asks {
        assert!(!matches!(table.ask(0, 1, key, ask), Asked::Busy));
        table.run();
        table.evict(key);
    }
    assert_eq!(table.value(b"set"), Some(b"vx".to_vec()), "memory had the only one");
    assert_eq!(table.value(b"add"), Some(b"w".to_vec()), "memory had the only one");
    table.evict(b"add");
    table.clock.advance_ms(1500);
    assert_eq!(table.value(b"add"), None, "memory had the only one");
}

#[test]
#[should_panic(expected = "a number is one worker's at a time")]
fn a_number_is_one_workers_at_a_time() {
    let table = Table::new();
    drop(table.store.worker(1));
}

#[test]
fn a_log_is_stopped_in_order_when_all_workers_are_gone() {
    let mut table = Table::with(MemoryDisk::default(), Mode::Async);
    assert!(matches!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Now(Answer::Done { .. })));
    table.workers.clear();
    assert_eq!(table.store.close(&mut table.files), Ok(()));
    let mut table = Table::with(table.files.take(), Mode::Safe);
    assert_eq!(table.value(b"k"), Some(b"v".to_vec()), "it is not flushed");
}

#[test]
#[should_panic(expected = "a log is stopped when no worker is left")]
fn a_log_is_not_stopped_under_a_worker() {
    let mut table = Table::new();
    table.workers.truncate(1);
    drop(table.store.close(&mut table.files));
}
