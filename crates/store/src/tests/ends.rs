//! Workers that are there no more.

use super::*;

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
#[should_panic(expected = "a number is one worker's at a time")]
fn a_number_is_one_workers_at_a_time() {
    let table = Table::new();
    drop(table.store.worker(1));
}
