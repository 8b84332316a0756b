//! What keeps a server from starting or going on.

use std::{io, path::PathBuf};

use base::size::ByteSize;

/// A server that cannot start or cannot go on. What the system or a library said is the source and
/// not part of the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {path}", path = path.display())]
    ReadConfig {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The configuration file is not understood.
    #[error("in the configuration file {path}", path = path.display())]
    ParseConfig {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which line.
        source: Box<toml::de::Error>,
    },
    /// A setting cannot have the value it has.
    #[error("{origin}: {message}")]
    Setting {
        /// The setting and where its value comes from.
        origin: String,
        /// What is wrong with it.
        message: String,
    },
    /// Memory is too small.
    #[error(
        "memory {memory} is too small: {buffers} are for buffers of {threads} threads, {states} \
         for {connections} connections{log}, which leaves {left} for records; at least {least} are \
         needed"
    )]
    Memory {
        /// The setting.
        memory: ByteSize,
        /// For buffers.
        buffers: ByteSize,
        /// Data threads.
        threads: usize,
        /// For the state of connections.
        states: ByteSize,
        /// Most connections.
        connections: usize,
        /// What a log takes, in words, if there is one.
        log: String,
        /// What is left.
        left: ByteSize,
        /// What must be left.
        least: ByteSize,
    },
    /// The cache cannot be built.
    #[error("cannot build the cache")]
    Cache {
        /// What is wrong.
        #[from]
        source: cache::ConfigError,
    },
    /// The file of users cannot be read.
    #[error("cannot read the users in {path}", path = path.display())]
    ReadUsers {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file of users is not understood.
    #[error("users in {path}: line {line} is {message}", path = path.display())]
    Users {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The file that keeps records over a restart cannot be read or written.
    #[error("{what} the restart file {path}", path = path.display())]
    Restart {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The directory of a durable table cannot be made.
    #[error("cannot make the directory {path}", path = path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log of a durable table cannot be opened or stopped.
    #[error("{doing} in {path}", path = path.display())]
    Log {
        /// What was tried.
        doing: &'static str,
        /// Its directory.
        path: PathBuf,
        /// What is wrong.
        source: log::error::Error,
    },
    /// The ring of a table that spills cannot be served.
    #[error("cannot serve the ring in {path}", path = path.display())]
    Ring {
        /// Its directory.
        path: PathBuf,
        /// What is wrong.
        source: store::Error,
    },
    /// A ring that was made for more cannot be served within so little.
    #[error(
        "spill_size {size} is too small for the ring in {path}, which was made for more: at least \
         {least} are needed; without `spill_recover`, or in another directory, a ring is made anew",
        path = path.display()
    )]
    SpillSize {
        /// Its directory.
        path: PathBuf,
        /// The setting.
        size: ByteSize,
        /// What it must be.
        least: ByteSize,
    },
    /// A thread has ended while the log had something under way.
    #[error(
        "the log in {path} was not stopped in order: what was acknowledged and not flushed by then \
         may be lost, as by a crash",
        path = path.display()
    )]
    LogLeft {
        /// Its directory.
        path: PathBuf,
    },
    /// The log in a directory has other keys than are to be served.
    #[error("the log in {path} has {has} for keys: this table has {wants}", path = path.display())]
    LogOfOtherKeys {
        /// Its directory.
        path: PathBuf,
        /// What it has.
        has: String,
        /// What it is to have.
        wants: String,
    },
    /// The segments of a log are too small for what a server puts into it.
    #[error(
        "the log in {path} has segments of {segment}, which have no room for the {value} that a \
         value may have: load it into one with larger segments",
        path = path.display()
    )]
    LogOfSmallSegments {
        /// Its directory.
        path: PathBuf,
        /// Bytes of a segment.
        segment: ByteSize,
        /// Longest value of a record.
        value: ByteSize,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {what}")]
    Listen {
        /// The address or the path.
        address: String,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Another process listens on a Unix socket.
    #[error("cannot listen on {path}: another process listens there", path = path.display())]
    UnixInUse {
        /// The path.
        path: PathBuf,
    },
    /// There is something at the path of a Unix socket that is none.
    #[error("cannot listen on {path}: it exists and is not a socket", path = path.display())]
    UnixOccupied {
        /// The path.
        path: PathBuf,
    },
    /// This process may not run on a CPU that a thread is to be pinned to.
    #[error("cpus: this process may not run on CPU {cpu}, or there is no such CPU")]
    Cpu {
        /// Its number.
        cpu: usize,
    },
    /// A thread cannot be started or pinned.
    #[error("cannot {what} the thread {thread}")]
    Thread {
        /// Its name.
        thread: String,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// An event loop cannot be built or cannot go on.
    #[error("event loop of the thread {thread}")]
    Loop {
        /// The thread's name.
        thread: String,
        /// What is wrong.
        source: reactor::Error,
    },
    /// A thread ended by a bug.
    #[error("the thread {thread} panicked")]
    Panicked {
        /// Its name.
        thread: String,
    },
}
