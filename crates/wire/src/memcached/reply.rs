//! Writing replies that carry facts.
//!
//! The lines without any are in [`super::lines`].

use super::base64;
use super::decimal::{self, U32_LEN_MAX, U64_LEN_MAX};
use super::limits::{KEY_LEN_MAX, OPAQUE_LEN_MAX};
use super::lines::LINE_END;
use super::meta::{FlagSet, Meta, MetaKey};

/// Longest `VALUE` line in bytes: `VALUE <key> <flags> <length> <token>` and its line end.
pub const VALUE_HEADER_BYTES_MAX: usize =
    6 + KEY_LEN_MAX + 2 * (1 + U32_LEN_MAX) + 1 + U64_LEN_MAX + LINE_END.len();

/// Longest meta reply line in bytes: `VA <length>`, the flags `s t l`, `f`, `c`, `h`, the opaque
/// token, the key with ` b`, ` W X Z`, and the line end.
pub const META_LINE_BYTES_MAX: usize = 3
    + U32_LEN_MAX
    + 4 * (2 + U32_LEN_MAX)
    + (2 + U64_LEN_MAX)
    + 3
    + (1 + OPAQUE_LEN_MAX)
    + (2 + base64::ENCODED_LEN_MAX + 2)
    + 3 * 2
    + LINE_END.len();

/// Longest reply of `incr`, `decr` and `ma` in bytes: a line, a number and its line end.
pub const NUMBER_BYTES_MAX: usize = META_LINE_BYTES_MAX + U64_LEN_MAX + LINE_END.len();

/// Longest `ME` line in bytes: the key, and names and numbers of its six facts.
pub const META_DEBUG_BYTES_MAX: usize =
    3 + base64::ENCODED_LEN_MAX + 42 + 3 * U64_LEN_MAX + 2 * U32_LEN_MAX + LINE_END.len();

/// Room that suffices for any single line of this module.
pub const LINE_BYTES_MAX: usize = 512;

const _: () = assert!(VALUE_HEADER_BYTES_MAX <= LINE_BYTES_MAX);
const _: () = assert!(NUMBER_BYTES_MAX <= LINE_BYTES_MAX);
const _: () = assert!(META_DEBUG_BYTES_MAX <= LINE_BYTES_MAX);
const _: () = assert!(super::lines::LINE_LEN_MAX <= LINE_BYTES_MAX);

/// What a reply can tell about a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of the value.
    pub value_len: u32,
    /// Flags of the client.
    pub client_flags: u32,
    /// Token of the record.
    pub token: u64,
    /// Seconds until it expires; `None` for never.
    pub ttl_s: Option<u32>,
    /// The same before the command changed it: what `t` gives back where it stands before `T`. Of
    /// a record that the command created, both are what `t` is to give back.
    pub ttl_before_s: Option<u32>,
    /// Seconds since the last access, this one not counted.
    pub idle_s: u32,
    /// Whether it was ever read, this time not counted.
    pub fetched: bool,
}

/// What `mg` says about the renewal of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// `W`: this client is to renew it.
    pub won: bool,
    /// `X`: it is stale.
    pub stale: bool,
    /// `Z`: another client was told before to renew it.
    pub taken: bool,
}

/// The outcome of a meta command without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `HD`: done.
    Done,
    /// `NS`: a condition did not hold.
    NotStored,
    /// `EX`: another token.
    Exists,
    /// `NF`: no such record.
    NotFound,
}

/// Flags that a reply gives back.
const ANSWERS_HIT: FlagSet = FlagSet::of(b"stcflhOk");
const ANSWERS_STORE: FlagSet = FlagSet::of(b"csOk");
const ANSWERS_NUMBER: FlagSet = FlagSet::of(b"ctOk");
const ANSWERS_MISS: FlagSet = FlagSet::of(b"Ok");

/// Fills a buffer with replies.
///
/// The caller sees to it that the room suffices: see the bounds above.
#[derive(Debug)]
pub struct Writer<'r> {
    room: &'r mut [u8],
    len: usize,
}

impl<'r> Writer<'r> {
    /// A writer that fills `room` from its start.
    #[inline]
    pub fn new(room: &'r mut [u8]) -> Self {
        Self { room, len: 0 }
    }

    /// Bytes written.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Writes `bytes` as they are.
    ///
    /// # Panics
    ///
    /// If the room does not suffice, as every method here.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.room[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Writes a number in decimal.
    #[inline]
    pub fn number(&mut self, number: u64) {
        self.len += decimal::write(number, &mut self.room[self.len..]);
    }

    /// `VALUE <key> <flags> <length> [<token>]`: the head of a record in a text retrieval. The
    /// value and a line end come behind it.
    #[inline(always)]
    pub fn value_header(&mut self, key: &[u8], flags: u32, value_len: u32, token: Option<u64>) {
        self.put(b"VALUE ");
        self.put(key);
        self.put(b" ");
        self.number(flags.into());
        self.put(b" ");
        self.number(value_len.into());
        if let Some(token) = token {
            self.put(b" ");
            self.number(token);
        }
        self.put(LINE_END);
    }

    /// A number on a line of its own: the reply to `incr` and `decr`.
    pub fn number_line(&mut self, number: u64) {
        self.number(number);
        self.put(LINE_END);
    }

