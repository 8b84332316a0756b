//! What a client can ask for.

use super::expiry::Expiry;
use super::keys::Keys;
use super::meta::{Meta, MetaKey, StoreMode};

/// One request, borrowing from the receive buffer.
///
/// `noreply` means that no reply line is sent whatever the outcome, errors included. For the
/// meta commands see [`Meta::quiet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Get(Get<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`. The body follows the line.
    Store(Store<'a>),
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
        /// Send no reply.
        noreply: bool,
    },
    /// `incr` and `decr`.
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// Add or subtract.
        direction: Direction,
        /// By how much.
        delta: u64,
        /// Send no reply.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// The new expiration time.
        expiry: Expiry,
        /// Send no reply.
        noreply: bool,
    },
    /// `mg`.
    MetaGet(Meta<'a>),
    /// `ms`. The body follows the line.
    MetaStore(MetaStore<'a>),
    /// `md`.
    MetaDelete(Meta<'a>),
    /// `ma`.
    MetaArithmetic {
        /// Key and flags.
        meta: Meta<'a>,
        /// Add or subtract.
        direction: Direction,
    },
    /// `mn`: answer [`super::lines::META_NOOP`] and write out all replies that wait.
    MetaNoop,
    /// `me`: what is known about one record.
    MetaDebug {
        /// The key.
        key: MetaKey<'a>,
    },
    /// `flush_all`.
    FlushAll {
        /// When: [`Expiry::Never`] and [`Expiry::Past`] both stand for at once.
        at: Expiry,
        /// Send no reply.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// The level asked for, unbounded.
        level: u32,
        /// Send no reply.
        noreply: bool,
    },
    /// `quit`: write out what waits, then close.
    Quit,
    /// `stats`.
    Stats(Stats),
    /// `watch`: turn the connection into a stream of log lines.
    Watch {
        /// The logs asked for, bits of [`watch`].
        logs: u16,
    },
    /// `lru_crawler metadump` and `mgdump`.
    Dump {
        /// The form of a line.
        format: DumpFormat,
        /// `all`, `hash` or a list of class numbers, as sent.
        classes: &'a [u8],
        /// Send no reply line; the dump itself is sent.
        noreply: bool,
    },
    /// `lru_crawler crawl`.
    Crawl {
        /// `all` or a list of class numbers, as sent.
        classes: &'a [u8],
        /// Send no reply.
        noreply: bool,
    },
    /// `cache_memlimit`.
    MemoryLimit {
        /// The new limit in MiB, 8 to 1,000,000,000.
        mebibytes: u32,
        /// Send no reply.
        noreply: bool,
    },
    /// `shutdown`. A server that does not allow it answers
    /// [`super::lines::SHUTDOWN_NOT_ENABLED`] before it looks at the mode.
    Shutdown {
        /// How; `None` for a mode that does not exist, answered with
        /// [`super::lines::INVALID_SHUTDOWN_MODE`].
        mode: Option<ShutdownMode>,
        /// Send no reply.
        noreply: bool,
    },
    /// A well-formed order to a part of memcached.
    Tune {
        /// The part.
        subject: Subject,
        /// Send no reply.
        noreply: bool,
    },
}

/// A text retrieval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// The keys, one or more if the line is complete.
    pub keys: Keys<'a>,
    /// Whether these are all. If not, the line is longer than the receive buffer: the reply does
    /// not end behind these keys, and [`super::parse_keys`] reads on behind them.
    pub complete: bool,
    /// Send the token of each record (`gets`, `gats`).
    pub with_token: bool,
    /// Set this expiration time on each record found (`gat`, `gats`).
    pub touch: Option<Expiry>,
}

/// A text storage command. The next `value_len + 2` bytes are its body, always: whatever the
/// outcome, the next request starts behind them (see [`super::body`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Under which condition to store.
    pub verb: StoreVerb,
    /// Opaque flags of the client. Without effect for append and prepend.
    pub client_flags: u32,
    /// Expiration time. Without effect for append and prepend.
    pub expiry: Expiry,
    /// Bytes of the value, without its line end. Not yet compared with what the server takes.
    pub value_len: u32,
    /// Send no reply, not even [`super::lines::BAD_DATA_CHUNK`].
    pub noreply: bool,
}

