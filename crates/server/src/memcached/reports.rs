//! The reports of `stats`: memcached's names with this server's numbers.
//!
//! Every name that memcached 1.6.45 sends is sent, because monitors look for them. A name that has
//! no meaning here (another allocator, other threads) is 0; `docs/memcached.md` lists those.

use std::{fmt::Display, io::Write};

use cache::Cache;
use wire::memcached::lines;

use crate::stats::{PrefixCounts, ServerStats};

mod general;
mod list;
mod settings;

pub(super) use general::{VERSION, general};
pub(super) use list::List;
pub(super) use settings::settings;

/// The one class that `stats items` and `stats slabs` show: the whole arena.
pub(super) const CLASS: u32 = 1;

/// Bytes of memcached's pages, of which all memory consists there.
const PAGE_BYTES: u64 = 1 << 20;

/// Milliseconds of a second.
pub(super) const SECOND_MS: u64 = 1000;

/// A report under way.
#[derive(Debug, Default)]
struct Report(Vec<u8>);

impl Report {
    fn stat(&mut self, name: impl Display, value: impl Display) {
        write!(self.0, "STAT {name} {value}\r\n").expect("invariant: a vector takes all bytes");
    }

    fn prefix(&mut self, prefix: &[u8], counts: &PrefixCounts) {
        let PrefixCounts { gets, hits, sets, deletes } = counts;
        self.0.extend_from_slice(b"PREFIX ");
        self.0.extend_from_slice(prefix);
        write!(self.0, " get {gets} hit {hits} set {sets} del {deletes}\r\n")
            .expect("invariant: a vector takes all bytes");
    }

    fn zeros(&mut self, names: &[&str]) {
        for name in names {
            self.stat(name, 0);
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(lines::END);
        self.0
    }
}

/// What all tables have in memory, `cache` being the default one's.
fn stats_of_all(server: &ServerStats, cache: &Cache) -> cache::Stats {
    let tables = server.tables();
    tables.iter().skip(1).fold(cache.stats(), |all, table| all.and(&table.cache.stats()))
}

/// `stats items`: what caches hold, as one class.
pub(super) fn items(server: &ServerStats, cache: &Cache) -> Vec<u8> {
    let stats = stats_of_all(server, cache);
    let mut report = Report::default();
    if stats.records > 0 {
        let mut item = |name: &str, value: u64| {
            report.stat(format_args!("items:{CLASS}:{name}"), value);
        };
        item("number", stats.records);
        item("number_hot", 0);
        item("number_warm", 0);
        item("number_cold", stats.records);
        item("age_hot", 0);
        item("age_warm", 0);
        item("age", stats.residence_ms / SECOND_MS);
        item("mem_requested", stats.record_bytes);
        item("evicted", stats.evictions);
        item("evicted_nonzero", 0);
        item("evicted_time", 0);
        item("outofmemory", stats.out_of_memory);
        item("tailrepairs", 0);
        item("reclaimed", stats.reclaimed + stats.overwritten_dead);
        item("expired_unfetched", stats.expired_unfetched);
        item("evicted_unfetched", stats.evicted_unfetched);
        item("crawler_reclaimed", stats.reclaimed);
        item("crawler_items_checked", stats.swept);
        for name in [
            "evicted_active",
            "lrutail_reflocked",
            "moves_to_cold",
            "moves_to_warm",
            "moves_within_lru",
            "direct_reclaims",
            "hits_to_hot",
            "hits_to_warm",
            "hits_to_cold",
            "hits_to_temp",
        ] {
            item(name, 0);
        }
    }
    report.end()
}

/// Pages of the one class: none before something is stored, then all blocks in use. What a file or
/// a disk had at the start no write has stored.
pub(super) fn class_pages(stats: &cache::Stats) -> u64 {
    match stats.writes + stats.records {
        0 => 0,
        _ => stats.arena_used_bytes.div_ceil(general::BLOCK_BYTES),
    }
}

/// `stats slabs`: the arena, as one class whose pages are its blocks and whose chunks are its
/// records, all of their mean size.
pub(super) fn slabs(server: &ServerStats, cache: &Cache) -> Vec<u8> {
    let stats = stats_of_all(server, cache);
    let totals = server.totals();
    let mut report = Report::default();
    let used = class_pages(&stats);
    if used > 0 {
        let mut slab = |name: &str, value: u64| report.stat(format_args!("{CLASS}:{name}"), value);
        let chunk_bytes = stats.record_bytes.checked_div(stats.records).unwrap_or(0).max(1);
        let chunks = (used * general::BLOCK_BYTES / chunk_bytes).max(stats.records);
        slab("chunk_size", chunk_bytes);
        slab("chunks_per_page", (general::BLOCK_BYTES / chunk_bytes).max(1));
        slab("total_pages", used);
        slab("total_chunks", chunks);
        slab("used_chunks", stats.records);
        slab("free_chunks", chunks - stats.records);
        slab("free_chunks_end", 0);
        slab("get_hits", totals.get_hits);
        slab("cmd_set", totals.cmd_set);
        slab("delete_hits", totals.delete_hits);
        slab("incr_hits", totals.incr_hits);
        slab("decr_hits", totals.decr_hits);
        slab("cas_hits", totals.cas_hits);
        slab("cas_badval", totals.cas_badval);
        slab("touch_hits", totals.touch_hits);
    }
    report.stat("active_slabs", u32::from(used > 0));
    // What has been in use, and what is kept ready.
    let arena_bytes = stats.arena_used_bytes + stats.arena_reserve_bytes;
    let malloced_bytes = arena_bytes.max(stats.arena_touched_bytes) + stats.table_bytes;
    report.stat("total_malloced", malloced_bytes.next_multiple_of(PAGE_BYTES));
    report.end()
}

/// `stats sizes` where nobody asked for them at the start, in memcached's words.
pub(super) fn sizes() -> Vec<u8> {
    let mut report = Report::default();
    report.stat("sizes_status", "disabled");
    report.end()
}

/// `stats extstore`: there is none.
pub(super) fn extstore() -> Vec<u8> {
    Report::default().end()
}
