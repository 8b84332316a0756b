use super::{Loss, Promises, Version, value};

fn put(number: u64, len: usize) -> Version {
    Version { number, value_len: Some(len), expires_ms: 0 }
}

fn remove(number: u64) -> Version {
    Version { number, value_len: None, expires_ms: 0 }
}

#[test]
fn a_promise_cuts_what_came_before_and_nothing_else() {
    let mut promises = Promises::default();
    for number in 1..=3 {
        promises.publish(7, put(number, 20));
    }
    assert_eq!(promises.clone().recover(7, None, (0, 0)), Ok(vec![]), "nothing is promised yet");
    promises.promise(7, 2);
    for number in [2, 3] {
        assert!(promises.clone().recover(7, Some(&value(number, 20)), (0, 0)).is_ok(), "{number}");
    }
    for seen in [None, Some(value(1, 20)), Some(value(4, 20)), Some(value(2, 19))] {
        let wrong = promises.clone().recover(7, seen.as_deref(), (0, 0)).expect_err("not allowed");
        assert_eq!(wrong.allowed, [put(2, 20), put(3, 20)]);
    }
    promises.promise(7, 1);
    assert!(
        promises.clone().recover(7, Some(&value(1, 20)), (0, 0)).is_err(),
        "older than promised"
    );
}

#[test]
fn history_begins_anew_after_a_crash() {
    let mut promises = Promises::default();
    promises.publish(1, put(1, 9));
    promises.publish(1, put(2, 9));
    promises.acknowledge(1, 2, 50);
    let lost = promises.recover(1, Some(&value(1, 9)), (0, 0));
    assert_eq!(lost, Ok(vec![Loss { version: put(2, 9), acknowledged_ms: 50 }]));
    assert!(promises.recover(1, Some(&value(2, 9)), (0, 0)).is_err(), "what was lost stays lost");
    assert!(promises.recover(1, None, (0, 0)).is_err());
    assert_eq!(promises.newest(1), put(1, 9));
}

#[test]
fn a_removed_or_expired_key_is_absent_and_stays_so() {
    let mut promises = Promises::default();
    promises.publish(1, put(1, 9));
    promises.publish(1, remove(2));
    promises.promise(1, 2);
    assert!(promises.recover(1, Some(&value(1, 9)), (0, 0)).is_err());
    assert_eq!(promises.recover(1, None, (0, 0)), Ok(vec![]));
    promises.publish(2, Version { expires_ms: 100, ..put(3, 4) });
    promises.promise(2, 3);
    assert!(promises.clone().recover(2, Some(&value(3, 4)), (99, 99)).is_ok());
    assert!(promises.clone().recover(2, None, (99, 99)).is_err());
    assert!(promises.clone().recover(2, None, (100, 100)).is_ok());
}

#[test]
fn a_read_shows_what_was_newest_while_it_ran() {
    let mut promises = Promises::default();
    assert_eq!(promises.read(1, 0, None, (0, 0)), Ok(Version::NEVER));
    for number in 1..=3 {
        promises.publish(1, put(number, 100));
    }
    assert_eq!(promises.read(1, 2, Some(&value(3, 100)), (0, 0)), Ok(put(3, 100)));
    assert_eq!(promises.read(1, 2, Some(&value(2, 100)), (0, 0)), Ok(put(2, 100)));
    assert!(promises.read(1, 2, Some(&value(1, 100)), (0, 0)).is_err(), "older than the question");
    promises.promise(1, 3);
    assert_eq!(promises.read(1, 2, Some(&value(2, 100)), (0, 0)), Ok(put(2, 100)), "still running");
    assert!(promises.read(1, 3, Some(&value(2, 100)), (0, 0)).is_err(), "asked after the promise");
    let mut torn = value(2, 100);
    torn[60..].copy_from_slice(&value(3, 100)[60..]);
    assert!(promises.read(1, 1, Some(&torn), (0, 0)).is_err(), "of two versions");
}

#[test]
fn values_differ_in_every_word() {
    let (one, other) = (value(1, 64), value(2, 64));
    assert!(one.chunks(8).zip(other.chunks(8)).all(|(one, other)| one != other));
    assert_eq!(value(1, 5), value(1, 64)[..5]);
    assert!(value(1, 0).is_empty());
}

#[test]
fn a_key_that_could_not_be_read_is_as_any_version_of_its_history() {
    let mut promises = Promises::default();
    for number in 1..4 {
        promises.publish(7, put(number, 20));
    }
    promises.promise(7, 2);
    let read = |promises: &Promises, number| {
        let seen = value(number, 20);
        promises.read(7, promises.newest(7).number, Some(&seen), (0, 0)).is_ok()
    };
    assert!(read(&promises, 3) && !read(&promises, 2));
    assert!(promises.knows_newest(7));
    promises.is_unreadable(7);
    assert!(!promises.knows_newest(7), "the crash may have lost it");
    assert!(read(&promises, 3) && read(&promises, 2) && !read(&promises, 1));
    promises.publish(7, put(4, 20));
    assert!(read(&promises, 4) && !read(&promises, 3) && !read(&promises, 2));
    assert!(promises.knows_newest(7));
}

#[test]
fn what_is_not_seen_in_part_may_have_expired_or_been_removed() {
    let mut promises = Promises::default();
    promises.publish(7, Version { expires_ms: 100, ..put(1, 20) });
    promises.publish(7, Version { number: 2, value_len: None, expires_ms: 0 });
    promises.recover_in_part(7, None, (50, 50));
    assert!(!promises.is_either(7), "the value has not expired");
    promises.recover_in_part(7, None, (200, 200));
    assert!(promises.is_either(7));
    promises.promise(7, 2);
    assert!(promises.is_either(7), "nobody has written it since");
}
