//! Where to listen.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

use super::Protocol;
use crate::config::DEFAULT_PORT;

/// What stands between a protocol and the address where it is spoken.
const SPOKEN_AT: char = '@';

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address.
    Address(SocketAddr),
    /// A name to be resolved at start, and a port.
    Name(String, u16),
    /// All addresses of this machine, of IPv4 and of IPv6 where there is any, and a port.
    All(u16),
    /// One of these, where one protocol is spoken whatever `protocol` says.
    Speaking(Protocol, Box<ListenAddress>),
}

impl ListenAddress {
    /// 127.0.0.1 and the default port.
    #[must_use]
    pub fn loopback() -> Self {
        Self::Address((Ipv4Addr::LOCALHOST, DEFAULT_PORT).into())
    }

    /// The protocol that is spoken there, unless it is that of the server.
    #[must_use]
    pub fn protocol(&self) -> Option<Protocol> {
        match self {
            Self::Speaking(protocol, _) => Some(*protocol),
            Self::Address(_) | Self::Name(..) | Self::All(_) => None,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((protocol, place)) = text.split_once(SPOKEN_AT) {
            // One name is enough.
            let place = if place.contains(SPOKEN_AT) { "" } else { place };
            return Ok(Self::Speaking(protocol.parse()?, Box::new(place.parse()?)));
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self::Address(address));
        }
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Address((address, DEFAULT_PORT).into()));
        }
        let wrong =
            || format!("`{text}` is not an address: write HOST:PORT, such as 127.0.0.1:11211");
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, port.parse().map_err(|_| wrong())?),
            None => (text, DEFAULT_PORT),
        };
        if name == "*" {
            return Ok(Self::All(port));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        // All digits and dots is a mistyped address, not a name.
        let named = name.bytes().any(|byte| byte.is_ascii_alphabetic());
        if named && name.bytes().all(is_name) {
            Ok(Self::Name(name.to_owned(), port))
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::All(port) => write!(f, "*:{port}"),
            Self::Speaking(protocol, place) => write!(f, "{protocol}{SPOKEN_AT}{place}"),
        }
    }
}
