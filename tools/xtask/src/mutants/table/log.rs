//! Mutants of the log: what is written, answered and found again.
//!
//! Rules of which no code can leave out a part have none. One owner draws a sequence, fills the
//! record and leads readers to it in one step: there is no lock of a key, no record that is being
//! filled while its block is written, and no moment between a look at the index and the pin of the
//! segment that it leads to. What looks at a key before it writes (`add`, `cas`), and what fills a
//! cache, is not in the log; of conditions it has that of a remove.

use super::Mutant;
use crate::suites::Suite;

/// What the simulation says of a loss, or of a refusal for which the disk gave no reason. Which of
/// them a broken log shows first depends on what its seeds do before.
pub(super) const LOSSES: &[&str] = &[
    "after a crash: Wrong",
    "in a copy: Wrong",
    "failed without a reason: damaged record",
    "damage is named where there is none",
    "an iteration failed: damaged record",
    "a copy is damaged",
    "what: Missing",
    "newest record lies in",
    "all the time, and is not shown",
];

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "log_parts_of_another_stop",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "keeping::the_file_of_another_stop",
        symptoms: &["parts of an earlier stop are believed"],
    },
    Mutant {
        name: "log_answer_before_flush",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_read_answered_before_flush",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_no_next_leader",
        suite: Suite::Shuttle,
        package: "kelvin-log",
        filter: "shuttle_waiting_",
        symptoms: &["deadlock"],
    },
    Mutant {
        name: "log_confirm_before_drain",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_head_before_parts",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_failed_flush_tried_again",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_footer_with_records",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_serve_before_flush",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_no_directory_flush",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_checksum_without_header",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "every_flipped_bit_and_every_cut_is_noticed",
        symptoms: &["flipped was believed"],
    },
    Mutant {
        name: "log_key_not_compared",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_get_never_answers_another_keys_value",
        symptoms: &["another key's value"],
    },
    Mutant {
        name: "log_batch_in_part",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_crash_leaves_all_of_a_batch_or_nothing",
        symptoms: &["a batch took effect in part"],
    },
    Mutant {
        name: "log_damage_sealed",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_is_lost_is_named_by_every_open",
        symptoms: &["a loss was named only once"],
    },
    Mutant {
        name: "log_clean_unlooked",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_clean_manifest_that_was_put_back",
        symptoms: &["what was written behind a stop was not looked for"],
    },
    Mutant {
        name: "log_clean_generation_unlooked",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_sealed_segment_of_another_generation",
        symptoms: &["an index was believed whose segments were used again"],
    },
    Mutant {
        name: "log_parts_freed_without_heads",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "parts_are_kept_while_a_segment_is_missing",
        symptoms: &["parts are freed whose head may come back"],
    },
    Mutant {
        name: "log_ready_at_risk",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_short_look_finds_what_a_long_one_finds",
        symptoms: &["more than may be lost"],
    },
    Mutant {
        name: "log_fill_by_turns",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "several_threads_find_what_one_finds",
        symptoms: &["several threads found something else"],
    },
    Mutant {
        name: "log_rewrite_unbounded",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_a_failed_flush_leaves_fits",
        symptoms: &["it does not fit"],
    },
    Mutant {
        name: "log_grow_before_manifest",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "keys_grow_when_the_manifest_is_durable",
        symptoms: &["a key was taken before the manifest had it"],
    },
    Mutant {
        name: "log_stale_generation",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_record_is_one_only_in_its_generation",
        symptoms: &["a stale record is believed"],
    },
    Mutant {
        name: "log_reserve_of_one",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "removes_leave_the_segment_that_rewriting_needs",
        symptoms: &["there is no segment for rewriting"],
    },
    Mutant {
        name: "log_index_before_append",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "seeds_hold",
        symptoms: LOSSES,
    },
    Mutant {
        name: "log_backup_any_cut",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_copy_under_writes",
        symptoms: &["the copy is no moment of the log"],
    },
    Mutant {
        name: "log_iteration_upto_next",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_nobody_writes_is_shown_once",
        symptoms: &["what stays was lost or shown again"],
    },
    Mutant {
        name: "log_iteration_of_old_records",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_nobody_writes_is_shown_once",
        symptoms: &["a key was shown twice"],
    },
    Mutant {
        name: "log_sealed_taken_for_free",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "what_an_open_without_end_has_sealed",
        symptoms: &["what came after a clean stop is lost"],
    },
    Mutant {
        name: "log_tombstone_read_before_flush",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "its_absence_waits_for_the_tombstone",
        symptoms: &["saw a tombstone that is not flushed"],
    },
    Mutant {
        name: "log_expired_read_before_flush",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "an_expired_value_is_absent_in_memory",
        symptoms: &["saw a record that is not flushed"],
    },
    Mutant {
        name: "log_condition_before_flush",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "its_absence_waits_for_the_tombstone",
        symptoms: &["the remove saw a tombstone"],
    },
    Mutant {
        name: "log_puts_take_the_reserve",
        suite: Suite::Test,
        package: "disk-sim",
        filter: "a_disk_that_is_full_from_any_action_on",
        symptoms: &["the first remove on a full disk is refused"],
    },
    Mutant {
        name: "log_parts_unpinned",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_large_value_that_is_read_stays",
        symptoms: &["OtherKey", "flaw"],
    },
];
