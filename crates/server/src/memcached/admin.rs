//! The commands that are not about one key.

use std::ops::RangeInclusive;

use base::size::ByteSize;
use cache::Cache;
use reactor::OUTPUT_UNIT_BYTES_MAX;
use wire::memcached::{DumpFormat, Expiry, Request, ShutdownMode, Stats, Subject, lines};

use super::{
    context::{Context, Control},
    dump::{Dump, has_class},
    record::Replies,
    reports::{self, CLASS, List},
    watch::Watch,
};
use crate::stats::ServerStats;

/// Highest level that `verbosity` sets.
pub(super) const VERBOSITY_MAX: u32 = 2;

/// Slab classes that memcached has unless it is told otherwise; 0 is for pages without a class.
const SLAB_CLASSES: RangeInclusive<i32> = 0..=39;

/// Pages of a class of which one can be spared.
const SPARE_PAGES: u64 = 2;

/// What follows a command.
#[derive(Debug)]
pub(super) enum Then {
    /// The next one.
    Continue,
    /// A report that is still to be written, and then the next one.
    List(List),
    /// A list of keys that is still to be written, and then the next one.
    Dump(Box<Dump>),
    /// Lines of logs, to the end of the connection.
    Watch(Watch),
    /// The end of the connection.
    Finish,
}

/// Answers a command that is not about a key.
pub(super) fn admin(context: &mut Context, request: &Request<'_>, replies: &mut Replies) -> Then {
    let (reply, noreply) = match *request {
        Request::MetaNoop => {
            replies.put(lines::META_NOOP);
            // memcached sends all that waits before it goes on.
            context.unsent_before = replies.len();
            return Then::Continue;
        }
        Request::Version => {
            replies.put(b"VERSION ");
            replies.put(reports::VERSION.as_bytes());
            (&lines::LINE_END[..], false)
        }
        Request::FlushAll { at, noreply } => {
            let reply = if flush_all(context, at) { lines::OK } else { lines::FLUSH_NOT_ALLOWED };
            (reply, noreply)
        }
        Request::Verbosity { level, noreply } => {
            context.server.set_verbosity(level.min(VERBOSITY_MAX).into());
            (lines::OK, noreply)
        }
        Request::Watch { logs } => match Watch::begin(context, logs, replies) {
            Ok(watch) => {
                replies.put(lines::OK);
                return Then::Watch(watch);
            }
            Err(reply) => (reply, false),
        },
        Request::Dump { format, classes, noreply } => match dump(context, format, classes, replies)
        {
            Ok(dump) => return Then::Dump(Box::new(dump)),
            Err(reply) => (reply, noreply),
        },
        Request::Crawl { classes, noreply } => (crawl(&context.server, classes), noreply),
        Request::MemoryLimit { mebibytes, noreply } => (
            memory_limit(&context.server, context.worker.cache(), u64::from(mebibytes) << 20),
            noreply,
        ),
        Request::Tune { subject: Subject::SlabsReassign { from, to }, noreply } => {
            (reassign(context.worker.cache(), from, to), noreply)
        }
        Request::Tune { subject: Subject::CrawlerSwitch { on }, noreply } => {
            (switch_crawler(&context.server, on), noreply)
        }
        Request::Tune { noreply, .. } => (lines::OK, noreply),
        Request::Shutdown { mode, noreply } => {
            match shutdown(&context.server, &*context.control, mode) {
                None => return Then::Finish,
                Some(reply) => (reply, noreply),
            }
        }
        Request::Stats(stats) => return report(context, stats, replies),
        Request::Quit => return Then::Finish,
        _ => (lines::ERROR, false),
    };
    if !noreply {
        replies.put(reply);
    }
    Then::Continue
}

/// Makes all records dead, now or later. False if that is not allowed.
pub(super) fn flush_all(context: &mut Context, at: Expiry) -> bool {
    context.counters.cmd_flush.add(1);
    if context.server.settings().flush_refused {
        return false;
    }
    match at {
        Expiry::Never | Expiry::Past => context.worker.flush(),
        later => context.worker.cache().flush_at(context.deadline_ms(later)),
    }
    true
}

/// Changes the memory of the whole server. What buffers, connections and the index of a log have of
/// it stays theirs.
pub(super) fn memory_limit(
    server: &ServerStats,
    cache: &Cache,
    memory_bytes: u64,
) -> &'static [u8] {
    let mut given = server.records();
    let record_bytes = given.left_of(memory_bytes, server.settings());
    let least_bytes = server.settings().record_bytes_min;
    let (memory, records) = (ByteSize(memory_bytes), ByteSize(record_bytes));
    if record_bytes < least_bytes {
        let least = ByteSize(least_bytes);
        tracing::info!(%memory, %records, %least, "too little memory: it stays as it is");
        return lines::MEMORY_LIMIT_FAILED;
    }
    if let Err(error) = given.give(cache, record_bytes) {
        tracing::info!(%memory, %error, "impossible memory: it stays as it is");
        return lines::MEMORY_LIMIT_FAILED;
    }
    server.set_memory_bytes(memory_bytes);
    tracing::info!(%memory, %records, "memory changed");
    lines::OK
}

