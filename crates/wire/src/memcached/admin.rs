//! The commands that are rare: reports, orders to parts of memcached, and what is no command.

use super::expiry::Expiry;
use super::line::{Words, abbreviates};
use super::request::{DumpFormat, Request, ShutdownMode, Stats, Subject, watch};
use super::{Parsed, Refusal, Then, lines, number};

/// Slab classes that can exist in memcached.
const SLAB_CLASSES: u32 = 64;

/// Smallest and largest `cache_memlimit`, in MiB.
const MEMORY_LIMIT_MIN: u32 = 8;
const MEMORY_LIMIT_MAX: u32 = 1_000_000_000;

/// Smallest and largest `slabs automove window`, in seconds.
const AUTOMOVE_WINDOW_S_MIN: u32 = 3;
const AUTOMOVE_WINDOW_S_MAX: u32 = 1800;

/// Largest sum of the shares of `lru tune`, in percent.
const LRU_SHARES_MAX: u32 = 80;

/// Largest `lru_crawler sleep`, in microseconds.
const CRAWLER_SLEEP_US_MAX: u32 = 1_000_000;

/// Longest number with a fraction, in bytes.
const FRACTION_LEN_MAX: usize = 31;

/// Reads a line whose command, `name`, is none of the frequent ones.
///
/// The commands in the first group must start the line; before the others, spaces may stand.
#[cold]
pub(super) fn request<'a>(line: &'a [u8], name: &[u8]) -> Parsed<'a> {
    let words = Words::of(line);
    let args = words.as_slice().get(1..).unwrap_or_default();
    match name {
        b"version" => return Ok(Request::Version),
        b"quit" => return Ok(Request::Quit),
        b"stats" => return stats(args).map(Request::Stats),
        b"watch" => return watch_logs(args),
        _ => {}
    }
    let noreply = words.noreply();
    let parsed = match words.as_slice().first().copied() {
        Some(b"flush_all") => flush_all(args, noreply),
        Some(b"verbosity") => verbosity(args, noreply),
        Some(b"shutdown") => Ok(Request::Shutdown { mode: shutdown_mode(args), noreply }),
        Some(b"cache_memlimit") => memory_limit(args, noreply),
        Some(b"slabs") => slabs(args, noreply),
        Some(b"lru") => lru(args, noreply),
        Some(b"lru_crawler") => lru_crawler(args, noreply),
        Some(b"extstore") => extstore(args, noreply),
        _ if args.last().is_some_and(|word| word.starts_with(b"HTTP/")) => {
            return Err(Refusal { reply: &[], then: Then::Close });
        }
        _ => Err(lines::ERROR),
    };
    parsed.map_err(|reply| Refusal::new(reply, noreply))
}

/// A request, or the reply to a line that is none.
type Order<'a> = Result<Request<'a>, &'static [u8]>;

fn flush_all<'a>(args: &[&'a [u8]], noreply: bool) -> Order<'a> {
    let at = if args.len() == usize::from(noreply) {
        Expiry::Never
    } else {
        let seconds = args.first().and_then(|word| number::i32_of(word));
        Expiry::from_seconds(seconds.ok_or(lines::INVALID_EXPTIME)?)
    };
    Ok(Request::FlushAll { at, noreply })
}

fn verbosity<'a>(args: &[&'a [u8]], noreply: bool) -> Order<'a> {
    let level = args.first().and_then(|word| number::u32_of(word)).ok_or(lines::BAD_FORMAT)?;
    Ok(Request::Verbosity { level, noreply })
}

fn shutdown_mode(args: &[&[u8]]) -> Option<ShutdownMode> {
    match args {
        [] => Some(ShutdownMode::Now),
        [mode] if abbreviates(mode, "graceful") => Some(ShutdownMode::Graceful),
        _ => None,
    }
}

fn memory_limit<'a>(args: &[&'a [u8]], noreply: bool) -> Order<'a> {
    let mebibytes = args.first().and_then(|word| number::u32_of(word)).ok_or(lines::ERROR)?;
    match mebibytes {
        ..MEMORY_LIMIT_MIN => Err(lines::MEMORY_LIMIT_TOO_SMALL),
        MEMORY_LIMIT_MIN..=MEMORY_LIMIT_MAX => Ok(Request::MemoryLimit { mebibytes, noreply }),
        _ => Err(lines::MEMORY_LIMIT_NOT_MEBIBYTES),
    }
}

