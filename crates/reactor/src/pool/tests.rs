use super::{Appetite, BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, Buffer, Class, Pool, Share};

const MIN: Class = Class::MIN;

fn class(bytes: usize) -> Class {
    Class::for_bytes(bytes).expect("a test asks for sizes that exist")
}

#[test]
fn classes_are_powers_of_two_from_least_to_most() {
    for (bytes, size) in [
        (0, 2048),
        (1, 2048),
        (2048, 2048),
        (2049, 4096),
        (4097, 8192),
        (65_536, 65_536),
        (65_537, 131_072),
        (BUFFER_BYTES_MAX, BUFFER_BYTES_MAX),
    ] {
        assert_eq!(class(bytes).bytes(), size, "{bytes}");
    }
    assert_eq!(Class::for_bytes(BUFFER_BYTES_MAX + 1), None);
    assert_eq!(Class::for_bytes(usize::MAX), None);
    assert_eq!(Class::fixed(64 << 10), class(64 << 10));
    assert_eq!((Class::MAX.larger(), MIN.smaller()), (Class::MAX, MIN));
    assert_eq!((MIN.larger().bytes(), Class::MAX.smaller().bytes()), (4096, 512 << 10));
}

#[test]
fn a_dropped_buffer_is_used_again_without_the_allocator() {
    let pool = Pool::new(1 << 20);
    let mut buffer = pool.take(MIN).expect("the pool is empty");
    assert_eq!(buffer.append(&[7; 3000]), BUFFER_BYTES_MIN);
    assert_eq!((pool.stats().used_bytes, pool.stats().free_bytes), (2048, 0));
    drop(buffer);
    assert_eq!((pool.stats().used_bytes, pool.stats().free_bytes), (0, 2048));
    for _ in 0..10 {
        let buffer = pool.take(MIN).expect("there is one");
        assert_eq!(buffer.bytes(), b"", "a buffer begins empty");
    }
    assert_eq!((pool.stats().allocations, pool.stats().used_bytes_max), (1, 2048));
}

#[test]
fn the_largest_class_within_a_number_of_bytes() {
    for (bytes, size) in [
        (0, 2048),
        (2047, 2048),
        (4095, 2048),
        (4096, 4096),
        (100_000, 65_536),
        (usize::MAX, BUFFER_BYTES_MAX),
    ] {
        assert_eq!(Class::within(bytes).bytes(), size, "{bytes}");
    }
}

#[test]
fn greed_gets_an_eighth_of_what_is_free_and_need_all_of_it() {
    let pool = Pool::new(512 << 10);
    let most = class(64 << 10);
    let mut greedy = Vec::new();
    while pool.temper(most) > MIN {
        greedy.push(pool.take(pool.temper(most)).expect("what greed allows is there"));
    }
    let sizes: Vec<usize> = greedy.iter().map(|buffer| buffer.capacity() >> 10).collect();
    assert_eq!(sizes[..6], [64, 32, 32, 32, 32, 32]);
    assert!(sizes.is_sorted_by(|one, next| one >= next));
    let free_bytes = (512 << 10) - pool.stats().common_bytes;
    assert!((28 << 10..32 << 10).contains(&free_bytes), "{free_bytes}");
    assert!(pool.has_room(class(16 << 10)) && !pool.has_room(class(32 << 10)));
    let _needed = pool.take(class(16 << 10)).expect("it is there");
    assert!(pool.take(class(16 << 10)).is_none());
    assert_eq!(pool.stats().refusals, 1);
}

#[test]
fn what_is_a_connections_own_is_always_there_and_counted_apart() {
    let pool = Pool::new(4 << 10);
    let _common = pool.take(class(4 << 10)).expect("all of it");
    assert!(pool.take(MIN).is_none());
    let own: Vec<_> = (0..10).map(|_| pool.take_always(MIN, Share::Own)).collect();
    let stats = pool.stats();
    assert_eq!((stats.common_bytes, stats.used_bytes), (4 << 10, 24 << 10));
    drop(own);
    let stats = pool.stats();
    assert_eq!((stats.used_bytes, stats.free_bytes), (4 << 10, 20 << 10), "they come again");
    let again: Vec<_> = (0..10).map(|_| pool.take_always(MIN, Share::Own)).collect();
    assert_eq!(pool.stats().allocations, 11);
    drop(again);
    // What was never needed at a time is not kept either.
    drop(pool.take_always(class(4 << 10), Share::Own));
    let stats = pool.stats();
    assert_eq!((stats.used_bytes, stats.free_bytes), (4 << 10, 20 << 10));
}

