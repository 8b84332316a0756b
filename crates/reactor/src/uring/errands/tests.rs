//! What is read and written stays where it is, against a kernel that does so late.
#![expect(unsafe_code, reason = "reads and writes as the kernel does")]

use std::{num::NonZeroU32, os::fd::OwnedFd, sync::Arc};

use base::aligned::{Buffer, Rack};
use rustix::io::Errno;

use super::{Errands, Span};
use crate::files::{Errand, FileId, Operation};

const BYTES: usize = 8192;
const DEPTH: usize = 6;

fn rack() -> Rack {
    Rack { number: NonZeroU32::MIN, head_bytes: 4096, tail_bytes: 64 }
}

fn fd() -> Arc<OwnedFd> {
    Arc::new(std::fs::File::open("/dev/null").expect("it is there").into())
}

fn read(token: u64, buffer: Buffer) -> Errand {
    let file = FileId::NONE;
    Errand::new(token, Operation::Read { file, offset: 4096, buffer, bytes: BYTES }, fd())
}

fn write(token: u64, buffer: &Arc<Buffer>, from: usize) -> Errand {
    let (file, buffer) = (FileId::NONE, Arc::clone(buffer));
    let bytes = BYTES - from;
    Errand::new(token, Operation::Write { file, offset: 0, buffer, from, bytes }, fd())
}

/// A kernel reads `bytes` of a file into memory.
fn fill(span: Span, bytes: &[u8]) {
    let Span::Read { start, len, .. } = span else { panic!("{span:?}") };
    assert!(bytes.len() <= len as usize);
    // SAFETY: the errand is under way.
    unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

#[test]
fn miri_buffers_under_way_stay_where_they_are() {
    let mut errands = Errands::new();
    errands.grow(1);
    let first = errands.begin(read(0, Buffer::new(BYTES)), None);
    let early = errands.span(first).0;
    errands.grow(DEPTH);
    let shared = Arc::new(Buffer::new(BYTES));
    let slots: Vec<u32> = (1..DEPTH as u64)
        .map(|token| match token % 2 {
            0 => errands.begin(read(token, Buffer::of_rack(rack(), 7, BYTES)), Some(3)),
            _ => errands.begin(write(token, &shared, 4096), None),
        })
        .collect();
    let spans: Vec<Span> = slots.iter().map(|slot| errands.span(*slot).0).collect();
    fill(early, &[1; 4096]);
    for (slot, span) in slots.iter().zip(spans) {
        match span {
            Span::Read { .. } => fill(span, &[*slot as u8; BYTES]),
            Span::Write { start, len, .. } => {
                // SAFETY: the errand is under way.
                let part = unsafe { std::slice::from_raw_parts(start, len as usize) };
                assert_eq!(part, &shared.as_slice()[4096..]);
            }
            Span::Flush { .. } => panic!("{span:?}"),
        }
        let (ended, result) = errands.hear(*slot, Ok(span_bytes(span))).expect("all of it");
        assert_eq!(result.expect("no failure"), span_bytes(span));
        if let Some(buffer) = ended.errand.end(Ok(0)).buffer {
            assert_eq!(buffer.as_slice(), [*slot as u8; BYTES]);
        }
    }
    // The rest of the first, as after a short read.
    assert!(errands.hear(first, Ok(4096)).is_none());
    fill(errands.span(first).0, &[2; 4096]);
    let (ended, _) = errands.hear(first, Ok(4096)).expect("all of it");
    let buffer = ended.errand.end(Ok(BYTES)).buffer.expect("it was read into");
    assert_eq!(
        (&buffer.as_slice()[..4096], &buffer.as_slice()[4096..]),
        (&[1; 4096][..], &[2; 4096][..])
    );
    assert_eq!(errands.free.len(), DEPTH);
}

fn span_bytes(span: Span) -> usize {
    match span {
        Span::Read { len, .. } | Span::Write { len, .. } => len as usize,
        Span::Flush { .. } => 0,
    }
}

#[test]
fn only_buffers_of_the_registered_rack_go_by_their_numbers() {
    let mut errands = Errands::new();
    errands.grow(4);
    let other = Rack { number: NonZeroU32::new(2).expect("it is not 0"), ..rack() };
    let buffers = [
        Buffer::of_rack(rack(), 7, BYTES),
        Buffer::of_rack(other, 7, BYTES),
        Buffer::of_pool(7, BYTES),
        Buffer::new(BYTES),
    ];
    let slots = buffers.map(|buffer| errands.begin(read(0, buffer), None));
    let numbers = |errands: &mut Errands| {
        slots.map(|slot| match errands.span(slot).0 {
            Span::Read { number, .. } => number,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(numbers(&mut errands), [None; 4], "none is registered");
    errands.registered = Some(rack());
    assert_eq!(numbers(&mut errands), [Some(7), None, None, None]);
    slots.iter().for_each(|slot| drop(errands.land(*slot)));
}

#[test]
fn what_never_ends_is_not_freed() {
    let shared = Arc::new(Buffer::new(BYTES));
    let mut errands = Errands::new();
    errands.grow(2);
    let slot = errands.begin(write(1, &shared, 0), None);
    assert!(errands.hear(slot, Err(Errno::INTR)).is_none(), "it is begun anew");
    drop(errands);
    assert_eq!(Arc::strong_count(&shared), 2);
}
