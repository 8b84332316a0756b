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
    /// The table has integers for keys, and this is none of them.
    #[error("the key is no integer of the table")]
    ForeignKey,
    /// Memory has no room for the record of a table that spills.
    #[error("there is no memory for the record")]
    NoMemory,
    /// The table cannot be flushed: a crash would bring back what it had.
    #[error("this table cannot be flushed")]
    NoFlush,
    /// A ring that every run begins empty has records: of another run.
    #[error("the ring has records of another run, which may be out of date")]
    NotEmpty,
    /// Of a ring something is damaged: what was overwritten could come back.
    #[error("the ring is damaged: what was overwritten could come back")]
    Damaged,
    /// The value lies in parts, or would have to: nothing can be put before or behind it.
    #[error("a value in parts is not changed in place")]
    InParts,
    /// Parts of the value could not be flushed. Nothing was stored.
    #[error("parts of the value could not be made durable")]
    PartsLost,
    /// Too little came for a value in parts, or was taken of one, for too long.
    #[error("too slow for a value of this length")]
    Slow,
    /// So many large values arrive, or leave, already.
    #[error("{max} large values are on their way already")]
    TooMany {
        /// The most.
        max: usize,
    },
    /// There is no such upload or reader any more.
    #[error("the transfer has ended")]
    Ended,
}