/// The text storage commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// `set`: always.
    Set,
    /// `add`: only if absent.
    Add,
    /// `replace`: only if present.
    Replace,
    /// `append`: behind the value present.
    Append,
    /// `prepend`: before the value present.
    Prepend,
    /// `cas`: only if the record present still has this token.
    CompareAndSwap {
        /// The token.
        token: u64,
    },
}

/// `ms`. The next `value_len + 2` bytes are its body, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaStore<'a> {
    /// Key and flags.
    pub meta: Meta<'a>,
    /// Under which condition to store (`M`). With [`Meta::compare`], `Set` and `Replace` both
    /// mean compare and swap.
    pub mode: StoreMode,
    /// Bytes of the value, without its line end. Not yet compared with what the server takes.
    pub value_len: u32,
}

/// Which way arithmetic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Add, wrapping at 2^64.
    Up,
    /// Subtract, stopping at zero.
    Down,
}

/// The reports of `stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    /// No argument.
    General,
    /// `reset`: set the counters to zero.
    Reset,
    /// `settings`.
    Settings,
    /// `items`.
    Items,
    /// `slabs`.
    Slabs,
    /// `sizes`.
    Sizes,
    /// `tables`, which memcached has not.
    Tables,
    /// `conns`.
    Connections,
    /// `extstore`.
    Extstore,
    /// `detail on`, `detail off`: count by key prefix.
    DetailEnable {
        /// Start or stop.
        on: bool,
    },
    /// `detail dump`.
    DetailDump,
    /// `cachedump`.
    CacheDump {
        /// Slab class, 0 to 63.
        class: u32,
        /// Most lines; 0 for no limit.
        limit: u32,
    },
}

/// The forms of a key dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpFormat {
    /// `metadump`: `key=... exp=...` lines.
    Metadump,
    /// `mgdump`: `mg <key>` lines.
    Mgdump,
}

/// How to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// At once.
    Now,
    /// `graceful`: finish first.
    Graceful,
}

/// The parts of memcached that can be tuned at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `slabs automove`.
    SlabsAutomove,
    /// `slabs reassign`.
    SlabsReassign {
        /// The class that gives a page; -1 is any.
        from: i32,
        /// The class that gets it.
        to: i32,
    },
    /// `lru tune`, `lru mode`, `lru temp_ttl`.
    Lru,
    /// `lru_crawler enable` and `disable`.
    CrawlerSwitch {
        /// Which of them.
        on: bool,
    },
    /// `lru_crawler sleep` and `tocrawl`.
    CrawlerPace,
    /// `extstore`.
    Extstore,
}

/// The logs of [`Request::Watch`], as bits.
pub mod watch {
    /// Retrievals. What `watch` alone asks for.
    pub const FETCHERS: u16 = 1 << 0;
    /// Stores.
    pub const MUTATIONS: u16 = 1 << 1;
    /// Evictions.
    pub const EVICTIONS: u16 = 1 << 2;
    /// Deletions.
    pub const DELETIONS: u16 = 1 << 3;
    /// Connections opened and closed.
    pub const CONNEVENTS: u16 = 1 << 4;
    /// Events of the server itself.
    pub const SYSEVENTS: u16 = 1 << 5;
    /// Raw command lines.
    pub const RAWCMDS: u16 = 1 << 6;
    /// Requests through the proxy.
    pub const PROXYREQS: u16 = 1 << 7;
    /// Events of the proxy.
    pub const PROXYEVENTS: u16 = 1 << 8;
    /// Log lines written by proxy scripts.
    pub const PROXYUSER: u16 = 1 << 9;
}