#[test]
fn free_buffers_of_other_sizes_make_room() {
    let pool = Pool::new(64 << 10);
    let small: Vec<Buffer> = std::iter::from_fn(|| pool.take(MIN)).collect();
    assert_eq!(small.len(), 32);
    drop(small);
    assert_eq!(pool.stats().free_bytes, 64 << 10);
    let large = pool.take(class(32 << 10));
    assert!(large.is_some());
    let stats = pool.stats();
    assert_eq!((stats.used_bytes, stats.free_bytes), (32 << 10, 32 << 10));
}

#[test]
fn the_overdraft_is_not_kept() {
    let pool = Pool::new(4 << 10);
    let buffers =
        [pool.take_always(class(4 << 10), Share::Common), pool.take_always(MIN, Share::Common)];
    assert_eq!(pool.stats().used_bytes, 6 << 10);
    drop(buffers);
    // The first to come back was still beyond the limit with the other in use; the second fits.
    let stats = pool.stats();
    assert_eq!(stats.used_bytes, 0);
    assert!(stats.free_bytes <= 4 << 10, "{stats:?}");
}

#[test]
fn trim_gives_back_half_of_what_was_not_needed() {
    let pool = Pool::new(1 << 20);
    let burst: Vec<Buffer> = (0..64).map(|_| pool.take(MIN).expect("enough")).collect();
    drop(burst);
    pool.trim(); // Only notes that 64 are free.
    assert_eq!(pool.stats().free_bytes, 64 * 2048);
    drop([pool.take(MIN), pool.take(MIN)]);
    pool.trim(); // 62 were not needed.
    assert_eq!(pool.stats().free_bytes, 33 * 2048);
    drop([pool.take(MIN), pool.take(MIN)]);
    pool.trim(); // 31 were not needed.
    assert_eq!(pool.stats().free_bytes, 17 * 2048);
    for _ in 0..8 {
        drop([pool.take(MIN), pool.take(MIN)]);
        pool.trim();
    }
    // A steady load of two keeps its two: it never sees the allocator again.
    assert_eq!(pool.stats().free_bytes, 2 * 2048);
    assert_eq!(pool.stats().allocations, 64);
    pool.trim();
    pool.trim();
    assert_eq!(pool.stats().free_bytes, 0);
}

#[test]
fn appetite_grows_at_once_and_shrinks_slowly() {
    let pool = Pool::new(1 << 20);
    let max = class(8 << 10);
    let mut appetite = Appetite::new();
    let use_up = |appetite: &mut Appetite, used: usize| {
        let buffer = pool.take(appetite.class()).expect("enough");
        appetite.learn(used.min(buffer.capacity()), &buffer, max);
        appetite.class().bytes()
    };
    assert_eq!(use_up(&mut appetite, 2047), 2048);
    assert_eq!(use_up(&mut appetite, 1 << 20), 4096);
    assert_eq!(use_up(&mut appetite, 1 << 20), 8192);
    assert_eq!(use_up(&mut appetite, 1 << 20), 8192, "the most");
    for _ in 0..15 {
        assert_eq!(use_up(&mut appetite, 2047), 8192);
    }
    // A single larger use starts the count anew: a load that alternates does not swing.
    assert_eq!(use_up(&mut appetite, 2048), 8192);
    for _ in 0..15 {
        assert_eq!(use_up(&mut appetite, 100), 8192);
    }
    assert_eq!(use_up(&mut appetite, 100), 4096);
    for _ in 0..16 {
        use_up(&mut appetite, 100);
    }
    assert_eq!(appetite.class().bytes(), 2048);
}

#[test]
fn a_buffer_that_would_have_held_it_all_does_not_grow() {
    let (unit, max) = (8 << 10, class(64 << 10));
    let mut appetite = Appetite::new();
    for _ in 0..20 {
        // Two small buffers, because the pool had no larger one to spare.
        appetite.outgrow(3000, unit, max);
    }
    assert_eq!(appetite.class().bytes(), 16 << 10, "room for it and one unit more");
    appetite.outgrow(9000, unit, max);
    assert_eq!(appetite.class().bytes(), 32 << 10);
    appetite.outgrow(60_000, unit, max);
    assert_eq!(appetite.class().bytes(), 64 << 10);
    // Nor does it stay large while the pool gives no large ones.
    for _ in 0..32 {
        appetite.outgrow(3000, unit, max);
    }
    assert_eq!(appetite.class().bytes(), 16 << 10);
}
