//! Limits of the memcached text protocols, and what happens at each.

/// Longest key in bytes, as it stands on the line (base64 text for a binary key). A longer key
/// is answered with `CLIENT_ERROR bad command line format`.
pub const KEY_LEN_MAX: usize = 250;

/// Longest opaque token of a meta command in bytes, the `O` itself included.
pub const OPAQUE_LEN_MAX: usize = 32;

/// Most tokens on a meta line, command and key included: `mg k` and 18 flags.
pub const META_TOKENS_MAX: usize = 20;

/// Most tokens the protocol looks at on any line but a retrieval's; later ones are ignored.
pub const TOKENS_MAX: usize = 23;

/// Largest value length that a line may announce: an `i32`, less the line end of the body.
pub const VALUE_LEN_MAX: u32 = i32::MAX as u32 - 2;

/// Bytes without a line end after which only a retrieval may still be on its way. Everything
/// else that is longer came from no memcached client, and the connection is closed.
pub const LINE_PROBE_BYTES: usize = 2048;

/// Longest line but a retrieval's, in bytes with its line end: one read buffer of memcached.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// Most leading spaces a retrieval may have and still be taken for one while incomplete.
pub const LEADING_SPACES_MAX: usize = 100;

const _: () = assert!(LINE_PROBE_BYTES < LINE_BYTES_MAX);
const _: () = assert!(LEADING_SPACES_MAX + b"gats -2147483648 ".len() < LINE_PROBE_BYTES);
const _: () = assert!(META_TOKENS_MAX < TOKENS_MAX);

/// Limits that a server may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a line of `get`, `gets`, `gat` or `gats` that are waited for; a longer one comes
    /// in parts (see [`super::Get::complete`]). At least [`LINE_PROBE_BYTES`], and no more than
    /// the receive buffer holds.
    pub retrieval_part_bytes: usize,
}

impl Default for Limits {
    /// 16 KiB, one read buffer of memcached: 65 keys of 250 bytes, or some 800 of 20 bytes.
    fn default() -> Self {
        Self { retrieval_part_bytes: 16 * 1024 }
    }
}
