use super::{INPUT_BYTES_MAX, Input, Receive};
use crate::pool::{Class, Pool, Share};

/// Feeds all of `bytes` without anything being consumed in between.
fn feed_all(input: &mut Input, pool: &Pool, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let count = input.feed(bytes, pool);
        assert!(count > 0, "{} bytes left", bytes.len());
        bytes = &bytes[count..];
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[test]
fn an_input_without_bytes_holds_no_buffer() {
    let pool = Pool::new(1 << 20);
    let mut input = Input::new();
    assert_eq!((input.feed(b"one two", &pool), input.bytes()), (7, &b"one two"[..]));
    input.consume(4);
    input.settle(&pool);
    assert_eq!(input.bytes(), b"two");
    assert_eq!(pool.stats().used_bytes, 2048);
    input.consume(3);
    input.settle(&pool);
    assert_eq!((input.bytes(), pool.stats().used_bytes), (&b""[..], 0));
    // Nothing received, nothing held.
    let request = input.request();
    assert_eq!(request.into_buffer(&pool).map(drop).map_err(drop), Ok(()));
    assert_eq!(pool.stats().used_bytes, 0);
}

#[test]
fn unused_bytes_stay_in_front_of_new_ones() {
    let pool = Pool::new(1 << 20);
    let mut input = Input::new();
    let sent = pattern(10_000);
    let (mut fed, mut seen) = (0, Vec::new());
    while seen.len() < sent.len() {
        fed += input.feed(&sent[fed..], &pool);
        // Like a parser whose requests are 700 bytes long.
        while input.bytes().len() >= 700.min(sent.len() - seen.len()) && !input.bytes().is_empty() {
            let count = 700.min(input.bytes().len());
            seen.extend_from_slice(&input.bytes()[..count]);
            input.consume(count);
        }
        input.settle(&pool);
    }
    assert_eq!(seen, sent);
}

#[test]
fn a_long_request_grows_the_buffer_to_the_bound_and_not_beyond() {
    let pool = Pool::new(8 << 20);
    let mut input = Input::new();
    let sent = pattern(INPUT_BYTES_MAX);
    feed_all(&mut input, &pool, &sent[..INPUT_BYTES_MAX - 1]);
    assert!(!input.is_full());
    feed_all(&mut input, &pool, &sent[INPUT_BYTES_MAX - 1..]);
    assert!(input.is_full());
    assert_eq!(input.bytes(), sent);
    assert_eq!(pool.stats().used_bytes, INPUT_BYTES_MAX);
    // Doubling: 2 KiB to 1 MiB is ten buffers, and each was needed once.
    assert_eq!(pool.stats().allocations, 10);
    input.consume(INPUT_BYTES_MAX);
    input.settle(&pool);
    assert_eq!(pool.stats().used_bytes, 0);
}

#[test]
fn a_known_need_grows_the_buffer_in_one_step() {
    let pool = Pool::new(8 << 20);
    let mut input = Input::new();
    input.feed(b"header", &pool);
    input.need(100_000);
    assert_eq!(input.feed(&[1; 200_000], &pool), 131_072 - 6);
    assert_eq!(&input.bytes()[..7], b"header\x01");
    assert_eq!(pool.stats().allocations, 2);
    // The need was for these bytes only.
    input.consume(input.bytes().len());
    input.settle(&pool);
    let before = pool.stats().used_bytes_max;
    input.feed(b"x", &pool);
    assert_eq!(pool.stats().used_bytes_max, before);
    assert!(pool.stats().used_bytes <= 64 << 10);
    // More than is possible is as much as is possible.
    input.need(usize::MAX);
    feed_all(&mut input, &pool, &[2; 100]);
    assert_eq!(pool.stats().used_bytes, INPUT_BYTES_MAX);
}

#[test]
fn receives_grow_with_use_and_shrink_after_a_burst() {
    let pool = Pool::new(8 << 20);
    let mut input = Input::new();
    let mut sizes = Vec::new();
    let mut receive = |input: &mut Input, len: usize| {
        let count = input.feed(&vec![0; len], &pool);
        sizes.push(pool.stats().used_bytes);
        input.consume(count);
        input.settle(&pool);
        assert_eq!(pool.stats().used_bytes, 0);
    };
    for _ in 0..7 {
        receive(&mut input, 1 << 20);
    }
    for _ in 0..5 * 16 + 1 {
        receive(&mut input, 100);
    }
    let kib: Vec<usize> = sizes.iter().map(|bytes| bytes >> 10).collect();
    assert_eq!(kib[..7], [2, 4, 8, 16, 32, 64, 64], "up to the largest ahead of need");
    let descent: Vec<usize> = kib[7..].iter().step_by(16).copied().collect();
    assert_eq!(descent, [64, 32, 16, 8, 4, 2], "down one size every sixteen uses");
    assert_eq!(pool.stats().allocations, 6);
}

#[test]
fn what_is_left_of_a_large_buffer_moves_to_a_small_one() {
    let pool = Pool::new(8 << 20);
    let mut input = Input::new();
    let sent = pattern(100_000);
    input.need(65_536);
    assert_eq!(input.feed(&sent, &pool), 65_536);
    input.consume(65_536 - 3000);
    input.settle(&pool);
    assert_eq!(pool.stats().used_bytes, 4096);
    assert_eq!(input.bytes(), &sent[65_536 - 3000..65_536]);
    // One size apart is left alone.
    input.consume(1500);
    input.settle(&pool);
    assert_eq!(pool.stats().used_bytes, 4096);
    let request = input.request();
    assert_eq!(pool.stats().used_bytes, 4096, "asking for bytes takes no buffer");
    drop(request);
}

#[test]
fn without_memory_nothing_is_lost() {
    let pool = Pool::new(8 << 10);
    let mut input = Input::new();
    let sent = pattern(10_000);
    // The first buffer is the connection's own.
    let hog = pool.take(Class::fixed(8 << 10)).expect("all of it");
    assert!(input.can_receive(&pool));
    feed_all(&mut input, &pool, &sent[..2048]);
    assert!(!input.can_receive(&pool));
    assert_eq!(input.feed(&sent[2048..], &pool), 0);
    assert_eq!(input.bytes(), &sent[..2048]);
    assert_eq!(pool.stats().refusals, 1);
    drop(hog);
    assert!(input.can_receive(&pool));
    assert_eq!(input.feed(&sent[2048..], &pool), 2048);
    assert_eq!(input.bytes(), &sent[..4096]);
    assert_eq!((pool.stats().common_bytes, pool.stats().used_bytes), (4096, 4096));
}

#[test]
fn greed_ends_where_memory_is_scarce() {
    let pool = Pool::new(64 << 10);
    let mut input = Input::new();
    for _ in 0..6 {
        let count = input.feed(&[0; 1 << 20], &pool);
        input.consume(count);
        input.settle(&pool);
    }
    // It would take 64 KiB; an eighth is 8.
    assert_eq!(input.feed(&[0; 1 << 20], &pool), 8 << 10);
    input.consume(8 << 10);
    input.settle(&pool);
    let _hog = pool.take_always(Class::fixed(64 << 10), Share::Common);
    assert_eq!(input.feed(&[0; 1 << 20], &pool), 2 << 10);
}

#[test]
fn a_receive_that_got_nothing_holds_no_more_than_before() {
    let pool = Pool::new(1 << 20);
    let mut input = Input::new();
    let sent = pattern(2048);
    feed_all(&mut input, &pool, &sent);
    let buffer = input.request().into_buffer(&pool).expect("enough");
    assert_eq!(buffer.capacity(), 4096);
    let request = Receive::again(buffer, &pool);
    assert_eq!(pool.stats().used_bytes, 2048);
    input.restore(request.into_held());
    assert_eq!(input.bytes(), sent);
    // With nothing held, nothing is kept.
    input.consume(2048);
    input.settle(&pool);
    let buffer = input.request().into_buffer(&pool).expect("enough");
    let request = Receive::again(buffer, &pool);
    assert_eq!(pool.stats().used_bytes, 0);
    assert!(request.into_held().is_none());
}
