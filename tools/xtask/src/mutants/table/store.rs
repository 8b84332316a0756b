//! Mutants of the store.

use super::Mutant;
use crate::suites::Suite;

/// What the simulation says when answers have no order that explains them.
const NO_ORDER: &[&str] = &["no order explains"];

/// The same, or who has been told too early is told later that it will never be durable.
const TOO_EARLY: &[&str] = &["no order explains", "and all is flushed or will be"];

/// What clients of a server say when they hear something that is no answer to what they asked.
const NO_ANSWER: &[&str] = &["no order explains", "is no answer", "is stale"];

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "store_fill_unchecked",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "store_seeds_hold",
        symptoms: NO_ORDER,
    },
    Mutant {
        name: "store_racing_updates",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "store_seeds_hold",
        symptoms: NO_ORDER,
    },
    Mutant {
        name: "store_hit_unflushed",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "store_seeds_hold",
        symptoms: TOO_EARLY,
    },
    Mutant {
        name: "store_reply_overtakes",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "store_seeds_hold",
        symptoms: NO_ORDER,
    },
    Mutant {
        name: "store_overtakes_queue",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "store_seeds_hold",
        symptoms: NO_ORDER,
    },
    Mutant {
        name: "store_hit_overtakes",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "store_seeds_hold",
        symptoms: NO_ORDER,
    },
    Mutant {
        name: "store_failed_is_durable",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "store_seeds_hold",
        symptoms: TOO_EARLY,
    },
    Mutant {
        name: "store_edits_memory_alone",
        suite: Suite::Test,
        package: "store",
        filter: "no_record_in_memory_is_the_only_one",
        symptoms: &["memory had the only one"],
    },
    Mutant {
        name: "store_wakes_nobody",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "store_seeds_hold",
        symptoms: &["something is never answered"],
    },
    Mutant {
        name: "store_mark_unnoted",
        suite: Suite::Loom,
        package: "store",
        filter: "loom_no_hit_is_told",
        symptoms: &["is told before it is flushed"],
    },
    Mutant {
        name: "store_hit_overtakes",
        suite: Suite::Test,
        package: "store",
        filter: "a_hit_does_not_overtake",
        symptoms: &["a hit overtakes the append"],
    },
    Mutant {
        name: "store_hit_overtakes",
        suite: Suite::Test,
        package: "store",
        filter: "threads_hit_nothing_older",
        symptoms: &["overtake an append"],
    },
    Mutant {
        name: "store_noted_late",
        suite: Suite::Test,
        package: "store",
        filter: "threads_hit_nothing_that_is_being_stored",
        symptoms: &["is told before it is flushed"],
    },
    Mutant {
        name: "store_known_though_failed",
        suite: Suite::Test,
        package: "store",
        filter: "a_get_behind_a_delete",
        symptoms: &["what was removed is told"],
    },
    Mutant {
        name: "store_keeps_old_copy",
        suite: Suite::Test,
        package: "store",
        filter: "what_memory_cannot_take",
        symptoms: &["an old copy is in memory"],
    },
    Mutant {
        name: "store_large_keeps_old_copy",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "store_seeds_hold",
        symptoms: NO_ORDER,
    },
    Mutant {
        name: "store_moves_unbounded",
        suite: Suite::Test,
        package: "store",
        filter: "a_worker_that_moves_records",
        symptoms: &["turns in one go"],
    },
    Mutant {
        name: "store_hit_overtakes",
        suite: Suite::Test,
        package: "store",
        filter: "what_comes_behind_a_large",
        symptoms: &["a hit overtakes"],
    },
    Mutant {
        name: "store_parts_unordered",
        suite: Suite::Test,
        package: "store",
        filter: "parts_leave_in_their_order",
        symptoms: &["parts are out of order"],
    },
    Mutant {
        name: "store_oldest_waits",
        suite: Suite::Test,
        package: "store",
        filter: "the_oldest_gets_a_part",
        symptoms: &["the oldest waits"],
    },
    Mutant {
        name: "store_reader_unpinned",
        suite: Suite::Test,
        package: "store",
        filter: "a_reader_has_the_old_value_whole",
        symptoms: &["the value is a mixture", "Damaged", "OtherKey"],
    },
    Mutant {
        name: "store_budget_ignored",
        suite: Suite::Test,
        package: "store",
        filter: "uploads_that_stop_half_way",
        symptoms: &["the budget is ignored"],
    },
    Mutant {
        name: "store_uploads_never_end",
        suite: Suite::Test,
        package: "store",
        filter: "a_part_has_to_come_in_time",
        symptoms: &["a byte a second keeps it"],
    },
    Mutant {
        name: "store_readers_never_end",
        suite: Suite::Test,
        package: "store",
        filter: "a_reader_that_takes_nothing_ends",
        symptoms: &["keeps parts for ever"],
    },
    Mutant {
        name: "store_parts_before_keys",
        suite: Suite::Test,
        package: "store",
        filter: "a_small_read_does_not_wait",
        symptoms: &["parts take the places"],
    },
    Mutant {
        name: "store_slow_keep_memory",
        suite: Suite::Test,
        package: "store",
        filter: "slowly_leaves_memory",
        symptoms: &["slow ones keep the memory"],
    },
    Mutant {
        name: "store_untaken_keep_memory",
        suite: Suite::Test,
        package: "store",
        filter: "who_takes_nothing_gives_way",
        symptoms: &["keeps what another one needs"],
    },
    Mutant {
        name: "log_part_of_any_upload",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_part_of_another_value",
        symptoms: &["a mixture of two values"],
    },
    Mutant {
        name: "log_parts_die_by_a_touch",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "parts_live_on_under_a_head",
        symptoms: &["the parts die by a touch"],
    },
    // The same in the server, and over the wire.
    Mutant {
        name: "server_stuck_for_ever",
        suite: Suite::Test,
        package: "server",
        filter: "who_leaves_other_replies_untaken",
        symptoms: &["it is not looked at"],
    },
    Mutant {
        name: "server_ends_untaken",
        suite: Suite::Test,
        package: "server",
        filter: "who_takes_nothing_of_a_value",
        symptoms: &["it waits for its output alone"],
    },
    Mutant {
        name: "store_fill_unchecked",
        suite: Suite::Wire,
        package: "kelvin",
        filter: "what_is_answered_has_an_order",
        symptoms: NO_ANSWER,
    },
    Mutant {
        name: "store_racing_updates",
        suite: Suite::Wire,
        package: "kelvin",
        filter: "what_is_answered_has_an_order",
        symptoms: NO_ANSWER,
    },
    Mutant {
        name: "store_reply_overtakes",
        suite: Suite::Wire,
        package: "kelvin",
        filter: "what_is_answered_has_an_order",
        symptoms: NO_ANSWER,
    },
    Mutant {
        name: "store_hit_unflushed",
        suite: Suite::Wire,
        package: "kelvin",
        filter: "a_safe_table",
        symptoms: &["are lost that were answered"],
    },
    Mutant {
        name: "log_async_never_due",
        suite: Suite::Wire,
        package: "kelvin",
        filter: "loses_no_more_than_it_says",
        symptoms: &["before is lost"],
    },
    // Of tables that spill.
    Mutant {
        name: "store_volatile_unlocked",
        suite: Suite::Test,
        package: "store",
        filter: "threads_that_append_in_memory_lose_nothing",
        symptoms: &["an append is lost"],
    },
];
