//! memcached's options: one row each, from which parsing, the help and the tests follow.
//!
//! An option either changes what is asked for, or tunes something that does not exist here: then
//! its value is checked as memcached checks it, and one warning says what it would have done.

use super::{
    number::{leading, leading_fraction, leading_octal},
    refusal::Refusal,
    suboptions,
};

use Argument::{LongOnly, None as Nothing, Required};
use Effect::{Accepted, Honoured};

/// Port that memcached clients expect.
const PORT: i32 = 11211;

/// Longest value unless `-I` says otherwise.
const VALUE_BYTES: i64 = 1 << 20;

/// Threads beyond which memcached warns.
const THREADS_MANY: i32 = 64;

/// What follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    None,
    /// An argument, and what stands for it in the help.
    Required(&'static str),
    /// One behind the long name and `=`, if any. It is ignored.
    LongOnly,
}

/// What an option does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// Changes what is asked for.
    Honoured(fn(&mut Options, &str) -> Result<(), Refusal>),
    /// Checks the argument; the text says what the option would have done.
    Accepted(fn(&str) -> Result<(), Refusal>, &'static str),
}

/// One option.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) short: char,
    /// Empty if there is only the short name.
    pub(super) long: &'static str,
    pub(super) argument: Argument,
    pub(super) help: &'static str,
    pub(super) effect: Effect,
}

/// What is shown instead of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Help,
    Licence,
    Version,
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Auto,
    Ascii,
    Binary,
}

/// What options ask for. The default is what memcached does without any.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) page: Option<Page>,
    /// TCP port; 0 for none, -1 for one that the system chooses.
    pub(super) port: i32,
    pub(super) port_given: bool,
    /// UDP port, likewise.
    pub(super) udp_port: i32,
    pub(super) udp_port_given: bool,
    pub(super) unix: Option<String>,
    pub(super) unix_mode: u32,
    pub(super) listen: Vec<String>,
    pub(super) memory_mib: i32,
    pub(super) evicts: bool,
    pub(super) connections_max: i32,
    pub(super) refuses_connections: bool,
    pub(super) threads: i32,
    pub(super) turn_commands_max: Option<i32>,
    pub(super) backlog: i32,
    pub(super) value_bytes_max: i64,
    pub(super) chunk_bytes_max: i64,
    pub(super) idle_timeout_s: i32,
    pub(super) tokens: bool,
    pub(super) shutdown: bool,
    pub(super) flush: bool,
    pub(super) dump: bool,
    pub(super) watch: bool,
    pub(super) delimiter: Option<char>,
    pub(super) protocol: Option<Protocol>,
    pub(super) sasl: bool,
    pub(super) auth_file: Option<String>,
    pub(super) memory_file: Option<String>,
    pub(super) daemon: bool,
    pub(super) core_files: bool,
    pub(super) lock_memory: bool,
    pub(super) user: Option<String>,
    pub(super) pid_file: Option<String>,
    pub(super) verbosity: u32,
    pub(super) napi_ids: i32,
    pub(super) hot_percent: i32,
    pub(super) warm_percent: i32,
    pub(super) temporary: bool,
    pub(super) maintainer: bool,
    /// What is asked for in vain.
    pub(super) warnings: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            page: None,
            port: PORT,
            port_given: false,
            udp_port: 0,
            udp_port_given: false,
            unix: None,
            unix_mode: 0o700,
            listen: Vec::new(),
            memory_mib: 64,
            evicts: true,
            connections_max: 1024,
            refuses_connections: true,
            threads: 4,
            turn_commands_max: None,
            backlog: 1024,
            value_bytes_max: VALUE_BYTES,
            chunk_bytes_max: suboptions::CHUNK_BYTES,
            idle_timeout_s: 0,
            tokens: true,
            shutdown: false,
            flush: true,
            dump: true,
            watch: true,
            delimiter: None,
            protocol: None,
            sasl: false,
            auth_file: None,
            memory_file: None,
            daemon: false,
            core_files: false,
            lock_memory: false,
            user: None,
            pid_file: None,
            verbosity: 0,
            napi_ids: 0,
            hot_percent: 20,
            warm_percent: 40,
            temporary: false,
            maintainer: true,
            warnings: Vec::new(),
        }
    }
}

impl Options {
    /// What `given` asks for, up to the first option that shows a page.
    ///
    /// # Errors
    /// A value that memcached refuses, too.
    pub(super) fn from_given(given: Vec<super::command_line::Given>) -> Result<Self, Refusal> {
        let mut options = Self::default();
        for (row, argument) in given {
            match row.effect {
                Effect::Honoured(set) => set(&mut options, &argument)?,
                Effect::Accepted(check, would) => {
                    check(&argument)?;
                    options.warn(format!("-{} has no effect: {would}", row.short));
                }
            }
            if options.page.is_some() {
                break;
            }
        }
        Ok(options)
    }

