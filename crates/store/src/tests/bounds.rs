//! How much may wait.

use super::*;
use crate::limits::PENDING_BYTES_MAX;

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
