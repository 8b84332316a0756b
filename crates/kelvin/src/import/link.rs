//! A connection to a server that is spoken to in the text protocol.

use std::{
    io::{BufRead, BufReader, BufWriter, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use bench::Address;

use super::place::Place;

/// How long a server may be silent: a memcached that lists keys may pause for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest line that is taken for one: a line of a dump has less than 1 KiB.
const LINE_BYTES_MAX: usize = 4096;

/// Bytes of a buffer in either direction.
const BUFFER_BYTES: usize = 64 << 10;

/// Which version is it? With as many blanks as a header of the binary protocol has bytes: a server
/// that speaks nothing else waits for that many before it says that it does not understand.
const FIRST_REQUEST: &[u8] = b"version                        \r\n";

/// A connection.
pub(super) struct Link {
    name: String,
    /// What it says to `version`, without that word.
    version: String,
    input: BufReader<Box<dyn Read>>,
    output: BufWriter<Box<dyn Write>>,
    line: Vec<u8>,
}

impl Link {
    /// Connects to a server, and logs in if it asks for that.
    ///
    /// # Errors
    /// When it cannot be reached, does not speak the text protocol, or lets nobody in.
    pub(super) fn connect(place: &Place) -> Result<Self> {
        let mut link = Self::connect_to(&place.address)?;
        let answer = link.ask(FIRST_REQUEST).with_context(|| {
            format!(
                "{} does not answer in the text protocol: with -S, or -B binary, it has no command \
                 that lists keys",
                place.address
            )
        })?;
        let answer = match answer.as_str() {
            "CLIENT_ERROR unauthenticated" => {
                link.log_in(place)?;
                link.ask(b"version\r\n")?
            }
            // Nobody has to log in. Without that question, a login would be stored as a record.
            _ => answer,
        };
        let Some(version) = answer.strip_prefix("VERSION ") else {
            bail!("{} answers `version` with `{answer}`", link.name);
        };
        link.version = version.to_owned();
        Ok(link)
    }

    fn log_in(&mut self, place: &Place) -> Result<()> {
        let Place { login, login_flag, .. } = place;
        let Some(login) = login else {
            bail!("{} asks for a login: --{login_flag} names a file that has one", self.name);
        };
        match self.ask(&login.request())?.as_str() {
            "STORED" => Ok(()),
            answer => {
                bail!("{} refuses the login of --{login_flag} with `{answer}`", self.name)
            }
        }
    }

    fn connect_to(address: &Address) -> Result<Self> {
        let failed = || format!("cannot connect to {address}");
        let (input, output): (Box<dyn Read>, Box<dyn Write>) = match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).with_context(failed)?;
                stream.set_read_timeout(Some(PATIENCE)).with_context(failed)?;
                stream.set_write_timeout(Some(PATIENCE)).with_context(failed)?;
                (Box::new(stream.try_clone().with_context(failed)?), Box::new(stream))
            }
            Address::Tcp(host, port) => {
                let stream = connect_tcp(host, *port).with_context(failed)?;
                stream.set_nodelay(true).with_context(failed)?;
                stream.set_read_timeout(Some(PATIENCE)).with_context(failed)?;
                stream.set_write_timeout(Some(PATIENCE)).with_context(failed)?;
                (Box::new(stream.try_clone().with_context(failed)?), Box::new(stream))
            }
        };
        Ok(Self {
            name: address.to_string(),
            version: String::new(),
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            output: BufWriter::with_capacity(BUFFER_BYTES, output),
            line: Vec::new(),
        })
    }

    /// Which server it is.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Which version it is, as it says.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The line that answers a request.
    fn ask(&mut self, request: &[u8]) -> Result<String> {
        self.put(request)?;
        self.flush()?;
        Ok(String::from_utf8_lossy(self.line()?).into_owned())
    }

    /// Writes a part of a request.
    ///
    /// # Errors
    /// When the server has gone.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write_all(bytes).with_context(|| gone(&self.name))
    }

    /// Sends what was written.
    ///
    /// # Errors
    /// When the server has gone.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.output.flush().with_context(|| gone(&self.name))
    }

    /// The next line, without its end.
    ///
    /// # Errors
    /// When the server has gone, is silent for too long, or sends something that is no line.
    pub(super) fn line(&mut self) -> Result<&[u8]> {
        self.line.clear();
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut self.line).with_context(|| gone(&self.name))?;
        match self.line.as_slice() {
            [] => bail!("{} closed the connection", self.name),
            [line @ .., b'\r', b'\n'] | [line @ .., b'\n'] => Ok(line),
            _ => bail!("{} sends what is no line of the protocol", self.name),
        }
    }

    /// Reads a value of `len` bytes and its line end into `value`.
    ///
    /// # Errors
    /// When the server has gone.
    pub(super) fn value(&mut self, len: usize, value: &mut Vec<u8>) -> Result<()> {
        value.resize(len + 2, 0);
        self.input.read_exact(value).with_context(|| gone(&self.name))?;
        if !value.ends_with(b"\r\n") {
            bail!("{} sends a value that has no end", self.name);
        }
        value.truncate(len);
        Ok(())
    }

    /// A number of the general statistics.
    ///
    /// # Errors
    /// When the server has gone, or does not say.
    pub(super) fn stat(&mut self, name: &str) -> Result<u64> {
        let text = self.stat_text(name)?;
        let number = text.and_then(|text| text.parse().ok());
        number.with_context(|| format!("{} does not say its `{name}`", self.name))
    }

    /// What `stats` says under a name, if it does.
    ///
    /// # Errors
    /// As [`Self::line`], and when the server refuses.
    pub(super) fn stat_text(&mut self, name: &str) -> Result<Option<String>> {
        self.put(b"stats\r\n")?;
        self.flush()?;
        let mut found = None;
        loop {
            let line = self.line()?;
            if line == b"END" {
                return Ok(found);
            }
            let text = String::from_utf8_lossy(line).into_owned();
            let Some(stat) = text.strip_prefix("STAT ") else {
                bail!("{} answers `stats` with `{text}`", self.name);
            };
            if let Some((its, value)) = stat.split_once(' ')
                && its == name
            {
                found = Some(value.to_owned());
            }
        }
    }
}

fn connect_tcp(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for candidate in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&candidate, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn gone(name: &str) -> String {
    format!("{name} has gone, or is silent")
}
