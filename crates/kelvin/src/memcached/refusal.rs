//! Why the server does not start, with the exit codes of `sysexits.h` that memcached uses.

use std::fmt;

/// What ends the program before it serves: an exit code, and what is said on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u8,
    pub(super) message: String,
}

impl Refusal {
    /// A value that cannot be; also what cannot be done.
    pub(super) fn failure(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }

    /// Options that cannot be, alone or together.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { code: 64, message: message.into() }
    }

    /// A user that does not exist.
    pub(super) fn no_user(message: impl Into<String>) -> Self {
        Self { code: 67, message: message.into() }
    }

    /// Something that the system refuses.
    pub(super) fn system(message: impl Into<String>) -> Self {
        Self { code: 71, message: message.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
