use std::{cell::Cell, io::IoSlice, rc::Rc};

use super::{
    Chain, EXTERNAL_BYTES_HIGH, EXTERNALS_HIGH, External, Gather, OUTPUT_BYTES_HIGH,
    OUTPUT_UNIT_BYTES_MAX, Output,
};
use crate::pool::{BUFFER_BYTES_MAX, Class, Pool, Share};

/// A value in slices of seven bytes, that counts its life.
#[derive(Debug)]
struct Value(Rc<Vec<u8>>);

impl External for Value {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn gather<'a>(&'a self, skip: usize, to: &mut Gather<'a, '_>) {
        let first = skip / 7 * 7;
        for (i, slice) in self.0[first..].chunks(7).enumerate() {
            let slice = if i == 0 { &slice[skip - first..] } else { slice };
            if !to.push(slice) {
                return;
            }
        }
    }
}

fn value(len: usize) -> (Value, Rc<Vec<u8>>) {
    let bytes = Rc::new((0..len).map(|i| (i % 249) as u8).collect::<Vec<_>>());
    (Value(Rc::clone(&bytes)), bytes)
}

fn output(limit_bytes: usize) -> (Output<Value>, Pool) {
    let pool = Pool::new(limit_bytes);
    (Output::new(pool.clone()), pool)
}

/// Sends a chain in calls of at most `slices` slices and `bytes` bytes.
fn send(chain: &mut Chain<Value>, slices: usize, bytes: usize) -> Vec<u8> {
    let mut sent = Vec::new();
    while !chain.is_empty() {
        let mut places = vec![IoSlice::new(&[]); slices];
        let mut gather = Gather::new(&mut places);
        chain.gather(&mut gather);
        assert!(gather.bytes() > 0, "a chain that is not empty has something to send");
        let (count, total) = (gather.count(), gather.bytes());
        let mut call: Vec<u8> = places[..count].iter().flat_map(|s| s.iter().copied()).collect();
        assert_eq!(call.len(), total);
        call.truncate(bytes);
        let before = chain.len();
        chain.advance(call.len());
        assert_eq!(chain.len(), before - call.len());
        sent.append(&mut call);
    }
    sent
}

#[test]
fn bytes_leave_in_order_however_the_system_cuts_them() {
    for (slices, bytes) in [(1, 1), (1, 5), (3, 11), (64, 1000), (1, usize::MAX), (64, usize::MAX)]
    {
        let (mut output, pool) = output(1 << 20);
        let mut expected = Vec::new();
        for i in 0..40_usize {
            let text = format!("VALUE key:{i} 0 {}\r\n", i * 3);
            output.put(text.as_bytes());
            expected.extend_from_slice(text.as_bytes());
            if i % 3 == 0 {
                let (external, copy) = value(i * 3 + 1);
                output.attach(external);
                expected.extend_from_slice(&copy);
                output.put(b"\r\n");
                expected.extend_from_slice(b"\r\n");
            }
        }
        assert_eq!(output.len(), expected.len());
        let mut chain = output.launch();
        assert_eq!(send(&mut chain, slices, bytes), expected, "{slices} {bytes}");
        output.landed(chain);
        assert!(output.is_idle());
        assert_eq!(pool.stats().used_bytes, 0, "what is sent is returned");
    }
}

#[test]
fn external_memory_is_dropped_as_soon_as_it_is_sent() {
    let (mut output, _pool) = output(1 << 20);
    let (first, first_alive) = value(100);
    let (second, second_alive) = value(50);
    output.attach(first);
    output.put(b"between");
    output.attach(second);
    let mut chain = output.launch();
    chain.advance(99);
    assert_eq!(Rc::strong_count(&first_alive), 2);
    chain.advance(1);
    assert_eq!((Rc::strong_count(&first_alive), Rc::strong_count(&second_alive)), (1, 2));
    chain.advance(7 + 49);
    assert_eq!(Rc::strong_count(&second_alive), 2);
    drop(chain);
    assert_eq!(Rc::strong_count(&second_alive), 1, "or when the chain is");
}

/// A value that counts how often it hears that more of it was sent.
struct Told(Rc<Cell<u32>>);

impl External for Told {
    fn len(&self) -> usize {
        100
    }

    fn advanced(&self) {
        self.0.set(self.0.get() + 1);
    }

