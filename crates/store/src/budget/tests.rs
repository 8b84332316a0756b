use super::*;

#[test]
fn who_needs_nothing_yet_has_half_of_it_and_nothing_while_somebody_waits() {
    let budget = Budget::new(10);
    let number = budget.take_spare(4, 1, 0).expect("there is half");
    assert_eq!(budget.take_spare(1, 0, 0), None, "half is left to others");
    assert!(!budget.is_all_in_use(), "others are cut off for what nobody uses");
    assert_eq!(budget.there(), 0);
    budget.use_spare(number, 4);
    assert!(budget.there() == 1 && budget.is_all_in_use() && budget.bytes() == 5);
    budget.give_back(4);
    let other = budget.enter();
    assert!(!budget.take(other, 1, 10, 7, false), "there is memory");
    assert_eq!(budget.take_spare(1, 0, LARGE_WANTED_MS), None, "somebody has waited");
    assert!(budget.take_spare(1, 0, 7 + LARGE_WANTED_MS).is_some());
    // Who has ended owes them until they are back.
    budget.end_spare(1);
    budget.end(0, 1);
    assert!(!budget.is_all_in_use());
    budget.pay_back(1);
    assert!(budget.is_all_in_use() && budget.bytes() == 1);
    // Places are no memory that is wanted, but needed.
    budget.take_place(3);
    assert!(!budget.has_place(2, 5000) && !budget.is_wanted(5000));
    assert_eq!(budget.take_spare(1, 0, 5000), None, "somebody has needed a place");
    budget.give_place_back(3);
    budget.give_place_back(1);
    assert!(budget.is_at_rest());
    let last = budget.enter();
    assert!(budget.take(other, 0, 10, 6000, false) && !budget.take(last, 0, 10, 6000, false));
    assert!(budget.is_needed(6000));
    budget.end(10, 0);
    assert!(!budget.is_needed(6000), "others are cut off for what has come back");
}

#[test]
fn the_oldest_gets_a_part_when_there_is_no_memory() {
    let budget = Budget::new(10);
    let numbers = [budget.enter(), budget.enter()];
    assert!(budget.take(numbers[1], 0, 10, 5, false), "there is room");
    assert!(budget.take(numbers[0], 0, 10, 5, false), "the oldest waits");
    assert!(!budget.take(numbers[0], 10, 10, 5, false), "it has one");
    assert!(!budget.take(numbers[1], 0, 1, 5, false));
    budget.leave(numbers[0]);
    assert!(budget.take(numbers[1], 0, 10, 5, false), "it is the oldest now");
    budget.give_back(30);
    assert_eq!(budget.bytes(), 0);
}

#[test]
fn who_gives_way_has_nothing_while_another_one_waits() {
    let budget = Budget::new(10);
    let numbers = [budget.enter(), budget.enter(), budget.enter()];
    assert!(budget.take(numbers[1], 0, 10, 5, false));
    assert!(!budget.take(numbers[2], 0, 10, 5, false));
    budget.give_back(10);
    assert!(!budget.take(numbers[1], 0, 10, 6, true), "it has it again at once");
    assert!(budget.take(numbers[2], 0, 10, 6, false));
    budget.give_back(10);
    assert!(budget.take(numbers[1], 0, 10, 5 + LARGE_QUICK_MS, true), "nobody else waits");
    assert!(budget.take(numbers[0], 0, 10, 5 + LARGE_QUICK_MS, true), "the oldest waits");
}

#[test]
fn memory_is_taken_in_turn() {
    let budget = Budget::new(30);
    let [old, a, b, c, slow] = [(); 5].map(|()| budget.enter());
    let take = |who, has, now_ms, rank| budget.take_in_turn(who, has, 10, now_ms, rank);
    assert!(take(old, 0, 1, Rank::New) && take(old, 10, 1, Rank::More));
    assert!(take(a, 0, 1, Rank::New) && !take(a, 10, 1, Rank::More));
    assert!(!take(c, 0, 1, Rank::New) && !take(b, 0, 1, Rank::New));
    assert!(!take(slow, 0, 1, Rank::Slow));
    // The first gives one back: it has one left, and then none.
    budget.give_back(10);
    assert!(!take(old, 10, 2, Rank::More), "somebody has none");
    assert!(!take(c, 0, 2, Rank::New), "who came last is first");
    assert!(take(b, 0, 2, Rank::New));
    budget.give_back(10);
    assert!(!take(a, 0, 3, Rank::Again), "somebody has had none");
    assert!(take(c, 0, 3, Rank::New));
    assert!(!take(b, 0, 3, Rank::Again));
    budget.give_back(20);
    assert!(!take(b, 0, 4, Rank::Again) && !take(slow, 0, 4, Rank::Slow), "it came later");
    assert!(take(a, 0, 4, Rank::Again) && take(b, 0, 4, Rank::Again));
    budget.give_back(20);
    assert!(!take(slow, 0, 5, Rank::Slow), "others have just waited");
    assert!(take(slow, 0, 4 + LARGE_QUICK_MS, Rank::Slow));
}

