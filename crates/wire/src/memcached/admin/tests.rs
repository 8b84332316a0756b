use super::*;
use crate::memcached::tests::{refusal, request};

fn tune(subject: Subject) -> Request<'static> {
    Request::Tune { subject, noreply: false }
}

#[track_caller]
fn refused(lines_in: &[&[u8]], reply: &[u8]) {
    for line in lines_in {
        let full = [line, &b"\r\n"[..]].concat();
        assert_eq!(refusal(&full), reply, "{:?}", String::from_utf8_lossy(line));
        if !line.starts_with(b"stats") && !line.starts_with(b"watch") {
            // One word more may make another line of it, but never one that is answered.
            let silent = [line, &b" noreply\r\n"[..]].concat();
            let step = crate::memcached::tests::parse_line(&silent);
            let crate::memcached::Step::Invalid { reply, .. } = step else { continue };
            assert_eq!(reply, b"", "{:?}", String::from_utf8_lossy(line));
        }
    }
}

#[test]
fn commands_without_arguments_ignore_what_follows() {
    assert_eq!(request(b"version\r\n"), Request::Version);
    assert_eq!(request(b"version noreply\r\n"), Request::Version);
    assert_eq!(request(b"quit\r\n"), Request::Quit);
    assert_eq!(request(b"quit now\r\n"), Request::Quit);
    assert_eq!(request(b"mn\r\n"), Request::MetaNoop);
    assert_eq!(request(b"mn a b\r\n"), Request::MetaNoop);
}

#[test]
fn flush_all_takes_a_time_or_none() {
    let flush = |at, noreply| Request::FlushAll { at, noreply };
    assert_eq!(request(b"flush_all\r\n"), flush(Expiry::Never, false));
    assert_eq!(request(b"  flush_all  \r\n"), flush(Expiry::Never, false));
    assert_eq!(request(b"flush_all noreply\r\n"), flush(Expiry::Never, true));
    assert_eq!(request(b"flush_all 0\r\n"), flush(Expiry::Never, false));
    assert_eq!(request(b"flush_all -1 x y\r\n"), flush(Expiry::Past, false));
    assert_eq!(request(b"flush_all 10 noreply\r\n"), flush(Expiry::After { seconds: 10 }, true));
    refused(&[b"flush_all x", b"flush_all 1x 2"], lines::INVALID_EXPTIME);
    assert_eq!(refusal(b"flush_all x noreply\r\n"), b"");
}

#[test]
fn verbosity_takes_a_level() {
    let verbosity = |level, noreply| Request::Verbosity { level, noreply };
    assert_eq!(request(b"verbosity 0\r\n"), verbosity(0, false));
    assert_eq!(request(b"verbosity 4294967295 noreply\r\n"), verbosity(u32::MAX, true));
    refused(&[b"verbosity", b"verbosity x", b"verbosity -1"], lines::BAD_FORMAT);
}

#[test]
fn shutdown_takes_a_mode() {
    let shutdown = |mode, noreply| Request::Shutdown { mode, noreply };
    assert_eq!(request(b"shutdown\r\n"), shutdown(Some(ShutdownMode::Now), false));
    for word in [&b"shutdown graceful\r\n"[..], b"shutdown g\r\n"] {
        assert_eq!(request(word), shutdown(Some(ShutdownMode::Graceful), false));
    }
    assert_eq!(request(b"shutdown gracefully\r\n"), shutdown(None, false));
    assert_eq!(request(b"shutdown graceful now\r\n"), shutdown(None, false));
    assert_eq!(request(b"shutdown noreply\r\n"), shutdown(None, true));
}

#[test]
fn memory_limits_have_bounds() {
    let limit = |mebibytes| Request::MemoryLimit { mebibytes, noreply: false };
    assert_eq!(request(b"cache_memlimit 8\r\n"), limit(8));
    assert_eq!(request(b"cache_memlimit 1000000000\r\n"), limit(1_000_000_000));
    refused(&[b"cache_memlimit 7"], lines::MEMORY_LIMIT_TOO_SMALL);
    refused(&[b"cache_memlimit 1000000001"], lines::MEMORY_LIMIT_NOT_MEBIBYTES);
    refused(&[b"cache_memlimit", b"cache_memlimit x"], lines::ERROR);
}

