//! When each connection of a thread has to send, in an open loop.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{span::Span, workload::Arrivals};

/// The connections that may send, by when their next request is due; and those that may not, since
/// they have as many under way as they may.
#[derive(Debug)]
pub(super) struct Timetable {
    lines: Vec<Option<Due>>,
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
}

/// A connection's next request.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) index: usize,
    /// Since when it may send: lateness before that is the server's.
    pub(super) free_since_ns: u64,
    is_full: bool,
    arrivals: Arrivals,
}

impl Due {
    pub(super) fn at_ns(&self) -> u64 {
        self.arrivals.due_ns()
    }

    pub(super) fn advance(&mut self) {
        self.arrivals.advance();
    }
}

impl Timetable {
    /// For `count` connections, the first of them number `first` of `all`.
    pub(super) fn new(
        pace: (f64, bool),
        (first, count, all): (u32, u32, u32),
        now_ns: u64,
        seed: u64,
    ) -> Self {
        let mut timetable = Self { lines: Vec::new(), waiting: BinaryHeap::new() };
        for number in 0..count {
            let arrivals = Arrivals::new(pace, (first + number, all), now_ns, seed);
            let index = timetable.lines.len();
            timetable.waiting.push(Reverse((arrivals.due_ns(), index)));
            timetable.lines.push(Some(Due {
                index,
                free_since_ns: now_ns,
                is_full: false,
                arrivals,
            }));
        }
        timetable
    }

    /// When the next request is due on a connection that may send.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// Takes out a connection whose request is due; to be put back.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<Due> {
        if self.due_ns()? > now_ns {
            return None;
        }
        let Reverse((_, index)) = self.waiting.pop()?;
        self.lines[index].take()
    }

    /// Puts a connection back; one that is full waits for [`Timetable::free`].
    pub(super) fn put_back(&mut self, mut due: Due, is_full: bool) {
        due.is_full = is_full;
        if !is_full {
            self.waiting.push(Reverse((due.at_ns(), due.index)));
        }
        let index = due.index;
        self.lines[index] = Some(due);
    }

    /// Lets a connection send again, if it was full.
    pub(super) fn free(&mut self, index: usize, now_ns: u64) {
        let due = self.lines[index].as_mut().expect("invariant: put back");
        if std::mem::take(&mut due.is_full) {
            due.free_since_ns = now_ns;
            self.waiting.push(Reverse((due.at_ns(), index)));
        }
    }

    /// Counts the requests that were due in `span` and never sent.
    pub(super) fn rest(&mut self, span: Span) -> u64 {
        let count = |due: &mut Due| {
            due.arrivals.skip(span.from_ns);
            due.arrivals.skip(span.until_ns)
        };
        self.lines.iter_mut().flatten().map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{Span, Timetable};

    /// A thousand a second over two connections, from 0 on: due at 0, 1, 2, ... ms in turn.
    fn timetable() -> Timetable {
        Timetable::new((1000.0, false), (0, 2, 2), 0, 1)
    }

    #[test]
    fn connections_are_due_in_turn_and_full_ones_are_left_out() {
        let mut timetable = timetable();
        assert_eq!(timetable.due_ns(), Some(0));
        let mut first = timetable.take_due(0).expect("it is due");
        assert!(timetable.take_due(999_999).is_none());
        assert_eq!((first.index, first.at_ns()), (0, 0));
        first.advance();
        timetable.put_back(first, true);
        let second = timetable.take_due(5_000_000).expect("it is due");
        assert_eq!((second.index, second.at_ns()), (1, 1_000_000));
        timetable.put_back(second, false);
        // The first one is due at 2 ms and may not send before it is free.
        assert_eq!(timetable.due_ns(), Some(1_000_000));
        timetable.free(0, 7_000_000);
        timetable.free(0, 8_000_000);
        timetable.free(1, 8_000_000);
        let mut order = Vec::new();
        while let Some(due) = timetable.take_due(9_000_000) {
            order.push((due.index, due.at_ns(), due.free_since_ns));
            timetable.put_back(due, true);
        }
        assert_eq!(order, [(1, 1_000_000, 0), (0, 2_000_000, 7_000_000)]);
    }

    #[test]
    fn what_is_left_in_a_span_is_counted() {
        let mut timetable = timetable();
        let span = Span { from_ns: 10_000_000, until_ns: 25_000_000 };
        assert_eq!(timetable.rest(span), 15);
    }
}
