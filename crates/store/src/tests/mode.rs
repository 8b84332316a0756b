//! Switches between safe and async.

use super::*;

#[test]
fn what_safe_has_taken_is_waited_for_in_async_by_all_who_see_it() {
    let mut table = Table::new();
    let other = table.same_word(b"k");
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

#[test]
fn what_safe_has_taken_and_memory_lost_is_waited_for_in_async() {
    let mut table = Table::new();
    table.make_cold(b"gone", b"v");
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Later);
    assert_eq!(table.ask(0, 2, b"gone", Ask::Delete), Asked::Later);
    assert_eq!(table.store.set_mode(Mode::Async), 0..2);
    // It shares their chunk, and what the log says of them is the mark of that.
    let asked = table.ask(0, 3, b"other", Ask::Set(b"w", 0));
    assert!(matches!(asked, Asked::Now(Answer::Done { .. })), "{asked:?}");
    table.evict(b"k");
    assert!(matches!(table.get(1, 4, b"k").0, Got::Later), "it is not flushed");
    assert!(matches!(table.get(1, 5, b"gone").0, Got::Later), "it may come back");
    table.run();
    assert_eq!(table.answers(0), [done(1), done(2)]);
    assert_eq!(table.answers(1), [(4, Some(b"v".to_vec())), (5, None)]);
}

#[test]
fn a_change_of_what_safe_has_taken_is_told_in_async_when_that_is_flushed() {
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Later);
    assert_eq!(table.store.set_mode(Mode::Async), 0..2);
    assert_eq!(table.ask(1, 2, b"k", Ask::Append(b"w")), Asked::Later, "it tells of the first");
    // It replaces what it has not seen.
    let asked = table.ask(1, 3, b"k", Ask::Set(b"x", 0));
    assert!(matches!(asked, Asked::Now(Answer::Done { .. })), "{asked:?}");
    table.run();
    assert_eq!((table.answers(0), table.answers(1)), (vec![done(1)], vec![done(2)]));
}