    /// The line of a `mg` that found its record. If it returns true the line began `VA`, and the
    /// value and a line end come behind it.
    #[inline]
    pub fn meta_get_hit(&mut self, meta: &Meta<'_>, facts: &Facts, renewal: Renewal) -> bool {
        let with_value = meta.flags.has(b'v') && meta.compare != Some(facts.token);
        if with_value {
            self.put(b"VA ");
            self.number(facts.value_len.into());
        } else {
            self.put(b"HD");
        }
        self.flags(meta, facts, ANSWERS_HIT);
        if renewal.taken {
            self.put(b" Z");
        }
        if renewal.stale {
            self.put(b" X");
        }
        if renewal.won {
            self.put(b" W");
        }
        self.put(LINE_END);
        with_value
    }

    /// The reply to a `mg` that found nothing: none if the client is quiet.
    pub fn meta_get_miss(&mut self, meta: &Meta<'_>) {
        if !meta.quiet() {
            self.put(b"EN");
            self.flags(meta, &Facts::default(), ANSWERS_MISS);
            self.put(LINE_END);
        }
    }

    /// The reply to `ms`: none if all is well and the client is quiet. `facts` are the length of
    /// the value as it is now stored, of the value sent if it is not stored, and the new token,
    /// 0 if there is none.
    pub fn meta_store(&mut self, status: Status, meta: &Meta<'_>, facts: &Facts) {
        self.meta_status(status, meta, facts, ANSWERS_STORE);
    }

    /// The reply to `md`: none if all is well and the client is quiet.
    pub fn meta_delete(&mut self, status: Status, meta: &Meta<'_>) {
        self.meta_status(status, meta, &Facts::default(), ANSWERS_MISS);
    }

    /// The reply to `ma` that changed nothing.
    pub fn meta_arithmetic_failed(&mut self, status: Status, meta: &Meta<'_>) {
        self.meta_status(status, meta, &Facts::default(), ANSWERS_MISS);
    }

    /// The reply to `ma` that made or changed a record: none if the client is quiet.
    pub fn meta_arithmetic(&mut self, meta: &Meta<'_>, number: u64, facts: &Facts) {
        if meta.quiet() {
            return;
        }
        let with_value = meta.flags.has(b'v');
        if with_value {
            self.put(b"VA ");
            self.number(decimal::len(number) as u64);
        } else {
            self.put(b"HD");
        }
        self.flags(meta, facts, ANSWERS_NUMBER);
        self.put(LINE_END);
        if with_value {
            self.number_line(number);
        }
    }

    /// The reply to `me` about a record in slab class `class` that takes `bytes` in all.
    pub fn meta_debug(&mut self, key: &MetaKey<'_>, facts: &Facts, class: u32, bytes: u64) {
        self.put(b"ME ");
        self.key(key);
        self.put(b" exp=");
        self.ttl(facts.ttl_s);
        self.put(b" la=");
        self.number(facts.idle_s.into());
        self.put(b" cas=");
        self.number(facts.token);
        self.put(b" fetch=");
        self.put(if facts.fetched { b"yes" } else { b"no" });
        self.put(b" cls=");
        self.number(class.into());
        self.put(b" size=");
        self.number(bytes);
        self.put(LINE_END);
    }

    fn meta_status(&mut self, status: Status, meta: &Meta<'_>, facts: &Facts, answers: FlagSet) {
        let word = match status {
            Status::Done if meta.quiet() => return,
            Status::Done => b"HD",
            Status::NotStored => b"NS",
            Status::Exists => b"EX",
            Status::NotFound => b"NF",
        };
        self.put(word);
        self.flags(meta, facts, answers);
        self.put(LINE_END);
    }

    /// Gives back those flags of the command that `answers` holds, in the order of the command.
    #[inline]
    fn flags(&mut self, meta: &Meta<'_>, facts: &Facts, answers: FlagSet) {
        if !meta.flags.meets(answers) {
            return;
        }
        let mut ttl_s = facts.ttl_before_s;
        for token in meta.tokens() {
            let flag = token[0];
            if flag == b'T' {
                ttl_s = facts.ttl_s;
            }
            if !answers.has(flag) {
                continue;
            }
            self.put(b" ");
            if flag == b'O' {
                self.put(token);
                continue;
            }
            self.put(&[flag]);
            match flag {
                b's' => self.number(facts.value_len.into()),
                b't' => self.ttl(ttl_s),
                b'c' => self.number(facts.token),
                b'f' => self.number(facts.client_flags.into()),
                b'l' => self.number(facts.idle_s.into()),
                b'h' => self.put(if facts.fetched { b"1" } else { b"0" }),
                b'k' => {
                    self.key(&meta.key);
                    if meta.key.is_base64() {
                        self.put(b" b");
                    }
                }
                _ => {}
            }
        }
    }

    fn ttl(&mut self, ttl_s: Option<u32>) {
        match ttl_s {
            Some(seconds) => self.number(seconds.into()),
            None => self.put(b"-1"),
        }
    }

    fn key(&mut self, key: &MetaKey<'_>) {
        let mut room = [0; KEY_LEN_MAX];
        let bytes = key.bytes(&mut room);
        if key.is_base64() {
            base64::encode(bytes, |group| self.put(group));
        } else {
            self.put(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
