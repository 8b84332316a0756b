//! Who is told that there is something to do.

use super::*;

#[test]
fn a_change_of_the_mode_wakes_those_who_have_answers_and_somebody_who_flushes() {
    let mut table = Table::with(MemoryDisk::default(), Mode::Async);
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

/// Fills the log's memory until something waits for room. What was taken is handed out.
fn stall(table: &mut Table) -> Vec<Plan> {
    static LARGE: [u8; 100_000] = [b'x'; 100_000];
    for key in 0..64u8 {
        assert_eq!(table.ask(0, 0, &[key], Ask::Set(&LARGE, 0)), Asked::Later);
        if table.store.waiting().1 > 0 {
            let plans = std::iter::from_fn(|| table.workers[0].poll()).take(64).collect();
            assert_eq!(table.store.waiting().1, 1, "there is room");
            return plans;
        }
    }
    panic!("nothing waits for room");
}

#[test]
fn a_report_while_what_has_stalled_is_tried_has_it_tried_again() {
    let mut table = Table::new();
    let plans = stall(&mut table);
    // A thread tries it in vain; meanwhile another one tells of the flush that makes room.
    let tried = table.store.shared.core().begin_trying().expect("nobody tries it");
    assert_eq!((tried.len(), table.store.waiting().1), (1, 1));
    plans.into_iter().for_each(|plan| table.perform(0, plan));
    table.run();
    assert!(table.store.shared.core().end_trying(tried), "nobody tries it again");
    table.run();
    assert_eq!(table.store.waiting(), (0, 0));
}

#[test]
fn what_stalls_is_tried_by_the_next_poll_though_there_was_one_in_that_millisecond() {
    let mut table = Table::new();
    let plans = stall(&mut table);
    assert!(table.workers[0].poll().is_none());
    let before = table.workers[0].figures().stalled;
    assert!(table.workers[0].poll().is_none());
    assert_eq!(table.workers[0].figures().stalled, before, "nothing has come since");
    // By the time that it is in the list, what it waits for may have come.
    assert_eq!(table.ask(0, 1, b"other", Ask::Set(b"v", 0)), Asked::Later);
    assert!(table.workers[0].poll().is_none());
    assert_eq!(table.workers[0].figures().stalled, before + 2, "it is not tried");
    plans.into_iter().for_each(|plan| table.perform(0, plan));
    assert_eq!(table.value(b"other"), Some(b"v".to_vec()));
}

#[test]
fn who_stalls_while_others_are_tried_in_vain_comes_behind_them() {
    let mut table = Table::new();
    let plans = stall(&mut table);
    assert_eq!(table.ask(0, 1, b"second", Ask::Set(b"v", 0)), Asked::Later);
    let tried = table.store.shared.core().begin_trying().expect("nobody tries it");
    assert_eq!(table.ask(0, 2, b"third", Ask::Set(b"v", 0)), Asked::Later);
    let before: Vec<_> = tried.iter().copied().collect();
    assert!(table.store.shared.core().end_trying(tried), "the third may go");
    assert!(table.workers[0].poll().is_none());
    let after = table.store.shared.core().begin_trying().expect("nobody tries it");
    assert_eq!((after.len(), after.range(..2).copied().collect()), (3, before));
    table.store.shared.core().end_trying(after);
    plans.into_iter().for_each(|plan| table.perform(0, plan));
    assert_eq!(table.value(b"third"), Some(b"v".to_vec()));
}
