//! Where a server is, and sockets that lead there.

use std::{
    fmt, io,
    net::{TcpStream, ToSocketAddrs},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use rustix::net::sockopt;

use crate::Error;

/// The port of memcached.
const PORT: u16 = 11211;

/// How long a server may take to accept a connection: a SYN is repeated after 1 s and 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Tcp(String, u16),
    /// The path of a socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no address: write HOST:PORT or unix:/PATH");
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(path.into())) };
        }
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        let is_ipv6_alone = text.matches(':').count() > 1 && !text.contains(']');
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_ipv6_alone && !text.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (text, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        Ok(Self::Tcp(host.to_owned(), port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connected socket with what is known of its other end.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) socket: OwnedFd,
    /// Whether the server runs on this machine.
    pub(crate) is_local: bool,
    /// The process that listens, where the system tells: on Unix sockets.
    pub(crate) pid: Option<u32>,
}

impl Address {
    /// Connects, without delay of small packets. The socket blocks.
    ///
    /// # Errors
    /// [`Error::Resolve`] and [`Error::Connect`].
    pub(crate) fn connect(&self) -> Result<Connected, Error> {
        let refused = |source: io::Error| Error::Connect { address: self.to_string(), source };
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(refused)?;
                let pid = sockopt::socket_peercred(&stream)
                    .ok()
                    .and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok());
                Ok(Connected { socket: stream.into(), is_local: true, pid })
            }
            Self::Tcp(host, port) => {
                let stream = self.connect_tcp(host, *port)?;
                stream.set_nodelay(true).map_err(refused)?;
                let ends = stream.local_addr().and_then(|here| Ok((here, stream.peer_addr()?)));
                let is_local = ends.is_ok_and(|(here, there)| here.ip() == there.ip());
                if is_local {
                    save_congestion_control(&stream);
                }
                Ok(Connected { socket: stream.into(), is_local, pid: None })
            }
        }
    }

    fn connect_tcp(&self, host: &str, port: u16) -> Result<TcpStream, Error> {
        let address = self.to_string();
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|source| Error::Resolve { address: address.clone(), source })?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for candidate in found {
            match TcpStream::connect_timeout(&candidate, CONNECT_TIMEOUT) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(Error::Connect { address, source: last })
    }
}

/// Chooses the simplest congestion control for requests to this machine, where nothing is
/// congested: BBR's model and pacing would cost the generator some of its time. What a server
/// sends is its own affair. Where it cannot be chosen, it is only slower.
pub(crate) fn save_congestion_control(socket: impl AsFd) {
    let _ = sockopt::set_tcp_congestion(socket, "reno");
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn reads_what_it_prints_and_what_people_write() {
        for (text, printed) in [
            ("127.0.0.1:11212", "127.0.0.1:11212"),
            ("cache.example", "cache.example:11211"),
            ("[::1]:7", "[::1]:7"),
            ("::1", "[::1]:11211"),
            ("[::1]", "[::1]:11211"),
            ("unix:/run/cache", "unix:/run/cache"),
            ("/run/cache", "unix:/run/cache"),
            ("unix:cache", "unix:cache"),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), printed);
            assert_eq!(printed.parse(), Ok(address));
        }
        for text in ["", ":1", "a:b", "a:70000", "unix:", "http://a:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
