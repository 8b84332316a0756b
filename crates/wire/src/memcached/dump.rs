//! Lines that list keys: written for `lru_crawler metadump` and `mgdump` and for logs, and read by
//! whoever copies another server's records.
//!
//! In a metadump and in logs a key is URI-encoded (RFC 3986): all bytes but letters, digits and
//! `-._~` are a percent sign and two hexadecimal digits. In a mgdump it is as it is, or in base64
//! with ` b` behind it.

use super::{
    base64,
    decimal::{U32_LEN_MAX, U64_LEN_MAX},
    limits::KEY_LEN_MAX,
    lines::LINE_END,
    reply::Writer,
};

/// Longest encoding of a key in bytes.
pub const URI_KEY_LEN_MAX: usize = 3 * KEY_LEN_MAX;

/// Longest line of a dump in bytes: of a metadump, the key, and names and numbers of seven facts.
pub const DUMP_LINE_BYTES_MAX: usize =
    4 + URI_KEY_LEN_MAX + 42 + 4 * U64_LEN_MAX + 2 * U32_LEN_MAX + 2;

/// What a line of a metadump says about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing<'k> {
    /// The key.
    pub key: &'k [u8],
    /// When it expires, in seconds since the Unix epoch; `None` for never.
    pub expires_s: Option<u64>,
    /// When it was last accessed, as far as that is known, in seconds since the Unix epoch.
    pub accessed_s: u64,
    /// Its token.
    pub token: u64,
    /// Whether it was ever read.
    pub fetched: bool,
    /// Its slab class.
    pub class: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Flags of the client.
    pub client_flags: u32,
}

impl Writer<'_> {
    /// A line of a metadump, with the blank and the bare line feed at its end. Needs
    /// [`DUMP_LINE_BYTES_MAX`].
    pub fn metadump_line(&mut self, listing: &Listing<'_>) {
        self.put(b"key=");
        self.uri(listing.key);
        self.put(b" exp=");
        match listing.expires_s {
            Some(seconds) => self.number(seconds),
            None => self.put(b"-1"),
        }
        self.put(b" la=");
        self.number(listing.accessed_s);
        self.put(b" cas=");
        self.number(listing.token);
        self.put(if listing.fetched { b" fetch=yes cls=" } else { b" fetch=no cls=" });
        self.number(listing.class.into());
        self.put(b" size=");
        self.number(listing.bytes);
        self.put(b" flags=");
        self.number(listing.client_flags.into());
        self.put(b" \n");
    }

    /// A line of a mgdump: `mg <key>`, in base64 if the key cannot be sent as it is.
    pub fn mgdump_line(&mut self, key: &[u8]) {
        self.put(b"mg ");
        if is_plain(key) {
            self.put(key);
        } else {
            base64::encode(key, |group| self.put(group));
            self.put(b" b");
        }
        self.put(LINE_END);
    }

    /// A line of `stats cachedump`: key, length of the value, and when it expires in seconds since
    /// the Unix epoch, 0 for never. Needs [`DUMP_LINE_BYTES_MAX`].
    pub fn item_line(&mut self, key: &[u8], value_len: u32, expires_s: u64) {
        self.put(b"ITEM ");
        self.put(key);
        self.put(b" [");
        self.number(value_len.into());
        self.put(b" b; ");
        self.number(expires_s);
        self.put(b" s]\r\n");
    }

    /// A key, URI-encoded. Needs [`URI_KEY_LEN_MAX`].
    pub fn uri(&mut self, key: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        for &byte in key {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.put(&[byte]);
            } else {
                let digit = |value: u8| DIGITS[usize::from(value)];
                self.put(&[b'%', digit(byte >> 4), digit(byte & 0xf)]);
            }
        }
    }
}

/// Whether a key can be sent in a text command: blanks and line ends cannot.
#[must_use]
pub fn is_plain(key: &[u8]) -> bool {
    !key.iter().any(|byte| matches!(byte, 0 | b' ' | b'\r' | b'\n'))
}

/// Puts the key of a command into a text line: as it is, or in base64. Returns whether it is in
/// base64, of which the command must say ` b`.
#[must_use]
pub fn put_key(key: &[u8], mut put: impl FnMut(&[u8])) -> bool {
    let plain = is_plain(key);
    if plain {
        put(key);
    } else {
        base64::encode(key, |group| put(group));
    }
    !plain
}

/// Reads the key off a line of a metadump or of a mgdump, given without its line end, into `room`.
/// `None` for a line that is neither, or has no key that could be one.
#[must_use]
pub fn parse_dump_line<'r>(line: &[u8], room: &'r mut [u8; KEY_LEN_MAX]) -> Option<&'r [u8]> {
    let len = if let Some(rest) = line.strip_prefix(b"key=") {
        from_uri(rest.split(|&byte| byte == b' ').next()?, room)?
    } else {
        let key = line.strip_prefix(b"mg ")?;
        match key.strip_suffix(b" b") {
            Some(encoded) => base64::decode(encoded, room)?,
            None => {
                room.get_mut(..key.len())?.copy_from_slice(key);
                key.len()
            }
        }
    };
    (len > 0).then(|| &room[..len])
}

/// Decodes into `room` and returns the length.
fn from_uri(mut text: &[u8], room: &mut [u8; KEY_LEN_MAX]) -> Option<usize> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut len = 0;
    while let [first, rest @ ..] = text {
        let (byte, rest) = match (first, rest) {
            (b'%', &[high, low, ref rest @ ..]) => {
                (u8::try_from(digit(high)? << 4 | digit(low)?).ok()?, rest)
            }
            (b'%', _) => return None,
            (byte, rest) => (*byte, rest),
        };
        *room.get_mut(len)? = byte;
        len += 1;
        text = rest;
    }
    Some(len)
}

#[cfg(test)]
mod tests;
