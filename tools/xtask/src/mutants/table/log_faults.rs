//! Mutants of what the log does on a full disk, and with files that cannot be removed.

use super::Mutant;
use crate::suites::Suite;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "log_stranded_copies_unread",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "everything_is_read_and_nothing_waits",
        symptoms: &["the get waits for ever"],
    },
    Mutant {
        name: "log_rewriting_always_awaited",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "everything_is_read_and_nothing_waits",
        symptoms: &["the put waits for ever"],
    },
    Mutant {
        name: "log_settled_waits_for_rewriting",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_was_durable_before_is_freed",
        symptoms: &["a segment that can be freed is not"],
    },
    Mutant {
        name: "log_notes_all_voided",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_was_durable_before_is_freed",
        symptoms: &["a segment that can be freed is not"],
    },
    Mutant {
        name: "log_refused_while_sealing",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_remove_waits_for_those_before_it",
        symptoms: &["refused too soon"],
    },
    Mutant {
        name: "log_last_taken_beside_removes",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "copies_leave_the_last_segment",
        symptoms: &["taken from removes that are to come"],
    },
    Mutant {
        name: "log_last_taken_unflushed",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "copies_leave_the_last_segment",
        symptoms: &["taken from removes that are not flushed"],
    },
    Mutant {
        name: "log_last_taken_while_stranded",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "copies_leave_the_last_segment",
        symptoms: &["taken from removes that are to be written again"],
    },
    Mutant {
        name: "log_unremoved_unbounded",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "files_that_cannot_be_removed_are_no_more",
        symptoms: &["in round"],
    },
    Mutant {
        name: "log_number_before_good_flush",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_number_whose_file_may_be_back",
        symptoms: &["used before that is durable"],
    },
    Mutant {
        name: "log_uncleared_forgotten",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_cannot_be_cleared_away",
        symptoms: &["what is in the way is forgotten"],
    },
    Mutant {
        name: "log_uncleared_in_haste",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_cannot_be_cleared_away",
        symptoms: &["numbers are used up"],
    },
    Mutant {
        name: "log_removals_all_tried",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_file_that_cannot_be_removed_keeps_no_other",
        symptoms: &["those behind it are tried as well"],
    },
    Mutant {
        name: "log_unremoved_keeps_log_shut",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "files_that_cannot_be_removed_do_not_keep",
        symptoms: &["doing: \"remove\""],
    },
    Mutant {
        name: "log_failed_directory_used",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "the_others_serve_on",
        symptoms: &["one directory ends writes"],
    },
    Mutant {
        name: "log_other_tails_left_there",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "the_others_serve_on",
        symptoms: &["one directory ends writes"],
    },
];
