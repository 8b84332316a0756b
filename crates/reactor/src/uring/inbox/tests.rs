//! The ownership of chunks, against a kernel that fills them as the real one does.
#![expect(unsafe_code, reason = "fills chunks as the kernel does")]

use super::{ENTRY_BYTES, Held, Inbox, LENGTH_AT, NUMBER_AT, TAIL_AT};
use std::sync::atomic::{AtomicU16, Ordering};

/// Reads entries and fills chunks, from nothing but the ring's address.
struct Kernel {
    ring: *mut u8,
    mask: u16,
    head: u16,
}

impl Kernel {
    fn new(inbox: &Inbox) -> Self {
        let ring = std::ptr::with_exposed_provenance_mut(inbox.address() as usize);
        Self { ring, mask: inbox.chunks() - 1, head: 0 }
    }

    /// Receives `bytes` into the next chunk; its number, or none if there is no chunk.
    fn receive(&mut self, bytes: &[u8]) -> Option<u16> {
        // SAFETY: the inbox lives as long as the test's kernel is used, and lays it out so.
        unsafe {
            let tail = AtomicU16::from_ptr(self.ring.add(TAIL_AT).cast());
            if tail.load(Ordering::Acquire) == self.head {
                return None;
            }
            let entry = self.ring.add(usize::from(self.head & self.mask) * ENTRY_BYTES);
            self.head = self.head.wrapping_add(1);
            let chunk = entry.cast::<u64>().read() as usize;
            assert!(bytes.len() <= entry.add(LENGTH_AT).cast::<u32>().read() as usize);
            let chunk: *mut u8 = std::ptr::with_exposed_provenance_mut(chunk);
            chunk.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            Some(entry.add(NUMBER_AT).cast::<u16>().read())
        }
    }
}

fn receive(inbox: &mut Inbox, kernel: &mut Kernel, bytes: &[u8]) -> Held {
    let number = kernel.receive(bytes).expect("a chunk is offered");
    inbox.take(number, bytes.len())
}

#[test]
fn miri_chunks_go_to_the_kernel_and_come_back() {
    let mut inbox = Inbox::new(4, 32).expect("memory");
    let mut kernel = Kernel::new(&inbox);
    assert_eq!(inbox.held(), 0);
    // More rounds than the ring has entries, so that it comes round.
    for round in 0..9_u8 {
        let first = receive(&mut inbox, &mut kernel, &[round; 32]);
        let mut second = receive(&mut inbox, &mut kernel, b"ab");
        assert_eq!((inbox.bytes(&first), inbox.bytes(&second)), (&[round; 32][..], &b"ab"[..]));
        second.consume(1);
        assert_eq!((inbox.bytes(&second), second.len(), inbox.held()), (&b"b"[..], 1, 2));
        // While some are held, others are filled.
        inbox.give_back(first);
        inbox.publish();
        let third = receive(&mut inbox, &mut kernel, b"third");
        assert_eq!((inbox.bytes(&second), inbox.bytes(&third)), (&b"b"[..], &b"third"[..]));
        inbox.give_back(second);
        inbox.give_back(third);
        inbox.publish();
        assert_eq!(inbox.held(), 0);
    }
}

#[test]
fn miri_the_kernel_gets_what_is_published_and_no_more() {
    let mut inbox = Inbox::new(2, 8).expect("memory");
    let mut kernel = Kernel::new(&inbox);
    let first = receive(&mut inbox, &mut kernel, b"1");
    let second = receive(&mut inbox, &mut kernel, b"2");
    assert_eq!(kernel.receive(b"3"), None);
    inbox.give_back(second);
    assert_eq!(kernel.receive(b"3"), None, "not published");
    inbox.publish();
    let third = receive(&mut inbox, &mut kernel, b"3");
    assert_eq!((inbox.bytes(&first), inbox.bytes(&third)), (&b"1"[..], &b"3"[..]));
    assert_eq!(kernel.receive(b"4"), None);
}

#[test]
#[should_panic(expected = "cannot have filled")]
fn a_chunk_is_taken_once() {
    let mut inbox = Inbox::new(2, 8).expect("memory");
    let mut kernel = Kernel::new(&inbox);
    let number = kernel.receive(b"1").expect("a chunk");
    let _held = inbox.take(number, 1);
    inbox.take(number, 1);
}

#[test]
#[should_panic(expected = "cannot have filled")]
fn a_chunk_is_not_longer_than_it_is() {
    let mut inbox = Inbox::new(2, 8).expect("memory");
    inbox.take(0, 9);
}
