//! The same on a table that spills: a get may miss, but shows nothing that was overwritten or
//! removed, although records go to the disk and come back all the time, and the ring drops them.

use std::{sync::atomic::Ordering, time::Duration};

use histories::Known;

use crate::{
    Play,
    cold::Cold,
    end,
    harness::{
        log_directory::{Directory, settle},
        server::Io,
    },
};

/// A quarter more than what is stored: what is overwritten has the oldest dropped.
const RING: &str = "256MiB";

/// What lives in it, also when it has come round: most of what was stored. Keys are overwritten by
/// chance, so that a share of 1 - 1/e^1.2 lives in the end: 142 MiB of 205 were seen.
const LIVE_BYTES: u64 = 120 << 20;

const HAPPENED: [&str; 7] = [
    "table_hits_memory",
    "table_hits_disk",
    "table_reads_shared",
    "table_spills",
    "table_spills_clean",
    "table_spills_overtaken",
    "log_values_dropped",
];

fn play(time: Duration) {
    let ways = [(Io::Uring, "false"), (Io::Epoll, "true")];
    for ((io, recovers), seed) in ways.into_iter().zip(11..) {
        let directory = Directory::new();
        let mut play =
            Play::new(Known::of_what_may_go(), Cold::that_may_go(), &HAPPENED, LIVE_BYTES);
        let kind = ["--table-kind", "spill", "--spill-size", RING, "--spill-recover", recovers];
        let server = directory.serve(io, &kind);
        play.cold.fill(&mut server.connect(), settle);
        let (rounds, operations) = play.rounds(&server, seed, time);
        let figures = play.told(&mut server.connect());
        let missed = play.cold.missed.load(Ordering::Relaxed);
        println!(
            "{io:?} {recovers}: {rounds} rounds, {operations} operations, {missed} cold ones \
             missed, {figures}"
        );
        end(server);
    }
}

#[test]
fn what_a_table_that_spills_answers_has_an_order() {
    play(Duration::from_secs(2));
}

#[test]
#[ignore = "soak: minutes"]
fn soak_what_a_table_that_spills_answers_has_an_order() {
    play(Duration::from_secs(60));
}
