//! Sockets that listen.
//!
//! Owns the file of a Unix socket: a stale one from a process that is gone is replaced, one on
//! which somebody listens is not, and the own one is removed at the end if it still is the own
//! one.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, FileType},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, getsockname, listen,
        socket_with, sockopt,
    },
};

use crate::{
    Error,
    config::{Config, ListenAddress, Protocol},
};

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    name: String,
    endpoint: Endpoint,
    /// What is spoken there; none for what the server says.
    protocol: Option<Protocol>,
}

/// Where a listener listens.
#[derive(Debug)]
enum Endpoint {
    Tcp(SocketAddr),
    Unix(UnixFile),
}

/// The file of a Unix socket, removed when dropped.
#[derive(Debug)]
pub(crate) struct UnixFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Listener {
    /// Listens on everything that `config` names.
    ///
    /// # Errors
    /// [`Error::Listen`], [`Error::UnixInUse`] and [`Error::UnixOccupied`].
    pub fn open_all(config: &Config) -> Result<Vec<Self>, Error> {
        let backlog = i32::try_from(config.backlog).unwrap_or(i32::MAX);
        let mut listeners = Vec::new();
        for address in &config.listen {
            let all = resolve(address)?;
            let opened = some_of(all.iter().map(|address| Self::tcp(*address, backlog)))?;
            let protocol = address.protocol();
            listeners.extend(opened.into_iter().map(|listener| Self { protocol, ..listener }));
        }
        if let Some(path) = &config.unix {
            listeners.push(Self::unix(path, config.unix_mode.0, backlog)?);
        }
        Ok(listeners)
    }

    fn tcp(address: SocketAddr, backlog: i32) -> Result<Self, Error> {
        let failed = |what| {
            move |source: Errno| Error::Listen {
                address: address.to_string(),
                what,
                source: source.into(),
            }
        };
        let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let socket = new_socket(family, SocketType::STREAM).map_err(failed("creating a socket"))?;
        let options = failed("setting options");
        sockopt::set_socket_reuseaddr(&socket, true).map_err(&options)?;
        // Accepted sockets inherit both: replies are sent as one piece, so there is nothing to
        // wait for; and a peer whose machine is gone is noticed some time, even without a timeout.
        sockopt::set_tcp_nodelay(&socket, true).map_err(&options)?;
        sockopt::set_socket_keepalive(&socket, true).map_err(&options)?;
        if address.is_ipv6() {
            // Else [::] would take 0.0.0.0 as well, which may be listed beside it.
            sockopt::set_ipv6_v6only(&socket, true).map_err(&options)?;
        }
        bind(&socket, &address).map_err(failed("binding the address"))?;
        listen(&socket, backlog).map_err(failed("listening"))?;
        let bound = getsockname(&socket).ok().and_then(|bound| bound.try_into().ok());
        let address = bound.unwrap_or(address);
        let (name, endpoint) = (address.to_string(), Endpoint::Tcp(address));
        Ok(Self { socket, name, endpoint, protocol: None })
    }

    fn unix(path: &Path, mode: u32, backlog: i32) -> Result<Self, Error> {
        let failed = |what| {
            move |source: Errno| Error::Listen {
                address: path.display().to_string(),
                what,
                source: source.into(),
            }
        };
        let address = SocketAddrUnix::new(path).map_err(failed("the path is too long"))?;
        remove_stale(path, &address)?;
        let socket = new_socket(AddressFamily::UNIX, SocketType::STREAM)
            .map_err(failed("creating a socket"))?;
        bind(&socket, &address).map_err(failed("creating the socket's file"))?;
        let stat = fs::lstat(path).map_err(failed("looking at the socket's file"))?;
        let file = UnixFile { path: path.to_owned(), identity: (stat.st_dev, stat.st_ino) };
        // Nobody can connect before it listens, so no client slips in before the mode is set.
        fs::chmod(path, mode.into()).map_err(failed("setting the mode"))?;
        listen(&socket, backlog).map_err(failed("listening"))?;
        let name = format!("unix:{}", path.display());
        Ok(Self { socket, name, endpoint: Endpoint::Unix(file), protocol: None })
    }