#[test]
fn slabs_are_reassigned_and_moved() {
    let reassign = |from, to| tune(Subject::SlabsReassign { from, to });
    assert_eq!(request(b"slabs reassign 1 -1\r\n"), reassign(1, -1));
    assert_eq!(request(b"slabs r 1 2\r\n"), reassign(1, 2));
    refused(&[b"slabs reassign 1 1", b"slabs reassign 01 1"], lines::SAME_SLAB_CLASS);
    refused(&[b"slabs reassign 1 x", b"slabs reassign x 1"], lines::BAD_FORMAT);
    for line in [
        &b"slabs automove 0\r\n"[..],
        b"slabs automove 2\r\n",
        b"slabs a 1 2 3\r\n",
        b"slabs automove ratio 0.5\r\n",
        b"slabs automove freeratio 1e-3\r\n",
        b"slabs automove window 3\r\n",
        b"slabs automove w 1800\r\n",
    ] {
        assert_eq!(request(line), tune(Subject::SlabsAutomove), "{line:?}");
    }
    refused(&[b"slabs automove x", b"slabs automove window x"], lines::BAD_FORMAT);
    refused(&[b"slabs automove window"], lines::BAD_FORMAT);
    refused(&[b"slabs automove window 2"], lines::AUTOMOVE_WINDOW);
    refused(&[b"slabs automove window 1801"], lines::AUTOMOVE_WINDOW);
    refused(
        &[
            b"slabs",
            b"slabs automove",
            b"slabs automove 3",
            b"slabs automove ratio",
            b"slabs automove ratio x",
            b"slabs automove freeratio",
            b"slabs reassign 1",
            b"slabs reassign 1 2 3",
            b"slabs other 1",
        ],
        lines::ERROR,
    );
    let long = format!("slabs automove ratio 0.{}", "1".repeat(30));
    refused(&[long.as_bytes()], lines::ERROR);
    assert_eq!(request(format!("{}\r\n", &long[..52]).as_bytes()), tune(Subject::SlabsAutomove));
}

#[test]
fn the_lru_is_tuned() {
    for line in [
        &b"lru tune 40 40 0.1 2\r\n"[..],
        b"lru t 0 0 1 1 more\r\n",
        b"lru mode flat\r\n",
        b"lru mode seg\r\n",
        b"lru temp_ttl -1\r\n",
    ] {
        assert_eq!(request(line), tune(Subject::Lru), "{line:?}");
    }
    refused(&[b"lru tune 41 40 1 1"], lines::LRU_SHARES);
    refused(&[b"lru tune 1 1 0 1", b"lru tune 1 1 1 -1"], lines::LRU_FACTORS);
    refused(
        &[
            b"lru",
            b"lru tune",
            b"lru tune 1 1 1",
            b"lru tune x 1 1 1",
            b"lru tune 1 1 1 x",
            b"lru mode",
            b"lru mode other",
            b"lru temp_ttl",
            b"lru temp_ttl x",
            b"lru other 1",
        ],
        lines::ERROR,
    );
}

#[test]
fn the_crawler_takes_orders() {
    let noreply = false;
    let crawl = Request::Crawl { classes: b"all", noreply };
    assert_eq!(request(b"lru_crawler crawl all\r\n"), crawl);
    assert_eq!(request(b"lru_crawler c all\r\n"), crawl);
    let dump = |format, classes| Request::Dump { format, classes, noreply };
    assert_eq!(request(b"lru_crawler metadump all\r\n"), dump(DumpFormat::Metadump, b"all"));
    assert_eq!(request(b"lru_crawler m hash\r\n"), dump(DumpFormat::Metadump, b"hash"));
    assert_eq!(request(b"lru_crawler mgdump 1,2\r\n"), dump(DumpFormat::Mgdump, b"1,2"));
    for line in [&b"lru_crawler tocrawl 5\r\n"[..], b"lru_crawler sleep 1000000\r\n"] {
        assert_eq!(request(line), tune(Subject::CrawlerPace));
    }
    for line in [&b"lru_crawler enable\r\n"[..], b"lru_crawler d\r\n"] {
        assert_eq!(
            request(line),
            tune(Subject::CrawlerSwitch { on: line.ends_with(b"enable\r\n") })
        );
    }
    refused(&[b"lru_crawler tocrawl x", b"lru_crawler sleep -1"], lines::BAD_FORMAT);
    refused(&[b"lru_crawler sleep 1000001"], lines::CRAWLER_SLEEP);
    refused(
        &[
            b"lru_crawler",
            b"lru_crawler other",
            b"lru_crawler crawl",
            b"lru_crawler enable 1",
            b"lru_crawler metadump all 1",
        ],
        lines::ERROR,
    );
}

