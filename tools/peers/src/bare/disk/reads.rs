//! Gets that wait for a buffer, are being read, or are read. Pure.

use std::collections::VecDeque;

use super::layout::Span;

/// Reads under way and replies being sent, at most: four times what a cell asks for.
pub(super) const READS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody's.
    Free,
    /// For a buffer.
    Waiting,
    Reading(u32),
    Read(u32),
}

#[derive(Clone, Copy, Debug)]
struct Get {
    slot: u32,
    span: Span,
    stage: Stage,
    /// Somebody waits for the reply.
    is_wanted: bool,
}

/// All gets, by their numbers.
#[derive(Debug)]
pub(super) struct Reads {
    gets: Vec<Get>,
    free: Vec<u32>,
    /// In the order of their requests: of one connection, who has a buffer is before who has none,
    /// so that what has all buffers can be sent.
    waiting: VecDeque<u32>,
    buffers: Vec<u32>,
}

impl Default for Reads {
    fn default() -> Self {
        let buffers = (0..READS as u32).rev().collect();
        Self { gets: Vec::new(), free: Vec::new(), waiting: VecDeque::new(), buffers }
    }
}

impl Reads {
    /// Notes that the peer in `slot` wants what lies on `span`.
    pub(super) fn ask(&mut self, slot: u32, span: Span) -> u32 {
        let get = Get { slot, span, stage: Stage::Waiting, is_wanted: true };
        let number = if let Some(number) = self.free.pop() {
            self.gets[number as usize] = get;
            number
        } else {
            self.gets.push(get);
            (self.gets.len() - 1) as u32
        };
        self.waiting.push_back(number);
        number
    }

    /// Whether all buffers are taken, and more are wanted.
    pub(super) fn are_waiting(&self) -> bool {
        self.buffers.is_empty() && !self.waiting.is_empty()
    }

    /// A get that has a buffer now, its buffer, and what is to be read there.
    pub(super) fn begin(&mut self) -> Option<(u32, u32, Span)> {
        while let Some(&buffer) = self.buffers.last() {
            let number = self.waiting.pop_front()?;
            let get = &mut self.gets[number as usize];
            if get.is_wanted {
                get.stage = Stage::Reading(buffer);
                let span = get.span;
                self.buffers.pop();
                return Some((number, buffer, span));
            }
            get.stage = Stage::Free;
            self.free.push(number);
        }
        None
    }

    /// The buffer that is read to for a get.
    ///
    /// # Panics
    /// If it has none.
    pub(super) fn buffer(&self, number: u32) -> (u32, Span) {
        let Get { stage, span, .. } = self.gets[number as usize];
        let Stage::Reading(buffer) = stage else { panic!("{number} is not being read") };
        (buffer, span)
    }

    /// Notes that it is read. Returns the slot of the peer that waits for it.
    pub(super) fn end(&mut self, number: u32) -> Option<u32> {
        let (buffer, _) = self.buffer(number);
        let get = &mut self.gets[number as usize];
        get.stage = Stage::Read(buffer);
        if get.is_wanted {
            return Some(get.slot);
        }
        self.forget(number);
        None
    }

    /// Where a reply lies, once it is read.
    pub(super) fn read(&self, number: u32) -> Option<(u32, Span)> {
        match self.gets[number as usize] {
            Get { stage: Stage::Read(buffer), span, .. } => Some((buffer, span)),
            _ => None,
        }
    }

    /// Notes that nobody wants a reply, or nobody any longer. Its buffer is free as soon as
    /// nothing is read to it.
    pub(super) fn forget(&mut self, number: u32) {
        let get = &mut self.gets[number as usize];
        get.is_wanted = false;
        if let Stage::Read(buffer) = get.stage {
            get.stage = Stage::Free;
            self.buffers.push(buffer);
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{READS, Reads, Span};

    fn span(at: u64) -> Span {
        Span { at, bytes: 8192, value_at: 40 }
    }

    #[test]
    fn gets_have_buffers_in_their_order() {
        let mut reads = Reads::default();
        let all: Vec<u32> =
            (0..READS as u64 + 2).map(|at| reads.ask(at as u32, span(at))).collect();
        assert!(!reads.are_waiting(), "buffers are free");
        let mut buffers: Vec<u32> = std::iter::from_fn(|| reads.begin())
            .zip(&all)
            .map(|((get, buffer, span), asked)| {
                assert_eq!((get, span.at), (*asked, u64::from(*asked)));
                buffer
            })
            .collect();
        assert!(reads.are_waiting());
        buffers.sort_unstable();
        assert_eq!(buffers, (0..READS as u32).collect::<Vec<_>>());
        // Nothing is there before it is read, and its buffer is free when it is sent.
        assert_eq!((reads.read(all[5]), reads.end(all[5])), (None, Some(5)));
        let (buffer, _) = reads.read(all[5]).expect("it is read");
        assert_eq!(reads.begin(), None);
        reads.forget(all[5]);
        assert_eq!(reads.begin(), Some((all[READS], buffer, span(READS as u64))));
        assert!(reads.are_waiting());
    }

    #[test]
    fn a_buffer_that_nobody_wants_is_free_when_it_is_read_and_not_before() {
        let mut reads = Reads::default();
        let get = reads.ask(3, span(0));
        let (_, buffer, _) = reads.begin().expect("buffers are free");
        reads.forget(get);
        // Neither its buffer nor its number is given to another one.
        let others: Vec<u32> = (0..READS).map(|_| reads.ask(4, span(1))).collect();
        assert!(!others.contains(&get));
        for _ in 1..READS {
            assert!(reads.begin().is_some_and(|(_, other, _)| other != buffer));
        }
        assert_eq!(reads.begin(), None);
        assert_eq!(reads.end(get), None);
        assert!(reads.begin().is_some_and(|(_, other, _)| other == buffer));
        // One that was forgotten before it had a buffer needs none.
        let late = reads.ask(5, span(2));
        reads.forget(late);
        reads.end(others[0]);
        reads.forget(others[0]);
        assert_eq!((reads.begin(), reads.are_waiting()), (None, false));
    }
}
