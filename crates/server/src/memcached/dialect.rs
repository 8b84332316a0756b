//! Which protocol a connection speaks, and whether it may.

use base::sync::Arc;
use wire::memcached::binary::MAGIC_REQUEST;

use crate::{config::Protocol, users::Users};

/// Who may speak, and how.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The protocols.
    pub protocol: Protocol,
    /// Who may log in. Without any, nobody has to.
    pub users: Option<Arc<Users>>,
}

/// How the bytes of a connection are read. The first of them decides, and stays in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// None has come yet.
    Undecided,
    /// Text, of a client that has to log in first.
    TextLogin,
    /// Text and meta commands.
    Text,
    /// The binary protocol.
    Binary(Standing),
}

/// What became of a client's login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has to log in.
    Stranger,
    /// It has begun to.
    Begun,
    /// It has, or does not have to.
    Known,
}

impl Dialect {
    /// What is spoken by a client that begins with `input`, where `protocol` may be spoken.
    pub(super) fn of(access: &Access, protocol: Option<Protocol>, input: &[u8]) -> Self {
        let Some(&first) = input.first() else { return Self::Undecided };
        let binary = match protocol.unwrap_or(access.protocol) {
            Protocol::Auto => first == MAGIC_REQUEST,
            Protocol::Ascii => false,
            Protocol::Binary => true,
        };
        match (binary, access.users.is_some()) {
            (true, true) => Self::Binary(Standing::Stranger),
            (true, false) => Self::Binary(Standing::Known),
            (false, true) => Self::TextLogin,
            (false, false) => Self::Text,
        }
    }
}
