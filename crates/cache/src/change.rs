//! What a writer wants done to a record.

use crate::Meta;

/// Where a record's CAS token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Token {
    /// A fresh one: greater than any that the key has had, and than all that were given out before
    /// the call.
    #[default]
    Fresh,
    /// The one the client says.
    Given(u64),
}

/// A decimal number as text, without heap memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    text: [u8; Self::LEN_MAX],
    len: u8,
}

impl Digits {
    /// Digits of `u64::MAX`.
    pub const LEN_MAX: usize = 20;

    /// Writes `number` left-aligned and pads it with spaces on the right to at least `width`
    /// bytes (at most [`Self::LEN_MAX`]).
    #[must_use]
    pub fn new(number: u64, width: usize) -> Self {
        let mut reversed = [b' '; Self::LEN_MAX];
        let (mut len, mut rest) = (0, number);
        loop {
            reversed[len] = b'0' + u8::try_from(rest % 10).expect("invariant: below 10");
            (len, rest) = (len + 1, rest / 10);
            if rest == 0 {
                break;
            }
        }
        let mut text = [b' '; Self::LEN_MAX];
        for (to, from) in text.iter_mut().zip(reversed[..len].iter().rev()) {
            *to = *from;
        }
        let len = len.max(width.min(Self::LEN_MAX));
        Self { text, len: u8::try_from(len).expect("invariant: at most 20") }
    }

    /// The text.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }
}

/// A new value.
#[derive(Clone, Copy, Debug)]
pub enum Value<'v> {
    /// These bytes, of any length up to `value_size_max`.
    Bytes(&'v [u8]),
    /// The present value and then these bytes. Only for a key that has a record.
    Append(&'v [u8]),
    /// These bytes and then the present value. Only for a key that has a record.
    Prepend(&'v [u8]),
    /// A number.
    Digits(Digits),
    /// The upload that was handed to [`crate::Worker::update_uploaded`].
    Uploaded,
    /// The present value and then the upload. Only for a key that has a record.
    AppendUploaded,
    /// The upload and then the present value. Only for a key that has a record.
    PrependUploaded,
}

/// A whole new record for a key.
#[derive(Clone, Copy, Debug)]
pub struct Put<'v> {
    /// The value.
    pub value: Value<'v>,
    /// Opaque to the store.
    pub client_flags: u32,
    /// Absolute expiry in milliseconds on the cache's clock; 0 is never.
    pub expiry_ms: u64,
    /// The CAS token.
    pub token: Token,
    /// Marks the record stale.
    pub stale: bool,
    /// Says that a client was told to recache.
    pub win_sent: bool,
}

impl<'v> Put<'v> {
    /// A record with this value, no flags, no expiry and a fresh token.
    #[must_use]
    pub fn new(value: Value<'v>) -> Self {
        Self {
            value,
            client_flags: 0,
            expiry_ms: 0,
            token: Token::Fresh,
            stale: false,
            win_sent: false,
        }
    }
}

/// New fields for a record whose value stays; `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit {
    /// Absolute expiry in milliseconds; 0 is never.
    pub expiry_ms: Option<u64>,
    /// The CAS token. A touch leaves it.
    pub token: Option<Token>,
    /// Stale or not.
    pub stale: Option<bool>,
    /// Whether a client was told to recache.
    pub win_sent: Option<bool>,
}

impl Edit {
    /// What a record with these fields becomes, put anew with the value that it has.
    #[must_use]
    pub fn put(&self, meta: &Meta) -> Put<'static> {
        Put {
            value: Value::Append(b""),
            client_flags: meta.client_flags,
            expiry_ms: self.expiry_ms.unwrap_or(meta.expiry_ms),
            token: self.token.unwrap_or(Token::Given(meta.token)),
            stale: self.stale.unwrap_or(meta.stale),
            win_sent: self.win_sent.unwrap_or(meta.win_sent),
        }
    }
}

/// What happens to a record.
#[derive(Clone, Copy, Debug)]
pub enum Change<'v> {
    /// Nothing.
    Keep,
    /// The record goes.
    Remove,
    /// Its fields change, its value stays.
    Edit(Edit),
    /// A whole new record takes its place, or is the key's first.
    Put(Put<'v>),
}

/// A change, and whether looking at the record counts as a hit for replacement.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'v> {
    /// What happens.
    pub change: Change<'v>,
    /// Counts as a hit. With a put: the new value counts as read.
    pub hit: bool,
}

impl<'v> From<Change<'v>> for Decision<'v> {
    fn from(change: Change<'v>) -> Self {
        Self { change, hit: false }
    }
}

#[cfg(test)]
mod tests {
    use super::Digits;

    #[test]
    fn digits_are_left_aligned_and_padded() {
        assert_eq!(Digits::new(0, 0).bytes(), b"0");
        assert_eq!(Digits::new(9, 2).bytes(), b"9 ");
        assert_eq!(Digits::new(100, 2).bytes(), b"100");
        assert_eq!(Digits::new(u64::MAX, 0).bytes(), b"18446744073709551615");
        assert_eq!(Digits::new(7, 99).bytes().len(), 20);
    }
}