#[test]
fn the_oldest_gets_on_whoever_comes_and_however_slow_it_was() {
    for rank in [Rank::Again, Rank::Slow] {
        let budget = Budget::new(10);
        let [old, a, b] = [(); 3].map(|()| budget.enter());
        let take = |who, now_ms, rank| budget.take_in_turn(who, 0, 10, now_ms, rank);
        assert!(take(a, 1, Rank::New));
        for now_ms in 1..=LARGE_WANTED_MS {
            assert!(!take(b, now_ms, Rank::New) && !take(old, now_ms, rank));
        }
        assert!(take(old, 1 + LARGE_WANTED_MS, rank), "the oldest waits");
        budget.give_back(10);
        assert!(!take(old, 1 + LARGE_WANTED_MS, rank), "it is another one's turn");
        budget.give_back(10);
        assert!(take(b, 1 + LARGE_WANTED_MS, Rank::New));
    }
}

#[test]
fn the_oldest_gets_on_though_who_waits_never_fits() {
    let budget = Budget::new(5);
    let [old, new] = [(); 2].map(|()| budget.enter());
    let take = |who, rank| budget.take_in_turn(who, 0, 10, 1, rank);
    assert!(take(old, Rank::New) && !take(new, Rank::New));
    budget.give_back(10);
    assert!(take(old, Rank::Again), "the oldest waits");
}

#[test]
fn who_asks_no_more_is_not_waited_for() {
    let budget = Budget::new(10);
    let [old, gone, ended, last] = [(); 4].map(|()| budget.enter());
    let take = |who, now_ms| budget.take_in_turn(who, 0, 10, now_ms, Rank::New);
    assert!(take(old, 1) && !take(gone, 1) && !take(ended, 20) && !take(last, 20));
    budget.give_back(10);
    assert!(!take(last, 21), "it is another one's turn");
    budget.leave(ended);
    assert!(take(last, 21));
}

#[test]
fn what_tells_where_parts_lie_has_half_of_it() {
    let budget = Budget::new(100);
    assert!(budget.has_place(200, 5), "it would be the only one");
    budget.take_place(40);
    assert!(budget.has_place(10, 5) && !budget.is_needed(5));
    assert!(!budget.has_place(11, 5) && budget.is_needed(5));
    let number = budget.enter();
    assert!(budget.take(number, 0, 60, 5, false));
    assert!(!budget.take(number, 60, 1, 5, false), "it is not counted");
    budget.give_place_back(40);
    assert!(budget.take(number, 60, 40, 5, false));
    assert_eq!((budget.bytes(), budget.there()), (100, 1));
}

#[test]
fn memory_is_wanted_for_a_while_after_somebody_was_refused() {
    let budget = Budget::new(10);
    let numbers = [budget.enter(), budget.enter()];
    assert!(budget.take(numbers[0], 0, 10, 5, false) && !budget.is_wanted(5));
    assert!(!budget.take(numbers[1], 0, 10, 6, false));
    assert!(budget.is_wanted(5 + LARGE_WANTED_MS) && !budget.is_wanted(6 + LARGE_WANTED_MS));
}

#[test]
fn who_has_some_already_does_not_need_it() {
    let budget = Budget::new(20);
    let numbers = [budget.enter(), budget.enter()];
    assert!(budget.take(numbers[0], 0, 10, 5, false));
    assert!(!budget.take(numbers[0], 10, 11, 5, false) && !budget.is_needed(5));
    assert!(!budget.take(numbers[1], 0, 11, 6, false));
    assert!(budget.is_needed(5 + LARGE_WANTED_MS) && !budget.is_needed(6 + LARGE_WANTED_MS));
    assert!(budget.take(numbers[1], 0, 10, 7, false) && !budget.is_needed(7), "it has some");
    assert!(!budget.take(numbers[1], 0, 11, 8, false) && budget.is_needed(8));
    budget.end(0, 0);
    budget.pay_back(0);
    assert!(!budget.is_needed(8));
}
