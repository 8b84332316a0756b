//! Expiration times as clients send them.

/// Longest time that counts as relative, in seconds: 30 days. Larger numbers are Unix times.
pub const RELATIVE_S_MAX: u32 = 60 * 60 * 24 * 30;

/// An expiration time as sent, before a clock gives it a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// `0`: never.
    #[default]
    Never,
    /// Below zero: expired from the start.
    Past,
    /// `1` to 30 days: seconds from now.
    After {
        /// Seconds from now, 1 to [`RELATIVE_S_MAX`].
        seconds: u32,
    },
    /// More than 30 days: a Unix time. It may lie in the past.
    At {
        /// Seconds since 1970.
        unix_s: u32,
    },
}

impl Expiry {
    /// Reads the number of a client.
    pub const fn from_seconds(seconds: i32) -> Self {
        match seconds {
            0 => Self::Never,
            i32::MIN..0 => Self::Past,
            _ if seconds as u32 <= RELATIVE_S_MAX => Self::After { seconds: seconds as u32 },
            _ => Self::At { unix_s: seconds as u32 },
        }
    }

    /// Reads the number of a client that cannot send any below zero.
    pub const fn from_unsigned_seconds(seconds: u32) -> Self {
        match seconds {
            0 => Self::Never,
            1..=RELATIVE_S_MAX => Self::After { seconds },
            _ => Self::At { unix_s: seconds },
        }
    }
}

#[cfg(test)]
mod tests;
