//! The options behind `-o`: one row each.

use super::{
    number::{leading, leading_fraction, whole},
    options::Options,
    refusal::Refusal,
};

/// Bytes of memcached's slab page, and of the largest chunk unless `slab_chunk_max` says otherwise.
pub(super) const PAGE_BYTES: i64 = 1 << 20;
pub(super) const CHUNK_BYTES: i64 = PAGE_BYTES / 2;

/// What the value of a suboption must be. Each has the words for a value that is missing, and for
/// one that is wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// Whatever it is, it is ignored.
    Anything,
    /// There must be one.
    Present(&'static str),
    /// What the value begins with is a number from the first to the second.
    Number(&'static str, i32, i32, &'static str),
    /// Nothing, or the same.
    OptionalNumber(i32, i32, &'static str),
    /// It is a whole number.
    Whole(&'static str, &'static str),
    /// What the value begins with is a fraction above 0, and at most this.
    Fraction(&'static str, f64, &'static str),
    /// It is one of these.
    OneOf(&'static str, &'static [&'static str], &'static str),
}

/// What a suboption does, once its value is checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// Changes what is asked for.
    Honoured(fn(&mut Options, &str)),
    /// Would have done this.
    Accepted(&'static str),
    /// Says what is so anyway.
    Given,
}

/// One suboption.
#[derive(Debug)]
pub(super) struct Suboption {
    pub(super) name: &'static str,
    pub(super) check: Check,
    pub(super) effect: Effect,
    /// For the help; empty for what is of no use to anybody here.
    pub(super) help: &'static str,
}

const fn honoured(
    name: &'static str,
    check: Check,
    help: &'static str,
    set: fn(&mut Options, &str),
) -> Suboption {
    Suboption { name, check, effect: Effect::Honoured(set), help }
}

const fn accepted(name: &'static str, check: Check, would: &'static str) -> Suboption {
    Suboption { name, check, effect: Effect::Accepted(would), help: "" }
}

const fn given(name: &'static str) -> Suboption {
    Suboption { name, check: Check::Anything, effect: Effect::Given, help: "" }
}

const SLABS: &str = "it would tune slab classes; there are none to be tuned";
const CRAWLER: &str = "it would tune the LRU crawler; expired records go without one";
const SEGMENTS: &str = "it would tune memcached's LRU segments; there are none here";
const STORAGE: &str = "it would keep values in a file beyond memory; this server keeps all in \
                       memory";
const LOGS: &str = "it would set the size of a log buffer";

/// All suboptions.
pub(super) const SUBOPTIONS: &[Suboption] = &[
    honoured(
        "maxconns_fast",
        Check::Anything,
        "turn connections away beyond the limit [default]",
        |options, _| options.refuses_connections = true,
    ),
    honoured(
        "no_maxconns_fast",
        Check::Anything,
        "let connections beyond the limit wait",
        |options, _| options.refuses_connections = false,
    ),
    honoured(
        "idle_timeout",
        Check::Present("Missing numeric argument for idle_timeout"),
        "seconds after which an idle connection is closed [default: 0, never]",
        |options, text| options.idle_timeout_s = leading(text),
    ),
    accepted(
        "hashpower",
        Check::Number(
            "Missing numeric argument for hashpower",
            12,
            32,
            "hashpower must be from 12 to 32: choose one by \"STAT hash_power_level\" from a \
             running instance",
        ),
        "it would set the first size of the hash table, which grows by itself",
    ),
    accepted("no_hashexpand", Check::Anything, "it would keep the hash table from growing"),
    given("slab_reassign"),
    accepted("no_slab_reassign", Check::Anything, SLABS),
    accepted(
        "slab_automove",
        Check::OptionalNumber(0, 2, "slab_automove must be between 0 and 2"),
        SLABS,
    ),
    accepted("no_slab_automove", Check::Anything, SLABS),
    accepted(
        "slab_automove_ratio",
        Check::Fraction(
            "Missing slab_automove_ratio argument",
            1.0,
            "slab_automove_ratio must be > 0 and < 1",
        ),
        SLABS,
    ),
    accepted(
        "slab_automove_window",
        Check::Number(
            "Missing slab_automove_window argument",
            3,
            1800,
            "slab_automove_window must be > 2 and < 1800",
        ),
        SLABS,
    ),
    accepted("slab_automove_freeratio", Check::Anything, STORAGE),
    accepted("slab_sizes", Check::Present("Missing slab_sizes argument"), SLABS),
    honoured(
        "slab_chunk_max",
        Check::Whole(
            "Missing slab_chunk_max argument",
            "could not parse argument to slab_chunk_max",
        ),
        "",
        |options, text| {
            options.chunk_bytes_max = i64::from(whole(text).unwrap_or(0)) << 10;
            options.warn(format!("-o slab_chunk_max has no effect: {SLABS}"));
        },
    ),
    honoured("no_chunked_items", Check::Anything, "", |options, _| {
        options.chunk_bytes_max = PAGE_BYTES;
        options.warn(format!("-o no_chunked_items has no effect: {SLABS}"));
    }),
    accepted(
        "tail_repair_time",
        Check::Number(
            "Missing numeric argument for tail_repair_time",
            10,
            i32::MAX,
            "Cannot set tail_repair_time to less than 10 seconds",
        ),
        "it would free records that are stuck; none get stuck",
    ),
    accepted(
        "hash_algorithm",
        Check::OneOf(
            "Missing hash_algorithm argument",
            &["jenkins", "murmur3", "xxh3"],
            "Unknown hash_algorithm option (jenkins, murmur3, xxh3)",
        ),
        "it would choose the hash of keys; there is one, with a key of its own",
    ),
    honoured("lru_crawler", Check::Anything, "", |options, _| options.crawler = true),
    honoured("no_lru_crawler", Check::Anything, "", |options, _| options.crawler = false),
    accepted(
        "lru_crawler_sleep",
        Check::Number(
            "Missing lru_crawler_sleep value",
            0,
            1_000_000,
            "LRU crawler sleep must be between 0 and 1 second",
        ),
        CRAWLER,
    ),
    accepted(
        "lru_crawler_tocrawl",
        Check::Whole(
            "Missing lru_crawler_tocrawl value",
            "lru_crawler_tocrawl takes a numeric 32bit value",
        ),
        CRAWLER,
    ),
    honoured("lru_maintainer", Check::Anything, "", |options, _| options.maintainer = true),
    honoured("no_lru_maintainer", Check::Anything, "", |options, _| {
        options.maintainer = false;
        options.warn(format!("-o no_lru_maintainer has no effect: {SEGMENTS}"));
    }),
    honoured(
        "hot_lru_pct",
        Check::Number("Missing hot_lru_pct argument", 1, 79, "hot_lru_pct must be > 1 and < 80"),
        "",
        |options, text| {
            options.hot_percent = leading(text);
            options.warn(format!("-o hot_lru_pct has no effect: {SEGMENTS}"));
        },
    ),
    honoured(
        "warm_lru_pct",
        Check::Number("Missing warm_lru_pct argument", 1, 79, "warm_lru_pct must be > 1 and < 80"),
        "",
        |options, text| {
            options.warm_percent = leading(text);
            options.warn(format!("-o warm_lru_pct has no effect: {SEGMENTS}"));
        },
    ),
    accepted(
        "hot_max_factor",
        Check::Fraction("Missing hot_max_factor argument", f64::MAX, "hot_max_factor must be > 0"),
        SEGMENTS,
    ),
    accepted(
        "warm_max_factor",
        Check::Fraction(
            "Missing warm_max_factor argument",
            f64::MAX,
            "warm_max_factor must be > 0",
        ),
        SEGMENTS,
    ),
    honoured(
        "temporary_ttl",
        Check::Present("Missing temporary_ttl argument"),
        "",
        |options, _| {
            options.temporary = true;
            options.warn(format!("-o temporary_ttl has no effect: {SEGMENTS}"));
        },
    ),
    accepted(
        "watcher_logbuf_size",
        Check::Whole(
            "Missing watcher_logbuf_size argument",
            "could not parse argument to watcher_logbuf_size",
        ),
        LOGS,
    ),
    accepted(
        "worker_logbuf_size",
        Check::Whole(
            "Missing worker_logbuf_size argument",
            "could not parse argument to worker_logbuf_size",
        ),
        LOGS,
    ),
    accepted(
        "read_buf_mem_limit",
        Check::Whole(
            "Missing read_buf_mem_limit argument",
            "could not parse argument to read_buf_mem_limit",
        ),
        "it would limit the memory for requests and replies, which has a limit anyway",
    ),
    accepted("resp_obj_mem_limit", Check::Anything, "memcached has it no longer"),
    honoured("track_sizes", Check::Anything, "", |options, _| options.sizes = true),
    given("inline_ascii_resp"),
    given("no_inline_ascii_resp"),
    given("modern"),
    honoured("no_modern", Check::Anything, "", |options, _| {
        options.refuses_connections = false;
        options.crawler = false;
        options.maintainer = false;
        options.chunk_bytes_max = PAGE_BYTES;
        options.warn(
            "-o no_modern: only connections beyond the limit wait, as with \
                      no_maxconns_fast; slabs, LRU segments and hash stay what they are"
                .to_owned(),
        );
    }),
    accepted("drop_privileges", Check::Anything, "it would forbid most system calls"),
    given("no_drop_privileges"),
    given("relaxed_privileges"),
    accepted("sock_cookie_id", Check::Anything, "it would mark sockets for a firewall"),
    accepted("ext_path", Check::Present("missing ext_path argument"), STORAGE),
    accepted("ext_page_size", Check::Anything, STORAGE),
    accepted("ext_wbuf_size", Check::Anything, STORAGE),
    accepted("ext_threads", Check::Anything, STORAGE),
    accepted("ext_item_size", Check::Anything, STORAGE),
    accepted("ext_item_age", Check::Anything, STORAGE),
    accepted("ext_low_ttl", Check::Anything, STORAGE),
    accepted("ext_recache_rate", Check::Anything, STORAGE),
    accepted("ext_compact_under", Check::Anything, STORAGE),
    accepted("ext_drop_under", Check::Anything, STORAGE),
    accepted("ext_max_sleep", Check::Anything, STORAGE),
    accepted("ext_max_frag", Check::Anything, STORAGE),
    accepted("ext_drop_unread", Check::Anything, STORAGE),
    honoured(
        "data_dir",
        Check::Present("Missing data_dir argument"),
        "directory that keeps all records, behind memory; not in memcached",
        |options, text| drop(options.own.insert("data_dir", text.to_owned())),
    ),
    honoured(
        "table_kind",
        Check::OneOf(
            "Missing table_kind argument",
            &["durable", "spill"],
            "table_kind must be durable or spill",
        ),
        "what data_dir has: all records, durable [default], or what memory has no room for, spill; \
         not in memcached",
        |options, text| drop(options.own.insert("table_kind", text.to_owned())),
    ),
    honoured(
        "spill_size",
        Check::Present("Missing spill_size argument"),
        "bytes of data_dir at most where the table spills, as 16GiB; not in memcached",
        |options, text| drop(options.own.insert("spill_size", text.to_owned())),
    ),
    honoured(
        "spill_admission",
        Check::OneOf(
            "Missing spill_admission argument",
            &["all", "seen"],
            "spill_admission must be all or seen",
        ),
        "what is spilled: all [default], or what was read, seen; not in memcached",
        |options, text| drop(options.own.insert("spill_admission", text.to_owned())),
    ),
    honoured(
        "spill_recover",
        Check::OneOf(
            "Missing spill_recover argument",
            &["true", "false"],
            "spill_recover must be true or false",
        ),
        "whether a start has what was spilled: true, or false [default]; not in memcached",
        |options, text| drop(options.own.insert("spill_recover", text.to_owned())),
    ),
    honoured(
        "write_mode",
        Check::OneOf(
            "Missing write_mode argument",
            &["safe", "async"],
            "write_mode must be safe or async",
        ),
        "when a write to data_dir is answered: safe, when it is on the disk [default], or async; \
         not in memcached",
        |options, text| drop(options.own.insert("write_mode", text.to_owned())),
    ),
    honoured(
        "flush_durable",
        Check::OneOf(
            "Missing flush_durable argument",
            &["true", "false"],
            "flush_durable must be true or false",
        ),
        "whether flush_all empties data_dir, where that keeps all records: true, or false \
         [default]; not in memcached",
        |options, text| drop(options.own.insert("flush_durable", text.to_owned())),
    ),
    honoured(
        "io",
        Check::OneOf(
            "Missing io argument",
            &["auto", "uring", "epoll"],
            "io must be auto, uring or epoll",
        ),
        "what carries sockets and files: auto [default], uring or epoll; not in memcached",
        |options, text| drop(options.own.insert("io", text.to_owned())),
    ),
];

/// Reads a list of suboptions.
pub(super) fn read(options: &mut Options, list: &str) -> Result<(), Refusal> {
    for word in list.split(',').filter(|word| !word.is_empty()) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let suboption = { SUBOPTIONS.iter() }
            .find(|suboption| suboption.name == name)
            .ok_or_else(|| Refusal::failure(format!("Illegal suboption \"{word}\"")))?;
        check(suboption.check, value)?;
        match suboption.effect {
            Effect::Honoured(set) => set(options, value.unwrap_or_default()),
            Effect::Accepted(would) => {
                options.warn(format!("-o {name} has no effect: {would}"));
            }
            Effect::Given => {}
        }
    }
    Ok(())
}

fn check(check: Check, value: Option<&str>) -> Result<(), Refusal> {
    let present = |missing: &str| value.ok_or_else(|| Refusal::failure(missing));
    let holds = |holds: bool, wrong: &str| match holds {
        true => Ok(()),
        false => Err(Refusal::failure(wrong)),
    };
    match check {
        Check::Anything => Ok(()),
        Check::Present(missing) => present(missing).map(drop),
        Check::Number(missing, least, most, wrong) => {
            holds((least..=most).contains(&leading(present(missing)?)), wrong)
        }
        Check::OptionalNumber(least, most, wrong) => {
            holds(value.is_none_or(|text| (least..=most).contains(&leading(text))), wrong)
        }
        Check::Whole(missing, wrong) => holds(whole(present(missing)?).is_some(), wrong),
        Check::Fraction(missing, most, wrong) => {
            let fraction = leading_fraction(present(missing)?);
            holds(fraction > 0.0 && fraction <= most, wrong)
        }
        Check::OneOf(missing, all, wrong) => holds(all.contains(&present(missing)?), wrong),
    }
}