    /// How it is called in logs and statistics.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name with the kind of socket in front, as reports show it.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.endpoint {
            Endpoint::Tcp(_) => format!("tcp:{}", self.name),
            Endpoint::Unix(_) => self.name.clone(),
        }
    }

    /// What is spoken there, unless it is what the server says.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// The address, if it is a TCP listener.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.endpoint {
            Endpoint::Tcp(address) => Some(address),
            Endpoint::Unix(_) => None,
        }
    }

    /// Whether others than this machine's users may reach it.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        self.address().is_some_and(|address| !address.ip().to_canonical().is_loopback())
    }

    /// The socket, and the file to be kept as long as it listens.
    pub(crate) fn into_parts(self) -> (OwnedFd, Option<UnixFile>) {
        match self.endpoint {
            Endpoint::Tcp(_) => (self.socket, None),
            Endpoint::Unix(file) => (self.socket, Some(file)),
        }
    }
}

fn new_socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, kind, flags, None)
}

/// A socket for datagrams at `address`, and where it is bound.
pub(crate) fn bind_datagrams(address: SocketAddr) -> Result<(UdpSocket, SocketAddr), Error> {
    let failed = |what| {
        move |source: Errno| Error::Listen {
            address: format!("udp:{address}"),
            what,
            source: source.into(),
        }
    };
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = new_socket(family, SocketType::DGRAM).map_err(failed("creating a socket"))?;
    if address.is_ipv6() {
        // As for TCP.
        sockopt::set_ipv6_v6only(&socket, true).map_err(failed("setting options"))?;
    }
    bind(&socket, &address).map_err(failed("binding the address"))?;
    let bound = getsockname(&socket).ok().and_then(|bound| bound.try_into().ok());
    Ok((socket.into(), bound.unwrap_or(address)))
}

/// Those sockets that this machine can have: a name may stand for addresses of a protocol that it
/// does not speak. One there must be.
pub(crate) fn some_of<S>(opened: impl Iterator<Item = Result<S, Error>>) -> Result<Vec<S>, Error> {
    let mut listeners = Vec::new();
    let mut unavailable = None;
    for listener in opened {
        match listener {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_unavailable(&error) => unavailable = Some(error),
            Err(error) => return Err(error),
        }
    }
    match unavailable {
        Some(error) if listeners.is_empty() => Err(error),
        _ => Ok(listeners),
    }
}

/// Whether the machine does not speak the protocol of an address, or has not the address.
fn is_unavailable(error: &Error) -> bool {
    let Error::Listen { source, .. } = error else { return false };
    [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL]
        .iter()
        .any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
}

/// The addresses behind a name; an address is its own.
pub(crate) fn resolve(address: &ListenAddress) -> Result<Vec<SocketAddr>, Error> {
    let (name, port) = match address {
        ListenAddress::Address(address) => return Ok(vec![*address]),
        ListenAddress::Name(name, port) => (name.as_str(), *port),
        ListenAddress::All(port) => {
            let all =
                [(Ipv4Addr::UNSPECIFIED, *port).into(), (Ipv6Addr::UNSPECIFIED, *port).into()];
            return Ok(all.to_vec());
        }
        ListenAddress::Speaking(_, place) => return resolve(place),
    };
    let failed =
        |source| Error::Listen { address: address.to_string(), what: "resolving the name", source };
    let mut found: Vec<_> = (name, port).to_socket_addrs().map_err(failed)?.collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, "it has no address")));
    }
    Ok(found)
}

/// Removes the file of a Unix socket on which nobody listens any more.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), Error> {
    let Ok(stat) = fs::lstat(path) else { return Ok(()) };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(Error::UnixOccupied { path: path.to_owned() });
    }
    let failed = |what| {
        move |source: Errno| Error::Listen {
            address: path.display().to_string(),
            what,
            source: source.into(),
        }
    };
    let probe =
        new_socket(AddressFamily::UNIX, SocketType::STREAM).map_err(failed("creating a socket"))?;
    match connect(&probe, address) {
        Err(Errno::CONNREFUSED) => {
            tracing::info!(path = %path.display(), "removing the socket of a process that is gone");
            fs::unlink(path).map_err(failed("removing the old socket"))
        }
        // A full queue or no permission: there is somebody.
        _ => Err(Error::UnixInUse { path: path.to_owned() }),
    }
}

impl Drop for UnixFile {
    fn drop(&mut self) {
        // Another process may have taken the path over meanwhile: then the file is its own.
        if fs::lstat(&self.path).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.identity) {
            // If it cannot be removed, the next start finds it stale and tries again.
            let _ = fs::unlink(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
