//! What is answered, and what of it waits to be sent.

use std::collections::VecDeque;

use super::requests::Request;

/// Replies up to this size are copied together, so that one call sends many; longer ones are sent
/// from where they are.
const COPIED_BYTES_MAX: usize = 4096;

/// Replies that may wait for a peer to read them: 16 requests of 1 MiB, which is more than any
/// cell asks for. A peer with more is cut off.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The same bytes for everybody.
#[derive(Debug)]
pub(super) struct Replies {
    get: Vec<u8>,
    stats: Vec<u8>,
}

impl Replies {
    /// Values have `value_bytes`.
    pub(super) fn new(value_bytes: usize) -> Self {
        let mut get = format!("VALUE bare 0 {value_bytes}\r\n").into_bytes();
        get.resize(get.len() + value_bytes, b'b');
        get.extend_from_slice(b"\r\nEND\r\n");
        let stats = format!("STAT pid {}\r\nEND\r\n", std::process::id()).into_bytes();
        Self { get, stats }
    }

    fn to(&self, request: Request) -> &[u8] {
        match request {
            Request::Get => &self.get,
            Request::Set => b"STORED\r\n",
            Request::Stats => &self.stats,
            Request::Version => b"VERSION bare\r\n",
            Request::Unknown => b"ERROR\r\n",
        }
    }
}

/// A peer has too many replies waiting.
#[derive(Debug)]
pub(super) struct Overfull;

/// The replies of one connection that are not sent.
///
/// Invariant: the bytes that [`Outbox::unsent`] returns stay where they are until
/// [`Outbox::advance`] says that they are sent, so the kernel may read them meanwhile.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Being sent.
    first: Option<Part>,
    /// Bytes of it that are sent.
    sent: usize,
    /// Behind it.
    waiting: VecDeque<Part>,
    waiting_bytes: usize,
    /// An empty buffer with room.
    spare: Vec<u8>,
}

#[derive(Debug)]
enum Part {
    /// Short replies, one behind the other.
    Copied(Vec<u8>),
    /// One long reply to this request.
    Shared(Request),
}

impl Outbox {
    /// Appends the reply to a request.
    ///
    /// # Errors
    /// [`Overfull`].
    pub(super) fn add(&mut self, replies: &Replies, request: Request) -> Result<(), Overfull> {
        let reply = replies.to(request);
        self.waiting_bytes += reply.len();
        if self.waiting_bytes > WAITING_BYTES_MAX {
            return Err(Overfull);
        }
        if reply.len() > COPIED_BYTES_MAX {
            self.waiting.push_back(Part::Shared(request));
        } else if let Some(Part::Copied(bytes)) = self.waiting.back_mut() {
            bytes.extend_from_slice(reply);
        } else {
            let mut bytes = std::mem::take(&mut self.spare);
            bytes.extend_from_slice(reply);
            self.waiting.push_back(Part::Copied(bytes));
        }
        Ok(())
    }

    /// What is to be sent next; empty if nothing is.
    pub(super) fn unsent<'a>(&'a mut self, replies: &'a Replies) -> &'a [u8] {
        if self.first.is_none() {
            self.first = self.waiting.pop_front();
        }
        match &self.first {
            Some(Part::Copied(bytes)) => &bytes[self.sent..],
            Some(Part::Shared(request)) => &replies.to(*request)[self.sent..],
            None => &[],
        }
    }

    /// Notes that `count` of these bytes are sent.
    pub(super) fn advance(&mut self, replies: &Replies, count: usize) {
        self.sent += count;
        self.waiting_bytes -= count;
        if !self.unsent(replies).is_empty() {
            return;
        }
        self.sent = 0;
        if let Some(Part::Copied(mut bytes)) = self.first.take() {
            bytes.clear();
            self.spare = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COPIED_BYTES_MAX, Outbox, Overfull, Replies, Request, WAITING_BYTES_MAX};

    /// Sends what there is in pieces of `size` while more is added.
    fn sent(replies: &Replies, requests: &[Request], size: usize) -> Vec<u8> {
        let (mut outbox, mut sent) = (Outbox::default(), Vec::new());
        let mut requests = requests.iter();
        loop {
            if let Some(request) = requests.next() {
                outbox.add(replies, *request).expect("there is room");
            }
            let unsent = outbox.unsent(replies);
            if unsent.is_empty() {
                return sent;
            }
            let count = unsent.len().min(size);
            sent.extend_from_slice(&unsent[..count]);
            outbox.advance(replies, count);
        }
    }

    #[test]
    fn replies_keep_their_order() {
        use Request::{Get, Set, Stats, Unknown, Version};
        let requests = [Get, Get, Set, Get, Stats, Set, Unknown, Version, Get];
        for value_bytes in [0, 32, COPIED_BYTES_MAX] {
            let replies = Replies::new(value_bytes);
            let value = "b".repeat(value_bytes);
            let get = format!("VALUE bare 0 {value_bytes}\r\n{value}\r\nEND\r\n");
            let stats = format!("STAT pid {}\r\nEND\r\n", std::process::id());
            let expected =
                format!("{get}{get}STORED\r\n{get}{stats}STORED\r\nERROR\r\nVERSION bare\r\n{get}");
            for size in [1, 7, 100, 100_000] {
                let sent = sent(&replies, &requests, size);
                assert_eq!(String::from_utf8_lossy(&sent), expected, "{value_bytes}, {size}");
            }
        }
    }

    #[test]
    fn short_replies_go_together_and_long_ones_alone() {
        let count = |value_bytes: usize| {
            let (replies, mut outbox) = (Replies::new(value_bytes), Outbox::default());
            (0..3).for_each(|_| outbox.add(&replies, Request::Get).expect("there is room"));
            outbox.unsent(&replies).len() / replies.get.len()
        };
        assert_eq!((count(1024), count(COPIED_BYTES_MAX)), (3, 1));
    }

    #[test]
    fn what_waits_has_a_limit() {
        let (replies, mut outbox) = (Replies::new(1 << 20), Outbox::default());
        let fit = WAITING_BYTES_MAX / replies.get.len();
        (0..fit).for_each(|_| outbox.add(&replies, Request::Get).expect("there is room"));
        assert!(matches!(outbox.add(&replies, Request::Get), Err(Overfull)));
    }
}
