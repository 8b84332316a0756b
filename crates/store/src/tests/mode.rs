//! Switches between safe and async.

use super::*;

/// A key whose word is that of another.
fn same_word(table: &Table, key: &[u8]) -> [u8; 8] {
    let word =
        |key: &[u8]| (table.cache.key(key).hash() >> 40) as usize % crate::limits::UNFLUSHED_SLOTS;
    let wanted = word(key);
    let other = (0..).map(|it: u64| it.to_le_bytes()).find(|it| word(it) == wanted);
    other.expect("one of many")
}

#[test]
fn what_safe_has_taken_is_waited_for_in_async_by_all_who_see_it() {
    let mut table = Table::new();
    let other = same_word(&table, b"k");
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Later);
    assert!(matches!(table.get(1, 2, b"k").0, Got::Later));
    assert_eq!(table.store.set_mode(Mode::Async), 0..2);
    assert_eq!((table.answers(0), table.answers(1)), (vec![], vec![]), "it is not flushed");
    assert!(matches!(table.get(1, 3, b"k").0, Got::Later), "it is not flushed");
    // What async takes nobody waits for, but it does not hide what is waited for.
    let asked = table.ask(0, 4, &other, Ask::Set(b"w", 0));
    assert!(matches!(asked, Asked::Now(Answer::Done { .. })), "{asked:?}");
    assert!(matches!(table.get(1, 5, b"k").0, Got::Later), "it is not flushed");
    assert_eq!(table.ask(1, 6, b"k", Ask::Add(b"x")), Asked::Later, "it saw what is not flushed");
    table.run();
    assert_eq!(table.answers(0), [done(1)]);
    let value = |caller| (caller, Some(b"v".to_vec()));
    assert_eq!(table.answers(1), [value(2), value(3), value(5), (6, None)]);
    assert!(matches!(table.ask(0, 7, b"k", Ask::Set(b"v", 0)), Asked::Now(Answer::Done { .. })));
    assert!(matches!(table.get(1, 8, b"k").0, Got::Hit(_)), "nobody waits in async");
}
