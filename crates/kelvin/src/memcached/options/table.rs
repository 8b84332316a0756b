//! The rows: all options of memcached.

use super::{
    Argument::{self, LongOnly, None as Nothing, Required},
    Effect::{self, Accepted, Honoured, Set},
    Page, Protocol, Row,
};
use crate::memcached::{
    number::{leading, leading_fraction, leading_octal},
    refusal::Refusal,
    suboptions,
};

/// Threads beyond which memcached warns.
const THREADS_MANY: i32 = 64;

/// Shorthand for the rows below.
const fn row(
    short: char,
    long: &'static str,
    argument: Argument,
    help: &'static str,
    effect: Effect,
) -> Row {
    Row { short, long, argument, help, effect }
}

/// All options, in the order of the help.
pub(in crate::memcached) const OPTIONS: &[Row] = &[
    row(
        'p',
        "port",
        Required("<num>"),
        "TCP port to listen on; 0 for none, -1 for any free one [default: 11211]",
        Set(|o, text| (o.port, o.port_given) = (leading(text), true)),
    ),
    row(
        'U',
        "udp-port",
        Required("<num>"),
        "UDP port to listen on [default: 0, none]",
        Set(|o, text| (o.udp_port, o.udp_port_given) = (leading(text), true)),
    ),
    row(
        's',
        "unix-socket",
        Required("<file>"),
        "Unix socket to listen on, instead of the network",
        Set(|o, text| o.unix = Some(text.to_owned())),
    ),
    row(
        'a',
        "unix-mask",
        Required("<mask>"),
        "permissions of the Unix socket, octal [default: 700]",
        Set(|o, text| o.unix_mode = leading_octal(text)),
    ),
    row(
        'A',
        "enable-shutdown",
        Nothing,
        "obey the command `shutdown`",
        Set(|o, _| o.shutdown = true),
    ),
    row(
        'l',
        "listen",
        Required("<addr>"),
        "addresses to listen on, separated by commas: ADDR, \
        ADDR:PORT, [IPV6]:PORT, NAME or *, each behind proto[NAME]: and tag[NAME]: if wanted \
        [default: all]",
        Honoured(|o, text| {
            // As in memcached, an address that is part of what was given before adds nothing.
            if !o.listen.join(",").contains(text) {
                o.listen.push(text.to_owned());
            }
            Ok(())
        }),
    ),
    row('d', "daemon", Nothing, "run in the background", Set(|o, _| o.daemon = true)),
    row(
        'r',
        "enable-coredumps",
        Nothing,
        "allow core files as large as the system lets",
        Set(|o, _| o.core_files = true),
    ),
    row(
        'u',
        "user",
        Required("<user>"),
        "become this user; needed when the superuser starts it",
        Set(|o, text| o.user = Some(text.to_owned())),
    ),
    row(
        'm',
        "memory-limit",
        Required("<num>"),
        "memory for records, in MiB [default: 64]",
        Set(|o, text| o.memory_mib = leading(text)),
    ),
    row(
        'M',
        "disable-evictions",
        Nothing,
        "refuse to store when memory is full, instead of \
        evicting",
        Set(|o, _| o.evicts = false),
    ),
    row(
        'c',
        "conn-limit",
        Required("<num>"),
        "most connections at a time [default: 1024]",
        Honoured(|o, text| {
            o.connections_max = positive(text, "Maximum connections must be greater than 0")?;
            Ok(())
        }),
    ),
    row(
        'k',
        "lock-memory",
        Nothing,
        "keep all memory from being swapped out",
        Set(|o, _| o.lock_memory = true),
    ),
    row('v', "verbose", LongOnly, "log more; -vv still more", Set(|o, _| o.verbosity += 1)),
    row('h', "help", Nothing, "print this and exit", Set(|o, _| o.page = Some(Page::Help))),
    row(
        'i',
        "license",
        Nothing,
        "print the licence and exit",
        Set(|o, _| o.page = Some(Page::Licence)),
    ),
    row(
        'V',
        "version",
        Nothing,
        "print the version and exit",
        Set(|o, _| o.page = Some(Page::Version)),
    ),
    row(
        'P',
        "pidfile",
        Required("<file>"),
        "file for the number of the process",
        Set(|o, text| o.pid_file = Some(text.to_owned())),
    ),
    row(
        'f',
        "slab-growth-factor",
        Required("<num>"),
        "no effect",
        Accepted(
            |text| {
                let factor = leading_fraction(text);
                if factor > 1.0 {
                    Ok(())
                } else {
                    Err(Refusal::failure("Factor must be greater than 1"))
                }
            },
            "it would space slab classes; there are none to be set",
        ),
    ),
    row(
        'n',
        "slab-min-size",
        Required("<bytes>"),
        "no effect",
        Accepted(
            |text| positive(text, "Chunk size must be greater than 0").map(drop),
            "it would set the size of the smallest slab class; there are none to be set",
        ),
    ),
    row(
        'L',
        "enable-largepages",
        Nothing,
        "no effect",
        Accepted(|_| Ok(()), "it would ask for large pages; the system is always asked for them"),
    ),
    row(
        'D',
        "",
        Required("<char>"),
        "what ends the prefix of a key; turns `stats detail` on",
        Honoured(|o, text| {
            let delimiter = text.chars().next();
            o.delimiter =
                Some(delimiter.ok_or_else(|| Refusal::failure("No delimiter specified"))?);
            Ok(())
        }),
    ),
    row(
        't',
        "threads",
        Required("<num>"),
        "threads that serve connections [default: 4]",
        Honoured(|o, text| {
            o.threads = positive(text, "Number of threads must be greater than 0")?;
            if o.threads > THREADS_MANY {
                o.warn(format!("-t {}: more threads than CPUs are of no use", o.threads));
            }
            Ok(())
        }),
    ),
    row(
        'R',
        "max-reqs-per-event",
        Required("<num>"),
        "most requests of a connection before others \
        have their turn [default: 512]",
        Honoured(|o, text| {
            let most = positive(text, "Number of requests per event must be greater than 0")?;
            o.turn_commands_max = Some(most);
            Ok(())
        }),
    ),
    row(
        'C',
        "disable-cas",
        Nothing,
        "give records no tokens, so that no `cas` stores",
        Set(|o, _| o.tokens = false),
    ),
    row(
        'b',
        "listen-backlog",
        Required("<num>"),
        "connections that may wait to be accepted \
        [default: 1024]",
        Set(|o, text| o.backlog = leading(text)),
    ),
    row(
        'B',
        "protocol",
        Required("<name>"),
        "ascii, binary or auto [default: auto]",
        Honoured(|o, text| {
            o.protocol = Some(match text {
                "auto" => Protocol::Auto,
                "ascii" => Protocol::Ascii,
                "binary" => Protocol::Binary,
                _ => {
                    return Err(Refusal::usage(format!(
                        "Invalid value for binding protocol: {text}\n -- should be one \
                         of auto, binary, or ascii"
                    )));
                }
            });
            Ok(())
        }),
    ),
    row(
        'I',
        "max-item-size",
        Required("<num>"),
        "longest value in bytes, or with k or m \
        [default: 1m, from 1k to 1024m]",
        Set(|o, text| o.value_bytes_max = size_bytes(text)),
    ),
    row(
        'S',
        "enable-sasl",
        Nothing,
        "clients log in by SASL; binary protocol only",
        Set(|o, _| o.sasl = true),
    ),
    row('F', "disable-flush-all", Nothing, "refuse `flush_all`", Set(|o, _| o.flush = false)),
    row(
        'X',
        "disable-dumping",
        Nothing,
        "refuse `stats cachedump` and `lru_crawler metadump`",
        Set(|o, _| o.dump = false),
    ),
    row('W', "disable-watch", Nothing, "refuse `watch`", Set(|o, _| o.watch = false)),
    row(
        'Y',
        "auth-file",
        Required("<file>"),
        "clients log in with a user and password of this \
        file, one `user:password` a line; text protocol only",
        Set(|o, text| o.auth_file = Some(text.to_owned())),
    ),
    row(
        'e',
        "memory-file",
        Required("<file>"),
        "keep records over a restart in this file, which \
        should be in memory (tmpfs); written when SIGUSR1 or `shutdown graceful` ends the server",
        Set(|o, text| o.memory_file = Some(text.to_owned())),
    ),
    row(
        'Z',
        "enable-ssl",
        Nothing,
        "",
        Honoured(|_, _| Err(Refusal::usage("This server is not built with TLS support."))),
    ),
    row(
        'N',
        "napi-ids",
        Required("<num>"),
        "no effect",
        Honoured(|o, text| {
            o.napi_ids = positive(text, "Maximum number of NAPI IDs must be greater than 0")?;
            o.warn(
                "-N has no effect: it would give the connections of a network queue to one \
                thread"
                    .to_owned(),
            );
            Ok(())
        }),
    ),
    row(
        'o',
        "extended",
        Required("<list>"),
        "further options, separated by commas:",
        Honoured(suboptions::read),
    ),
];

fn positive(text: &str, message: &str) -> Result<i32, Refusal> {
    match leading(text) {
        number if number > 0 => Ok(number),
        _ => Err(Refusal::failure(message)),
    }
}

/// `1024`, `512k` or `2m` as bytes.
fn size_bytes(text: &str) -> i64 {
    let unit = match text.bytes().last() {
        Some(b'k' | b'K') => 1 << 10,
        Some(b'm' | b'M') => 1 << 20,
        _ => 1,
    };
    i64::from(leading(text)) * unit
}
