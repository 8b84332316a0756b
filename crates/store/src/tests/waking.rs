//! Who is told that there is something to do.

use super::*;

#[test]
fn a_change_of_the_mode_wakes_those_who_have_answers_and_somebody_who_flushes() {
    let mut table = Table::with(Files::default(), Mode::Async);
    assert!(matches!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Now(Answer::Done { .. })));
    assert_eq!(table.store.set_mode(Mode::Safe), 0..2);
    assert!(matches!(table.get(1, 2, b"k").0, Got::Later), "it is not flushed");
    for worker in table.store.set_mode(Mode::Async) {
        while let Some(plan) = table.workers[worker].poll() {
            table.perform(worker, plan);
        }
    }
    assert_eq!(table.answers(1), [(2, Some(b"v".to_vec()))], "nobody was woken");
}