#[test]
fn extstore_settings_are_checked() {
    for name in EXTSTORE_NUMBERS.iter().chain(&["max_frag", "low", "free_memchunks 1"]) {
        let line = format!("extstore {name} 1\r\n");
        assert_eq!(request(line.as_bytes()), tune(Subject::Extstore), "{line}");
        let wrong = format!("extstore {name} x");
        refused(&[wrong.as_bytes()], lines::ERROR);
    }
    assert_eq!(request(b"extstore max_frag 0.5\r\n"), tune(Subject::Extstore));
    assert_eq!(request(b"extstore free_memchunks 63 0\r\n"), tune(Subject::Extstore));
    refused(
        &[
            b"extstore",
            b"extstore item_size",
            b"extstore item_size 0.5",
            b"extstore free_memchunks 1",
            b"extstore free_memchunks 64 1",
            b"extstore other 1",
        ],
        lines::ERROR,
    );
}

#[test]
fn reports_are_named_or_abbreviated() {
    for (line, stats) in [
        (&b"stats\r\n"[..], Stats::General),
        (b"stats  \r\n", Stats::General),
        (b"stats reset\r\n", Stats::Reset),
        (b"stats r\r\n", Stats::Reset),
        (b"stats settings\r\n", Stats::Settings),
        (b"stats s\r\n", Stats::Settings),
        (b"stats items\r\n", Stats::Items),
        (b"stats slabs\r\n", Stats::Slabs),
        (b"stats sizes x\r\n", Stats::Sizes),
        (b"stats conns\r\n", Stats::Connections),
        (b"stats extstore\r\n", Stats::Extstore),
        (b"stats detail on\r\n", Stats::DetailEnable { on: true }),
        (b"stats detail off\r\n", Stats::DetailEnable { on: false }),
        (b"stats detail dump\r\n", Stats::DetailDump),
        (b"stats cachedump 63 10\r\n", Stats::CacheDump { class: 63, limit: 10 }),
        (b"stats c 1 0 x\r\n", Stats::CacheDump { class: 1, limit: 0 }),
    ] {
        assert_eq!(request(line), Request::Stats(stats), "{line:?}");
    }
    refused(&[b"stats item", b"stats other", b"stats noreply"], lines::ERROR);
    refused(&[b"stats detail", b"stats detail x"], lines::DETAIL_USAGE);
    refused(&[b"stats cachedump", b"stats cachedump 1"], lines::BAD_STATS_LINE);
    refused(&[b"stats cachedump 1 x", b"stats cachedump x 1"], lines::BAD_FORMAT);
    refused(&[b"stats cachedump 64 1"], lines::ILLEGAL_SLAB);
}

#[test]
fn logs_are_watched() {
    let logs = |logs| Request::Watch { logs };
    assert_eq!(request(b"watch\r\n"), logs(watch::FETCHERS));
    let all = LOGS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
    assert_eq!(request(format!("watch {all}\r\n").as_bytes()), logs(0x3ff));
    assert_eq!(request(b"watch d\r\n"), logs(watch::DELETIONS));
    assert_eq!(request(b"watch proxy\r\n"), logs(watch::PROXYREQS));
    refused(&[b"watch x", b"watch fetchers x", b"watch noreply"], lines::ERROR);
}
