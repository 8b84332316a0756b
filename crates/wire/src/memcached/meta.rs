//! Keys and flags of the meta commands.
//!
//! All meta commands read the same flags; each uses those that mean something to it. A flag that
//! one command has no use for is accepted, as memcached accepts it.

use super::base64;
use super::expiry::Expiry;
use super::limits::KEY_LEN_MAX;
use super::line::Tokens;

mod read;

pub(super) use read::{arithmetic, debug, keyed, store};

/// Room for a decoded key.
pub type KeyRoom = [u8; KEY_LEN_MAX];

/// The key of a meta command, as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaKey<'a> {
    token: &'a [u8],
    base64: bool,
}

impl<'a> MetaKey<'a> {
    /// The key proper: the token itself, or its bytes decoded into `room` if the command has
    /// flag `b`. It has 1 to [`KEY_LEN_MAX`] bytes.
    #[inline]
    pub fn bytes<'r>(&self, room: &'r mut KeyRoom) -> &'r [u8]
    where
        'a: 'r,
    {
        if !self.base64 {
            return self.token;
        }
        let len = base64::decode(self.token, room).expect("invariant: decoded once by the parser");
        &room[..len]
    }

    /// The key proper, if it is sent as it is.
    #[inline]
    pub fn plain_bytes(&self) -> Option<&'a [u8]> {
        (!self.base64).then_some(self.token)
    }

    /// Whether the key is sent and answered as base64.
    pub fn is_base64(&self) -> bool {
        self.base64
    }

    /// Takes `token` for a key. `None` if flag `b` was given and it is no base64.
    fn checked(token: &'a [u8], base64: bool) -> Option<Self> {
        if base64 {
            base64::decode(token, &mut [0; KEY_LEN_MAX])?;
        }
        Some(Self { token, base64 })
    }

    /// A key that is its token.
    #[inline]
    pub fn plain(token: &'a [u8]) -> Self {
        Self { token, base64: false }
    }

    /// A key in base64; `None` if it is not.
    fn encoded(token: &'a [u8]) -> Option<Self> {
        Self::checked(token, true)
    }
}

/// Letters, as bits: those flags of a command that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagSet(u64);

impl FlagSet {
    /// The set of the ASCII letters in `letters`.
    pub const fn of(letters: &[u8]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < letters.len() {
            bits |= Self::bit(letters[index]);
            index += 1;
        }
        Self(bits)
    }

    /// Whether the ASCII letter `letter` is in the set.
    #[inline]
    pub const fn has(self, letter: u8) -> bool {
        self.0 & Self::bit(letter) != 0
    }

    /// Whether the sets have a flag in common.
    #[inline]
    pub(super) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    fn insert(&mut self, letter: u8) {
        self.0 |= Self::bit(letter);
    }

    /// The bit of a byte; none for what is no letter, so that no two bytes share one.
    const fn bit(letter: u8) -> u64 {
        match letter {
            b'A'..=b'z' => 1 << (letter - b'A'),
            _ => 0,
        }
    }
}

/// Every flag that memcached knows.
const KNOWN: FlagSet = FlagSet::of(b"bcfhklqstuvxCDEFIJLMNOPRT");

/// A meta command: its key and its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// The key.
    pub key: MetaKey<'a>,
    /// Every flag sent.
    pub flags: FlagSet,
    /// `T`: the new expiration time.
    pub expiry: Option<Expiry>,
    /// `N`: create what is missing, with this expiration time.
    pub vivify: Option<Expiry>,
    /// `R`: a record that expires before this is due for renewal.
    pub renew: Option<Expiry>,
    /// `C`: the token that the record must have, or (`mg`) that makes the value unwanted.
    pub compare: Option<u64>,
    /// `E`: the token that a changed record gets.
    pub token: Option<u64>,
    /// `F`: flags of the client, to be stored.
    pub client_flags: u32,
    /// `D`: by how much `ma` changes the number; 1 if not sent.
    pub delta: u64,
    /// `J`: the number that `ma` starts a missing record with; 0 if not sent.
    pub initial: u64,
    /// `M`, the byte after it.
    mode: Option<u8>,
    /// The flags as sent, in their order.
    tokens: &'a [u8],
}

impl<'a> Meta<'a> {
    /// `q`: send no reply if all is well. Which replies that leaves out,
    /// the methods of [`super::reply::Writer`] know. Errors are always sent.
    #[inline]
    pub fn quiet(&self) -> bool {
        self.flags.has(b'q')
    }

    /// The flags as sent with their arguments, in their order.
    pub fn tokens(&self) -> impl Iterator<Item = &'a [u8]> {
        Tokens::new(self.tokens)
    }
}

/// The modes of `ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// `MS`, and without `M`: always.
    Set,
    /// `ME`: only if absent.
    Add,
    /// `MA`: behind the value present. With [`Meta::vivify`] a missing record is created, with
    /// that expiration time.
    Append,
    /// `MP`: before the value present, else like `MA`.
    Prepend,
    /// `MR`: only if present.
    Replace,
}

#[cfg(test)]
mod tests;
