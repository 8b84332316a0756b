//! Moves by those who write.

use super::{Mutant, Suite};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "log_turns_beside_steps",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "moves_are_left_to_whoever_writes",
        symptoms: &["others move what is left to writers"],
    },
    Mutant {
        name: "log_steps_never_end",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "moves_are_left_to_whoever_writes",
        symptoms: &["nobody goes on"],
    },
    Mutant {
        name: "log_late_moves_left_to_writers",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "others_help_before_puts_wait",
        symptoms: &["late moves are left to writers"],
    },
    Mutant {
        name: "log_awaited_moves_left_to_writers",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "others_go_on_when_somebody_waits",
        symptoms: &["what somebody waits for is left to writers"],
    },
    Mutant {
        name: "log_moves_left_to_a_trickle",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "moves_are_not_left_to_whoever_writes_little",
        symptoms: &["moves are left to a trickle"],
    },
    Mutant {
        name: "log_spans_never_end",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "moves_are_not_left_to_whoever_writes_little",
        symptoms: &["moves are left to a trickle"],
    },
    Mutant {
        name: "log_lent_footer_is_encoded",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_footer_is_encoded_while_others",
        symptoms: &["it is not there"],
    },
    Mutant {
        name: "log_room_left_to_writers",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "others_go_on_when_puts_have_no_room",
        symptoms: &["room is left to writers"],
    },
    Mutant {
        name: "log_steps_at_one_pace",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "the_more_is_owed_the_more_is_moved",
        symptoms: &["records are moved behind a put"],
    },
    Mutant {
        name: "log_steps_never_put_off",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_put_that_comes_close_behind_another",
        symptoms: &["are put off"],
    },
    Mutant {
        name: "log_steps_put_off_for_ever",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "a_put_that_comes_close_behind_another",
        symptoms: &["it is put off for ever"],
    },
    Mutant {
        name: "log_one_step_a_put",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "whoever_puts_more_moves_more",
        symptoms: &["records are moved behind 1000 bytes"],
    },
    Mutant {
        name: "log_steps_move_pinned",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "nothing_is_moved_behind_a_put",
        symptoms: &["what somebody reads is moved"],
    },
    Mutant {
        name: "log_nobody_steps",
        suite: Suite::Test,
        package: "kelvin-log",
        filter: "whoever_writes_moves_records",
        symptoms: &["whoever writes moves nothing"],
    },
];
