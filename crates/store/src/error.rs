//! What can go wrong.

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log could not do it.
    #[error(transparent)]
    Log(#[from] log::error::Error),
    /// The record was moved each time that it was read.
    #[error("the record was elsewhere {looks} times when it was read")]
    Moved {
        /// How often it was looked up.
        looks: u32,
    },
    /// The value is, or would be, longer than a record may have.
    #[error("a value of {got} bytes ({max} are possible)")]
    ValueBytes {
        /// Its bytes.
        got: usize,
        /// The most.
        max: usize,
    },
    /// The key is empty or too long.
    #[error("a key of {got} bytes (1 to {max} are possible)", max = cache::KEY_LEN_MAX)]
    KeyBytes {
        /// Its bytes.
        got: usize,
    },
    /// The log has a value in parts, which this store does not read.
    #[error("the value lies in parts")]
    InParts,
}
