//! What of the replies of a connection waits to be sent.

use std::collections::VecDeque;

/// Replies that may wait for a peer to read them: 16 requests of 1 MiB, which is more than any
/// cell asks for. A peer with more is cut off.
pub(super) const WAITING_BYTES_MAX: usize = 16 << 20;

/// A peer has too many replies waiting.
#[derive(Debug)]
pub(super) struct Overfull;

/// The replies of one connection that are not sent. `L` names a long one, which lies elsewhere.
///
/// Invariant: the bytes that [`Outbox::unsent`] returns stay where they are until
/// [`Outbox::advance`] says that they are sent, so the kernel may read them meanwhile.
#[derive(Debug)]
pub(super) struct Outbox<L> {
    /// Being sent.
    first: Option<Part<L>>,
    /// Bytes of it that are sent.
    sent: usize,
    /// Behind it.
    waiting: VecDeque<Part<L>>,
    waiting_bytes: usize,
    /// An empty buffer with room.
    spare: Vec<u8>,
}

#[derive(Debug)]
enum Part<L> {
    /// Short replies, one behind the other.
    Copied(Vec<u8>),
    /// A long one, and its bytes.
    Long(L, usize),
}

impl<L> Default for Outbox<L> {
    fn default() -> Self {
        let (first, waiting, spare) = (None, VecDeque::new(), Vec::new());
        Self { first, sent: 0, waiting, waiting_bytes: 0, spare }
    }
}

impl<L: Copy> Outbox<L> {
    /// Appends a short reply.
    ///
    /// # Errors
    /// [`Overfull`].
    pub(super) fn copy(&mut self, reply: &[u8]) -> Result<(), Overfull> {
        self.count(reply.len())?;
        if let Some(Part::Copied(bytes)) = self.waiting.back_mut() {
            bytes.extend_from_slice(reply);
        } else {
            let mut bytes = std::mem::take(&mut self.spare);
            bytes.extend_from_slice(reply);
            self.waiting.push_back(Part::Copied(bytes));
        }
        Ok(())
    }

    /// Appends a long reply of `bytes`.
    ///
    /// # Errors
    /// [`Overfull`].
    pub(super) fn refer(&mut self, long: L, bytes: usize) -> Result<(), Overfull> {
        self.count(bytes)?;
        self.waiting.push_back(Part::Long(long, bytes));
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), Overfull> {
        self.waiting_bytes += bytes;
        if self.waiting_bytes > WAITING_BYTES_MAX { Err(Overfull) } else { Ok(()) }
    }

    /// What is to be sent next; empty if nothing is, or if `long` has nothing yet of a reply.
    pub(super) fn unsent<'a>(&'a mut self, long: impl FnOnce(L) -> &'a [u8]) -> &'a [u8] {
        if self.first.is_none() {
            self.first = self.waiting.pop_front();
        }
        let bytes = match &self.first {
            Some(Part::Copied(bytes)) => bytes,
            Some(Part::Long(name, _)) => long(*name),
            None => &[],
        };
        bytes.get(self.sent..).unwrap_or_default()
    }

    /// Notes that `count` of these bytes are sent. Returns the long reply of which they were the
    /// last ones.
    pub(super) fn advance(&mut self, count: usize) -> Option<L> {
        self.sent += count;
        self.waiting_bytes -= count;
        let bytes = match &self.first {
            Some(Part::Copied(bytes)) => bytes.len(),
            Some(Part::Long(_, bytes)) => *bytes,
            None => 0,
        };
        if self.sent < bytes {
            return None;
        }
        self.sent = 0;
        match self.first.take()? {
            Part::Copied(mut bytes) => {
                bytes.clear();
                self.spare = bytes;
                None
            }
            Part::Long(long, _) => Some(long),
        }
    }

    /// The long replies that are not sent to their end.
    pub(super) fn longs(&self) -> impl Iterator<Item = L> {
        self.first.iter().chain(&self.waiting).filter_map(|part| match part {
            Part::Copied(_) => None,
            Part::Long(long, _) => Some(*long),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Outbox, Overfull, WAITING_BYTES_MAX};

    #[test]
    fn a_long_reply_that_is_not_there_holds_up_what_is_behind_it() {
        let mut outbox = Outbox::default();
        outbox.copy(b"one").expect("there is room");
        outbox.refer(7, 4).expect("there is room");
        outbox.copy(b"two").expect("there is room");
        assert_eq!(outbox.unsent(|_| b""), b"one");
        assert_eq!(outbox.advance(3), None);
        assert_eq!(outbox.unsent(|_| b""), b"");
        assert_eq!(outbox.unsent(|name: u32| if name == 7 { b"long" } else { b"" }), b"long");
        assert_eq!(outbox.advance(1), None);
        assert_eq!(outbox.unsent(|_| b"long"), b"ong");
        assert_eq!(outbox.longs().collect::<Vec<_>>(), [7]);
        assert_eq!(outbox.advance(3), Some(7));
        assert_eq!(outbox.unsent(|_| b""), b"two");
        assert_eq!((outbox.advance(3), outbox.longs().count()), (None, 0));
        assert_eq!(outbox.unsent(|_| b""), b"");
    }

    #[test]
    fn what_waits_has_a_limit() {
        let mut outbox = Outbox::default();
        outbox.refer(0, WAITING_BYTES_MAX).expect("there is room");
        assert!(matches!(outbox.copy(b"x"), Err(Overfull)));
    }
}
