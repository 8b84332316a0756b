//! Mutants of a flush of everything: of the log, where it is a wipe, of durable tables, and of what
//! a server makes of it.

use super::{Mutant, log::LOSSES};
use crate::suites::Suite;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "log_wiped_come_back",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "wiping::an_end_at_any_moment",
        symptoms: &["it was answered"],
    },
    Mutant {
        name: "log_wiped_before_manifest",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "wiping::an_end_at_any_moment",
        symptoms: &["it was answered", "before the manifest was there"],
    },
    Mutant {
        name: "log_index_outlives_wipe",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "wiping::an_end_at_any_moment",
        symptoms: &["steps"],
    },
    Mutant {
        name: "log_put_while_wiping",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "wiping::nothing_is_put",
        symptoms: &["it has got a sequence"],
    },
    Mutant {
        name: "log_put_before_wipe",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "wiping::what_is_put_when_a_wipe",
        symptoms: &["it was answered behind the wipe"],
    },
    Mutant {
        name: "log_rewritten_while_wiping",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "wiping::what_a_failed_flush_has_left",
        symptoms: &["what was wiped is back"],
    },
    Mutant {
        name: "log_moves_while_wiping",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "run::tests::seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_dead_by_the_manifest_alone",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "wiping::a_manifest_that_was_put_back",
        symptoms: &["what was wiped is back"],
    },
    Mutant {
        name: "store_filled_as_of_now",
        suite: Suite::Test,
        package: "store",
        filter: "what_was_flushed_of_a_durable",
        symptoms: &["were removed"],
    },
    Mutant {
        name: "store_built_on_what_is_dead",
        suite: Suite::Test,
        package: "store",
        filter: "what_was_flushed_of_a_durable",
        symptoms: &["were removed"],
    },
    Mutant {
        name: "store_flush_told_in_between",
        suite: Suite::Test,
        package: "store",
        filter: "what_was_flushed_of_a_durable",
        symptoms: &["were removed"],
    },
    Mutant {
        name: "store_flush_leaves_memory",
        suite: Suite::Test,
        package: "store",
        filter: "tests::flush::a_flush_is_answered",
        symptoms: &["what was flushed is there"],
    },
    Mutant {
        name: "log_unsure_wipe_denied",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "wiping::a_wipe_that_fails",
        symptoms: &["nobody knows whether it is wiped"],
    },
    Mutant {
        name: "store_unwiped_unheard",
        suite: Suite::Test,
        package: "store",
        filter: "tests::flush::a_flush_that_has_failed_is_told",
        symptoms: &["it waits for ever"],
    },
    Mutant {
        name: "server_failed_flush_forgotten",
        suite: Suite::Test,
        package: "server",
        filter: "flushed::a_flush_at_a_time_that_fails",
        symptoms: &["it is forgotten"],
    },
    Mutant {
        name: "server_flush_overtaken",
        suite: Suite::Test,
        package: "server",
        filter: "flushed::a_flush_is_answered",
        symptoms: &["what was flushed is shown"],
    },
];
