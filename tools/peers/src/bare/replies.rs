//! What is answered from memory.

use std::{hint, io};

use memmap2::{Advice, MmapMut};

use super::{
    Answers, FILLING, Refused,
    outbox::{Outbox, Overfull},
    requests::{Read, Request, Requests},
};

/// Replies up to this size are copied together, so that one call sends many; longer ones are sent
/// from where they are.
const COPIED_BYTES_MAX: usize = 4096;

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
    /// Empty between two calls.
    asked: Vec<Request>,
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
        let (get_bytes, keys, asked) = (get.len(), keys.into(), Vec::new());
        Ok(Self { gets, get_bytes, value_at, value_bytes, keys, stats: stats(), asked })
    }

    /// Appends the reply to a request.
    ///
    /// # Errors
    /// [`Overfull`].
    fn reply(&self, request: Request, outbox: &mut Outbox<u64>) -> Result<(), Overfull> {
        match request {
            Request::Get(key) if self.get_bytes > COPIED_BYTES_MAX => {
                outbox.refer(key, self.get_bytes)
            }
            Request::Get(key) => outbox.copy(self.long(key)),
            other => outbox.copy(short(other, &self.stats)),
        }
    }

    fn place(&self, key: u64) -> usize {
        (key % self.keys) as usize * self.get_bytes
    }

    /// Has the processor load a reply that is going to be copied.
    fn load(&self, request: Request) {
        if let Request::Get(key) = request
            && self.get_bytes <= COPIED_BYTES_MAX
        {
            let lines = self.long(key).iter().step_by(LINE_BYTES);
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

impl Answers for Replies {
    /// A key.
    type Long = u64;

    fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// First all requests and then all replies: so one's miss of memory does not wait for the
    /// other's.
    fn answer(
        &mut self,
        _slot: u32,
        requests: &mut Requests,
        bytes: &[u8],
        outbox: &mut Outbox<u64>,
    ) -> Result<(), Refused> {
        let mut asked = std::mem::take(&mut self.asked);
        let taken = requests.take(bytes, |read| match read {
            Read::Request(request) => {
                self.load(request);
                asked.push(request);
            }
            Read::Data { key, at, bytes } => self.store(key, at, bytes),
        });
        let added = asked.drain(..).try_for_each(|request| self.reply(request, outbox));
        self.asked = asked;
        if taken.is_err() || added.is_err() { Err(Refused) } else { Ok(()) }
    }

    fn long(&self, key: u64) -> &[u8] {
        &self.gets[self.place(key)..][..self.get_bytes]
    }
}

/// The answer to what tells the process.
pub(super) fn stats() -> Vec<u8> {
    format!("STAT pid {}\r\nEND\r\n", std::process::id()).into_bytes()
}

/// The answer to anything but a get.
pub(super) fn short(request: Request, stats: &[u8]) -> &[u8] {
    match request {
        Request::Set => b"STORED\r\n",
        Request::Stats => stats,
        Request::Version => b"VERSION bare\r\n",
        Request::Get(_) | Request::Unknown => b"ERROR\r\n",
    }
}

#[cfg(test)]
mod tests {
    use super::{Answers, COPIED_BYTES_MAX, Outbox, Replies, Request, Requests};

    /// Sends what there is in pieces of `size` while more is added.
    fn sent(replies: &Replies, requests: &[Request], size: usize) -> Vec<u8> {
        let (mut outbox, mut sent) = (Outbox::default(), Vec::new());
        let mut requests = requests.iter();
        loop {
            if let Some(request) = requests.next() {
                replies.reply(*request, &mut outbox).expect("there is room");
            }
            let unsent = outbox.unsent(|key| replies.long(key));
            if unsent.is_empty() {
                return sent;
            }
            let count = unsent.len().min(size);
            sent.extend_from_slice(&unsent[..count]);
            outbox.advance(count);
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
            (0..3)
                .for_each(|_| replies.reply(Request::Get(0), &mut outbox).expect("there is room"));
            outbox.unsent(|key| replies.long(key)).len() / replies.get_bytes
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
            replies.answer(0, &mut requests, piece, &mut outbox).expect("all makes sense");
        }
        let reply = |value: &str| format!("VALUE bare 0 4\r\n{value}\r\nEND\r\n");
        let gets = [reply("xbbb"), reply("abcd"), reply("long")].concat();
        let expected = format!("STORED\r\nSTORED\r\nSTORED\r\n{gets}");
        assert_eq!(String::from_utf8_lossy(outbox.unsent(|key| replies.long(key))), expected);
    }
}