/// Lists keys, unless that is not allowed.
fn dump(
    context: &Context,
    format: DumpFormat,
    classes: &[u8],
    replies: &Replies,
) -> Result<Dump, &'static [u8]> {
    let (not_allowed, pipelined) = match format {
        DumpFormat::Metadump => (lines::METADUMP_NOT_ALLOWED, lines::METADUMP_PIPELINED),
        DumpFormat::Mgdump => (lines::MGDUMP_NOT_ALLOWED, lines::MGDUMP_PIPELINED),
    };
    if !context.server.crawler_enabled() {
        return Err(lines::CRAWLER_DISABLED);
    }
    if !context.server.settings().dumps_allowed {
        return Err(not_allowed);
    }
    if replies.len() > context.unsent_before {
        return Err(pipelined);
    }
    Dump::of_crawler(&context.worker, format, classes)
}

/// What becomes of a page that is to go from one class to another. There is one class that has any,
/// whose memory is for values of all sizes: nothing has to be moved for them.
pub(super) fn reassign(cache: &Cache, from: i32, to: i32) -> &'static [u8] {
    let pages = reports::class_pages(&cache.stats());
    let own = i32::try_from(CLASS).expect("invariant: it is 1");
    let from = if from == -1 && pages >= SPARE_PAGES && to != own { own } else { from };
    if !SLAB_CLASSES.contains(&from) || !SLAB_CLASSES.contains(&to) {
        lines::BAD_SLAB_CLASS
    } else if from != own || pages < SPARE_PAGES {
        lines::NO_SPARE_SLAB
    } else {
        lines::OK
    }
}

/// Nothing needs to crawl for expired records here; only wrong classes are told.
pub(super) fn crawl(server: &ServerStats, classes: &[u8]) -> &'static [u8] {
    if !server.crawler_enabled() {
        return lines::CRAWLER_DISABLED;
    }
    match classes {
        b"all" => lines::OK,
        b"hash" => lines::CRAWLER_UNKNOWN,
        list => match has_class(list) {
            Ok(_) => lines::OK,
            Err(reply) => reply,
        },
    }
}

/// Says whether `lru_crawler` may be used. What has expired goes all the same.
pub(super) fn switch_crawler(server: &ServerStats, on: bool) -> &'static [u8] {
    match (server.enable_crawler(on), on) {
        (true, _) => lines::OK,
        (false, true) => lines::CRAWLER_NOT_ENABLED,
        (false, false) => lines::CRAWLER_NOT_DISABLED,
    }
}

/// Shuts the server down, or returns why not.
pub(super) fn shutdown(
    server: &ServerStats,
    control: &dyn Control,
    mode: Option<ShutdownMode>,
) -> Option<&'static [u8]> {
    if !server.settings().shutdown_enabled {
        return Some(lines::SHUTDOWN_NOT_ENABLED);
    }
    let Some(mode) = mode else { return Some(lines::INVALID_SHUTDOWN_MODE) };
    control.shutdown(mode == ShutdownMode::Graceful);
    None
}

fn report(context: &Context, stats: Stats, replies: &mut Replies) -> Then {
    let server = &*context.server;
    let cache: &Cache = context.worker.cache();
    let report = match stats {
        Stats::General => &reports::general(server, cache),
        Stats::Settings => &reports::settings(server),
        Stats::Items => &reports::items(server, cache),
        Stats::Slabs => &reports::slabs(server, cache),
        Stats::Sizes if server.tracks_sizes() => match Dump::of_sizes(&context.worker) {
            Ok(dump) => return Then::Dump(Box::new(dump)),
            Err(reply) => reply,
        },
        Stats::Sizes => &reports::sizes(),
        Stats::Extstore => &reports::extstore(),
        Stats::Connections => return Then::List(List::connections(context.client)),
        Stats::Tables => return Then::List(List::tables()),
        Stats::DetailDump => return Then::List(List::prefixes()),
        Stats::DetailEnable { on } => {
            server.prefixes().enable(on);
            lines::OK
        }
        Stats::Reset => {
            server.reset();
            lines::RESET
        }
        Stats::CacheDump { .. } if !server.settings().dumps_allowed => lines::CACHEDUMP_NOT_ALLOWED,
        Stats::CacheDump { class, limit } => match Dump::of_items(&context.worker, class, limit) {
            Ok(dump) => return Then::Dump(Box::new(dump)),
            Err(reply) => reply,
        },
    };
    debug_assert!(report.len() <= OUTPUT_UNIT_BYTES_MAX, "{} bytes", report.len());
    replies.put(report);
    Then::Continue
}
