//! What is sent stays where it is, against a kernel that reads it late.
#![expect(unsafe_code, reason = "reads as the kernel does")]

use super::{Flights, Span};
use crate::{
    output::{Chain, External, Gather, Output},
    pool::Pool,
};
use std::{cell::Cell, rc::Rc};

/// A value that knows how many are alive.
struct Value(Vec<u8>, Rc<Cell<usize>>);

impl External for Value {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn gather<'a>(&'a self, skip: usize, to: &mut Gather<'a, '_>) {
        to.push(&self.0[skip..]);
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.1.set(self.1.get() - 1);
    }
}

fn value(bytes: &[u8], alive: &Rc<Cell<usize>>) -> Chain<Value> {
    alive.set(alive.get() + 1);
    let mut output = Output::new(Pool::new(1 << 20));
    output.attach(Value(bytes.to_vec(), Rc::clone(alive)));
    output.launch()
}

/// What a kernel would read.
fn read(span: Span) -> Vec<u8> {
    // SAFETY: the chain is under way.
    unsafe { std::slice::from_raw_parts(span.start, span.len as usize) }.to_vec()
}

#[test]
fn miri_chains_under_way_stay_where_they_are() {
    let alive = Rc::default();
    let pool = Pool::new(1 << 20);
    let mut flights = Flights::new();
    let mut output = Output::new(pool.clone());
    output.put(b"buffered");
    let first = flights.launch(0, output.launch());
    let spans: Vec<Span> =
        (1..20).map(|slot| flights.launch(slot, value(&[slot as u8; 9], &alive))).collect();
    output.put(b"more");
    assert_eq!((read(first), alive.get()), (b"buffered".to_vec(), 19));
    for (slot, span) in (1..).zip(spans) {
        assert_eq!(read(span), [slot as u8; 9]);
        let mut chain = flights.land(slot);
        chain.advance(4);
        // The rest of it, as after a partial send.
        let rest = flights.launch(slot, chain);
        assert_eq!(read(rest), [slot as u8; 5]);
        drop(flights.land(slot));
        assert_eq!(alive.get(), 19 - slot as usize);
    }
    drop(flights.land(0));
    drop(output);
    drop(flights);
    assert_eq!(pool.stats().used_bytes, 0);
}

#[test]
fn what_never_lands_is_not_freed() {
    let alive = Rc::default();
    let mut flights = Flights::new();
    flights.launch(3, value(b"read for ever", &alive));
    drop(flights);
    assert_eq!(alive.get(), 1);
}

#[test]
#[should_panic(expected = "one send at a time")]
fn a_slot_launches_once() {
    let alive = Rc::default();
    let mut flights = Flights::new();
    flights.launch(0, value(b"a", &alive));
    flights.launch(0, value(b"b", &alive));
}