    fn gather<'a>(&'a self, skip: usize, to: &mut Gather<'a, '_>) {
        to.push(&[7; 100][skip..]);
    }
}

#[test]
fn external_memory_hears_that_more_of_it_was_sent() {
    let told = Rc::new(Cell::new(0));
    let mut output = Output::new(Pool::new(1 << 20));
    output.put(b"before");
    output.attach(Told(Rc::clone(&told)));
    let mut chain = output.launch();
    for (bytes, expected) in [(5, 0), (1, 0), (0, 0), (99, 1), (0, 1), (1, 1)] {
        chain.advance(bytes);
        assert_eq!(told.get(), expected, "after {bytes} more");
    }
    assert!(chain.is_empty());
}

#[test]
fn what_took_several_buffers_gets_one_the_next_time() {
    for (replies, len) in [(16, 1061), (15, 1061), (4, 600), (60, 1061)] {
        let (mut output, pool) = output(4 << 20);
        let mut sent_in = || {
            for _ in 0..replies {
                output.put(&vec![b'x'; len]);
            }
            let mut chain = output.launch();
            let buffers = chain.end().0;
            chain.advance(replies * len);
            output.landed(chain);
            buffers
        };
        assert!(sent_in() > 1, "{replies} of {len}");
        assert_eq!((sent_in(), sent_in()), (1, 1), "{replies} of {len}");
        assert!(pool.stats().used_bytes_max <= 2 * OUTPUT_BYTES_HIGH, "{replies} of {len}");
    }
}

#[test]
fn buffers_return_one_by_one_while_a_chain_is_sent() {
    let (mut output, pool) = output(1 << 20);
    for _ in 0..60 {
        output.put(&[b'x'; 1000]);
    }
    let held = pool.stats().used_bytes;
    assert!((60_000..64 << 10).contains(&held), "{held}");
    let mut chain = output.launch();
    chain.advance(30_000);
    assert!(pool.stats().used_bytes < held);
    chain.advance(29_999);
    assert!(pool.stats().used_bytes > 0);
    chain.advance(1);
    assert_eq!(pool.stats().used_bytes, 0);
}

#[test]
fn a_read_that_starts_over_leaves_nothing_behind() {
    let (mut output, pool) = output(1 << 20);
    output.put(b"before ");
    let mark = output.mark();
    output.put(b"VALUE torn");
    output.room(4000)[..4000].fill(b'?'); // Goes into a second buffer.
    output.commit(4000);
    output.rewind(mark);
    assert_eq!((output.len(), pool.stats().used_bytes), (7, 2048));
    output.rewind(mark);
    output.put(b"good");
    assert_eq!(output.launch().take_bytes(), b"before good");

    let mark = output.mark();
    output.put(b"nothing");
    output.rewind(mark);
    assert!(output.is_empty());
    output.settle();
    assert_eq!(output.launch().take_bytes(), b"");
    assert_eq!(pool.stats().used_bytes, 0);
}

#[test]
fn room_that_nothing_was_written_to_goes_back_when_it_lands() {
    let (mut output, pool) = output(1 << 20);
    output.room(100);
    assert!(pool.stats().used_bytes > 0);
    let chain = output.launch();
    output.landed(chain);
    assert_eq!(pool.stats().used_bytes, 0);
}

#[test]
#[should_panic(expected = "rewound over external memory")]
fn what_was_attached_cannot_be_taken_back() {
    let (mut output, _pool) = output(1 << 20);
    let mark = output.mark();
    output.attach(value(10).0);
    output.rewind(mark);
}

#[test]
fn room_is_in_one_piece_and_only_what_is_committed_counts() {
    let (mut output, pool) = output(1 << 20);
    output.put(&[b'a'; 2000]);
    let room = output.room(500);
    assert!(room.len() >= 500);
    room[..3].copy_from_slice(b"bcd");
    assert_eq!(output.len(), 2000);
    output.commit(3);
    assert_eq!(output.len(), 2003);
    let sent = output.launch().take_bytes();
    assert_eq!((sent.len(), &sent[1999..]), (2003, &b"abcd"[..]));
    output.landed(Chain::default());
    output.room(10);
    assert_eq!(pool.stats().used_bytes, 4096, "as two buffers were needed before");
    output.settle();
    assert_eq!(pool.stats().used_bytes, 0, "room that was not used is given back");
}

