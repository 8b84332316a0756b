//! Mutants of what puts wait for: moves that are behind, and time where a bound is near.

use super::{Mutant, Suite};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "log_puts_never_wait",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "puts_wait_while_moves_are_behind",
        symptoms: &["would be enough"],
    },
    Mutant {
        name: "log_dead_won_before_copies",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_is_dead_is_won_as_the_move_comes_past_it",
        symptoms: &["won before anything is copied"],
    },
    Mutant {
        name: "log_puts_run_into_bounds",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "puts_slow_down_as_a_flush_takes_long",
        symptoms: &["it is stopped"],
    },
    Mutant {
        name: "log_puts_run_out_of_segments",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "puts_slow_down_as_no_other_segment_is_ready",
        symptoms: &["it is stopped"],
    },
    Mutant {
        name: "log_puts_run_into_moves",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "puts_slow_down_as_moves_take_long",
        symptoms: &["it is stopped"],
    },
    Mutant {
        name: "log_time_earns_nothing",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "puts_slow_down_as_a_flush_takes_long",
        symptoms: &["bytes in all"],
    },
    Mutant {
        name: "log_shares_not_given_back",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_is_left_of_a_share_is_for_the_next_put",
        symptoms: &["it is lost"],
    },
    Mutant {
        name: "log_slowed_puts_wait_for_reports",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "who_is_slowed_down_waits_for_time",
        symptoms: &["a put waits for a flush"],
    },
    Mutant {
        name: "log_puts_wait_for_nothing",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "nobody_waits_while_what_is_moved_wins_nothing",
        symptoms: &["the oldest values are never moved"],
    },
    Mutant {
        name: "log_time_earns_twice",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "time_counts_once",
        symptoms: &["counts for several puts"],
    },
    Mutant {
        name: "log_shares_cost_nothing",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "puts_slow_down_as_a_flush_takes_long",
        symptoms: &["it is stopped"],
    },
    Mutant {
        name: "log_time_awaited_for_others",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "who_waits_for_something_else",
        symptoms: &["it waits for its parts"],
    },
    Mutant {
        name: "log_refusal_awaited",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "on_a_full_disk_nobody_waits",
        symptoms: &["no room is said after"],
    },
    Mutant {
        name: "log_long_ones_made_up_for",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "who_comes_behind_a_long_one",
        symptoms: &["a put has waited for"],
    },
];
