//! A server with a disk below it: how it is started, and what it is given.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{FallocateFlags, fallocate};

use super::{
    held::Held,
    options::{FILE_PERCENT, Size, TiersOptions},
};
use crate::{disk::device::Place, server::Served};

/// Bytes of memory that fatcache has for a record on the disk, and some.
const INDEX_BYTES: u64 = 64;

/// Threads of extstore that read and write.
const EXTSTORE_THREADS: u32 = 8;

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Kelvin,
    Extstore,
    Fatcache,
    /// A loop that does nothing else (`crate::bare`).
    Bare,
}

/// A program that serves.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) kind: Kind,
    path: PathBuf,
}

/// A server that runs.
pub(super) struct Guest {
    kind: Kind,
    // In the order in which they have to go.
    served: Served,
    held: Option<Held>,
    place: Place,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kelvin => "Kelvin",
            Self::Extstore => "extstore",
            Self::Fatcache => "fatcache",
            Self::Bare => "the bare loop",
        }
    }
}

/// What can be run, Kelvin first, and a line for each server that cannot.
///
/// # Errors
/// When this program's own file is not known.
pub(super) fn programs(
    kelvin: &Path,
    options: &TiersOptions,
) -> io::Result<(Vec<Program>, Vec<String>)> {
    let mut programs = vec![Program { kind: Kind::Kelvin, path: kelvin.to_owned() }];
    let mut absent = Vec::new();
    let peers = [
        (Kind::Extstore, &options.memcached, "--memcached"),
        (Kind::Fatcache, &options.fatcache, "--fatcache"),
    ];
    for (kind, path, option) in peers {
        match path.as_ref().map(|path| (path, fs::canonicalize(path))) {
            Some((_, Ok(path))) => programs.push(Program { kind, path }),
            Some((path, Err(error))) => {
                let (name, path) = (kind.name(), path.display());
                absent.push(format!("{name} is left out: {path}: {error}"));
            }
            None => absent.push(format!("{} is left out: no {option}", kind.name())),
        }
    }
    programs.push(Program { kind: Kind::Bare, path: env::current_exe()? });
    Ok((programs, absent))
}

impl Guest {
    /// Starts a server with an empty directory of its own.
    pub(super) fn start(
        program: &Program,
        directory: &Path,
        options: &TiersOptions,
        size: Size,
    ) -> io::Result<Self> {
        let name = program.kind.name();
        let place = Place::make(directory, &name.replace(' ', "-"))?;
        let file = place.path().join("file");
        let file_bytes = (size.set_bytes(options) * FILE_PERCENT / 100).next_multiple_of(1 << 20);
        if program.kind == Kind::Fatcache {
            // It takes what there is.
            fallocate(File::create(&file)?, FallocateFlags::empty(), 0, file_bytes)?;
        }
        let words = |port| arguments(program.kind, port, (&file, file_bytes), options, size);
        let served = Served::on_loopback(name, &program.path, words, &options.server_cpus)?;
        // The others read and write past the page cache.
        let held = match program.kind {
            Kind::Extstore => Some(Held::start(served.pid(), place.path())),
            Kind::Kelvin | Kind::Fatcache | Kind::Bare => None,
        };
        Ok(Self { kind: program.kind, served, held, place })
    }

    /// From now on the page cache gives it next to nothing.
    pub(super) fn hold(&mut self) -> io::Result<()> {
        self.held.as_mut().map_or(Ok(()), Held::hold)
    }

    /// How its page cache is kept away.
    pub(super) fn held(&self) -> &'static str {
        self.held.as_ref().map_or("past the page cache", Held::describe)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn pid(&self) -> u32 {
        self.served.pid()
    }

    pub(super) fn address(&self) -> String {
        self.served.address()
    }

    pub(super) fn directory(&self) -> &Path {
        self.place.path()
    }

    /// Of its process, without what the kernel holds of its files.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
    }
}

/// One thread that serves; everything else as it comes, but for the memory and the files.
fn arguments(
    kind: Kind,
    port: u16,
    (file, file_bytes): (&Path, u64),
    options: &TiersOptions,
    size: Size,
) -> Vec<String> {
    let (memory, mode, file) = (options.memory_mib, &options.write_mode, file.display());
    let text = match kind {
        Kind::Kelvin => format!(
            "serve --net-threads 1 --memory {memory}MiB --memory-use records \
             --listen 127.0.0.1:{port} --data-dir {file} --write-mode {mode} --log error"
        ),
        Kind::Extstore => format!(
            "-u root -t 1 -m {memory} -U 0 -l 127.0.0.1 -p {port} \
             -o ext_path={file}:{}m,ext_threads={EXTSTORE_THREADS},ext_wbuf_size=8",
            file_bytes >> 20
        ),
        Kind::Fatcache => format!(
            "-a 127.0.0.1 -p {port} -m {memory} -i {} -D {file} -v 2",
            ((u64::from(size.keys(options)) * INDEX_BYTES) >> 20) + 1
        ),
        Kind::Bare => format!(
            "bare --listen 127.0.0.1:{port} --file {file} --value-bytes {} --keys {}",
            size.bytes,
            size.keys(options)
        ),
    };
    text.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{Kind, arguments};
    use crate::tiers::options::parse;

    #[test]
    fn servers_are_given_the_same() {
        let options = parse(&[("--values", "1k"), ("--memory-mib", "32")]).expect("right");
        let file = ("/d/file".as_ref(), 800 << 20);
        let text = |kind| arguments(kind, 7, file, &options, options.sizes[0]).join(" ");
        assert_eq!(
            text(Kind::Kelvin),
            "serve --net-threads 1 --memory 32MiB --memory-use records --listen 127.0.0.1:7 \
             --data-dir /d/file --write-mode async --log error"
        );
        assert_eq!(
            text(Kind::Extstore),
            "-u root -t 1 -m 32 -U 0 -l 127.0.0.1 -p 7 \
             -o ext_path=/d/file:800m,ext_threads=8,ext_wbuf_size=8"
        );
        assert_eq!(text(Kind::Fatcache), "-a 127.0.0.1 -p 7 -m 32 -i 21 -D /d/file -v 2");
        assert_eq!(
            text(Kind::Bare),
            "bare --listen 127.0.0.1:7 --file /d/file --value-bytes 1024 --keys 327680"
        );
    }
}
