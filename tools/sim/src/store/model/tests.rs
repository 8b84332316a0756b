use super::*;

fn value(bytes: &[u8], token: u64) -> Reply {
    Reply::Value(Some((bytes.to_vec(), token)))
}

fn stored(token: u64) -> Reply {
    Reply::Verdict(Verdict::Stored, Some(token))
}

#[test]
fn what_overlaps_may_have_happened_in_any_order_and_what_does_not_in_one() {
    let mut model = Model::new(false, false);
    model.ask(1, 0, Deed::Set(b"a".to_vec()));
    model.ask(2, 1, Deed::Set(b"b".to_vec()));
    assert_eq!(model.answer(1, &stored(10)), Ok(()));
    let mut other = model.clone();
    for (model, seen, token) in [(&mut model, b"a", 10), (&mut other, b"b", 11)] {
        model.ask(3, 2, Deed::Get);
        assert_eq!(model.answer(3, &value(seen, token)), Ok(()));
        assert_eq!(model.answer(2, &stored(11)), Ok(()));
    }
    other.ask(4, 2, Deed::Get);
    assert!(other.answer(4, &value(b"a", 10)).is_err(), "b was seen before");
}

#[test]
fn an_update_that_is_lost_is_noticed_and_so_is_another_token() {
    let mut model = Model::new(false, false);
    model.ask(1, 0, Deed::Set(b"5".to_vec()));
    assert_eq!(model.answer(1, &stored(10)), Ok(()));
    model.ask(2, 0, Deed::Count(1));
    model.ask(3, 1, Deed::Count(1));
    let six = Reply::Verdict(Verdict::Number(6), Some(11));
    assert_eq!(model.answer(2, &six), Ok(()));
    assert!(model.clone().answer(3, &six).is_err());
    assert_eq!(model.answer(3, &Reply::Verdict(Verdict::Number(7), Some(12))), Ok(()));
    model.ask(4, 0, Deed::Compare(11, b"x".to_vec()));
    assert!(model.clone().answer(4, &stored(13)).is_err());
    assert_eq!(model.answer(4, &Reply::Verdict(Verdict::Exists, None)), Ok(()));
}

#[test]
fn a_client_is_served_in_its_order() {
    let mut model = Model::new(false, true);
    model.ask(1, 0, Deed::Set(b"a".to_vec()));
    model.ask(2, 0, Deed::Append(b"b".to_vec()));
    model.ask(3, 0, Deed::Set(b"c".to_vec()));
    model.ask(4, 0, Deed::Get);
    assert_eq!(model.answer(1, &stored(1)), Ok(()));
    let mut early = model.clone();
    assert_eq!(early.answer(4, &value(b"ab", 2)), Ok(()), "what was set behind it was refused");
    assert!(early.answer(3, &stored(3)).is_err(), "it was not");
    assert_eq!(model.answer(4, &value(b"c", 3)), Ok(()));
    assert!(model.answer(3, &stored(9)).is_err(), "another token was seen");
}

#[test]
fn what_is_answered_after_a_failed_flush_survives_a_crash() {
    let value = |bytes: &[u8]| Reply::Value(Some((bytes.to_vec(), 2)));
    for is_seen in [false, true] {
        let mut model = Model::new(false, true);
        model.ask(1, 0, Deed::Set(b"a".to_vec()));
        assert_eq!(model.answer(1, &stored(1)), Ok(()));
        model.ask(2, 0, Deed::Set(b"b".to_vec()));
        assert!(model.may_be_unflushed(3));
        assert_eq!(model.lose(2), Ok(()));
        model.ask(3, 0, Deed::Get);
        let reply = if is_seen { value(b"b") } else { Reply::Refused };
        assert_eq!(model.answer(3, &reply), Ok(()));
        assert_eq!(model.may_be_unflushed(4), !is_seen);
        assert_eq!(model.crash(), Ok(()));
        model.ask(4, 0, Deed::Get);
        let older = Reply::Value(Some((b"a".to_vec(), 1)));
        assert_eq!(model.clone().answer(4, &older).is_ok(), !is_seen, "it was seen: {is_seen}");
        assert_eq!(model.answer(4, &value(b"b")), Ok(()));
    }
}

#[test]
fn what_was_answered_survives_a_crash_unless_it_may_be_lost() {
    for forgets in [false, true] {
        let mut model = Model::new(forgets, false);
        model.ask(1, 0, Deed::Set(b"a".to_vec()));
        assert_eq!(model.answer(1, &stored(1)), Ok(()));
        model.ask(2, 0, Deed::Delete);
        assert_eq!(model.crash(), Ok(()));
        for (reply, is_possible) in
            [(Reply::Value(None), true), (value(b"a", 1), true), (value(b"b", 1), false)]
        {
            let mut model = model.clone();
            model.ask(3, 0, Deed::Get);
            assert_eq!(model.answer(3, &reply).is_ok(), is_possible);
        }
    }
    let mut model = Model::new(false, false);
    model.ask(1, 0, Deed::Set(b"a".to_vec()));
    assert_eq!(model.answer(1, &stored(1)), Ok(()));
    assert_eq!(model.crash(), Ok(()));
    model.ask(2, 0, Deed::Get);
    assert!(model.answer(2, &Reply::Value(None)).is_err());
}

#[test]
fn what_is_there_until_some_time_is_seen_before_and_not_after() {
    let mut model = Model::new(false, false);
    let get = |model: &Model, asked_ms, answered_ms, reply: &Reply| {
        let mut model = model.clone();
        model.tell_ms(asked_ms);
        model.ask(9, 1, Deed::Get);
        model.tell_ms(answered_ms);
        model.answer(9, reply).is_ok()
    };
    model.ask(1, 0, Deed::SetUntil(b"a".to_vec(), 10));
    assert_eq!(model.answer(1, &stored(1)), Ok(()));
    for (asked_ms, answered_ms, is_seen, is_gone) in
        [(9, 9, true, false), (9, 10, true, true), (10, 10, false, true)]
    {
        assert_eq!(get(&model, asked_ms, answered_ms, &value(b"a", 1)), is_seen);
        assert_eq!(get(&model, asked_ms, answered_ms, &Reply::Value(None)), is_gone);
    }
    model.ask(2, 0, Deed::Touch(20));
    assert_eq!(model.answer(2, &Reply::Touched(b"a".to_vec(), 1)), Ok(()));
    assert!(get(&model, 19, 19, &value(b"a", 1)) && get(&model, 20, 20, &Reply::Value(None)));
    for was_there in [false, true] {
        let mut model = model.clone();
        model.tell_ms(20);
        model.ask(3, 0, Deed::Delete);
        assert_eq!(model.answer(3, &Reply::Removed(was_there)), Ok(()));
    }
}
