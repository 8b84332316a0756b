//! What ends the prefix of a key.

use std::{fmt, str::FromStr};

/// One byte, or none: then prefixes are not counted until a client asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delimiter(pub Option<u8>);

impl FromStr for Delimiter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            [] => Ok(Self(None)),
            [byte] if byte.is_ascii_graphic() => Ok(Self(Some(*byte))),
            _ => Err(format!("`{text}` is not one printable character of ASCII")),
        }
    }
}

impl fmt::Display for Delimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |byte| write!(f, "{}", char::from(byte)))
    }
}
