//! Fixed reply lines of the memcached text protocols, each with its line end.

/// The end of a line, and of a value.
pub const LINE_END: &[u8; 2] = b"\r\n";

/// A storage command succeeded.
pub const STORED: &[u8] = b"STORED\r\n";
/// The condition of `add`, `replace`, `append` or `prepend` did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// `cas` found another token.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// No such record.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// `delete` succeeded.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// `touch` succeeded.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// The last line of a retrieval, a report or a dump.
pub const END: &[u8] = b"END\r\n";

/// Behind the value of the last record of a text retrieval.
pub const LAST_VALUE_END: &[u8] = b"\r\nEND\r\n";
/// An order was carried out.
pub const OK: &[u8] = b"OK\r\n";
/// `stats reset` was carried out.
pub const RESET: &[u8] = b"RESET\r\n";
/// The answer to `mn`.
pub const META_NOOP: &[u8] = b"MN\r\n";
/// The answer to `me` for a missing record.
pub const META_DEBUG_MISS: &[u8] = b"EN\r\n";

/// No such command, or an order with wrong arguments.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// Too few or wrong arguments.
pub const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
/// A value was not followed by its line end.
pub const BAD_DATA_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// `gat`, `touch`, `flush_all`: the time is no number.
pub const INVALID_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
/// `incr`, `decr`: the delta is no number.
pub const INVALID_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
/// `incr`, `decr`, `ma`: the value is no number.
pub const NON_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// The value is larger than the server takes. Sent even for a quiet `ms`; a text command with
/// `noreply` stays silent. The body is dropped, and a `set` or `ms` drops the record present.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// No room could be made for a record.
pub const OUT_OF_MEMORY_STORING: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// No room could be made for the result of `incr`, `decr` or `ma`.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";
/// `shutdown` is not allowed.
pub const SHUTDOWN_NOT_ENABLED: &[u8] = b"SERVER_ERROR: shutdown not enabled\r\n";
/// `shutdown` with a mode that does not exist.
pub const INVALID_SHUTDOWN_MODE: &[u8] = b"CLIENT_ERROR invalid shutdown mode\r\n";
/// More connections than the server takes.
pub const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// Meta: a flag was given twice.
pub const DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
/// Meta: no such flag.
pub const INVALID_FLAG: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
/// `ma`: anything wrong with key or flags.
pub const INVALID_OR_DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
/// Meta: more tokens than allowed.
pub const TOO_MANY_FLAGS: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
/// Meta: the argument of a flag is no number.
pub const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
/// Meta: the key is no base64.
pub const BAD_KEY_ENCODING: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
/// Meta: the opaque token is too long.
pub const OPAQUE_TOO_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";
/// `J` is no number. (`ma` itself says [`INVALID_OR_DUPLICATE_FLAG`].)
pub const INVALID_INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
/// `D` is no number. (`ma` itself says [`INVALID_OR_DUPLICATE_FLAG`].)
pub const INVALID_META_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
/// `ms`: no such mode.
pub const INVALID_STORE_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";
/// `ma`: no such mode.
pub const INVALID_ARITHMETIC_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ma M token\r\n";

/// `stats cachedump` without its arguments.
pub const BAD_STATS_LINE: &[u8] = b"CLIENT_ERROR bad command line\r\n";
/// `stats cachedump` with a class that cannot exist.
pub const ILLEGAL_SLAB: &[u8] = b"CLIENT_ERROR Illegal slab id\r\n";
/// `stats cachedump` is not allowed.
pub const CACHEDUMP_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR stats cachedump not allowed\r\n";
/// `stats detail` with wrong arguments.
pub const DETAIL_USAGE: &[u8] = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n";

/// `cache_memlimit` below 8 MiB.
pub const MEMORY_LIMIT_TOO_SMALL: &[u8] =
    b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
