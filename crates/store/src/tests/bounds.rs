//! How much may wait.

use super::*;
use crate::{
    Found, FoundValue,
    limits::{PENDING_BYTES_MAX, VALUE_KEPT_BYTES},
};

const VALUE_BYTES: usize = 100_000;
static LARGE: [u8; VALUE_BYTES] = [b'x'; VALUE_BYTES];

#[test]
fn values_that_are_to_be_read_count_before_they_are_there() {
    let mut table = Table::new();
    let key = |number: usize| number.to_le_bytes();
    let count = PENDING_BYTES_MAX / VALUE_BYTES + 2;
    (0..count).for_each(|number| table.make_cold(&key(number), &LARGE));
    for _ in 0..2 {
        let mut later = 0;
        while matches!(table.get(0, later as u64, &key(later)).0, Got::Later) {
            later += 1;
        }
        assert!(later > 8 && later < count, "{later} of {count} values may wait");
        assert!(matches!(table.get(0, 0, &key(later)).0, Got::Busy));
        // Who wants what is read anyway holds no value of its own.
        assert!(matches!(table.get(0, 1000, &key(0)).0, Got::Later));
        table.run();
        assert_eq!(table.answers(0).len(), later + 1, "who was refused has done nothing");
        (0..count).for_each(|number| table.evict(&key(number)));
    }
}

#[test]
fn an_answer_counts_with_its_value_until_it_is_taken() {
    let table = Table::new();
    let inbox = &table.store.shared.inboxes[0];
    inbox.begin(10);
    assert!(!inbox.is_full(PENDING_BYTES_MAX - 10));
    let bytes = inbox.answered(10, 100);
    assert_eq!((bytes, inbox.answered(bytes, 50)), (100, 100));
    assert!(inbox.is_full(PENDING_BYTES_MAX - 99) && !inbox.is_full(PENDING_BYTES_MAX - 100));
    inbox.end(1, bytes);
    assert!(!inbox.is_full(2 * PENDING_BYTES_MAX), "one that is alone may have more");
}

#[test]
fn gets_behind_a_change_show_one_value_and_count_it_once() {
    const GETS: u64 = 200;
    let mut table = Table::new();
    table.make_cold(b"k", b"v");
    assert_eq!(table.ask(0, 1, b"k", Ask::Append(b"w")), Asked::Later);
    assert_eq!(table.ask(0, 2, b"k", Ask::Set(&LARGE, 0)), Asked::Later);
    for caller in 0..GETS {
        assert!(matches!(table.get(1, caller, b"k").0, Got::Later));
    }
    table.run();
    assert!(GETS as usize * VALUE_BYTES > PENDING_BYTES_MAX);
    assert!(!table.store.shared.inboxes[1].is_full(0), "each counts what is there once");
    let answers = taken(&mut table.workers[1]);
    let values: Vec<_> = answers
        .iter()
        .map(|it| match &it.answer {
            Answer::Value(Found { value: FoundValue::Shared(value), .. }) => value,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((values.len() as u64, **values[0] == LARGE[..]), (GETS, true));
    let is_same = |it: &&std::sync::Arc<[u8]>| std::sync::Arc::ptr_eq(it, values[0]);
    assert!(values.iter().all(is_same), "each has a copy of its own");
    assert!(!table.store.shared.inboxes[1].is_full(usize::MAX >> 1), "all is taken");
}

#[test]
fn a_worker_keeps_no_room_for_long_values() {
    static LONG: [u8; VALUE_KEPT_BYTES + 1] = [b'x'; VALUE_KEPT_BYTES + 1];
    let mut table = Table::new();
    table.make_cold(b"k", b"v");
    assert_eq!(table.value(b"k"), Some(b"v".to_vec()));
    let failed = Answer::Failed(Error::ValueBytes { got: LONG.len() + 1, max: 50_000 });
    assert_eq!(table.ask(0, 1, b"k", Ask::Append(&LONG)), Asked::Now(failed));
    let kept = table.workers[0].kept_bytes();
    assert!(kept <= VALUE_KEPT_BYTES, "{kept} bytes are kept for what is put together");
}
