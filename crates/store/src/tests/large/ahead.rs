//! Values that are read before their clients can take them.

use super::*;
use crate::limits::AHEAD_MAX;

/// Whose parts come of the next reads.
fn read_for(table: &mut Table, reads: usize) -> Vec<u64> {
    for _ in 0..reads {
        let plan = table.next_read(1);
        table.perform(1, plan);
    }
    let notices = table.workers[1].take_notices();
    let part = |notice: Notice| match notice.what {
        What::Part(part) => table.workers[1].give_back(part),
        other => panic!("{other:?}"),
    };
    let callers = notices.iter().map(|it| it.caller).collect();
    notices.into_iter().for_each(part);
    callers
}

#[test]
fn what_nobody_waits_for_is_read_last() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let large = table.large(1, b"k");
    let ahead: Vec<_> = (0..3).map(|caller| table.workers[1].read_ahead(&large, caller)).collect();
    table.workers[1].begin_reading(&large, 9).expect("a reader");
    let asked = [9; AHEAD_MAX];
    assert_eq!(read_for(&mut table, AHEAD_MAX), asked, "who waits has to wait for who does not");
    // It reads on, behind the one whose turn has come.
    let ahead: Vec<_> = ahead.into_iter().map(|it| it.expect("there is memory")).collect();
    assert!(table.workers[1].begin_taking(ahead[2]));
    assert_eq!(read_for(&mut table, 1 + AHEAD_MAX), [9, 2, 2], "it is still read last");
    assert_eq!(read_for(&mut table, 1 + AHEAD_MAX), [2, 0, 0]);
    ahead.into_iter().for_each(|reader| table.workers[1].end_reading(reader));
    assert!(table.workers[1].poll().is_none(), "one that has ended is read");
    assert!(table.store.is_at_rest());
}

#[test]
fn nothing_is_read_for_who_has_ended() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let large = table.large(1, b"k");
    let begin = |caller| table.workers[1].begin_reading(&large, caller).expect("a reader");
    let readers: Vec<_> = (0..5).map(begin).collect();
    let plan = table.next_read(1);
    let bytes = table.store.large_bytes().1;
    readers[..4].iter().for_each(|reader| table.workers[1].end_reading(*reader));
    let freed = bytes - table.store.large_bytes().1;
    assert!(freed > 7 * PART_BYTES, "{freed} bytes of what is not read are back");
    // What was under way is not repeated, either.
    let Plan { token, action: Action::Read { buffer, .. } } = plan else { panic!("{plan:?}") };
    table.workers[1].complete(token, Outcome::Read(buffer, 1));
    assert_eq!(read_for(&mut table, AHEAD_MAX), [4, 4], "it is read all the same");
    table.workers[1].end_reading(readers[4]);
    assert!(table.store.is_at_rest());
}

#[test]
fn what_one_worker_reads_ahead_makes_way_for_another_ones() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let large = table.large(1, b"k");
    table.workers[1].begin_reading(&large, 5).expect("a reader");
    let parts = table.parts(1);
    let reader = table.workers[0].read_ahead(&large, 6).expect("there is memory");
    let ahead = table.parts(0);
    assert_eq!((parts.len(), ahead.len()), (AHEAD_MAX, AHEAD_MAX));
    // A third one has room for where the parts lie, and for none of them.
    table.store.set_large_bytes(table.store.large_bytes().1 + large.bytes());
    table.workers[1].begin_reading(&large, 9).expect("a reader");
    table.clock.advance_ms(1);
    assert_eq!(slow(&table.notices(0)), [6], "it keeps what another one needs");
    assert!(!table.workers[0].begin_taking(reader), "it has ended");
    ahead.into_iter().for_each(|part| table.workers[0].give_back(part));
    table.clock.advance_ms(1);
    let read = table.parts(1);
    assert_eq!(read.len(), AHEAD_MAX, "it has the memory");
    assert_eq!(table.rest(1, parts.into_iter().chain(read).collect()).len(), 2 * VALUE_BYTES);
    assert!(table.store.is_at_rest());
}