/// `cache_memlimit` above 1,000,000,000 MiB.
pub const MEMORY_LIMIT_NOT_MEBIBYTES: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
/// `cache_memlimit` could not be followed.
pub const MEMORY_LIMIT_FAILED: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
/// `slabs automove window` out of range.
pub const AUTOMOVE_WINDOW: &[u8] = b"CLIENT_ERROR automove window too low or too high\r\n";
/// `slabs reassign` with a class that does not exist.
pub const BAD_SLAB_CLASS: &[u8] = b"BADCLASS invalid src or dst class id\r\n";
/// `slabs reassign` from a class that has less than two pages.
pub const NO_SPARE_SLAB: &[u8] = b"NOSPARE source class has no spare pages\r\n";
/// `slabs reassign` to the class that it is from.
pub const SAME_SLAB_CLASS: &[u8] = b"SAME src and dst class are identical\r\n";
/// `lru tune` with too large shares.
pub const LRU_SHARES: &[u8] = b"ERROR hot and warm pcts must not exceed 80\r\n";
/// `lru tune` with factors that are not positive.
pub const LRU_FACTORS: &[u8] = b"ERROR hot/warm age factors must be greater than 0\r\n";
/// `lru_crawler sleep` beyond one second.
pub const CRAWLER_SLEEP: &[u8] = b"CLIENT_ERROR sleep must be one second or less\r\n";
/// `lru_crawler` with a class that does not exist.
pub const BAD_CRAWLER_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
/// `lru_crawler`: another client's dump is under way.
pub const CRAWLER_BUSY: &[u8] = b"BUSY currently processing crawler request\r\n";
/// `lru_crawler` with a list of classes that names none.
pub const CRAWLER_NOT_STARTED: &[u8] = b"NOTSTARTED no items to crawl\r\n";
/// `lru_crawler crawl hash`, which only dumps can.
pub const CRAWLER_UNKNOWN: &[u8] = b"ERROR an unknown error happened\r\n";
/// `lru_crawler` while it is disabled.
pub const CRAWLER_DISABLED: &[u8] = b"CLIENT_ERROR lru crawler disabled\r\n";
/// `lru_crawler enable` while it is.
pub const CRAWLER_NOT_ENABLED: &[u8] = b"ERROR failed to start lru crawler thread\r\n";
/// `lru_crawler disable` while it is.
pub const CRAWLER_NOT_DISABLED: &[u8] = b"ERROR failed to stop lru crawler thread\r\n";
/// `lru_crawler metadump` behind commands whose replies have not been sent.
pub const METADUMP_PIPELINED: &[u8] = b"ERROR cannot pipeline other commands before metadump\r\n";
/// `lru_crawler mgdump` behind commands whose replies have not been sent.
pub const MGDUMP_PIPELINED: &[u8] = b"ERROR cannot pipeline other commands before mgdump\r\n";
/// `watch` behind commands whose replies have not been sent.
pub const WATCH_PIPELINED: &[u8] = b"ERROR cannot pipeline other commands before watch\r\n";
/// `watch` when as many watch as may.
pub const WATCHERS_TOO_MANY: &[u8] = b"WATCHER_TOO_MANY log watcher limit reached\r\n";
/// The last line of a mgdump.
pub const DUMP_END: &[u8] = b"EN\r\n";
/// `lru_crawler metadump` is not allowed.
pub const METADUMP_NOT_ALLOWED: &[u8] = b"ERROR metadump not allowed\r\n";
/// `lru_crawler mgdump` is not allowed.
pub const MGDUMP_NOT_ALLOWED: &[u8] = b"ERROR key dump not allowed\r\n";
/// `flush_all` is not allowed.
pub const FLUSH_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
/// `watch` is not allowed.
pub const WATCH_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR watch commands not allowed\r\n";

/// A client that has to log in sends something else.
pub const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
/// A login failed.
pub const LOGIN_FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
/// The value of a login is too long.
pub const LOGIN_TOO_LONG: &[u8] = b"CLIENT_ERROR auth token too long\r\n";
/// The value of a login is not followed by a line end.
pub const BAD_TERMINATION: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";
/// The value of a login has no blank.
pub const BAD_LOGIN: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";

/// The longest line above; a reply that is one of them needs no more room.
pub const LINE_LEN_MAX: usize = 64;

const _: () = assert!(NON_NUMERIC.len() <= LINE_LEN_MAX);
const _: () = assert!(MEMORY_LIMIT_FAILED.len() <= LINE_LEN_MAX);
const _: () = assert!(MEMORY_LIMIT_NOT_MEBIBYTES.len() <= LINE_LEN_MAX);
