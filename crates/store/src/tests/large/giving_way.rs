//! Who makes way when there is no memory, or no place, for all who come and go.

use super::*;

#[test]
fn when_so_many_arrive_as_may_the_slowest_makes_way() {
    let mut table = Table::new();
    for caller in 0..LARGE_MAX as u64 {
        let upload = table.begin(0, caller, &caller.to_le_bytes());
        assert!(table.workers[0].push(upload, b"x").is_ok());
    }
    let refused = table.workers[0].begin_upload(b"new", VALUE_BYTES as u64, 5000);
    assert_eq!(refused, Err(Error::TooMany { max: LARGE_MAX }));
    table.clock.advance_ms(LARGE_IDLE_WANTED_MS);
    table.begin(0, 5000, b"new");
    assert_eq!(slow(&table.workers[0].take_notices()), [0], "nobody makes way");
}

#[test]
fn a_part_has_to_come_in_time() {
    let mut table = Table::new();
    let upload = table.begin(0, 1, b"k");
    for second in 1..=LARGE_IDLE_MS / 1000 {
        assert_eq!(table.workers[0].push(upload, b"x"), Ok(Took::All), "in second {second}");
        table.clock.advance_ms(1000);
        let ended = slow(&table.notices(0));
        let is_over = second == LARGE_IDLE_MS / 1000;
        assert_eq!(ended.len(), usize::from(is_over), "a byte a second keeps it: {second}");
    }
    assert_eq!(table.store.large_bytes(), (0, 0));
}

#[test]
fn of_those_who_wait_for_memory_the_last_goes_first() {
    let mut table = Table::new();
    table.store.set_large_bytes(2 * PART_BYTES);
    let mut uploads = Vec::new();
    for caller in 0..4 {
        let upload = table.begin(0, caller, b"k");
        let took = table.workers[0].push(upload, b"x");
        assert_eq!(took, Ok(if caller < 2 { Took::All } else { Took::Wait(0) }), "{caller}");
        uploads.push(upload);
    }
    table.workers[0].abort_upload(uploads[1]);
    table.clock.advance_ms(1);
    let notices = table.notices(0);
    assert!(matches!(notices[..], [Notice { caller: 3, what: What::Room }]), "{notices:?}");
    table.workers[0].abort_upload(uploads[0]);
    table.clock.advance_ms(1);
    let notices = table.notices(0);
    assert!(matches!(notices[..], [Notice { caller: 2, what: What::Room }]), "{notices:?}");
}

#[test]
fn a_log_without_room_ends_those_who_are_slow() {
    static VALUE: [u8; 60_000] = [7; 60_000];
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let large = table.large(1, b"k");
    table.workers[1].begin_reading(&large, 5).expect("a reader");
    let parts = table.parts(1);
    let upload = table.begin(0, 6, b"upload");
    assert_eq!(table.workers[0].push(upload, &value(5)[..PART_BYTES + 10]), Ok(Took::All));
    table.clock.advance_ms(LARGE_IDLE_WANTED_MS + 1000);
    let ended = [0, 1].map(|worker| slow(&table.notices(worker)));
    assert!(ended.iter().all(Vec::is_empty), "there is room: {ended:?}");
    table.files.fill();
    let mut ended = [vec![], vec![]];
    for number in 0..500_u64 {
        let asked = table.ask(0, number, &number.to_le_bytes(), Ask::Set(&VALUE, 0));
        table.clock.advance_ms(1);
        for (worker, ended) in ended.iter_mut().enumerate() {
            ended.extend(slow(&table.notices(worker)));
        }
        drop(table.answers(0));
        if matches!(asked, Asked::Now(Answer::Failed(Error::Log(log::error::Error::NoRoom)))) {
            break;
        }
    }
    assert!(table.store.with_log(|log| log.lacks_room()), "it is not full");
    assert_eq!(ended, [vec![6], vec![5]], "places are kept that the log needs");
    parts.into_iter().for_each(|part| table.workers[1].give_back(part));
    assert_eq!(table.store.large_bytes(), (0, 0));
}

/// Time passes as it does when somebody waits: each worker looks again and again.
fn pass(table: &mut Table, ms: u64) {
    for _ in 0..ms / 500 {
        table.clock.advance_ms(500);
        table.run();
    }
}

const LONG_PARTS: usize = 12;

