//! All mutants.

mod flush;
mod log;
mod log_faults;
mod log_pacing;
mod log_room;
mod log_steps;
mod server;
mod spill;
mod store;
mod threads;

use crate::suites::Suite;

pub(super) struct Mutant {
    /// The name in `mutant!("name")`.
    pub(super) name: &'static str,
    pub(super) suite: Suite,
    pub(super) package: &'static str,
    /// Which tests must notice: the suite's prefix and more.
    pub(super) filter: &'static str,
    /// Parts of the messages with which they notice, one of which there must be. They tell a catch
    /// from a test that fails for another reason, such as a model that grew over loom's limits.
    pub(super) symptoms: &'static [&'static str],
}

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Mutant> {
    let tables = [
        MUTANTS,
        flush::MUTANTS,
        log::MUTANTS,
        log_faults::MUTANTS,
        log_pacing::MUTANTS,
        log_room::MUTANTS,
        log_steps::MUTANTS,
        server::MUTANTS,
        spill::MUTANTS,
        store::MUTANTS,
        threads::MUTANTS,
    ];
    tables.into_iter().flatten()
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "no_fence",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_reader_and_writer",
        symptoms: &["torn read"],
    },
    Mutant {
        name: "no_version_check",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_reader_and_writer",
        symptoms: &["torn read"],
    },
    Mutant {
        name: "miss_without_revalidation",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_miss_during_move",
        symptoms: &["present key missed"],
    },
    Mutant {
        name: "no_quiescence_wait",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_reclaim",
        symptoms: &["reused under a reader"],
    },
    Mutant {
        name: "no_online_fence",
        suite: Suite::Loom,
        package: "cache",
        filter: "loom_reclaim",
        symptoms: &["reused under a reader"],
    },
    Mutant {
        name: "length_unchecked",
        suite: Suite::Test,
        package: "cache",
        filter: "length_that_leads_out",
        symptoms: &["a torn length was believed"],
    },
    Mutant {
        name: "walk_is_overtaken",
        suite: Suite::Test,
        package: "cache",
        filter: "what_stays_is_met_whatever",
        symptoms: &["missed by the walk"],
    },
    Mutant {
        name: "insert_looks_at_one_bucket",
        suite: Suite::Shuttle,
        package: "cache",
        filter: "shuttle_two_threads_add_a_key_once",
        symptoms: &["a key was added twice"],
    },
    Mutant {
        name: "overwrite_without_second_look",
        suite: Suite::Test,
        package: "cache",
        filter: "overwrite_looks_again",
        symptoms: &["slot shared"],
    },
    Mutant {
        name: "overwrite_at_a_later_version",
        suite: Suite::Test,
        package: "cache",
        filter: "overwrite_looks_again",
        symptoms: &["slot shared"],
    },
    Mutant {
        name: "sequence_before_the_look",
        suite: Suite::Shuttle,
        package: "cache",
        filter: "shuttle_tokens_of_a_key",
        symptoms: &["tokens went back"],
    },
    Mutant {
        name: "overwrite_keeps_its_generation",
        suite: Suite::Test,
        package: "cache",
        filter: "overwrite_draws_again",
        symptoms: &["a put behind a flush is dead"],
    },
    Mutant {
        name: "cache_sweep_skips",
        suite: Suite::Test,
        package: "cache",
        filter: "flushed_record_that_a_sweep",
        symptoms: &["a flushed record came back"],
    },
    Mutant {
        name: "evictor_frees_without_winning",
        suite: Suite::Shuttle,
        package: "cache",
        filter: "shuttle_eviction_shares_no_slot",
        symptoms: &["slot shared"],
    },
    Mutant {
        name: "index_no_fence",
        suite: Suite::Loom,
        package: "kelvin-log",
        filter: "loom_index_reader_and_writer",
        symptoms: &["torn read"],
    },
    Mutant {
        name: "index_no_version_check",
        suite: Suite::Loom,
        package: "kelvin-log",
        filter: "loom_index_reader_and_writer",
        symptoms: &["torn read"],
    },
    Mutant {
        name: "index_miss_without_second_look",
        suite: Suite::Loom,
        package: "kelvin-log",
        filter: "loom_index_miss_during_move",
        symptoms: &["present key missed"],
    },
    Mutant {
        name: "index_lock_without_second_look",
        suite: Suite::Shuttle,
        package: "kelvin-log",
        filter: "shuttle_index_nothing_is_missed",
        symptoms: &["out of turn"],
    },
    Mutant {
        name: "index_near_search_only",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_key_whose_neighbourhood_is_full",
        symptoms: &["room: Crowded"],
    },
    Mutant {
        name: "index_room_unnoted",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_bucket_is_known_to_be_full",
        symptoms: &["known to be full that has room"],
    },
    Mutant {
        name: "index_full_unnoted",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_search_passes_full_buckets_by",
        symptoms: &["full buckets that are not known to be"],
    },
    Mutant {
        name: "index_full_unbelieved",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_search_passes_full_buckets_by",
        symptoms: &["one known to be full was looked at"],
    },
    Mutant {
        name: "index_loaded_full_unnoted",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "full_buckets_come_back_as_such",
        symptoms: &["full buckets that are not known to be"],
    },
    Mutant {
        name: "index_block_unchecked",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "every_flipped_bit_is_named",
        symptoms: &["must be refused"],
    },
    Mutant {
        name: "uring_never_lets_go",
        suite: Suite::Test,
        package: "reactor",
        filter: "stays_open_in_its_place",
        symptoms: &["was not emptied"],
    },
    Mutant {
        name: "uring_ends_with_files",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_ring_that_ends_closes",
        symptoms: &["a socket outlived its ring"],
    },
    Mutant {
        name: "files_without_depth",
        suite: Suite::Test,
        package: "reactor",
        filter: "starts_beyond_the_depth",
        symptoms: &["more operations than the depth"],
    },
    Mutant {
        name: "files_by_index",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_number_is_used_again",
        symptoms: &["a closed file was read"],
    },
    Mutant {
        name: "files_go_on_in_a_page",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_short_read_goes_on",
        symptoms: &["gone on with where direct I/O takes it"],
    },
    Mutant {
        name: "files_flush_again",
        suite: Suite::Test,
        package: "reactor",
        filter: "errors_are_told",
        symptoms: &["a flush that failed is tried again"],
    },
    Mutant {
        name: "files_stay_pinned",
        suite: Suite::Test,
        package: "reactor",
        filter: "threads_of_a_pinned_loop",
        symptoms: &["they stay where the loop is pinned"],
    },
    Mutant {
        name: "files_end_in_silence",
        suite: Suite::Test,
        package: "reactor",
        filter: "the_loop_is_woken",
        symptoms: &["nobody wakes the loop"],
    },
    Mutant {
        name: "rouse_by_index",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_read_that_comes_late",
        symptoms: &["what was read for another one is sent"],
    },
    Mutant {
        name: "drain_leaves_files",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_loop_that_drains_goes_on",
        symptoms: &["it ends while a file is written to"],
    },
    Mutant {
        name: "uring_place_is_taken",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_place_is_not_taken",
        symptoms: &["another file was read", "subtract with overflow"],
    },
];