#[test]
fn large_puts_are_cut_to_buffers() {
    let (mut output, _pool) = output(8 << 20);
    let bytes: Vec<u8> = (0..BUFFER_BYTES_MAX * 2 + 5).map(|i| (i % 253) as u8).collect();
    output.put(&bytes);
    assert_eq!(output.launch().take_bytes(), bytes);
}

#[test]
fn a_bound_of_buffers_and_one_of_external_memory() {
    let (mut output, pool) = output(8 << 20);
    let mut lines = 0;
    while output.has_room() {
        output.put(&[0; 1024]);
        lines += 1;
    }
    assert!((48..=OUTPUT_BYTES_HIGH / 1024).contains(&lines), "{lines}");
    assert!(pool.stats().used_bytes <= OUTPUT_BYTES_HIGH, "{:?}", pool.stats());
    output.put(&[0; OUTPUT_UNIT_BYTES_MAX]);
    assert!(pool.stats().used_bytes <= OUTPUT_BYTES_HIGH + OUTPUT_UNIT_BYTES_MAX);
    // What is on its way counts until it has landed.
    let mut chain = output.launch();
    assert!(!output.has_room());
    drop(chain.take_bytes());
    output.landed(chain);
    assert!(output.has_room());

    let (huge, _) = value(EXTERNAL_BYTES_HIGH - 1);
    output.attach(huge);
    assert!(output.has_room());
    output.attach(value(1).0);
    assert!(!output.has_room());
    drop(output.launch().take_bytes());
    output.landed(Chain::default());
    for _ in 1..EXTERNALS_HIGH {
        output.attach(value(1).0);
    }
    assert!(output.has_room());
    output.attach(value(1).0);
    assert!(!output.has_room());
}

#[test]
fn without_common_memory_a_connection_writes_one_unit_at_a_time() {
    let (mut output, pool) = output(16 << 10);
    let _hog = pool.take_always(Class::fixed(16 << 10), Share::Common);
    for unit in [&b"a line"[..], &[b'v'; 4500], &[b'w'; OUTPUT_UNIT_BYTES_MAX]] {
        assert!(output.has_room(), "nothing waits");
        output.put(unit);
        assert!(!output.has_room());
        let stats = pool.stats();
        assert_eq!(stats.common_bytes, 16 << 10);
        assert!(stats.used_bytes <= (16 << 10) + OUTPUT_UNIT_BYTES_MAX, "{stats:?}");
        let mut chain = output.launch();
        assert!(!output.has_room(), "it is on its way");
        assert_eq!(chain.take_bytes(), unit);
        output.landed(chain);
    }
    // A unit in pieces that do not fit is finished all the same.
    output.put(&[b'x'; 3000]);
    output.put(&[b'y'; 5000]);
    assert_eq!(output.launch().take_bytes().len(), 8000);
}

#[test]
fn greedy_connections_leave_something_for_others() {
    let pool = Pool::new(1 << 20);
    let mut outputs: Vec<Output<Value>> = (0..500).map(|_| Output::new(pool.clone())).collect();
    for output in &mut outputs {
        while output.has_room() {
            output.put(&[0; 1024]);
        }
    }
    let stats = pool.stats();
    assert!(stats.common_bytes <= 1000 << 10, "{stats:?}");
    assert!(stats.used_bytes <= stats.common_bytes + 500 * OUTPUT_UNIT_BYTES_MAX, "{stats:?}");
    assert!(outputs[0].len() > 32 << 10, "the first had more");
    assert!(outputs[499].len() >= 1024, "the last had something");
}

#[test]
fn a_steady_load_does_not_allocate() {
    let (mut output, pool) = output(1 << 20);
    let mut round = |count: usize| {
        (0..count).for_each(|_| output.put(&[0; 512]));
        let mut chain = output.launch();
        chain.advance(chain.len());
        output.landed(chain);
    };
    (0..4).for_each(|_| round(16));
    let warm = pool.stats().allocations;
    (0..100).for_each(|_| round(16));
    assert_eq!(pool.stats().allocations, warm);
    // Replies of 8 KiB come to be written into one buffer.
    assert_eq!(pool.stats().used_bytes_max, 16 << 10);
}