/// A value of many parts, of which two readers of the first worker, 0 and 1, have two each. That is
/// all of the memory, and reader 9 of the other worker waits for some.
fn who_waits_for_readers() -> (Table, Vec<Part>) {
    let mut table = Table::new();
    let long = vec![7; LONG_PARTS * PART_BYTES];
    table.workers[0].quiesce();
    let upload = table.workers[0].begin_upload(b"k", long.len() as u64, 1).expect("an upload");
    table.push(0, upload, &long);
    assert_eq!(table.finish(0, upload, Ask::Uploaded), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [done(1)]);
    let large = table.large_of(1, b"k");
    for caller in 0..2 {
        table.workers[0].begin_reading(&large, caller).expect("a reader");
    }
    let parts = table.parts(0);
    assert_eq!(parts.len(), 4);
    table.store.set_large_bytes(table.store.large_bytes().1 + large.bytes());
    table.workers[1].begin_reading(&large, 9).expect("a reader");
    (table, parts)
}

#[test]
fn who_takes_nothing_gives_way_to_who_has_no_memory() {
    let (mut table, parts) = who_waits_for_readers();
    pass(&mut table, LARGE_UNTAKEN_NEEDED_MS - 500);
    assert!(table.workers[0].take_notices().is_empty(), "it has just begun");
    let wake_ms = table.workers[0].wake_at_ms().expect("a time");
    assert_eq!(wake_ms, table.clock.now_ms() + 500, "nobody wakes for it");
    pass(&mut table, 1000);
    let ended = slow(&table.workers[0].take_notices());
    assert_eq!(ended, [0], "who takes nothing keeps what another one needs");
    pass(&mut table, 2000);
    let more = slow(&table.workers[0].take_notices());
    assert_eq!(more, [0; 0], "what the first has had may be enough");
    let ended = parts[0].reader();
    let (of_ended, kept): (Vec<_>, Vec<_>) = parts.into_iter().partition(|it| it.reader() == ended);
    of_ended.into_iter().for_each(|part| table.workers[0].give_back(part));
    table.clock.advance_ms(1);
    let first = table.parts(1);
    assert_eq!(table.rest(1, first).len(), LONG_PARTS * PART_BYTES);
    pass(&mut table, 2000);
    assert!(table.workers[0].take_notices().is_empty(), "nobody needs any more");
    kept.into_iter().for_each(|part| table.workers[0].give_back(part));
    let first = table.parts(0);
    assert_eq!(table.rest(0, first).len(), (LONG_PARTS - 2) * PART_BYTES);
    assert_eq!(table.store.large_bytes(), (0, 0));
}

#[test]
fn who_takes_some_bytes_now_and_then_keeps_memory_that_others_need() {
    let (mut table, parts) = who_waits_for_readers();
    let mut ended = Vec::new();
    for _ in 0..6 {
        pass(&mut table, LARGE_UNTAKEN_NEEDED_MS - 500);
        table.workers[0].note_taken(parts[0].reader());
        ended.extend(slow(&table.workers[0].take_notices()));
    }
    assert_eq!(ended, [1], "who takes something is cut off, or who takes nothing is not");
    pass(&mut table, LARGE_IDLE_MS - 6 * (LARGE_UNTAKEN_NEEDED_MS - 500));
    assert_eq!(slow(&table.workers[0].take_notices()), [0], "a part has to be taken in time");
    parts.into_iter().for_each(|part| table.workers[0].give_back(part));
}

#[test]
fn who_has_a_part_and_wants_one_more_ends_nobody() {
    let mut table = Table::new();
    table.store_large(1, b"k", &value(3));
    let large = table.large(0, b"k");
    // Room for one part, and what tells where the others are.
    table.store.set_large_bytes(PART_BYTES + PART_BYTES / 2);
    table.workers[0].begin_reading(&large, 5).expect("a reader");
    let parts = table.parts(0);
    assert_eq!(parts.len(), 1);
    pass(&mut table, 2 * LARGE_UNTAKEN_NEEDED_MS);
    assert!(table.workers[0].take_notices().is_empty(), "it is in its own way");
    parts.into_iter().for_each(|part| table.workers[0].give_back(part));
    pass(&mut table, 500);
    assert!(!table.parts(0).is_empty(), "it does not get on");
}

