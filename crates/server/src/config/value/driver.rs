//! Settings of the loops: which driver, and how long they look before they sleep.

use std::{fmt, str::FromStr};

use reactor::{SPIN_US_MAX, Spin};

/// How sockets are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// By io_uring where it works and is faster, else by epoll.
    Auto,
    /// By io_uring.
    Uring,
    /// By epoll.
    Epoll,
}

impl FromStr for IoMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            _ => Err(format!("`{text}` is not one of auto, uring, epoll")),
        }
    }
}

impl fmt::Display for IoMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        })
    }
}

/// How long a thread looks for requests before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spinning(pub Spin);

impl FromStr for Spinning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("off", _) => Ok(Self(Spin::Off)),
            ("auto", _) => Ok(Self(Spin::Auto)),
            (_, Ok(us)) if us <= SPIN_US_MAX => Ok(Self(Spin::Us(us))),
            _ => Err(format!("`{text}` is not auto, off or a number up to {SPIN_US_MAX}")),
        }
    }
}

impl fmt::Display for Spinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Spin::Off => f.write_str("off"),
            Spin::Auto => f.write_str("auto"),
            Spin::Us(us) => us.fmt(f),
        }
    }
}
