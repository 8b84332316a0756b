//! Whether records have tokens that clients can compare: `-C` is without.

use cache::Token;

/// What becomes of tokens. Without them each record has 0, which no client's token matches, and
/// what clients want to give to a record is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tokens {
    /// Each write gives one.
    Served,
    /// There are none.
    Off,
}

impl Tokens {
    /// The token of a record that is stored.
    #[inline]
    pub(super) fn fresh(self) -> Token {
        match self {
            Self::Served => Token::Fresh,
            Self::Off => Token::Given(0),
        }
    }

    /// The token of a record for which a client chose `given`, of which 0 is none.
    #[inline]
    pub(super) fn chosen(self, given: Option<u64>) -> Token {
        match (self, given) {
            (Self::Served, Some(token)) if token != 0 => Token::Given(token),
            _ => self.fresh(),
        }
    }

    /// The token that a record must have to be stored over; 0 if the client's says nothing.
    #[inline]
    pub(super) fn wanted(self, token: u64) -> u64 {
        match self {
            Self::Served => token,
            Self::Off => 0,
        }
    }
}