/// Many begin to read at once, all of them quick, and there is memory for two parts each of some.
#[test]
fn memory_goes_round_among_those_who_read() {
    const READERS: u64 = 12;
    let mut table = Table::new();
    let long = vec![7; LONG_PARTS * PART_BYTES];
    let upload = table.workers[0].begin_upload(b"k", long.len() as u64, 1).expect("an upload");
    table.push(0, upload, &long);
    assert_eq!(table.finish(0, upload, Ask::Uploaded), Asked::Later);
    table.run();
    drop(table.answers(0));
    let large = table.large_of(0, b"k");
    table.store.set_large_bytes(5 * PART_BYTES + READERS as usize * large.bytes());
    for caller in 0..READERS {
        table.workers[0].begin_reading(&large, caller).expect("a reader");
    }
    let mut had = vec![0; READERS as usize];
    let mut turns = 0;
    while had.iter().any(|it| *it < LONG_PARTS) {
        table.clock.advance_ms(1);
        turns += 1;
        assert!(turns < 200, "nobody gets on: {had:?}");
        for Notice { caller, what } in table.notices(0) {
            let What::Part(part) = what else { panic!("{what:?}") };
            had[caller as usize] += 1;
            table.workers[0].give_back(part);
        }
        // The oldest has one in any case when it is his turn.
        let (least, most) = (had[1..].iter().min(), had[1..].iter().max());
        let ahead = most.copied().unwrap_or(0) - least.copied().unwrap_or(0);
        assert!(ahead <= 3, "some have parts before others: {had:?}");
    }
}

#[test]
fn who_takes_slowly_leaves_memory_to_who_waits() {
    let (mut table, parts) = who_waits_for_readers();
    let mut slow = std::collections::VecDeque::from(parts);
    let mut got = 0;
    for _ in 0..10 {
        // Each takes something of what it has.
        pass(&mut table, 2500);
        slow.iter().for_each(|part| table.workers[0].note_taken(part.reader()));
        pass(&mut table, 2500);
        if let Some(part) = slow.pop_front() {
            table.workers[0].give_back(part);
        }
        for _ in 0..LONG_PARTS {
            table.clock.advance_ms(1);
            let parts = table.parts(1);
            got += parts.iter().map(|part| part.bytes().len()).sum::<usize>();
            parts.into_iter().for_each(|part| table.workers[1].give_back(part));
        }
        slow.extend(table.parts(0));
    }
    assert_eq!(got, LONG_PARTS * PART_BYTES, "slow ones keep the memory");
    assert!(!slow.is_empty(), "they go on behind it");
}

#[test]
fn who_sends_slowly_leaves_memory_to_who_waits() {
    let mut table = Table::new();
    table.store.set_large_bytes(2 * PART_BYTES);
    let slow = [0, 1].map(|caller| table.begin(0, caller, b"slow"));
    for upload in slow {
        assert_eq!(table.workers[0].push(upload, b"x"), Ok(Took::All));
    }
    let upload = table.begin(1, 9, b"quick");
    assert_eq!(table.workers[1].push(upload, b"x"), Ok(Took::Wait(0)));
    // Each piece of theirs but the first of a part has some of the next one.
    let piece = vec![7; PART_BYTES / 20 + 1];
    for _ in 0..20 {
        pass(&mut table, 1000);
        for upload in slow {
            assert!(table.workers[0].push(upload, &piece).is_ok());
        }
    }
    table.clock.advance_ms(1);
    table.run();
    let has_room = |it: &Notice| it.caller == 9 && matches!(it.what, What::Room);
    assert!(table.workers[1].take_notices().iter().any(has_room), "slow ones keep the memory");
    table.push(1, upload, &value(3));
    assert_eq!(table.finish(1, upload, Ask::Uploaded), Asked::Later);
    pass(&mut table, 500);
    assert_eq!(table.answers(1), [done(9)]);
    // They have it again when nobody else waits.
    let notices = table.workers[0].take_notices();
    let goes_on = |it: &Notice| matches!(it.what, What::Room);
    assert!(notices.len() == 2 && notices.iter().all(goes_on), "{notices:?}");
}

#[test]
fn a_worker_keeps_nothing_of_a_value_that_nobody_has_any_more() {
    let mut table = Table::new();
    for round in 0..8u32 {
        table.store_large(u64::from(round), &round.to_le_bytes(), &value(3 + round));
    }
    let large = table.large(1, &0u32.to_le_bytes());
    drop(large);
    for round in 0..8u32 {
        assert_eq!(table.ask(0, 50, &round.to_le_bytes(), Ask::Delete), Asked::Later);
        table.run();
        drop(table.answers(0));
    }
    // Nobody looks at anything: there are sets and hits.
    for caller in 0..20 {
        table.clock.advance_ms(1000);
        assert_eq!(table.ask(1, caller, b"small", Ask::Set(b"v", 0)), Asked::Later);
        table.run();
        drop(table.answers(1));
        assert!(matches!(table.get(1, caller, b"small").0, Got::Hit(_)));
    }
    let freed = table.store.with_log(|log| log.counts().segments_freed);
    // By whoever looks for another key.
    assert!(matches!(table.get(1, 78, b"absent").0, Got::Miss));
    table.clock.advance_ms(1000);
    table.run();
    let later = table.store.with_log(|log| log.counts().segments_freed);
    assert!(freed > 0 && freed == later, "a segment is kept: {freed} are freed, then {later}");
}
