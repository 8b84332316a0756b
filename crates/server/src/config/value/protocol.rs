//! Which protocol a listener speaks.

use std::{fmt, str::FromStr};

/// Which of memcached's protocols a client may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What the first byte of a connection says.
    #[default]
    Auto,
    /// Text and meta commands.
    Ascii,
    /// The binary protocol.
    Binary,
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "ascii" => Ok(Self::Ascii),
            "binary" => Ok(Self::Binary),
            _ => Err(format!("`{text}` is not one of auto, ascii, binary")),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Ascii => "ascii",
            Self::Binary => "binary",
        })
    }
}
