//! What can go wrong with a loop as a whole. What goes wrong with a connection ends that
//! connection and is a [`crate::CloseReason`].

use std::io;

/// A loop that cannot be built or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused what a loop needs.
    #[error("{what}")]
    Setup {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Waiting for events failed.
    #[error("waiting for events")]
    Wait {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn setup(what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Setup { what, source: source.into() }
    }
}