fn slabs<'a>(args: &[&'a [u8]], noreply: bool) -> Order<'a> {
    match *args {
        [what, from, to] if abbreviates(what, "reassign") => {
            let classes = number::i32_of(from).zip(number::i32_of(to));
            let (from, to) = classes.ok_or(lines::BAD_FORMAT)?;
            if from == to {
                return Err(lines::SAME_SLAB_CLASS);
            }
            Ok(Request::Tune { subject: Subject::SlabsReassign { from, to }, noreply })
        }
        [what, ref args @ ..] if abbreviates(what, "automove") => {
            automove(args)?;
            Ok(Request::Tune { subject: Subject::SlabsAutomove, noreply })
        }
        _ => Err(lines::ERROR),
    }
}

fn automove(args: &[&[u8]]) -> Result<(), &'static [u8]> {
    let &[what, ref value @ ..] = args else { return Err(lines::ERROR) };
    let value = value.first().copied();
    if abbreviates(what, "ratio") || abbreviates(what, "freeratio") {
        value.and_then(fraction).map(drop).ok_or(lines::ERROR)
    } else if abbreviates(what, "window") {
        match value.and_then(number::u32_of).ok_or(lines::BAD_FORMAT)? {
            AUTOMOVE_WINDOW_S_MIN..=AUTOMOVE_WINDOW_S_MAX => Ok(()),
            _ => Err(lines::AUTOMOVE_WINDOW),
        }
    } else {
        match number::u32_of(what).ok_or(lines::BAD_FORMAT)? {
            0..=2 => Ok(()),
            _ => Err(lines::ERROR),
        }
    }
}

fn lru<'a>(args: &[&'a [u8]], noreply: bool) -> Order<'a> {
    match *args {
        [what, hot, warm, hot_factor, warm_factor, ..] if abbreviates(what, "tune") => {
            let shares = number::u32_of(hot).zip(number::u32_of(warm)).ok_or(lines::ERROR)?;
            let factors = fraction(hot_factor).zip(fraction(warm_factor)).ok_or(lines::ERROR)?;
            if shares.0.wrapping_add(shares.1) > LRU_SHARES_MAX {
                return Err(lines::LRU_SHARES);
            }
            if factors.0 <= 0.0 || factors.1 <= 0.0 {
                return Err(lines::LRU_FACTORS);
            }
        }
        [what, mode, ..] if abbreviates(what, "mode") => {
            if !abbreviates(mode, "flat") && !abbreviates(mode, "segmented") {
                return Err(lines::ERROR);
            }
        }
        [what, ttl, ..] if abbreviates(what, "temp_ttl") => {
            number::i32_of(ttl).ok_or(lines::ERROR)?;
        }
        _ => return Err(lines::ERROR),
    }
    Ok(Request::Tune { subject: Subject::Lru, noreply })
}

fn lru_crawler<'a>(args: &[&'a [u8]], noreply: bool) -> Order<'a> {
    let dump = |format, classes| Ok(Request::Dump { format, classes, noreply });
    match *args {
        [what, classes] if abbreviates(what, "crawl") => Ok(Request::Crawl { classes, noreply }),
        [what, classes] if abbreviates(what, "metadump") => dump(DumpFormat::Metadump, classes),
        [what, classes] if abbreviates(what, "mgdump") => dump(DumpFormat::Mgdump, classes),
        [what, count] if abbreviates(what, "tocrawl") => {
            number::u32_of(count).ok_or(lines::BAD_FORMAT)?;
            Ok(Request::Tune { subject: Subject::CrawlerPace, noreply })
        }
        [what, sleep_us] if abbreviates(what, "sleep") => {
            match number::u32_of(sleep_us).ok_or(lines::BAD_FORMAT)? {
                0..=CRAWLER_SLEEP_US_MAX => {
                    Ok(Request::Tune { subject: Subject::CrawlerPace, noreply })
                }
                _ => Err(lines::CRAWLER_SLEEP),
            }
        }
        [what] if abbreviates(what, "enable") || abbreviates(what, "disable") => {
            let on = abbreviates(what, "enable");
            Ok(Request::Tune { subject: Subject::CrawlerSwitch { on }, noreply })
        }
        _ => Err(lines::ERROR),
    }
}