    /// Adds a warning, once.
    pub(super) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

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
pub(super) const OPTIONS: &[Row] = &[
    row(
        'p',
        "port",
        Required("<num>"),
        "TCP port to listen on; 0 for none, -1 for any free one \
        [default: 11211]",
        Honoured(|o, text| {
            (o.port, o.port_given) = (leading(text), true);
            Ok(())
        }),
    ),
    row(
        'U',
        "udp-port",
        Required("<num>"),
        "UDP port to listen on [default: 0, none]",
        Honoured(|o, text| {
            (o.udp_port, o.udp_port_given) = (leading(text), true);
            Ok(())
        }),
    ),
    row(
        's',
        "unix-socket",
        Required("<file>"),
        "Unix socket to listen on, instead of the network",
        Honoured(|o, text| {
            o.unix = Some(text.to_owned());
            Ok(())
        }),
    ),
    row(
        'a',
        "unix-mask",
        Required("<mask>"),
        "permissions of the Unix socket, octal [default: 700]",
        Honoured(|o, text| {
            o.unix_mode = leading_octal(text);
            Ok(())
        }),
    ),
    row(
        'A',
        "enable-shutdown",
        Nothing,
        "obey the command `shutdown`",
        Honoured(|o, _| {
            o.shutdown = true;
            Ok(())
        }),
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
    row(
        'd',
        "daemon",
        Nothing,
        "run in the background",
        Honoured(|o, _| {
            o.daemon = true;
            Ok(())
        }),
    ),
    row(
        'r',
        "enable-coredumps",
        Nothing,
        "allow core files as large as the system lets",
        Honoured(|o, _| {
            o.core_files = true;
            Ok(())
        }),
    ),
    row(
        'u',
        "user",
        Required("<user>"),
        "become this user; needed when the superuser starts it",
        Honoured(|o, text| {
            o.user = Some(text.to_owned());
            Ok(())
        }),
    ),
    row(
        'm',
        "memory-limit",
        Required("<num>"),
        "memory for records, in MiB [default: 64]",
        Honoured(|o, text| {
            o.memory_mib = leading(text);
            Ok(())
        }),
    ),
    row(
        'M',
        "disable-evictions",
        Nothing,
        "refuse to store when memory is full, instead of \
        evicting",
        Honoured(|o, _| {
            o.evicts = false;
            Ok(())
        }),
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
        Honoured(|o, _| {
            o.lock_memory = true;
            Ok(())
        }),
    ),
    row(
        'v',
        "verbose",
        LongOnly,
        "log more; -vv still more",
        Honoured(|o, _| {
            o.verbosity += 1;
            Ok(())
        }),
    ),
    row(
        'h',
        "help",
        Nothing,
        "print this and exit",
        Honoured(|o, _| {
            o.page = Some(Page::Help);
            Ok(())
        }),
    ),
    row(
        'i',
        "license",
        Nothing,
        "print the licence and exit",
        Honoured(|o, _| {
            o.page = Some(Page::Licence);
            Ok(())
        }),
    ),
    row(
        'V',
        "version",
        Nothing,
        "print the version and exit",
        Honoured(|o, _| {
            o.page = Some(Page::Version);
            Ok(())
        }),
    ),
    row(
        'P',
        "pidfile",
        Required("<file>"),
        "file for the number of the process",
        Honoured(|o, text| {
            o.pid_file = Some(text.to_owned());
            Ok(())
        }),
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
        "no CAS tokens",
        Honoured(|o, _| {
            o.tokens = false;
            Ok(())
        }),
    ),
    row(
        'b',
        "listen-backlog",
        Required("<num>"),
        "connections that may wait to be accepted \
        [default: 1024]",
        Honoured(|o, text| {
            o.backlog = leading(text);
            Ok(())
        }),
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
                        "Invalid value for binding protocol: {text}\n -- should be one of auto, binary, \
                 or ascii"
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
        Honoured(|o, text| {
            o.value_bytes_max = size_bytes(text);
            Ok(())
        }),
    ),
    row(
        'S',
        "enable-sasl",
        Nothing,
        "clients log in by SASL; binary protocol only",
        Honoured(|o, _| {
            o.sasl = true;
            Ok(())
        }),
    ),
    row(
        'F',
        "disable-flush-all",
        Nothing,
        "refuse `flush_all`",
        Honoured(|o, _| {
            o.flush = false;
            Ok(())
        }),
    ),
    row(
        'X',
        "disable-dumping",
        Nothing,
        "refuse `stats cachedump` and `lru_crawler metadump`",
        Honoured(|o, _| {
            o.dump = false;
            Ok(())
        }),
    ),
    row(
        'W',
        "disable-watch",
        Nothing,
        "refuse `watch`",
        Honoured(|o, _| {
            o.watch = false;
            Ok(())
        }),
    ),
    row(
        'Y',
        "auth-file",
        Required("<file>"),
        "clients log in with a user and password of this \
        file, one `user:password` a line; text protocol only",
        Honoured(|o, text| {
            o.auth_file = Some(text.to_owned());
            Ok(())
        }),
    ),
    row(
        'e',
        "memory-file",
        Required("<file>"),
        "keep records over a restart in this file, which \
        should be in memory (tmpfs); written when SIGUSR1 or `shutdown graceful` ends the server",
        Honoured(|o, text| {
            o.memory_file = Some(text.to_owned());
            Ok(())
        }),
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

#[cfg(test)]
mod tests;
