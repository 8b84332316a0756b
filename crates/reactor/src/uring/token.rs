//! What an operation is called between us and the kernel.

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Of a connection: receiving into chunks.
    Receive,
    /// Of a connection: waiting for bytes, or for the end.
    Readable,
    /// Of a connection: waiting for room.
    Writable,
    /// Of a connection: sending.
    Send,
    /// Of a listener.
    Accept,
    /// Waiting for the mailbox.
    Wake,
    /// Of a file.
    File,
    /// Cancelling another operation.
    Cancel,
    /// Trying out whether the kernel works as expected.
    Probe,
}

const KINDS: [Kind; 9] = [
    Kind::Receive,
    Kind::Readable,
    Kind::Writable,
    Kind::Send,
    Kind::Accept,
    Kind::Wake,
    Kind::File,
    Kind::Cancel,
    Kind::Probe,
];

/// The kind of an operation, and whose it is. A slot is used again after the last completion of
/// all its operations, so a token needs no generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) slot: u32,
}

impl Token {
    pub(super) fn bits(self) -> u64 {
        (self.kind as u64) << 32 | u64::from(self.slot)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self { kind: KINDS[(bits >> 32) as usize], slot: bits as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::{KINDS, Token};

    #[test]
    fn a_token_survives_the_kernel() {
        for kind in KINDS {
            for slot in [0, 1, u32::MAX] {
                let token = Token { kind, slot };
                assert_eq!(Token::from_bits(token.bits()), token);
            }
        }
    }
}
