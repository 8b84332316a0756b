//! The same while clients flush all keys now and then: nobody is shown what was flushed, and what
//! was stored behind a flush stays. The first flush takes a hundred times what memory has, the
//! others what was written since the one before: before each round so much that memory has none of
//! the keys that are wanted.

use std::time::Duration;

use histories::Known;

use crate::{
    GROUPS, LIVE, MEMORY_BYTES, Play,
    cold::Cold,
    end,
    harness::{
        log_directory::{Directory, stat},
        server::Io,
    },
};

/// Of a thousand commands: two in three rounds.
const FLUSHES: usize = 4;

const HAPPENED: [&str; 4] = ["table_hits_memory", "table_hits_disk", "table_fills", "cmd_flush"];

/// So many that a flush meets a read of the disk whose value somebody wants later, on a slow
/// machine too: of fewer than 30 flushes on a driver now and then none does.
const ROUNDS_MIN: usize = 10 * GROUPS;

/// Reads of the disk in a round, on average, at least: without them a flush has nothing to race.
const READS_OF_ROUND: u64 = 10;

fn play(time: Duration) {
    let directory = Directory::with_log();
    let mut play = Play::new(Known::default(), Cold::that_is_flushed(), &HAPPENED, 0);
    play.flushes = FLUSHES;
    play.rounds_min = ROUNDS_MIN;
    for ((io, mode), seed) in [(Io::Uring, "safe"), (Io::Epoll, "async")].into_iter().zip(21..) {
        let server = directory.serve(io, &["--write-mode", mode, "--flush-durable", "true"]);
        let mut conn = server.connect();
        play.cold.fill(&mut conn, |_| ());
        assert!(stat(&mut conn, LIVE) > 100 * MEMORY_BYTES, "{}", play.told(&mut conn));
        let (rounds, operations) = play.rounds(&server, seed, time);
        let figures = play.told(&mut conn);
        println!("{io:?} {mode}: {rounds} rounds, {operations} operations, {figures}");
        let reads = stat(&mut conn, "table_hits_disk");
        assert!(reads > READS_OF_ROUND * rounds as u64, "hardly anything was cold: {figures}");
        end(server);
    }
}

#[test]
fn what_is_answered_around_flushes_has_an_order() {
    play(Duration::from_secs(2));
}

#[test]
#[ignore = "soak: minutes"]
fn soak_what_is_answered_around_flushes_has_an_order() {
    play(Duration::from_secs(60));
}
