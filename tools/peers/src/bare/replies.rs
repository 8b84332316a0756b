//! What is answered, and what of it waits to be sent.

use std::{collections::VecDeque, hint, io};

use memmap2::{Advice, MmapMut};

use super::requests::{Read, Request, Requests};

/// Replies up to this size are copied together, so that one call sends many; longer ones are sent
/// from where they are.
const COPIED_BYTES_MAX: usize = 4096;

/// Replies that may wait for a peer to read them: 16 requests of 1 MiB, which is more than any
/// cell asks for. A peer with more is cut off.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// What values are made of before they are set.
const FILLING: u8 = b'b';

/// What the processor loads at once.
const LINE_BYTES: usize = 64;

/// A value for each key, in the reply to who gets it. Nothing says which keys were set: all are
/// there.
#[derive(Debug)]
pub(super) struct Replies {
    /// Reply behind reply, on huge pages.
    gets: MmapMut,
    get_bytes: usize,
    value_at: usize,
    value_bytes: usize,
    keys: u64,
    stats: Vec<u8>,
}

impl Replies {
    /// The values of `keys` keys have `value_bytes`.
    ///
    /// # Errors
    /// When there is not as much memory.
    pub(super) fn new(value_bytes: usize, keys: u32) -> io::Result<Self> {
        let mut get = format!("VALUE bare 0 {value_bytes}\r\n").into_bytes();
        let value_at = get.len();
        get.resize(get.len() + value_bytes, FILLING);
        get.extend_from_slice(b"\r\nEND\r\n");
        let mut gets = MmapMut::map_anon(get.len() * keys as usize)?;
        // A kernel without huge pages refuses; small ones do as well, only slower.
        let _ = gets.advise(Advice::HugePage);
        gets.chunks_exact_mut(get.len()).for_each(|place| place.copy_from_slice(&get));
        let stats = format!("STAT pid {}\r\nEND\r\n", std::process::id()).into_bytes();
        let (get_bytes, keys) = (get.len(), keys.into());
        Ok(Self { gets, get_bytes, value_at, value_bytes, keys, stats })
    }

    pub(super) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    fn to(&self, request: Request) -> &[u8] {
        match request {
            Request::Get(key) => &self.gets[self.place(key)..][..self.get_bytes],
            Request::Set => b"STORED\r\n",
            Request::Stats => &self.stats,
            Request::Version => b"VERSION bare\r\n",
            Request::Unknown => b"ERROR\r\n",
        }
    }

    fn place(&self, key: u64) -> usize {
        (key % self.keys) as usize * self.get_bytes
    }

    /// Reads `bytes` of a peer's requests, stores what is set and adds replies to `outbox`.
    ///
    /// First all requests and then all replies: so one's miss of memory does not wait for the
    /// other's.
    ///
    /// # Errors
    /// [`Refused`] when a line does not end, or too much waits.
    pub(super) fn answer(
        &mut self,
        requests: &mut Requests,
        bytes: &[u8],
        outbox: &mut Outbox,
    ) -> Result<(), Refused> {
        let mut asked = std::mem::take(&mut outbox.asked);
        let taken = requests.take(bytes, |read| match read {
            Read::Request(request) => {
                self.load(request);
                asked.push(request);
            }
            Read::Data { key, at, bytes } => self.store(key, at, bytes),
        });
        let added = asked.drain(..).try_for_each(|request| outbox.add(self, request));
        outbox.asked = asked;
        if taken.is_err() || added.is_err() { Err(Refused) } else { Ok(()) }
    }

    /// Has the processor load a reply that is going to be copied.
    fn load(&self, request: Request) {
        let reply = self.to(request);
        if reply.len() <= COPIED_BYTES_MAX {
            let lines = reply.iter().step_by(LINE_BYTES);
            hint::black_box(lines.fold(0, |all, byte| all | byte));
        }
    }

    /// Stores data of a set. Nothing that is being sent is changed but what the key's own reply
    /// says.
    fn store(&mut self, key: u64, at: usize, bytes: &[u8]) {
        let value_at = self.place(key) + self.value_at;
        let value = &mut self.gets[value_at..][..self.value_bytes];
        // Of a value that is longer than all, its start.
        if let Some(room) = value.get_mut(at..) {
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
        }
    }
}

/// A peer that is to be cut off.
#[derive(Debug)]
pub(super) struct Refused;

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
    /// Empty between two calls.
    asked: Vec<Request>,
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
    use super::{
        COPIED_BYTES_MAX, Outbox, Overfull, Replies, Request, Requests, WAITING_BYTES_MAX,
    };

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
        let get = Get(7);
        let requests = [get, get, Set, get, Stats, Set, Unknown, Version, get];
        for value_bytes in [0, 32, COPIED_BYTES_MAX] {
            let replies = Replies::new(value_bytes, 1).expect("memory");
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
            let (replies, mut outbox) =
                (Replies::new(value_bytes, 1).expect("memory"), Outbox::default());
            (0..3).for_each(|_| outbox.add(&replies, Request::Get(0)).expect("there is room"));
            outbox.unsent(&replies).len() / replies.get_bytes
        };
        assert_eq!((count(1024), count(COPIED_BYTES_MAX)), (3, 1));
    }

    #[test]
    fn what_is_set_is_got_and_nothing_beside_it() {
        let mut replies = Replies::new(4, 3).expect("memory");
        let (mut requests, mut outbox) = (Requests::default(), Outbox::default());
        let asked = b"set k1 0 0 4\r\nabcd\r\nset k5 0 0 9\r\nlongerone\r\nset k3 0 0 1\r\nx\r\n\
            get k0\r\nget k1\r\nget k2\r\n";
        for piece in asked.chunks(5) {
            replies.answer(&mut requests, piece, &mut outbox).expect("all makes sense");
        }
        let reply = |value: &str| format!("VALUE bare 0 4\r\n{value}\r\nEND\r\n");
        let gets = [reply("xbbb"), reply("abcd"), reply("long")].concat();
        let expected = format!("STORED\r\nSTORED\r\nSTORED\r\n{gets}");
        assert_eq!(String::from_utf8_lossy(outbox.unsent(&replies)), expected);
    }

    #[test]
    fn what_waits_has_a_limit() {
        let (replies, mut outbox) = (Replies::new(1 << 20, 1).expect("memory"), Outbox::default());
        let fit = WAITING_BYTES_MAX / replies.get_bytes;
        (0..fit).for_each(|_| outbox.add(&replies, Request::Get(0)).expect("there is room"));
        assert!(matches!(outbox.add(&replies, Request::Get(0)), Err(Overfull)));
    }
}
