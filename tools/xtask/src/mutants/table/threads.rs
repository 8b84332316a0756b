//! Of the threads of a durable table in a server, and what they have of files.

use super::Mutant;
use crate::suites::Suite;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "uring_sent_unheard",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_send_that_is_waited_for",
        symptoms: &["whoever waits for it hears nothing"],
    },
    Mutant {
        name: "uring_guards_nothing",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_lock_is_held_as_long",
        symptoms: &["others may begin while the ring still writes"],
    },
    Mutant {
        name: "uring_ends_without_guards",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_ring_that_ends_with_something_under_way",
        symptoms: &["the guard is gone"],
    },
    Mutant {
        name: "carriage_tells_lack",
        suite: Suite::Test,
        package: "server",
        filter: "what_finds_no_descriptor",
        symptoms: &["the log is told of it"],
    },
    Mutant {
        name: "carriage_flushes_nothing",
        suite: Suite::Test,
        package: "server",
        filter: "a_flush_is_an_operation",
        symptoms: &["a flush was not begun"],
    },
    Mutant {
        name: "carriage_keeps_the_removed",
        suite: Suite::Test,
        package: "server",
        filter: "a_file_that_is_made_anew",
        symptoms: &["the removed file was written to"],
    },
    Mutant {
        name: "peers_are_called_once",
        suite: Suite::Test,
        package: "server",
        filter: "a_thread_that_has_looked",
        symptoms: &["not called, or more than once"],
    },
    Mutant {
        name: "uring_sleeps_on_files",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_ring_tells_of_what_is_left",
        symptoms: &["it sleeps on what was left"],
    },
    Mutant {
        name: "epoll_sleeps_on_files",
        suite: Suite::Test,
        package: "reactor",
        filter: "an_epoll_tells_of_what_is_left",
        symptoms: &["it sleeps on what was left"],
    },
    Mutant {
        name: "files_writes_behind_reads",
        suite: Suite::Test,
        package: "reactor",
        filter: "what_was_written_is_told_of_before",
        symptoms: &["it waits for what was read"],
    },
    Mutant {
        name: "server_takes_all_reads",
        suite: Suite::Test,
        package: "server",
        filter: "a_turn_takes_so_much",
        symptoms: &["reads hold up all others"],
    },
    Mutant {
        name: "server_moves_wait",
        suite: Suite::Test,
        package: "server",
        filter: "a_thread_goes_on_with_moves",
        symptoms: &["moves wait for a timer"],
    },
    Mutant {
        name: "drain_leaves_what_is_due",
        suite: Suite::Test,
        package: "server",
        filter: "a_thread_that_drains_flushes",
        symptoms: &["what is due is not flushed"],
    },
    Mutant {
        name: "drain_leaves_reads",
        suite: Suite::Test,
        package: "server",
        filter: "a_thread_does_not_end_with_reads",
        symptoms: &["others wait for reads that nobody begins"],
    },
    Mutant {
        name: "cut_hears_of_nothing",
        suite: Suite::Test,
        package: "reactor",
        filter: "a_loop_that_is_cut",
        symptoms: &["the loop goes on"],
    },
    Mutant {
        name: "hits_ask_the_log",
        suite: Suite::Test,
        package: "server",
        filter: "a_turn_of_hits",
        symptoms: &["it takes the log's lock"],
    },
];
