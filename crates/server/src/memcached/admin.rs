//! The commands that are not about one key.

use base::size::ByteSize;
use cache::Cache;
use reactor::OUTPUT_UNIT_BYTES_MAX;
use wire::memcached::{DumpFormat, Expiry, Request, ShutdownMode, Stats, Subject, lines};

use super::{
    context::Context,
    record::Replies,
    reports::{self, List},
};
use crate::{config, stats::Settings};

/// Highest level that `verbosity` sets.
const VERBOSITY_MAX: u32 = 2;

/// Slab classes that can exist in memcached: 1 to 63.
const SLAB_CLASS_MAX: u32 = 63;

/// What follows a command.
#[derive(Debug)]
pub(super) enum Then {
    /// The next one.
    Continue,
    /// A report that is still to be written, and then the next one.
    List(List),
    /// The end of the connection.
    Finish,
}

/// Answers a command that is not about a key.
pub(super) fn admin(context: &mut Context, request: &Request<'_>, replies: &mut Replies) -> Then {
    let (reply, noreply) = match *request {
        Request::MetaNoop => (lines::META_NOOP, false),
        Request::Version => {
            replies.put(b"VERSION ");
            replies.put(reports::VERSION.as_bytes());
            (&lines::LINE_END[..], false)
        }
        Request::FlushAll { at, noreply } => {
            flush_all(context, at);
            (lines::OK, noreply)
        }
        Request::Verbosity { level, noreply } => {
            context.server.set_verbosity(level.min(VERBOSITY_MAX).into());
            (lines::OK, noreply)
        }
        Request::Watch { .. } => (lines::WATCH_NOT_ALLOWED, false),
        Request::Dump { format: DumpFormat::Metadump, noreply, .. } => {
            (lines::METADUMP_NOT_ALLOWED, noreply)
        }
        Request::Dump { format: DumpFormat::Mgdump, noreply, .. } => {
            (lines::MGDUMP_NOT_ALLOWED, noreply)
        }
        Request::Crawl { classes, noreply } => (crawl(classes), noreply),
        Request::MemoryLimit { mebibytes, noreply } => {
            (memory_limit(context, u64::from(mebibytes) << 20), noreply)
        }
        Request::Tune { subject: Subject::SlabsReassign, noreply } => {
            (lines::BAD_SLAB_CLASS, noreply)
        }
        Request::Tune { noreply, .. } => (lines::OK, noreply),
        Request::Shutdown { mode, noreply } => match shutdown(context, mode) {
            None => return Then::Finish,
            Some(reply) => (reply, noreply),
        },
        Request::Stats(stats) => return report(context, stats, replies),
        Request::Quit => return Then::Finish,
        _ => (lines::ERROR, false),
    };
    if !noreply {
        replies.put(reply);
    }
    Then::Continue
}

fn flush_all(context: &mut Context, at: Expiry) {
    context.counters.cmd_flush.add(1);
    match at {
        Expiry::Never | Expiry::Past => context.worker.flush(),
        later => context.worker.cache().flush_at(context.deadline_ms(later)),
    }
}

/// Changes the memory of the whole server. What buffers and connections have of it stays theirs.
fn memory_limit(context: &Context, memory_bytes: u64) -> &'static [u8] {
    let Settings { other_bytes, .. } = context.server.settings();
    let record_bytes = memory_bytes.saturating_sub(*other_bytes);
    let least_bytes = config::RECORD_BYTES_MIN;
    let (memory, records) = (ByteSize(memory_bytes), ByteSize(record_bytes));
    if record_bytes < least_bytes {
        let least = ByteSize(least_bytes);
        tracing::info!(%memory, %records, %least, "too little memory: it stays as it is");
        return lines::MEMORY_LIMIT_FAILED;
    }
    if let Err(error) = context.worker.cache().set_memory(record_bytes) {
        tracing::info!(%memory, %error, "impossible memory: it stays as it is");
        return lines::MEMORY_LIMIT_FAILED;
    }
    context.server.set_memory_bytes(memory_bytes);
    tracing::info!(%memory, %records, "memory changed");
    lines::OK
}

/// Nothing needs to crawl for expired records here; only wrong classes are told.
fn crawl(classes: &[u8]) -> &'static [u8] {
    let is_class = |word: &[u8]| {
        let number = str::from_utf8(word).ok().and_then(|word| word.parse::<u32>().ok());
        number.is_some_and(|class| (1..=SLAB_CLASS_MAX).contains(&class))
    };
    if classes == b"all" || classes.split(|&byte| byte == b',').all(is_class) {
        lines::OK
    } else {
        lines::BAD_CRAWLER_CLASS
    }
}

/// Shuts the server down, or returns why not.
fn shutdown(context: &Context, mode: Option<ShutdownMode>) -> Option<&'static [u8]> {
    if !context.server.settings().shutdown_enabled {
        return Some(lines::SHUTDOWN_NOT_ENABLED);
    }
    let Some(mode) = mode else { return Some(lines::INVALID_SHUTDOWN_MODE) };
    context.control.shutdown(mode == ShutdownMode::Graceful);
    None
}

fn report(context: &Context, stats: Stats, replies: &mut Replies) -> Then {
    let server = &*context.server;
    let cache: &Cache = context.worker.cache();
    let report = match stats {
        Stats::General => &reports::general(server, cache),
        Stats::Settings => &reports::settings(server),
        Stats::Items => &reports::items(cache),
        Stats::Slabs => &reports::slabs(server, cache),
        Stats::Sizes => &reports::sizes(),
        Stats::Extstore => &reports::extstore(),
        Stats::Connections => return Then::List(List::connections()),
        Stats::DetailDump => return Then::List(List::prefixes()),
        Stats::DetailEnable { on } => {
            server.prefixes().enable(on);
            lines::OK
        }
        Stats::Reset => {
            server.reset();
            lines::RESET
        }
        Stats::CacheDump { .. } => lines::CACHEDUMP_NOT_ALLOWED,
    };
    debug_assert!(report.len() <= OUTPUT_UNIT_BYTES_MAX, "{} bytes", report.len());
    replies.put(report);
    Then::Continue
}
