//! Mutants of the store.

use super::Mutant;
use crate::suites::Suite;

/// What the simulation says when answers have no order that explains them.
const NO_ORDER: &[&str] = &["no order explains"];

/// The same, or who has been told too early is told later that it will never be durable.
const TOO_EARLY: &[&str] = &["no order explains", "and all is flushed or will be"];

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
        name: "store_overtakes_stalled",
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
        name: "store_stall_lost",
        suite: Suite::Loom,
        package: "store",
        filter: "loom_what_stalls",
        symptoms: &["a stall is lost"],
    },
    Mutant {
        name: "store_keeps_old_copy",
        suite: Suite::Test,
        package: "store",
        filter: "what_memory_cannot_take",
        symptoms: &["an old copy is in memory"],
    },
];
