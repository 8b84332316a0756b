//! The header.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 24;

/// First byte of a request. No command of the text protocols begins with it.
pub const MAGIC_REQUEST: u8 = 0x80;

/// First byte of a reply.
pub const MAGIC_REPLY: u8 = 0x81;

/// What a reply has in common with its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The operation.
    pub opcode: u8,
    /// The client's own mark.
    pub opaque: [u8; 4],
}

impl Frame {
    /// What the request that `input` starts with has; `None` if its header is not complete.
    pub fn of(input: &[u8]) -> Option<Self> {
        Header::read(input).map(|header| header.frame)
    }
}

/// The header of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) frame: Frame,
    pub(super) key_len: usize,
    pub(super) extras_len: usize,
    pub(super) body_len: u32,
    pub(super) token: u64,
}

impl Header {
    /// Reads the header that `input` starts with.
    #[inline]
    pub(super) fn read(input: &[u8]) -> Option<Self> {
        let bytes = input.first_chunk::<HEADER_BYTES>()?;
        let [_, opcode, k0, k1, extras, _, _, _, b0, b1, b2, b3, o0, o1, o2, o3, token @ ..] =
            *bytes;
        Some(Self {
            frame: Frame { opcode, opaque: [o0, o1, o2, o3] },
            key_len: u16::from_be_bytes([k0, k1]).into(),
            extras_len: extras.into(),
            body_len: u32::from_be_bytes([b0, b1, b2, b3]),
            token: u64::from_be_bytes(token),
        })
    }

    /// Bytes of the body behind extras and key, which are no longer than it.
    pub(super) fn value_len(&self) -> u32 {
        self.body_len - (self.key_len + self.extras_len) as u32
    }
}