/// The settings of `extstore` that take a whole number.
const EXTSTORE_NUMBERS: [&str; 8] = [
    "item_size",
    "item_age",
    "low_ttl",
    "recache_rate",
    "compact_under",
    "drop_under",
    "max_sleep",
    "drop_unread",
];

fn extstore<'a>(args: &[&'a [u8]], noreply: bool) -> Order<'a> {
    let &[what, value, ref more @ ..] = args else { return Err(lines::ERROR) };
    let right = match more.first() {
        Some(limit) if abbreviates(what, "free_memchunks") => {
            number::u32_of(value).is_some_and(|class| class < SLAB_CLASSES)
                && number::u32_of(limit).is_some()
        }
        _ => match EXTSTORE_NUMBERS.iter().position(|name| abbreviates(what, name)) {
            Some(_) => number::u32_of(value).is_some(),
            None => abbreviates(what, "max_frag") && fraction(value).is_some(),
        },
    };
    if right {
        Ok(Request::Tune { subject: Subject::Extstore, noreply })
    } else {
        Err(lines::ERROR)
    }
}

fn stats(args: &[&[u8]]) -> Result<Stats, Refusal> {
    let &[what, ref more @ ..] = args else { return Ok(Stats::General) };
    let stats = if abbreviates(what, "reset") {
        Ok(Stats::Reset)
    } else if abbreviates(what, "detail") {
        stats_detail(more)
    } else if abbreviates(what, "settings") {
        Ok(Stats::Settings)
    } else if abbreviates(what, "cachedump") {
        stats_cachedump(more)
    } else if abbreviates(what, "conns") {
        Ok(Stats::Connections)
    } else if abbreviates(what, "extstore") {
        Ok(Stats::Extstore)
    } else {
        match what {
            b"items" => Ok(Stats::Items),
            b"slabs" => Ok(Stats::Slabs),
            b"sizes" => Ok(Stats::Sizes),
            b"tables" => Ok(Stats::Tables),
            _ => Err(lines::ERROR),
        }
    };
    stats.map_err(|reply| Refusal::new(reply, false))
}

fn stats_detail(args: &[&[u8]]) -> Result<Stats, &'static [u8]> {
    match args.first() {
        Some(word) if abbreviates(word, "on") => Ok(Stats::DetailEnable { on: true }),
        Some(word) if abbreviates(word, "off") => Ok(Stats::DetailEnable { on: false }),
        Some(word) if abbreviates(word, "dump") => Ok(Stats::DetailDump),
        _ => Err(lines::DETAIL_USAGE),
    }
}

fn stats_cachedump(args: &[&[u8]]) -> Result<Stats, &'static [u8]> {
    let &[class, limit, ..] = args else { return Err(lines::BAD_STATS_LINE) };
    let numbers = number::u32_of(class).zip(number::u32_of(limit));
    match numbers.ok_or(lines::BAD_FORMAT)? {
        (class @ ..SLAB_CLASSES, limit) => Ok(Stats::CacheDump { class, limit }),
        _ => Err(lines::ILLEGAL_SLAB),
    }
}

/// The logs by name, in the order in which memcached matches abbreviations.
const LOGS: [(&str, u16); 10] = [
    ("rawcmds", watch::RAWCMDS),
    ("evictions", watch::EVICTIONS),
    ("fetchers", watch::FETCHERS),
    ("mutations", watch::MUTATIONS),
    ("sysevents", watch::SYSEVENTS),
    ("connevents", watch::CONNEVENTS),
    ("proxyreqs", watch::PROXYREQS),
    ("proxyevents", watch::PROXYEVENTS),
    ("proxyuser", watch::PROXYUSER),
    ("deletions", watch::DELETIONS),
];

fn watch_logs<'a>(args: &[&'a [u8]]) -> Parsed<'a> {
    if args.is_empty() {
        return Ok(Request::Watch { logs: watch::FETCHERS });
    }
    let log = |word: &&[u8]| LOGS.iter().find(|(name, _)| abbreviates(word, name));
    let logs = args.iter().try_fold(0, |logs, word| Some(logs | log(word)?.1));
    logs.map(|logs| Request::Watch { logs }).ok_or_else(|| Refusal::new(lines::ERROR, false))
}

fn fraction(word: &[u8]) -> Option<f64> {
    if word.len() > FRACTION_LEN_MAX {
        return None;
    }
    core::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
