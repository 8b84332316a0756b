//! Mutants of the server's durable table.

use super::Mutant;
use crate::suites::Suite;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "server_flush_overtakes",
        suite: Suite::Test,
        package: "server",
        filter: "a_flush_comes_behind_what_was_asked_before",
        symptoms: &["a flush overtakes"],
    },
    Mutant {
        name: "server_flush_never_due",
        suite: Suite::Test,
        package: "server",
        filter: "a_flush_at_a_time_is_done_by_who_comes_first",
        symptoms: &["what was to be flushed is shown"],
    },
    Mutant {
        name: "server_empties_anything",
        suite: Suite::Test,
        package: "server",
        filter: "what_is_no_ring_is_left_as_it_is",
        symptoms: &["a durable table is taken for a ring"],
    },
    Mutant {
        name: "server_ring_kept",
        suite: Suite::Test,
        package: "server",
        filter: "a_ring_begins_empty_unless",
        symptoms: &["it is a ring"],
    },
    Mutant {
        name: "server_pause_forgotten",
        suite: Suite::Test,
        package: "server",
        filter: "a_connection_has_so_many_requests_under_way",
        symptoms: &["more is under way than may be"],
    },
    Mutant {
        name: "server_answer_overtakes",
        suite: Suite::Test,
        package: "server",
        filter: "what_is_there_waits_for_what_was_asked_before",
        symptoms: &["a reply leaves before its predecessor"],
    },
    Mutant {
        // As in the store's table: replies of connections here.
        name: "store_hit_unflushed",
        suite: Suite::Test,
        package: "server",
        filter: "what_is_not_flushed_is_not_told",
        symptoms: &["it is told before it is durable"],
    },
    Mutant {
        name: "server_busy_is_taken",
        suite: Suite::Test,
        package: "server",
        filter: "whom_the_store_has_no_place_for_waits",
        symptoms: &["a request is lost"],
    },
    Mutant {
        name: "server_unsent_uncounted",
        suite: Suite::Test,
        package: "server",
        filter: "what_clients_do_not_take_is_bounded",
        symptoms: &["what is not taken is not counted"],
    },
    Mutant {
        // Of the store: what sessions send from.
        name: "store_answers_keep_all",
        suite: Suite::Test,
        package: "store",
        filter: "so_many_buffers_are_with_answers",
        symptoms: &["answers keep more buffers than they may"],
    },
    Mutant {
        name: "store_read_values_lost",
        suite: Suite::Test,
        package: "store",
        filter: "nothing_is_read_into_the_buffer_of_an_answer",
        symptoms: &["a buffer is lost"],
    },
    Mutant {
        name: "server_reads_held_unbounded",
        suite: Suite::Test,
        package: "server",
        filter: "a_client_that_takes_nothing_holds_few_buffers",
        symptoms: &["a client holds more buffers than it may"],
    },
    Mutant {
        name: "server_lack_of_memory_removes",
        suite: Suite::Test,
        package: "server",
        filter: "a_value_that_there_is_no_memory_for",
        symptoms: &["a record went"],
    },
    Mutant {
        name: "server_strangers_stay",
        suite: Suite::Test,
        package: "server",
        filter: "a_stranger_hears_that_it_has_to_log_in",
        symptoms: &["a stranger stays"],
    },
    Mutant {
        name: "server_shortest_prefix",
        suite: Suite::Test,
        package: "server",
        filter: "the_longest_prefix_has_the_key",
        symptoms: &["is another table's"],
    },
    Mutant {
        name: "server_integers_spelt_anyhow",
        suite: Suite::Test,
        package: "server",
        filter: "an_integer_has_one_spelling",
        symptoms: &["is taken for an integer"],
    },
    Mutant {
        name: "server_any_keys_served",
        suite: Suite::Test,
        package: "server",
        filter: "a_log_of_integers_is_refused_as_it_is",
        symptoms: &["it is served"],
    },
    Mutant {
        name: "carriage_without_shares",
        suite: Suite::Test,
        package: "server",
        filter: "each_log_has_a_share_of_the_operations",
        symptoms: &["it has more than its share"],
    },
];
